"""Answers of a trial: predictions on the rows whose labels evaluate it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    >>> from shiftune.evaluate._losses import loss_named
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
        u = self.unseen_share
        known = _losses(self.known, y, loss, classes, sites)
        if u == 0 or self.unseen is self.known:
            return known
        return np.asarray((1 - u) * known + u * _losses(self.unseen, y, loss, classes, sites))

    def rows(self, rows: NDArray[Any]) -> Answers:
        """Return the answers to some of the rows."""
        return self._mapped(lambda each: each[rows])

    def _mapped(self, change: Callable[[Predictions], Predictions]) -> Answers:
        known = change(self.known)
        unseen = known if self.unseen is self.known else change(self.unseen)
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
    """Return predicted values, or predicted classes as votes; None where they are neither.

    >>> answers_of(np.array(["c", "a"]), np.array(["a", "b", "c"]))
    array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
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

    >>> in_all_classes(np.array([[0.25, 0.75]]), np.array([0, 2]), np.array([0, 1, 2]))
    array([[0.25, 0.  , 0.75]])
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


def _losses(
    answers: Predictions,
    y: NDArray[Any],
    loss: Loss,
    classes: NDArray[Any] | None,
    sites: NDArray[np.intp] | None,
) -> NDArray[np.float64]:
    if loss.needs == "predict_proba":
        return loss(y, answers, classes, sites)
    if classes is None:
        return loss(y, answers, sites=sites)
    if answers.ndim != 2:
        raise DataError(f"{loss.name}: votes have shape (n, C), got {answers.shape}")
    return loss(y, classes[answers.argmax(axis=1)], sites=sites)


def _mean(arrays: Sequence[Predictions], weights: NDArray[np.float64]) -> Predictions:
    total = np.zeros(arrays[0].shape)
    for each, weight in zip(arrays, weights, strict=True):
        total += weight * each
    return total.astype(arrays[0].dtype)


# A site with this many rows has half the share of a very large one. Losses differ between sites
# by more than chance, so a hundred times the rows do not carry a hundred times the information.
ROWS_FOR_HALF_SHARE = 10.0


def site_shares(n: NDArray[np.intp]) -> NDArray[np.float64]:
    r"""Return :math:`q_j \propto n_j / (n_j + 10)` of sites with so many rows, with sum 1.

    >>> site_shares(np.array([10, 990])).round(3).tolist()
    [0.336, 0.664]
    """
    shares = n / (n + ROWS_FOR_HALF_SHARE)
    return np.asarray(shares / shares.sum())
