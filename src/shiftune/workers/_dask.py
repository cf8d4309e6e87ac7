"""Items on a Dask cluster."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from shiftune.errors import NoWorkersError, SettingsError
from shiftune.workers import _in_worker
from shiftune.workers._deaths import Death
from shiftune.workers._in_worker import Outcome

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
WITH_ALL = "with all others of the cluster"


@dataclass(slots=True)
class _Item:
    future: Future[Outcome]
    remote: Any = None  # Dask drops what nobody holds a future of
    since: float | None = None  # by this machine's clock; None if it is not known to have begun
    worker: str = ""


class DaskPool:
    """A Dask cluster; every worker receives the context once.

    Dask itself runs items again whose worker died, or has not been heard of for the time in its
    setting ``distributed.scheduler.worker-ttl`` (5 minutes by default). If all workers that have
    the context died, or the scheduler was started again, all items are lost, and the next one that
    is submitted sends the context again. A worker whose item does not hear of the time limit is
    restarted by its nanny.
    """

    def __init__(self, executor: Any, context: Any, *, time_limit: float | None) -> None:
        # Whoever passes Dask's executor has imported Dask; nobody else should have to.
        dask = sys.modules.get("distributed.cfexecutor")
        if dask is None or not isinstance(executor, dask.ClientExecutor):
            raise SettingsError(
                "executor must be the method get_executor of a Dask client, or a function that "
                f"calls it; it returned {executor!r}. For processes of this machine use n_jobs"
            )
        self._client = executor._client
        self._options = {**executor._kwargs, "pure": False}
        self._context = context
        self._time_limit = time_limit
        self._topic = f"shiftune-{uuid.uuid4().hex}"
        self._lock = threading.Lock()
        self._submitted: dict[str, _Item] = {}
        self._size, self._size_at = 0, -SIZE_SECONDS
        self._connect()

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
                    self._lost = False
                    return

    @contextmanager
    def _reached(self, otherwise: str) -> Iterator[None]:
        """Turn what Dask raises when the cluster does not answer into one error."""
        try:
            yield
        except (OSError, CancelledError, RuntimeError, KeyError, ValueError) as error:
            raise NoWorkersError(
                f"the Dask cluster {otherwise} ({type(error).__name__}: {error}). See to its "
                "scheduler and workers, then rerun; what is finished is kept"
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

    def submit(self, payload: bytes) -> Future[Outcome]:
        if self._lost:
            with self._reached("cannot be reached"), suppress(CancelledError):
                self.close(kill=True)
            self._connect()
            logger.warning("the cluster lost the data, which is sent to the workers again")
        # Not with the executor's own submit: its future is never done if the worker dies between
        # the end of the item and the fetching of its result (distributed 2026.8).
        future: Future[Outcome] = Future()
        name = uuid.uuid4().hex
        self._submitted[name] = item = _Item(future)
        arguments = (self._scattered, payload, self._time_limit, self._topic, name)
        try:
            item.remote = self._client.submit(run_on_worker, *arguments, **self._options)
        except (CancelledError, OSError, RuntimeError):
            self._lose_all(self._scattered, blame=False)
            _fail(future, Death("start", WITH_ALL))
        else:
            item.remote.add_done_callback(partial(self._fetch, name, future, self._scattered))
        return future

    def _fetch(self, name: str, future: Future[Outcome], scattered: Any, remote: Any) -> None:
        """Fetch an outcome, in a thread of Dask's."""
        from distributed.scheduler import KilledWorker

        try:
            outcome = remote.result()
        except KilledWorker:  # Dask has tried several workers
            _fail(future, Death("unknown", "several times (Dask's KilledWorker)"))
        except (CancelledError, asyncio.CancelledError, OSError) as error:
            if name in self._submitted:  # not cancelled by this pool
                # The scheduler cancels items whose context is lost with its last holder, and the
                # client all when it loses the scheduler.
                lost_scheduler = getattr(error, "reason", None) == "scheduler-connection-lost"
                blame = not (lost_scheduler or isinstance(error, OSError))
                self._lose_all(scattered, blame=blame)
            _fail(future, Death("start", WITH_ALL))
        except BaseException as error:
            _fail(future, error)
        else:
            with suppress(InvalidStateError):  # cancelled by the driver
                future.set_result(outcome)
        self._submitted.pop(name, None)

    def _lose_all(self, scattered: Any, *, blame: bool) -> None:
        """Fail all items at once, when the context is lost; those that had begun may be to blame.

        If none is known to have begun, any of them may.
        """
        with self._lock:
            if self._lost or scattered is not self._scattered:
                return
            self._lost = True
        lost = self._submitted.copy().values()
        some_began = any(item.since is not None for item in lost)
        for item in lost:
            blamed = blame and (item.since is not None or not some_began)
            _fail(item.future, Death("unknown" if blamed else "start", WITH_ALL))

    def _note(self, event: tuple[float, dict[str, str]]) -> None:
        """Note that an item has begun, in a thread of Dask's."""
        if (item := self._submitted.get(event[1]["item"])) is not None:
            item.since, item.worker = time.monotonic(), event[1]["worker"]

    def end_overdue(self) -> set[Future[Outcome]]:
        """Restart the workers of overdue items; Dask runs their other items again."""
        overdue = {
            name: item
            for name, item in self._submitted.copy().items()
            if item.since is not None and _in_worker.is_over(self._time_limit, item.since)
        }
        for name in overdue:
            self._submitted.pop(name, None)
        if overdue:
            with self._reached("cannot be reached"):
                self._client.cancel([item.remote for item in overdue.values()], force=True)
        for worker in {item.worker for item in overdue.values()}:
            for other in self._submitted.copy().values():
                if other.worker == worker:
                    other.since = None
            # In a thread: it waits until the worker is back.
            threading.Thread(target=self._restart, args=(worker,), daemon=True).start()
        return {item.future for item in overdue.values()}

    def _restart(self, worker: str) -> None:
        try:
            self._client.restart_workers([worker], raise_for_error=False)
        except Exception as error:
            logger.warning("Dask's worker %s cannot be restarted (%s)", worker, error)

    def close(self, *, kill: bool) -> None:
        """Drop what is unfinished and release the context; the cluster stays."""
        submitted, self._submitted = self._submitted, {}
        self._client.cancel([item.remote for item in submitted.values() if item.remote is not None])
        self._client.unsubscribe_topic(self._topic)
        self._scattered.release()


def _fail(future: Future[Outcome], error: BaseException) -> None:
    with suppress(InvalidStateError):  # cancelled by the driver, or failed with all others
        future.set_exception(error)


def run_on_worker(
    context: Any, payload: bytes, time_limit: float | None, topic: str, name: str
) -> Outcome:
    """Run an item in a thread of a Dask worker, after a notice to the driver."""
    from distributed import get_worker

    worker = get_worker()
    worker.log_event(topic, {"item": name, "worker": worker.address})
    if time_limit is not None:  # wait until the worker's event loop has sent the notice
        end = time.monotonic() + MAX_NOTICE_SECONDS
        taken = threading.Event()
        worker.loop.add_callback(taken.set)  # after that of the log
        taken.wait(MAX_NOTICE_SECONDS)
        while worker.batched_stream.buffer and time.monotonic() < end:
            time.sleep(NOTICE_SECONDS)
        time.sleep(NOTICE_SECONDS)
    return _in_worker.run(context, payload, time_limit)
