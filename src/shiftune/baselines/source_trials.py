"""Separate trials on each source, within one budget of model fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import TrialState
from threadpoolctl import threadpool_limits

from shiftune.errors import ProblemError
from shiftune.evaluate.fitting import StudyData
from shiftune.evaluate.losses import Loss
from shiftune.evaluate.plan import PooledFit
from shiftune.evaluate.prepared_rows import PreparedRows
from shiftune.problem import Site, Split
from shiftune.risk import risk_named
from shiftune.search._storage import open_study
from shiftune.search.gp import VARIANCE_KEY
from shiftune.search.gp.unit_cube import UnitCube
from shiftune.search.samplers import sampler_named
from shiftune.search.trial import Candidate, Outcome, TrialContext, run_trial
from shiftune.workers import Workers


@dataclass(frozen=True, slots=True)
class SourceTrials:
    """Configurations that were tried on single sources, and their losses there.

    Attributes
    ----------
    cube : UnitCube
    rows : array of shape (n, C)
        Configurations in the coordinates of `cube`.
    values : array of shape (n,)
        Mean loss on validation rows of the source on which the model was fitted.
    site : array of shape (n,)
        Position of that source.
    table : DataFrame
        All trials, including those that failed.
    """

    cube: UnitCube
    rows: NDArray[np.float64]
    values: NDArray[np.float64]
    site: NDArray[np.intp]
    table: pd.DataFrame


def shared_budget(n_trials: int, k: int, rng: np.random.Generator) -> list[int]:
    """Share a budget of model fits among k sources; the remainder goes to random ones.

    >>> rng = np.random.default_rng(0)
    >>> shared_budget(50, 2, rng), sorted(shared_budget(5, 3, rng))
    ([25, 25], [1, 2, 2])
    """
    each, left = divmod(n_trials, k)
    budget = [each] * k
    if left:
        for source in rng.choice(k, left, replace=False):
            budget[source] += 1
    return budget


def try_on_sources(
    model: Any,
    space: Mapping[str, BaseDistribution],
    loss: Loss,
    split: Split,
    *,
    n_trials: int,
    sampler: str | BaseSampler,
    n_jobs: int,
    random_state: int,
    finished: Callable[[int], object],
) -> SourceTrials:
    """Search each source separately: fit on its training rows, score on its validation rows.

    `finished` is called with 1 after each trial.
    """
    budget = shared_budget(n_trials, len(split.train), np.random.default_rng(random_state))
    searches = [
        (
            # Each source has prepared rows of its own, in the one process that searches it.
            _context(model, loss, train, validation, PreparedRows(len(budget))),
            space,
            trials,
            # Each source has its own random stream; otherwise all would try the same first points.
            sampler_named(sampler, _stream(random_state, j)),
        )
        for j, (train, validation, trials) in enumerate(
            zip(split.train, split.validation, budget, strict=True)
        )
    ]
    names = [site.name for site in split.train]
    seen: list[tuple[int, dict[str, Any], Outcome]] = []
    with Workers(_search_source, searches, n_jobs=n_jobs) as workers:
        for j, outcomes in workers.completed(range(len(searches))):
            for params, outcome in outcomes:
                seen.append((j, params, outcome))
                finished(1)
    seen.sort(key=lambda each: each[0])
    return _collected(space, names, seen)


def _stream(random_state: int, j: int) -> int:
    return int(np.random.SeedSequence([random_state, j]).generate_state(1)[0])


def _context(
    model: Any, loss: Loss, train: Site, validation: Site, prepared: PreparedRows
) -> TrialContext:
    data = StudyData(
        X_train=train.X,
        y_train=train.labels,
        train_sites=np.repeat(train.name, len(train)),
        training_weights=None,
        X_validation=validation.X,
        y_validation=(validation.labels,),
        weights=None,
        names=(validation.name,),
    )
    return TrialContext({"": model}, data, loss, risk_named("naive"), PooledFit(), prepared)


def _search_source(
    searches: Sequence[tuple[TrialContext, Mapping[str, BaseDistribution], int, BaseSampler]],
    j: int,
) -> list[tuple[dict[str, Any], Outcome]]:
    context, space, n_trials, sampler = searches[j]
    study = open_study(None, {})
    study.sampler = sampler
    outcomes = []
    with threadpool_limits(1, user_api="blas"):
        for _ in range(n_trials):
            trial = study.ask(fixed_distributions=dict(space))
            outcome = run_trial(context, Candidate(trial.params))
            outcomes.append((dict(trial.params), replace(outcome, answers=None)))
            if outcome.risk is None:
                study.tell(trial, state=TrialState.FAIL)
            else:
                trial.set_user_attr(VARIANCE_KEY, outcome.risk.variance)
                study.tell(trial, outcome.risk.value)
    return outcomes


def _collected(
    space: Mapping[str, BaseDistribution],
    names: Sequence[str],
    seen: Sequence[tuple[int, dict[str, Any], Outcome]],
) -> SourceTrials:
    table = pd.DataFrame(
        [
            {
                "source": names[j],
                "risk": np.nan if outcome.risk is None else outcome.risk.value,
                "stderr": np.nan if outcome.risk is None else outcome.risk.stderr,
                **{f"param_{name}": value for name, value in params.items()},
                "seconds": outcome.seconds,
                "failure": outcome.failure,
            }
            for j, params, outcome in seen
        ]
    )
    good = [(j, params, outcome.risk) for j, params, outcome in seen if outcome.risk is not None]
    if not good:
        reasons = "".join(f"\n  {reason}" for reason in table["failure"].unique()[:3])
        raise ProblemError(f"all {len(table)} trials failed. First reasons:{reasons}")
    cube = UnitCube({name: d for name, d in space.items() if not d.single()})
    return SourceTrials(
        cube=cube,
        rows=cube.encode([params for _, params, _ in good]),
        values=np.array([risk.value for _, _, risk in good]),
        site=np.array([j for j, _, _ in good], dtype=np.intp),
        table=table,
    )
