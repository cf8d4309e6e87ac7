"""Base class of the baselines: trials on single sources, a choice for the target, a refit."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from optuna.samplers import BaseSampler
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from tqdm.auto import tqdm

from shiftune import interrupts
from shiftune.baselines.source_trials import SourceTrials, try_on_sources
from shiftune.errors import DataWarning, SettingsError
from shiftune.evaluate.fitting import fit, seeded
from shiftune.models.space import as_space
from shiftune.problem import ShiftProblem, pooled
from shiftune.problem.weights import weights_of
from shiftune.search.fitted import RefittedModel
from shiftune.search.settings import check_numbers, coerce_problem, loss_for

# Shares of each source for density ratios (none), training and validation.
SHARES = (0.0, 0.7, 0.3)


@dataclass(eq=False, repr=False)
class SourceTransfer(RefittedModel, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
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
    n_jobs : int
        Number of worker processes; sources are searched in parallel.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals only.
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
    n_jobs: int = 1
    progress: bool | None = None
    random_state: int = 0

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        X_target: Any = None,
    ) -> Self:
        """Try configurations on the sources, choose and refit; arguments as in `ShiftSearch`."""
        with interrupts.deferred():
            return self._fit(coerce_problem(X, y, groups, X_target, [self.estimator]))

    def _fit(self, problem: ShiftProblem) -> Self:
        if weights_of(problem.sources) is not None:
            raise SettingsError(
                f"{type(self).__name__} counts every row once; make the problem without "
                "sample_weight"
            )
        loss = loss_for([self.estimator], self.loss, problem)
        check_numbers(self)
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
        shown = None if self.progress is None else not self.progress
        with tqdm(total=self.n_trials, disable=shown, unit="trial", dynamic_ncols=True) as bar:
            trials = try_on_sources(
                model,
                space,
                loss,
                split,
                n_trials=self.n_trials,
                sampler=self.sampler,
                n_jobs=self.n_jobs,
                random_state=self.random_state,
                finished=bar.update,
            )
        _warn_of_failures(trials.table)
        self.problem_, self.loss_, self.trials_ = problem, loss, trials.table
        fixed = {name: _only(d) for name, d in space.items() if d.single()}
        chosen = (
            trials.cube.decode(self._choose(trials, problem)) if len(fixed) < len(space) else {}
        )
        self.best_params_ = {name: {**fixed, **chosen}[name] for name in space}
        rows, labels = pooled(problem.labelled_sites)
        self.best_estimator_ = fit(model.set_params(**self.best_params_), rows, labels, None)
        self.predictor_ = self.best_estimator_
        if hasattr(self.best_estimator_, "classes_"):
            self.classes_ = self.best_estimator_.classes_
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
