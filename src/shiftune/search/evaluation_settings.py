"""Settings that decide a trial's risk, applied to a problem."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_regressor
from sklearn.pipeline import Pipeline

from shiftune.errors import DataWarning, SettingsError
from shiftune.evaluate.fitting import StudyData, relative, seeded
from shiftune.evaluate.losses import Loss
from shiftune.evaluate.plan import FitPlan
from shiftune.metrics.as_loss import judging_sites
from shiftune.problem import PAPER_SHARES, ShiftProblem, Site, Split, pooled
from shiftune.problem.groups import groups_of
from shiftune.problem.weights import weights_of
from shiftune.ratio import DensityRatio
from shiftune.ratio.base import site_weights
from shiftune.risk import RiskEstimator, risk_named
from shiftune.search._storage import stable_repr
from shiftune.search.trial import TrialContext

if TYPE_CHECKING:
    from shiftune.search.search import ShiftSearch

Shares = tuple[float, float, float] | Callable[[ShiftProblem], Split]

NO_DENSITY_ROWS = (0.0, 0.7, 0.3)


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """The settings of a search that decide what a trial's risk is, with defaults filled in.

    Attributes
    ----------
    risk : RiskEstimator
    plan : FitPlan
    shares : three numbers or a function
    training_weights : None or "importance"
    random_state : int
    """

    risk: RiskEstimator
    plan: FitPlan
    shares: Shares
    training_weights: str | None
    random_state: int

    @classmethod
    def of(cls, search: ShiftSearch) -> Self:
        """Read the settings of a search."""
        risk = risk_named(search.risk)
        plan = search.plan or risk.default_plan()
        found = cls(risk, plan, NO_DENSITY_ROWS, search.training_weights, search.random_state)
        default = PAPER_SHARES if found.needs_ratio else NO_DENSITY_ROWS
        return replace(found, shares=search.shares or default)

    @property
    def needs_ratio(self) -> bool:
        """Whether density ratios are needed, to estimate the risk or to train."""
        return self.risk.needs_ratio or self.training_weights is not None

    def split(self, problem: ShiftProblem) -> Split:
        """Split the rows of every source."""
        if not callable(self.shares):
            return problem.split(
                self.shares, random_state=self.random_state, target_trains=self.risk.target_trains
            )
        split = self.shares(problem)
        if not isinstance(split, Split):
            raise SettingsError(
                f"the function given as shares must return a Split, got {type(split).__name__}"
            )
        return split

    def context(
        self,
        models: Mapping[str, Any],
        problem: ShiftProblem,
        loss: Loss,
        split: Split,
        ratio: DensityRatio | None,
    ) -> TrialContext:
        """Gather what every trial needs.

        `models` has the estimator of every family by name; `ratio` is fitted, or None where none
        is needed.
        """
        evaluated = split.validation
        if self.risk.uses_target_labels:
            if problem.oracle is None:
                raise SettingsError(
                    "risk='oracle' needs a problem whose target labels are kept aside"
                )
            evaluated = (problem.oracle,)
        evaluated = judging_sites(evaluated, loss)
        weighted = ratio if self.risk.needs_ratio else None
        weights = None if weighted is None else site_weights(weighted, evaluated)
        few = problem.labelled_target
        sources = [site for site in evaluated if few is None or site.name != few.name]
        risk = self._fitted_risk(problem.target, sources)
        if weights is not None:
            # Its warnings depend on the weights alone: they are raised here, once, and not in
            # every trial.
            risk.estimate(
                [np.ones(len(site)) for site in evaluated], weights, names=_names(evaluated)
            )
        X_train, y_train = pooled(split.train)
        X_validation, _ = pooled(evaluated)
        data = StudyData(
            X_train=X_train,
            y_train=y_train,
            train_sites=np.repeat(_names(split.train), [len(site) for site in split.train]),
            training_weights=self.weights_for_training(ratio, split.train),
            X_validation=X_validation,
            y_validation=tuple(site.labels for site in evaluated),
            weights=None if weights is None else tuple(weights),
            names=_names(evaluated),
            labelled_target="" if few is None else few.name,
            classes=_classes(models, problem, loss, [y_train, *(s.labels for s in evaluated)]),
            groups=groups_of(evaluated),
            sample_weight=weights_of(evaluated),
        )
        estimators = {name: seeded(model, self.random_state) for name, model in models.items()}
        preparations = {
            name: stable_repr(model[:-1])
            for name, model in estimators.items()
            if isinstance(model, Pipeline) and len(models) > 1
        }
        return TrialContext(estimators, data, loss, risk, self.plan, preparations=preparations)

    def _fitted_risk(self, target: Site, sources: Sequence[Site]) -> RiskEstimator:
        given = weights_of([target, *sources])
        weights = {} if given is None else {"sample_weight": given}
        risk: RiskEstimator = clone(self.risk)
        return risk.fit(target.X, [site.X for site in sources], **weights)

    def weights_for_training(
        self, ratio: DensityRatio | None, sites: Sequence[Site]
    ) -> NDArray[np.float64] | None:
        """Weights of the rows of all sites, end to end; None where there are none."""
        if given := weights_of(sites):
            return np.concatenate(given)
        if ratio is None or self.training_weights is None:
            return None
        weights = relative(np.concatenate(site_weights(ratio, sites)))
        if weights is None:
            warnings.warn(
                "all training weights are 0: no source overlaps with the target, so the model is "
                "trained without weights",
                DataWarning,
                stacklevel=3,
            )
        return weights


def _classes(
    models: Mapping[str, Any], problem: ShiftProblem, loss: Loss, labels: Sequence[NDArray[Any]]
) -> NDArray[Any] | None:
    """Return the classes that predictions can have; None where predictions are values."""
    values = predicts_values(models.values(), problem, loss)
    return None if values else np.unique(np.concatenate(labels))


def predicts_values(models: Iterable[Any], problem: ShiftProblem, loss: Loss) -> bool:
    """Return whether predictions are values: regressors can be trained on numbered classes."""
    regressors = all(map(is_regressor, models))
    return problem.task == "regression" or (loss.needs == "predict" and regressors)


def _names(sites: Sequence[Site]) -> tuple[str, ...]:
    return tuple(site.name for site in sites)
