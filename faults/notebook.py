"""A search in the kernel of a notebook, which is interrupted, restarted or killed."""

from __future__ import annotations

import os
import queue
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faults.started import HANG_SECONDS, MARK

if TYPE_CHECKING:
    from faults.cases import Record

ROOT = Path(__file__).parents[1]
# Its processes get the class of the model from the notebook.
CELL = """
import os, warnings
from pathlib import Path
from faults.driver import Driver
os.environ["SHIFTUNE_FAULTS_DRIVER"] = str(os.getpid())
Driver(jobs=2).run_script(Path({folder!r}))
"""


def run(record: Record, folder: Path, kind: str, moment: float) -> None:
    """Run the cell, disturb it after so many seconds, and run it again."""
    from jupyter_client.manager import KernelManager

    env = {**os.environ, MARK: str(folder), "TMPDIR": str(folder / "tmp")}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [env.get("PYTHONPATH")])])
    manager = KernelManager()
    manager.start_kernel(env=env, cwd=str(folder))
    try:
        client = _client(manager)
        client.execute(CELL.format(folder=str(folder)))
        time.sleep(moment)
        at = time.monotonic()
        if kind == "interrupted":
            manager.interrupt_kernel()
            record.notes.append(_end(record, client))
        elif kind == "restarted":
            manager.restart_kernel(now=True, env=env, cwd=str(folder))
        else:
            os.kill(manager.provisioner.pid, signal.SIGKILL)
            manager.restart_kernel(now=True, env=env, cwd=str(folder))
        record.seconds = time.monotonic() - at
        client.stop_channels()
        client = _client(manager)
        client.execute(CELL.format(folder=str(folder)))
        end = _end(record, client)
        record.tracebacks += end != ""
        record.notes.append(end)
        client.stop_channels()
    finally:
        manager.shutdown_kernel(now=True)


def _client(manager: Any) -> Any:
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=HANG_SECONDS)
    return client


def _end(record: Record, client: Any) -> str:
    """Wait for the end of the cell; return the name of its error, or ""."""
    while True:
        try:
            reply = client.get_shell_msg(timeout=HANG_SECONDS)
        except queue.Empty:
            record.hangs += 1
            return "hangs"
        if reply["msg_type"] == "execute_reply":
            return str(reply["content"].get("ename", ""))
