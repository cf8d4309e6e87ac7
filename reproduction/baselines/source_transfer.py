"""What LI and DistBO share: trials on single sources, a choice for the target, a refit."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import TrialState
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from threadpoolctl import threadpool_limits

from shiftune import _interrupts
from shiftune._options import SAMPLER
from shiftune.errors import DataWarning, ProblemError, SettingsError
from shiftune.evaluate._fits import StudyData, fit, seeded
from shiftune.evaluate._losses import Loss
from shiftune.models._space import as_space
from shiftune.problem import ShiftProblem, Site, Split, pooled
from shiftune.problem._site import weights_of
from shiftune.risk import risk_named
from shiftune.search._settings import loss_for, sampler_named
from shiftune.search._storage import open_study
from shiftune.search._trial import Candidate, Outcome, TrialContext, run_trial
from shiftune.search.gp import VARIANCE_KEY
from shiftune.search.gp._acquisition import UnitCube

# Shares of each source for density ratios (none), training and validation.
SHARES = (0.0, 0.7, 0.3)


@dataclass(eq=False, repr=False)
class SourceTransfer(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Choose hyperparameters for the target from separate trials on each source.

    Subclasses implement `_choose`. These methods use at most the target's rows, never a label, and
    give no estimate of the risk there.

    Parameters
    ----------
    estimator : scikit-learn estimator or pipeline
    space : mapping from parameter names to distributions, as of `ShiftSearch`
    loss : str, Loss or function
        Default: "log_loss" for classification, "squared" for regression.
    n_trials : int
        Number of model fits, shared among the sources as evenly as possible.
    sampler : "gp_lcb", "random", "tpe" or an Optuna sampler
        Proposes the trials on each source.
    random_state : int

    Attributes
    ----------
    best_params_ : dict
    best_estimator_ : estimator
        Refitted on all rows of all sources.
    trials_ : DataFrame
        One row per trial: source, mean loss there and its standard error, parameters, seconds,
        reason of a failure.
    """

    estimator: Any
    space: Mapping[str, Any]
    _: KW_ONLY
    loss: Any = None
    n_trials: int = 50
    sampler: str | BaseSampler = "gp_lcb"
    random_state: int = 0

    def fit(self, problem: ShiftProblem) -> Self:
        """Try configurations on the sources, choose one for the target, and refit."""
        if weights_of(problem.sources) is not None:
            raise SettingsError(
                f"{type(self).__name__} counts every row once; make the problem without "
                "sample_weight"
            )
        SAMPLER(self.sampler, "sampler")
        loss = loss_for([self.estimator], self.loss, problem)
        check_counts(self, "n_trials")
        self._check()
        if callable(self.space):
            raise SettingsError(
                f"{type(self).__name__} needs a mapping from parameter names to Optuna "
                "distributions as its space, not a function. A ready space has to be called: "
                "spaces.lightgbm()"
            )
        space = as_space(self.space, self.estimator)
        split = problem.split(SHARES, random_state=self.random_state)
        model = seeded(self.estimator, self.random_state)
        with _interrupts.deferred():
            trials = try_on_sources(
                model,
                space,
                loss,
                split,
                n_trials=self.n_trials,
                sampler=self.sampler,
                random_state=self.random_state,
            )
        _warn_of_failures(trials.table)
        self.trials_ = trials.table
        fixed = {name: _only(d) for name, d in space.items() if d.single()}
        chosen = (
            trials.cube.decode(self._choose(trials, problem)) if len(fixed) < len(space) else {}
        )
        self.best_params_ = {name: {**fixed, **chosen}[name] for name in space}
        rows, labels = pooled(problem.labelled_sites)
        self.best_estimator_ = fit(model.set_params(**self.best_params_), rows, labels, None)
        return self

    def _check(self) -> None:
        """Raise a SettingsError if a setting of the subclass cannot work."""

    @abstractmethod
    def _choose(self, trials: SourceTrials, problem: ShiftProblem) -> NDArray[np.float64]:
        """Return the configuration for the target, a row (C,) of the space's unit cube."""


def check_counts(search: SourceTransfer, *names: str) -> None:
    """Raise a SettingsError unless each of these settings is a whole number above 0."""
    for name in names:
        value = getattr(search, name)
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise SettingsError(f"{name} must be a whole number > 0, got {value!r}")


def _warn_of_failures(table: pd.DataFrame) -> None:
    failed = table[table["failure"] != ""]
    if len(failed):
        where = ", ".join(map(repr, failed["source"].unique()[:5]))
        warnings.warn(
            f"{len(failed)} of {len(table)} trials failed, on source(s) {where}. First reason: "
            f"{failed['failure'].iloc[0]}",
            DataWarning,
            stacklevel=3,
        )


def _only(distribution: Any) -> Any:
    """Value of a distribution that has only one."""
    return distribution.choices[0] if hasattr(distribution, "choices") else distribution.low


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
    random_state: int,
) -> SourceTrials:
    """Search each source separately: fit on its training rows, score on its validation rows."""
    budget = shared_budget(n_trials, len(split.train), np.random.default_rng(random_state))
    # Each source has its own random stream; otherwise all would try the same first points. They
    # are made before any trial, so that a wrong name is told at once.
    samplers = [sampler_named(sampler, _stream(random_state, j)) for j in range(len(split.train))]
    seen = [
        (j, params, outcome)
        for j, (train, validation) in enumerate(zip(split.train, split.validation, strict=True))
        for params, outcome in _search_source(
            _context(model, loss, train, validation), space, budget[j], samplers[j]
        )
    ]
    return _collected(space, [site.name for site in split.train], seen)


def _stream(random_state: int, j: int) -> int:
    return int(np.random.SeedSequence([random_state, j]).generate_state(1)[0])


def _context(model: Any, loss: Loss, train: Site, validation: Site) -> TrialContext:
    labels = np.concatenate([train.labels, validation.labels])
    data = StudyData(
        X_train=train.X,
        y_train=train.labels,
        train_folds=np.full(len(train), -1),
        training_weights=None,
        X_validation=validation.X,
        y_validation=(validation.labels,),
        folds=np.zeros(len(validation), dtype=np.intp),
        weights=None,
        names=(validation.name,),
        classes=np.unique(labels) if loss.needs == "predict_proba" else None,
    )
    return TrialContext({"": model}, data, loss, risk_named("naive"))


def _search_source(
    context: TrialContext,
    space: Mapping[str, BaseDistribution],
    n_trials: int,
    sampler: BaseSampler,
) -> list[tuple[dict[str, Any], Outcome]]:
    study = open_study(None, {})
    study.sampler = sampler
    outcomes = []
    with threadpool_limits(1, user_api="blas"):
        for _ in range(n_trials):
            trial = study.ask(fixed_distributions=dict(space))
            outcome = run_trial(context, Candidate(trial.params))
            _interrupts.check()
            outcomes.append((dict(trial.params), replace(outcome, predictions=None)))
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
