"""Updates of a result by labels: numbered states in its folder."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from shiftune._files import atomic_write
from shiftune.cli.given_labels import read_given
from shiftune.cli.job import TuneJob
from shiftune.cli.json_files import FORMAT, read_json, write_json, writing_to
from shiftune.cli.predictions import PREDICTIONS
from shiftune.models import save_model
from shiftune.predictor.table_model import TableModel

UPDATES, LABELS, UPDATE, MODEL = "updates", "labels.csv", "update.json", "model"


class Updates:
    """States of a folder: `updates/1`, `updates/2`, ..., each made of all labels so far.

    The file `UPDATE` is written last: a state without it was not finished, and its number is used
    again.

    Parameters
    ----------
    folder : Path
        Of the result, whose own files are never changed.
    best : mapping or None
        Content of best.json, which changes with the model; None where there is none.
    """

    def __init__(self, folder: Path, best: Mapping[str, Any] | None) -> None:
        self.path = folder / UPDATES
        self.best = best

    @property
    def numbers(self) -> list[int]:
        """Numbers of the states, finished or not."""
        if not self.path.is_dir():
            return []
        return sorted(int(path.name) for path in self.path.iterdir() if path.name.isdecimal())

    @property
    def finished(self) -> list[int]:
        """Numbers of the finished states."""
        return [number for number in self.numbers if (self.state(number) / UPDATE).exists()]

    @property
    def unfinished(self) -> list[int]:
        """Numbers of states that were not written to their end."""
        return sorted(set(self.numbers) - set(self.finished))

    @property
    def next_number(self) -> int:
        """Number of the next state."""
        return max(self.finished, default=0) + 1

    def labels(self, job: TuneJob) -> dict[int, Any]:
        """Return the labels of the last state, by position among the target's rows."""
        if not self.finished:
            return {}
        return read_given(self.state(self.finished[-1]) / LABELS, job)

    def state(self, number: int) -> Path:
        """Return the folder of a state."""
        return self.path / str(number)

    def record(self, number: int) -> dict[str, Any]:
        """Return the content of `UPDATE`; `current` is whether it updates the present model."""
        found = read_json(self.state(number) / UPDATE)
        return found | {"current": found["of_result"] == self.fingerprint}

    @property
    def records(self) -> list[dict[str, Any]]:
        """Contents of `UPDATE` of the finished states."""
        return [self.record(number) for number in self.finished]

    @property
    def fingerprint(self) -> str:
        """Hash of best.json."""
        return hashlib.sha256(json.dumps(self.best).encode()).hexdigest()

    def write(
        self,
        model: TableModel,
        labels: pd.DataFrame,
        predicted: pd.DataFrame,
        record: dict[str, Any],
    ) -> dict[str, Any]:
        """Write a new state; return its record."""
        number = self.next_number
        state = self.state(number)
        with writing_to(state, "make the folder writable"):
            if state.exists():
                shutil.rmtree(state)
            state.mkdir(parents=True)
            for name, table in ((LABELS, labels), (PREDICTIONS, predicted)):
                with atomic_write(state / name) as part:
                    table.to_csv(part, index=False)
            file = save_model(model, state / MODEL)
            content = {
                "format": FORMAT,
                "number": number,
                **record,
                "of_result": self.fingerprint,
                "model_file": file.name,
            }
            write_json(state / UPDATE, content)
        return self.record(number)
