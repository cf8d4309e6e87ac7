"""Items on a Dask cluster."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from shiftune.errors import NoWorkersError
from shiftune.workers import in_worker
from shiftune.workers.deaths import Death, WorkerLost
from shiftune.workers.pools import ExecutorFactory, Pool, is_over

logger = logging.getLogger("shiftune")

SCATTER_ATTEMPTS = 3
# A cluster that has lost its last worker may take this long to start another.
SECONDS_FOR_A_WORKER = 300
# A scheduler that has not answered for so long is given up, and with it the run.
SECONDS_FOR_AN_ANSWER = 60
# The number of workers is asked for no more often than this.
SIZE_SECONDS = 1.0
# For the notice that an item has begun to leave the worker, before compiled code may block it: at
# least, to be written; at most, where the worker is too busy to send anything.
NOTICE_SECONDS, MAX_NOTICE_SECONDS = 0.02, 10.0


class _Begun(NamedTuple):
    since: float
    worker: str


class DaskPool(Pool):
    """A Dask cluster; every worker receives the context once.

    Dask itself runs items again whose worker died, or has not been heard of for the time in its
    setting ``distributed.scheduler.worker-ttl`` (5 minutes by default).

    Parameters
    ----------
    executor
        A bound ``Client.get_executor``, or another callable that returns Dask's executor.
    first
        The executor to begin with.
    context
        Any object that Dask can send.
    time_limit
        Seconds an item may run. A worker whose item does not hear of it is restarted by its nanny.
    """

    # The scheduler cancels items whose context is lost with its last holder, and the client all
    # when it loses the scheduler.
    deaths = (CancelledError, asyncio.CancelledError)

    def __init__(
        self, executor: ExecutorFactory, first: Any, context: Any, *, time_limit: float | None
    ) -> None:
        self._factory = executor
        self._executor = first
        self._context = context
        self._time_limit = time_limit
        self._topic = f"shiftune-{uuid.uuid4().hex}"
        self._begun: dict[str, _Begun] = {}
        self._lost_scheduler = False
        self._unfinished: dict[str, Any] = {}  # Dask drops what nobody holds a future of
        self._size, self._size_at = 0, -SIZE_SECONDS
        self._connect()

    @property
    def _client(self) -> Any:
        return self._executor._client

    def _connect(self) -> None:
        """Hear of items that begin, and send the context to the present workers."""
        with self._reached("has no workers"):
            self._client.subscribe_topic(self._topic, self._note)
            # In a list, because Dask scatters the values of a dictionary one by one. Not hashed:
            # that takes long, and finds the lost object under the same name again.
            for left in reversed(range(SCATTER_ATTEMPTS)):
                self._client.wait_for_workers(1, timeout=SECONDS_FOR_A_WORKER)
                try:
                    (self._scattered,) = self._client.scatter(
                        [self._context], broadcast=True, hash=False
                    )
                except (OSError, KeyError, ValueError):
                    # A worker died while it was receiving, or was the last one (distributed
                    # 2026.8).
                    if not left:
                        raise
                else:
                    return

    @contextmanager
    def _reached(self, otherwise: str) -> Iterator[None]:
        """Turn what Dask raises when the cluster does not answer into one error."""
        try:
            yield
        except (OSError, CancelledError, RuntimeError, KeyError, ValueError) as error:
            raise NoWorkersError(
                f"the Dask cluster {otherwise} ({type(error).__name__}: {error}). See to its "
                "scheduler and workers, and run the same again; what is finished is kept"
            ) from error

    @property
    def n_workers(self) -> int:
        """Number of threads that the cluster has at this moment."""
        if time.monotonic() - self._size_at > SIZE_SECONDS:
            if self._client.status == "connecting":  # to a scheduler that was started again
                return self._size
            with self._reached(f"has not answered for {SECONDS_FOR_AN_ANSWER} s"):
                cores = self._client.sync(
                    self._client.scheduler.ncores,
                    workers=None,
                    callback_timeout=SECONDS_FOR_AN_ANSWER,
                )
            self._size, self._size_at = sum(cores.values()), time.monotonic()
        return self._size

    def submit(self, name: str, payload: bytes) -> Future[bytes]:
        """Run an item where the context is."""
        # Not with the executor's own submit: its future is never done if the worker dies between
        # the end of the item and the fetching of its result (distributed 2026.8).
        future: Future[bytes] = Future()
        try:
            remote = self._client.submit(
                run_on_worker,
                self._scattered,
                payload,
                self._time_limit,
                self._topic,
                name,
                **{**self._executor._kwargs, "pure": False},
            )
        except (CancelledError, OSError, RuntimeError):
            self._lost_scheduler = True
            future.set_exception(CancelledError())
            return future
        self._unfinished[name] = remote
        remote.add_done_callback(self._fetch_into(future, name))
        return future

    def _fetch_into(self, future: Future[bytes], name: str) -> Callable[[Any], None]:
        from distributed.scheduler import KilledWorker

        def fetch(remote: Any) -> None:
            try:
                future.set_result(remote.result())
            except InvalidStateError:  # cancelled by the driver
                pass
            except KilledWorker:  # Dask has tried several workers
                how = "several times (Dask's KilledWorker)"
                with suppress(InvalidStateError):
                    future.set_exception(WorkerLost(Death("unknown", how)))
            except BaseException as error:
                lost = getattr(error, "reason", None) == "scheduler-connection-lost"
                if lost or isinstance(error, OSError):  # while the result was fetched
                    self._lost_scheduler = True
                    error = CancelledError()
                with suppress(InvalidStateError):
                    future.set_exception(error)
            finally:
                self._unfinished.pop(name, None)
                if not future.cancelled() and future.exception() is None:
                    self._begun.pop(name, None)

        return fetch

    def _note(self, event: tuple[float, dict[str, str]]) -> None:
        """Note that an item has begun, by this machine's clock."""
        notice = event[1]
        self._begun[notice["item"]] = _Begun(time.monotonic(), notice["worker"])

    def is_overdue(self, name: str) -> bool:
        """Whether the item still runs long after the time limit."""
        begun = self._begun.get(name)
        return begun is not None and is_over(self._time_limit, begun.since)

    def end(self, name: str) -> None:
        """Restart the worker that runs an item; Dask runs its other items again."""
        begun = self._begun.pop(name, None)
        if (remote := self._unfinished.pop(name, None)) is not None:
            with self._reached("cannot be reached"):
                self._client.cancel([remote], force=True)
        if begun is not None:
            # Its other items begin anew.
            for other, each in list(self._begun.items()):  # Dask's thread adds to it
                if each.worker == begun.worker:
                    self._begun.pop(other, None)
            # In a thread: it waits until the worker is back.
            threading.Thread(target=self._restart, args=(begun.worker,), daemon=True).start()

    def _restart(self, worker: str) -> None:
        try:
            self._client.restart_workers([worker], raise_for_error=False)
        except Exception as error:
            logger.warning("Dask's worker %s cannot be restarted (%s)", worker, error)

    def rebuild(self, names: list[str]) -> dict[str, Death]:
        """Drop what is unfinished and send the context to the present workers."""
        lost = [] if self._lost_scheduler else [n for n in names if n in self._begun] or names
        with self._reached("cannot be reached"), suppress(CancelledError):
            self.close(kill=True)
        self._begun.clear()
        self._lost_scheduler = False
        self._executor = self._factory()
        self._connect()
        logger.warning("the cluster lost the data, which is sent to the workers again")
        return dict.fromkeys(lost, Death("unknown", "with all others of the cluster"))

    def close(self, *, kill: bool) -> None:
        """Drop what is unfinished and release the context; the cluster stays."""
        self._client.cancel(list(self._unfinished.values()))
        self._client.unsubscribe_topic(self._topic)
        self._executor.shutdown(wait=not kill)
        self._scattered.release()


def run_on_worker(
    context: Any, payload: bytes, time_limit: float | None, topic: str, name: str
) -> bytes:
    """Run an item in a thread of a Dask worker, after a notice to the driver."""
    from distributed import get_worker

    worker = get_worker()
    worker.log_event(topic, {"item": name, "worker": worker.address})
    if time_limit is not None:
        _wait_until_sent(worker)
    return in_worker.run(context, payload, time_limit)


def _wait_until_sent(worker: Any) -> None:
    """Wait until what was logged has left a Dask worker, whose event loop sends it."""
    end = time.monotonic() + MAX_NOTICE_SECONDS
    taken = threading.Event()
    worker.loop.add_callback(taken.set)  # after that of the log
    taken.wait(MAX_NOTICE_SECONDS)
    while worker.batched_stream.buffer and time.monotonic() < end:
        time.sleep(NOTICE_SECONDS)
    time.sleep(NOTICE_SECONDS)
