"""Items on a Dask cluster."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from typing import Any

from shiftune.workers import in_worker
from shiftune.workers.deaths import Death, WorkerLost
from shiftune.workers.pools import ExecutorFactory, Pool

logger = logging.getLogger("shiftune")

SCATTER_ATTEMPTS = 3
# A cluster that has lost its last worker may take this long to start another.
SECONDS_FOR_A_WORKER = 300


class DaskPool(Pool):
    """A Dask cluster; every worker receives the context once.

    Dask runs tasks in threads, so a time limit has no effect.

    Parameters
    ----------
    executor
        A bound ``Client.get_executor``, or another callable that returns Dask's executor.
    first
        The executor to begin with.
    context
        Any object that Dask can send.
    """

    # The scheduler cancels items whose context is lost with its last holder.
    deaths = (CancelledError, asyncio.CancelledError)

    def __init__(self, executor: ExecutorFactory, first: Any, context: Any) -> None:
        self._factory = executor
        self._executor = first
        self._context = context
        self._unfinished: set[Any] = set()  # Dask drops what nobody holds a future of
        self._scatter()

    def _scatter(self) -> None:
        # In a list, because Dask scatters the values of a dictionary one by one. Not hashed: that
        # takes long, and finds the lost object under the same name again.
        client = self._executor._client
        for left in reversed(range(SCATTER_ATTEMPTS)):
            client.wait_for_workers(1, timeout=SECONDS_FOR_A_WORKER)
            try:
                (self._scattered,) = client.scatter([self._context], broadcast=True, hash=False)
            except (OSError, KeyError, ValueError):
                # A worker died while it was receiving, or was the last one (distributed 2026.8).
                if not left:
                    raise
            else:
                return

    @property
    def n_workers(self) -> int:
        """Number of threads that the cluster has at this moment."""
        return sum(self._executor._client.ncores().values())

    def submit(self, name: str, payload: bytes) -> Future[bytes]:
        """Run an item where the context is."""
        # Not with the executor's own submit: its future is never done if the worker dies between
        # the end of the item and the fetching of its result (distributed 2026.8).
        remote = self._executor._client.submit(
            in_worker.run, self._scattered, payload, **{**self._executor._kwargs, "pure": False}
        )
        from distributed.scheduler import KilledWorker

        future: Future[bytes] = Future()
        self._unfinished.add(remote)

        def fetch(remote: Any) -> None:
            try:
                future.set_result(remote.result())
            except InvalidStateError:  # cancelled by the driver
                pass
            except KilledWorker as error:  # Dask has tried several workers
                with suppress(InvalidStateError):
                    future.set_exception(WorkerLost(Death("unknown", f"({type(error).__name__})")))
            except BaseException as error:
                with suppress(InvalidStateError):
                    future.set_exception(error)
            finally:
                self._unfinished.discard(remote)

        remote.add_done_callback(fetch)
        return future

    def rebuild(self, names: list[str]) -> dict[str, Death]:
        """Drop what is unfinished and send the context to the present workers."""
        self.close(kill=True)
        self._executor = self._factory()
        self._scatter()
        logger.warning("workers of the cluster died; the data is sent to the workers again")
        return {}

    def close(self, *, kill: bool) -> None:
        """Drop what is unfinished and release the context; the cluster stays."""
        self._executor._client.cancel(list(self._unfinished))
        self._executor.shutdown(wait=not kill)
        self._scattered.release()
