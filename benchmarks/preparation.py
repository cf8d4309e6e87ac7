"""Share of a search's CPU time that goes into preparing rows, at 100,000 rows of 20 mixed columns.

usage: python benchmarks/preparation.py [trials]

CPU seconds in the pipeline's transformers, in the model's fits and predictions, and in all, counted
in one process and one run. The risk shows that both ways give the same digits.
"""

from __future__ import annotations

import sys
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from optuna.distributions import FloatDistribution, IntDistribution
from sklearn.compose import ColumnTransformer

from shiftune import ShiftProblem, ShiftSearch
from shiftune.models import ready_model
from shiftune.models._by_name import ColumnReader

if TYPE_CHECKING:
    pass

ROWS = 100_000
SITES = list("ABCDEF")
TRANSFORM = ("fit_transform", "transform")


def table(n: int = ROWS, random_state: int = 0) -> pd.DataFrame:
    """Twelve numbers (four with gaps), six categories of 3 to 43 levels, a date, a boolean."""
    rng = np.random.default_rng(random_state)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=n) for i in range(12)})
    for i in range(0, 12, 3):
        frame.loc[rng.random(n) < 0.05, f"x{i}"] = np.nan
    for i in range(6):
        frame[f"c{i}"] = rng.choice([f"level {j}" for j in range(3 + 8 * i)], n)
    days = pd.to_timedelta(rng.integers(0, 1000, n), unit="D")
    frame["seen"] = pd.Timestamp("2020-01-01") + days
    frame["urgent"] = rng.random(n) < 0.5
    score = frame["x1"] + frame["x2"] * frame["urgent"] + rng.normal(size=n)
    return frame.assign(site=rng.choice(SITES, n), sick=np.where(score > 0, "yes", "no"))


class Clock:
    """CPU seconds and calls of some methods, without those that they call among them."""

    def __init__(self) -> None:
        self.seconds, self.calls = 0.0, 0
        self._inside = False

    def wrapped(self, method):
        def timed(*args, **kwargs):
            if self._inside:
                return method(*args, **kwargs)
            self._inside, start = True, time.process_time()
            try:
                return method(*args, **kwargs)
            finally:
                self.seconds += time.process_time() - start
                self.calls += 1
                self._inside = False

        return timed

    @contextmanager
    def of(self, *methods: tuple[type, str]):
        patches = [patch.object(c, name, self.wrapped(getattr(c, name))) for c, name in methods]
        for one in patches:
            one.start()
        try:
            yield self
        finally:
            for one in patches:
                one.stop()


def measured(problem: ShiftProblem, trials: int) -> str:
    """Run a search and return where its time went, as a row of a table."""
    model = ready_model("lightgbm", problem.task, problem.columns)
    space = {
        "model__n_estimators": IntDistribution(50, 150),
        "model__learning_rate": FloatDistribution(0.02, 0.3, log=True),
    }
    search = ShiftSearch(model.pipeline, space, n_trials=trials, progress=False)
    preparing, learning = Clock(), Clock()
    steps = [(c, m) for c in (ColumnReader, ColumnTransformer) for m in TRANSFORM]
    start = time.process_time()
    with (
        preparing.of(*steps),
        learning.of((LGBMClassifier, "fit"), (LGBMClassifier, "predict_proba")),
    ):
        search.fit(problem)
    total = time.process_time() - start
    return (
        f"{preparing.seconds:.1f} ({preparing.calls}) | {learning.seconds:.1f} ({learning.calls}) "
        f"| {total:.1f} | {preparing.seconds / total:.1%} | {search.risk_.value!r}"
    )


def main(trials: int) -> None:
    """Print a table: rows prepared in every fit, and once per study."""
    warnings.simplefilter("ignore")
    frame = table()
    problem = ShiftProblem.from_frame(frame, site="site", label="sick", target="A")
    print(
        f"{len(frame)} rows, {len(problem.columns)} columns, {len(SITES)} sites, {trials} trials.\n"
    )
    print("| rows are prepared | transformers (calls) | LightGBM (calls) | search | share | risk |")
    print("| --- | --- | --- | --- | --- | --- |")
    with patch("shiftune.search._trial.tunes_last_step", lambda model, params: False):
        print(f"| in every fit | {measured(problem, trials)} |")
    print(f"| once per study | {measured(problem, trials)} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
