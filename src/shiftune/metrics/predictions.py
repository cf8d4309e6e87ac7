"""Predictions at the sites, by models that have not seen them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftune.evaluate.answers import Answers
from shiftune.evaluate.fitting import StudyData
from shiftune.evaluate.losses import Loss
from shiftune.metrics.metric import Metric
from shiftune.names import Task
from shiftune.problem.site import Features, rows_of

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SitePredictions:
    """Labels and predictions on the validation rows of every source, as metrics read them.

    Attributes
    ----------
    names : k names
    y : k arrays of shape (n_j,)
        Values, or the numbers of the classes.
    p : k arrays of shape (n_j,), or (n_j, C) for C > 2 classes
    X : k arrays or data frames of shape (n_j, d)
    classes : array of shape (C,), or None for values
    votes : bool
        Whether `p` are shares of votes instead of probabilities.
    unseen : bool
        Whether the models have not seen the sites that they predict.
    groups : k arrays of shape (n_j,), or None where rows are independent
        Codes of rows that belong together.
    weights : k arrays of shape (n_j,), or None where every row counts once
    draws : k arrays of shape (D, n_j) or (D, n_j, C), or None
        Predictions that are updated by labels of the site: one for every draw of labels, with NaN
        for the rows that it labels. `p` are then those of the first draw without the row's label.
    """

    names: tuple[str, ...]
    y: list[NDArray[Any]]
    p: list[Floats]
    X: list[Features]
    classes: NDArray[Any] | None = None
    votes: bool = False
    unseen: bool = True
    groups: Sequence[NDArray[np.intp]] | None = None
    weights: Sequence[Floats] | None = None
    draws: Sequence[Floats] | None = None

    @classmethod
    def of(cls, answers: Answers, data: StudyData, loss: Loss) -> SitePredictions:
        """Take the unseen-site answers of the sources apart; labelled target rows are left out."""
        names = tuple(name for name in data.names if name != data.labelled_target)
        rows = [data.validation_rows([name]) for name in names]
        labels: Sequence[NDArray[Any]] = data.y_validation[: len(names)]
        if data.classes is not None:
            labels = [np.searchsorted(data.classes, own) for own in labels]
        return cls(
            names,
            list(labels),
            [_as_read(answers.unseen[own]) for own in rows],
            [rows_of(data.X_validation, own) for own in rows],
            data.classes,
            votes=data.classes is not None and loss.needs == "predict",
            unseen=answers.unseen_share > 0,
            groups=None if data.groups is None else data.groups[: len(names)],
            weights=None if data.sample_weight is None else data.sample_weight[: len(names)],
        )

    def updated(self, answers: Sequence[Floats]) -> SitePredictions:
        """Return the same rows with updated answers, k arrays (D, n_j) or (D, n_j, C)."""
        draws = [np.stack([_as_read(draw) for draw in own]) for own in answers]
        first = [np.isfinite(own).reshape(*own.shape[:2], -1).all(axis=2) for own in draws]
        p = [
            own[known.argmax(axis=0), np.arange(own.shape[1])]
            for own, known in zip(draws, first, strict=True)
        ]
        return replace(self, p=p, draws=draws)

    @property
    def task(self) -> Task:
        """Kind of the labels."""
        return "regression" if self.classes is None else "classification"

    def obstacle(self, metric: Metric) -> str:
        """Reason why a metric cannot be computed at any site; empty if it can."""
        if metric.task != self.task:
            return f"it is for {metric.task}"
        if metric.two_classes and self.classes is not None and len(self.classes) != 2:
            return f"it needs two classes, and there are {len(self.classes)}"
        if metric.needs == "probabilities" and self.votes:
            return "it needs probabilities, and the loss is of predicted classes"
        return ""


def _as_read(answers: NDArray[Any]) -> Floats:
    """Return values, or probabilities that add up to 1; of two classes that of the second."""
    found = answers.astype(float)
    if found.ndim == 1:
        return found
    shares = found / found.sum(axis=1, keepdims=True)
    return np.asarray(shares[:, 1] if shares.shape[1] == 2 else shares)
