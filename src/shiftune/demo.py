"""Demonstration: several risk estimators on generated hospitals, compared with the truth."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from optuna.distributions import IntDistribution
from threadpoolctl import threadpool_limits

from shiftune.datasets import hospitals
from shiftune.errors import OverlapWarning
from shiftune.models import ready_model
from shiftune.models.space import Space
from shiftune.problem import ShiftProblem
from shiftune.problem.columns import ColumnKind
from shiftune.search import ShiftSearch

TARGET = "A"
# From no correction to the default; the oracle tunes with the hidden labels of the target.
METHODS = ("naive", "unbiased", "variance_reduced", "adjusted", "oracle")
MOST_TREES = 150
TRUTH_ROWS = 20_000
# Codes mean something else at every hospital, and the equipment gives the hospital away. Real sites
# have such columns, too, though few have as many.
OUTCOMES_DIFFER, CODING_DIFFERS = 0.2, 1.0
# Seeds 0 to 24, 12 trials of LightGBM: `benchmarks/demo_seeds.py`.
OVER_SEEDS = (
    "Over 25 draws of hospitals (--seed 0 to 24), naive promised a log loss of 0.60 on average and "
    "its choice had 0.68 at A: the promise was too low in 24 of them, and the truth within its "
    "interval in 5. adjusted expected 0.64 and had 0.65, as had the oracle, and the truth was "
    "within its interval in 24. Its model was better than the choice of naive in 20 (by up to "
    "0.13), and worse in 5 (by up to 0.01)."
)


@dataclass(frozen=True, slots=True)
class Answer:
    """Search with one risk estimator, and the true loss of its model.

    Attributes
    ----------
    method : str
    search : ShiftSearch
        Fitted.
    truth : float
        Log loss of its model on 20,000 other patients of the target.
    """

    method: str
    search: ShiftSearch
    truth: float


def demo_problem(n: int = 400, seed: int = 0) -> ShiftProblem:
    """Return the hospitals with the target's labels kept aside, for the oracle alone."""
    return ShiftProblem.from_frame(
        _patients(n, seed),
        site="hospital",
        label="readmitted",
        target=TARGET,
        target_labels="oracle",
    )


def _patients(n: int, seed: int, only: str | None = None, rows_state: int = 0) -> pd.DataFrame:
    return hospitals(
        n,
        outcomes_differ=OUTCOMES_DIFFER,
        coding_differs=CODING_DIFFERS,
        random_state=seed,
        only=only,
        rows_state=rows_state,
    )


def answers(
    problem: ShiftProblem,
    *,
    trials: int,
    seed: int = 0,
    jobs: int = 1,
    progress: bool | None = None,
) -> Iterator[Answer]:
    """Tune for the target with each of the estimators, one after the other."""
    model, space = demo_model(problem)
    unseen = _patients(TRUTH_ROWS, seed, only=TARGET, rows_state=1)
    for method in METHODS:
        search = ShiftSearch(
            model,
            space,
            loss="log_loss",
            risk=method,
            n_trials=trials,
            n_jobs=jobs,
            progress=progress,
            random_state=seed,
        )
        # Threads that wait for each other cost more than they save on 2,000 rows, and on a busy
        # machine a hundred times as much.
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore", OverlapWarning)  # the table of overlap shows it
            search.fit(problem)
        chances = search.predict_proba(unseen[list(problem.columns)])
        right = np.searchsorted(search.classes_, unseen["readmitted"])
        truth = -float(np.log(chances[np.arange(len(right)), right]).mean())
        yield Answer(method, search, truth)


def demo_model(problem: ShiftProblem) -> tuple[Any, Space]:
    """Return LightGBM, or scikit-learn's boosting where that is not installed, with few trees."""
    name, trees = "hist_gradient_boosting", "max_iter"
    if find_spec("lightgbm") is not None:
        name, trees = "lightgbm", "n_estimators"
    kinds: dict[str, ColumnKind] = {
        column: "category" if column == "ward" else "number" for column in problem.columns
    }
    ready = ready_model(name, problem.task, kinds)
    ready.space[trees] = IntDistribution(20, MOST_TREES, log=True)
    return ready.pipeline, ready.in_pipeline(ready.space)
