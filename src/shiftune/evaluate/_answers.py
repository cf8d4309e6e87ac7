"""Answers of a trial: predictions on the rows whose labels evaluate it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.errors import DataError
from shiftune.evaluate._losses import Loss

Predictions = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    r"""Predictions of a trial's models on all validation rows, those of all sites end to end.

    With the answers :math:`a` of the model that was trained on all sources and :math:`a'` of the
    one that was trained without the row's site, a row's loss is

    .. math:: L_i = (1 - u)\, \ell(y_i, a_i) + u\, \ell(y_i, a'_i) .

    Attributes
    ----------
    known : array of shape (n,) or (n, C)
        By the model that was trained on all sources. Regression: values (float64: single precision
        has steps of 128 at the size of time stamps). Classes: probabilities in the order of
        `StudyData.classes`, 0 for those that the model has never seen; for losses of predicted
        classes, votes (1 for the predicted class). Both float32.
    unseen : array of the same shape
        By the model that was trained without the row's site; those of `known` where there is none:
        labelled rows of the target, rows of a class that no other site has.
    unseen_share : float
        u; 0 where a trial has one model.

    Examples
    --------
    >>> from shiftune.evaluate import loss_named
    >>> answers = Answers(np.array([1.0, 2.0]), np.array([1.0, 4.0]), 0.5)
    >>> answers.losses(np.array([1.0, 2.0]), loss_named("squared"))
    array([0., 2.])
    """

    known: Predictions
    unseen: Predictions
    unseen_share: float = 0.0

    def __post_init__(self) -> None:
        if self.known.shape != self.unseen.shape:
            raise ValueError(
                f"answers of shapes {self.known.shape} and {self.unseen.shape} are not of the "
                "same rows"
            )

    def __len__(self) -> int:
        return len(self.known)

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        return self.known.nbytes + (0 if self.unseen is self.known else self.unseen.nbytes)

    def losses(
        self,
        y: NDArray[Any],
        loss: Loss,
        classes: NDArray[Any] | None = None,
        sites: NDArray[np.intp] | None = None,
    ) -> NDArray[np.float64]:
        """Return the mixed loss of every row, shape (n,).

        Parameters
        ----------
        y : array of shape (n,)
        loss : Loss
        classes : array of shape (C,), or None for values
            `StudyData.classes`.
        sites : array of shape (n,), optional
            Numbers of the rows' sites; without it the rows are of one site.
        """

        def losses_of(answers: Predictions) -> NDArray[np.float64]:
            if loss.needs == "predict" and classes is not None:  # shares of votes
                if answers.ndim != 2:
                    raise DataError(f"{loss.name}: votes have shape (n, C), got {answers.shape}")
                answers = classes[answers.argmax(axis=1)]
            return loss(y, answers, classes, sites)

        known, u = losses_of(self.known), self.unseen_share
        if u == 0 or self.unseen is self.known:
            return known
        return np.asarray((1 - u) * known + u * losses_of(self.unseen))

    def rows(self, rows: NDArray[Any]) -> Answers:
        """Return the answers to some of the rows."""
        known = self.known[rows]
        unseen = known if self.unseen is self.known else self.unseen[rows]
        return Answers(known, unseen, self.unseen_share)


def weighted_mean(answers: Sequence[Answers], weights: Sequence[float]) -> Answers:
    """Return the answers of an ensemble: means of values and probabilities, shares of votes.

    >>> one, two = (Answers(x, x) for x in (np.array([1.0, 2.0]), np.array([4.0, 2.0])))
    >>> weighted_mean([one, two], [2, 1]).known
    array([2., 2.])
    """
    shares = {each.unseen_share for each in answers}
    if len(shares) != 1 or len(answers) != len(weights):
        raise ValueError("an ensemble needs answers of one plan, and a weight for each of them")
    w = np.asarray(weights, dtype=float)
    known = _mean([each.known for each in answers], w / w.sum())
    if all(each.unseen is each.known for each in answers):
        return Answers(known, known, *shares)
    return Answers(known, _mean([each.unseen for each in answers], w / w.sum()), *shares)


def answers_of(predicted: Predictions, classes: NDArray[Any] | None) -> Predictions | None:
    """Return predicted values, or predicted classes as votes; None where they are neither."""
    if predicted.ndim == 2:
        predicted = predicted[:, 0]
    if classes is None:
        return predicted.astype(np.float64) if predicted.dtype.kind in "biuf" else None
    places = pd.Index(classes).get_indexer(pd.Index(predicted))
    if (places < 0).any():  # scores, for a loss that reads them
        return None
    votes = np.zeros((len(predicted), len(classes)), dtype=np.float32)
    votes[np.arange(len(predicted)), places] = 1
    return votes


def in_all_classes(
    predicted: Predictions, own: NDArray[Any], classes: NDArray[Any]
) -> NDArray[np.float64] | None:
    """Return probabilities of all classes, shape (n, C), from those of a model's own classes.

    Classes that the model has never seen have 0. None if the model has other classes.
    """
    P = predicted.astype(float)
    if P.ndim == 1 and len(own) == 2:  # the probability of the second class
        P = np.column_stack([1 - P, P])
    places = pd.Index(classes).get_indexer(pd.Index(own))
    if P.shape[1:] != own.shape or (places < 0).any():
        return None
    spread = np.zeros((len(P), len(classes)))
    spread[:, places] = P
    return spread


def _mean(arrays: Sequence[Predictions], weights: NDArray[np.float64]) -> Predictions:
    total = np.zeros(arrays[0].shape)
    for each, weight in zip(arrays, weights, strict=True):
        total += weight * each
    return total.astype(arrays[0].dtype)
