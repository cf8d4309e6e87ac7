"""Store of trials' answers: files beside a journal, or memory."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from shiftune.atomic_write import PART, atomic_write
from shiftune.evaluate.answers import Answers
from shiftune.search.records import ANSWERS_BYTES, MODEL
from shiftune.wording import count

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    import optuna

    from shiftune.search.trial_workers import TrialWorkers

logger = logging.getLogger("shiftune")

# Trials of a model family whose answers are kept, those of lowest risk. An ensemble chooses among
# at most so many, and all that are kept together take at most so many bytes. (30,000 validation
# rows of a quantity or of two classes take 480 kB per trial.)
MOST_KEPT = 24
MOST_BYTES = 2**30


class AnswerStore:
    """Answers by the number of their trial.

    Files are written completely or not at all, and their zip format has checksums: a damaged file
    counts as missing and is removed, as does one of another trial. Where a file cannot be written,
    the answers stay in memory.

    Parameters
    ----------
    folder : Path or None
        Created with the first file; None keeps all in memory.
    study : str
        Mark of the study, in every file beside the trial's number.

    Examples
    --------
    >>> store = AnswerStore(None)
    >>> store.put(3, Answers(np.ones(2), np.zeros(2), 0.5))
    >>> store.get(3).unseen, store.get(4)
    (array([0., 0.]), None)
    """

    def __init__(self, folder: Path | None, study: str = "") -> None:
        self.folder = folder
        self._study = study
        self._memory: dict[int, Answers] = {}

    def put(self, number: int, answers: Answers) -> None:
        """Keep the answers of a trial."""
        self._memory[number] = answers
        if self.folder is None:
            return
        try:
            self._write(self.folder, number, answers)
        except OSError as error:
            logger.warning("answers of trial %d stay in memory: %s", number, error)
        else:
            del self._memory[number]

    def get(self, number: int) -> Answers | None:
        """Return the answers of a trial; None if there are none."""
        if number in self._memory or self.folder is None:
            return self._memory.get(number)
        path = self.folder / f"{number}.npz"
        try:
            return self._read(path, number)
        except FileNotFoundError:
            return None
        except Exception as error:  # zip files and arrays can be damaged in many ways
            logger.warning(
                "%s is damaged or of another trial, and is removed; it is computed again if it is "
                "needed",
                path,
            )
            logger.debug("%s: %s", path, error)
            path.unlink(missing_ok=True)
            return None

    def keep(self, numbers: Collection[int], among: Collection[int] | None = None) -> None:
        """Drop the answers of all other trials, or of those among some."""
        dropped = None if among is None else set(among).difference(numbers)

        def stays(number: int) -> bool:
            return number in numbers if dropped is None else number not in dropped

        self._memory = {n: each for n, each in self._memory.items() if stays(n)}
        if self.folder is None or not self.folder.is_dir():
            return
        for path in self.folder.glob("*.npz"):
            # Parts of files are left by a process that was killed.
            number, left = path.name.removeprefix(PART)[:-4], path.name.startswith(PART)
            if number.isdecimal() and ((left and among is None) or not stays(int(number))):
                path.unlink(missing_ok=True)

    def __getstate__(self) -> dict[str, Any]:
        # A fitted search that is loaded elsewhere needs no answers, unless it is refitted.
        return vars(self) | {"_memory": {}}

    def _write(self, folder: Path, number: int, answers: Answers) -> None:
        one = answers.unseen is answers.known
        both = answers.known[None] if one else np.stack([answers.known, answers.unseen])
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{number}.npz"
        with atomic_write(path, interruptible=False) as part, part.open("wb") as file:
            np.savez(
                file,
                study=np.array(self._study),
                trial=np.array(number),
                unseen_share=np.array(answers.unseen_share),
                answers=both,
                allow_pickle=False,
            )

    def _read(self, path: Path, number: int) -> Answers:
        # NumPy leaves a file open whose directory it cannot read.
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = dict(file)
        if (str(arrays["study"]), int(arrays["trial"])) != (self._study, number):
            raise ValueError("it belongs to another study or trial")
        both = arrays["answers"]
        known = both[0]
        unseen = both[1] if len(both) == 2 else known
        return Answers(known, unseen, float(arrays["unseen_share"]))


def candidates(trials: Iterable[optuna.trial.FrozenTrial]) -> list[int]:
    """Return the trials whose answers are kept: those of lowest risk of every model family.

    At most `MOST_KEPT` of a family, and fewer if the answers of all would exceed `MOST_BYTES`; of
    every family at least one. Trials of a plan without answers are none.
    """
    families: dict[str, list[tuple[float, int]]] = defaultdict(list)
    largest = 1
    for trial in trials:
        size = trial.user_attrs.get(ANSWERS_BYTES, 0)
        if trial.value is not None and size:
            families[trial.user_attrs.get(MODEL, "")].append((trial.value, trial.number))
            largest = max(largest, size)
    most = min(MOST_KEPT, MOST_BYTES // (largest * max(len(families), 1)))
    return [n for family in families.values() for _, n in sorted(family)[: max(most, 1)]]


def complete_answers(
    store: AnswerStore, items: Mapping[int, Any], workers: Callable[[], TrialWorkers]
) -> dict[int, Answers]:
    """Return the answers of trials, computing again those that the store lacks.

    Trials that fail this time are left out.

    Parameters
    ----------
    store : AnswerStore
        It receives what was computed.
    items : mapping from a trial's number to what its worker gets
    workers : function
        Returns new workers; called if any answers are missing.
    """
    found = {number: store.get(number) for number in items}
    missing = [number for number, answers in found.items() if answers is None]
    if missing:
        logger.warning(
            "computing again the answers of %s, which are missing", count(len(missing), "trial")
        )
        with workers() as pool:
            for number in missing:
                pool.submit(number, items[number])
            for number in missing:
                found[number] = _answers_from(pool, number)
                if (answers := found[number]) is not None:
                    store.put(number, answers)
    return {number: answers for number, answers in found.items() if answers is not None}


def _answers_from(pool: TrialWorkers, number: int) -> Answers | None:
    try:
        return pool.result(number).answers
    except Exception as error:  # the worker died, or the time was over
        logger.info("trial %d failed when its answers were computed again: %s", number, error)
        return None
