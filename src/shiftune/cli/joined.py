"""`shiftune tune --join`: processes that fill one folder, whose last one writes the results."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from shiftune._files import PART, one_at_a_time
from shiftune.cli.folder import OUT
from shiftune.cli.json_files import writing_to
from shiftune.errors import SearchWarning
from shiftune.search._journal import is_searched

if TYPE_CHECKING:
    from shiftune.cli.folder import ResultFolder
    from shiftune.cli.job import TuneJob


@contextmanager
def one_beginning(folder: ResultFolder) -> Iterator[None]:
    """Let one process at a time check the settings in a folder, and record its own run."""
    with writing_to(folder.path, OUT):
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with one_at_a_time(folder.path / f"{PART}beginning"):
        yield


def searched_together(job: TuneJob, folder: ResultFolder) -> dict[str, Any] | None:
    """Run trials with other processes; return the results, whichever process has written them.

    They are written when all trials are finished, by the first process that finds no other one
    writing: if it dies, the next one does it. After a timeout others may still be at work, who will
    write them; the result is then None.
    """
    search = job.search
    search.add_trials(job.table.problem)
    with one_at_a_time(folder.journal.with_name(f".{folder.journal.name}.writing")):
        finished = folder.finished()
        if finished < job.options.trials and is_searched(folder.journal):
            return None
        best = folder.complete(finished, job.options.of_result())
        if best is not None:
            return best
        search.refit()
        for note in search.result_.notes:
            warnings.warn(note, SearchWarning, stacklevel=2)
        return folder.write(job)
