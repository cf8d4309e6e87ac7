"""Plans of fits: the models of a trial, and the rows on which their losses are computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from shiftune.evaluate.answers import Answers
from shiftune.evaluate.fitting import (
    Predicted,
    StudyData,
    fit,
    judge,
    relative,
    requests_weights,
)
from shiftune.evaluate.losses import Loss
from shiftune.problem.site import rows_of


@dataclass(frozen=True, slots=True)
class TrialLosses:
    """Losses of a trial's models.

    Attributes
    ----------
    by_source : k arrays of shape (n_j,)
        The losses from which the target risk is estimated.
    naive : float
        Mean loss of the trial's first model over the validation rows of the sites it has seen.
    answers : Answers or None
        Predictions on the same rows, end to end; None for a plan that keeps none.
    """

    by_source: list[NDArray[np.float64]]
    naive: float
    answers: Answers | None = None


class FitPlan(Protocol):
    """Plan of a trial: the models it fits, and the rows on which their losses are computed.

    Another plan is another class with this method; nothing else of the search changes. Where the
    fits of a plan are independent of each other, workers can share those of one trial: see
    `IndependentFits`. A plan that changes a pipeline's transformers fits on
    ``data.sharing(None)``: the rows of other trials were prepared by those of `model`.
    """

    def losses(self, model: Any, data: StudyData, loss: Loss) -> TrialLosses:
        """Fit `model` (this trial's own), or clones of it; return every source's losses."""


class Fit(NamedTuple):
    """One model of a trial: what it is trained without, and where it is judged.

    Attributes
    ----------
    left_out : names
        Sources whose training rows it does not get.
    judged_at : names, or None for all
        Sources whose validation rows it predicts.
    """

    left_out: tuple[str, ...] = ()
    judged_at: tuple[str, ...] | None = None

    def fit_predict(self, model: Any, data: StudyData, needs: str) -> Predicted:
        """Fit a model, in place or its last step alone; predict by the method that the loss needs.

        Where transformers prepare rows once per study, only the last step of a pipeline is fitted.
        """
        if self.left_out:
            data = without_sources(self.left_out, data)
        X_train, X = data.X_train, data.X_validation
        if self.judged_at is not None:
            X = rows_of(X, data.validation_rows(self.judged_at))
        # Not where a plan has wrapped the model, or transformers read the weights.
        routed = data.training_weights is not None and requests_weights(model)
        if data.prepared is not None and isinstance(model, Pipeline) and not routed:
            transformers, model = model[:-1], model[-1]
            X_train, X = data.prepared.get(
                (data.left_out, self.judged_at),
                lambda: (
                    transformers.fit_transform(data.X_train, data.y_train),
                    transformers.transform(X),
                ),
            )
        fitted = fit(model, X_train, data.y_train, data.training_weights)
        return Predicted(np.asarray(getattr(fitted, needs)(X)), getattr(fitted, "classes_", None))


class IndependentFits(ABC):
    """Plan whose models do not depend on each other.

    Several workers can fit the models of one trial. The first one is fitted before the others,
    unless workers are idle: if it fails, they are not needed.
    """

    @abstractmethod
    def fits(self, data: StudyData) -> list[Fit]:
        """Return the fits of every trial, all different; the first is of all sources, at all."""

    @abstractmethod
    def combined(
        self, predicted: Mapping[Fit, Predicted], data: StudyData, loss: Loss
    ) -> TrialLosses:
        """Return every source's losses from the predictions of all fits."""

    def losses(self, model: Any, data: StudyData, loss: Loss) -> TrialLosses:
        """Return the losses of all fits, made one after the other."""
        predicted = {
            each: each.fit_predict(clone(model), data, loss.needs) for each in self.fits(data)
        }
        return self.combined(predicted, data, loss)


def independent_fits(plan: FitPlan, data: StudyData) -> list[Fit]:
    """Return the fits of a plan if they are independent; none if a trial cannot be divided.

    >>> class Own(PooledFit):
    ...     def losses(self, model, data, loss): ...
    >>> independent_fits(Own(), None)
    []
    """
    if isinstance(plan, IndependentFits) and type(plan).losses is IndependentFits.losses:
        return plan.fits(data)
    return []


class PooledFit(IndependentFits):
    """One model on the training rows of all sources, evaluated on all validation rows."""

    def __repr__(self) -> str:
        return "PooledFit()"

    def fits(self, data: StudyData) -> list[Fit]:
        """Return the one fit."""
        return [Fit()]

    def combined(
        self, predicted: Mapping[Fit, Predicted], data: StudyData, loss: Loss
    ) -> TrialLosses:
        """Return the losses of the one model."""
        losses, own = judge(predicted[Fit()], data, loss)
        answers = None if own is None else Answers(own, own)
        return TrialLosses(data.by_site(losses), data.mean_loss(losses), answers)


def can_leave_out(group: Sequence[str], data: StudyData) -> bool:
    """Whether the other sites have at least two different labels to learn from."""
    labels = data.y_train[~np.isin(data.train_sites, group)]
    return len(labels) > 0 and bool((labels != labels[0]).any())


def without_sources(group: tuple[str, ...], data: StudyData) -> StudyData:
    """Leave sites out of the training rows."""
    kept = ~np.isin(data.train_sites, group)
    weights = data.training_weights
    if weights is not None:
        # Density ratios are relative; weights that rows were given are numbers of rows.
        weights = relative(weights[kept]) if data.sample_weight is None else weights[kept]
    others = replace(
        data,
        X_train=rows_of(data.X_train, kept),
        y_train=data.y_train[kept],
        train_sites=data.train_sites[kept],
        training_weights=weights,
    )
    return others.sharing(data.prepared, group)
