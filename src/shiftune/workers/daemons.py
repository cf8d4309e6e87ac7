"""Threads that a program does not wait for when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Generic, TypeVar

Value = TypeVar("Value")


class DaemonThreads(Generic[Value]):
    """Threads that run calls, one after the other each, in the order in which they come.

    Those of `concurrent.futures` run all calls to their end before the program may end, those in
    the queue included.

    Parameters
    ----------
    n_threads : int

    Examples
    --------
    >>> threads = DaemonThreads(2)
    >>> threads.submit(lambda: 2 + 3).result()
    5
    >>> threads.close()
    """

    def __init__(self, n_threads: int) -> None:
        self._n_threads = n_threads
        self._threads: list[threading.Thread] = []
        self._calls: SimpleQueue[tuple[Future[Value], Callable[[], Value]] | None] = SimpleQueue()
        self._futures: set[Future[Value]] = set()

    def submit(self, call: Callable[[], Value]) -> Future[Value]:
        """Run a call as soon as a thread is free."""
        future: Future[Value] = Future()
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        self._calls.put((future, call))
        if len(self._threads) < self._n_threads:
            thread = threading.Thread(target=self._run, daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def _run(self) -> None:
        while (next_ := self._calls.get()) is not None:
            future, call = next_
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

    def close(self) -> None:
        """Cancel the calls in the queue, and wait for those that run."""
        for future in tuple(self._futures):
            future.cancel()
        wait(tuple(self._futures))
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()
