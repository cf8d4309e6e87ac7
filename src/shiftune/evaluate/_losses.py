"""Losses: one number per row, never an average.

scikit-learn's metrics divide by the sum of the sample weights, which would turn every weighted
estimate into a self-normalised one, so they cannot be used here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftune import _names
from shiftune._names import complete
from shiftune._wording import loss_name
from shiftune.errors import DataError, SettingsError

Floats = NDArray[np.float64]

# The variance of an estimate and its degrees of freedom take the fourth power of losses, which a
# double must hold.
LARGEST_LOSS, SMALLEST_LOSS = 1e60, 1e-60


@dataclass(frozen=True, slots=True)
class Loss:
    """Loss: one number per row, from predictions or probabilities.

    Parameters
    ----------
    function : callable
        ``function(y, prediction)`` for losses of predictions, with both of shape (n,);
        ``function(y, probabilities, classes)`` for losses of probabilities, of shape (n, C).
        Returns shape (n,).
    name : str
    needs : {"predict", "predict_proba"}
        Method of the model whose output it reads.
    upper : float
        Larger losses are cut to this; the theory needs a bounded loss.

    Examples
    --------
    >>> loss_named("squared")([1.0, 2.0], [1.0, 4.0])
    array([0., 4.])
    >>> loss_named("log_loss")(["no", "yes"], [[0.5, 0.5], [0.75, 0.25]], ["no", "yes"]).round(3)
    array([0.693, 1.386])
    """

    function: Callable[..., Any]
    name: str
    needs: Literal["predict", "predict_proba"] = "predict"
    upper: float = np.inf

    def __call__(
        self,
        y: ArrayLike,
        prediction: ArrayLike,
        classes: ArrayLike | None = None,
    ) -> Floats:
        """Return the loss of every row, shape (n,), finite."""
        labels, predicted = np.asarray(y), np.asarray(prediction)
        if labels.ndim != 1:
            raise DataError(f"{self.name}: y must have shape (n,), got {labels.shape}")
        if self.needs == "predict_proba":
            values = self.function(labels, *_probabilities(self.name, predicted, classes))
        else:
            if predicted.shape == (len(labels), 1):
                predicted = predicted[:, 0]
            if predicted.shape != labels.shape:
                raise DataError(
                    f"{self.name}: {len(labels)} labels but predictions of shape "
                    f"{predicted.shape}; one prediction per row is needed"
                )
            with np.errstate(over="ignore"):  # refused below
                values = self.function(labels, predicted)
        losses = np.asarray(values, dtype=float)
        if losses.shape != labels.shape:
            # An (n, 1) prediction against (n,) labels would quietly make an (n, n) table.
            raise DataError(
                f"{self.name}: {len(labels)} labels and predictions of shape {predicted.shape} "
                f"gave losses of shape {losses.shape}; one loss per row is needed"
            )
        if np.isnan(losses).any():
            raise DataError(
                f"{self.name}: {int(np.isnan(losses).sum())} loss(es) are NaN: the model predicts "
                "NaN there, or the label is missing"
            )
        losses = np.minimum(losses, self.upper)
        if not np.abs(losses).max(initial=0.0) <= LARGEST_LOSS:
            raise DataError(self._too_large(losses, labels))
        return np.asarray(losses)

    def _too_large(self, losses: Floats, labels: NDArray[Any]) -> str:
        most = np.abs(losses).max()
        what = f"losses of up to {most:.0e}" if np.isfinite(most) else "infinite losses"
        words = f"{self.name}: {what} are too large to compute with; bound them with bounded()"
        if self.needs != "predict" or labels.dtype.kind not in "iuf":
            return words
        return f"{words}, or divide the labels, which are of up to {np.abs(labels).max():.0e}"


def loss_named(loss: str | Loss | Callable[..., Any]) -> Loss:
    """Return a loss from its name, or make one of a user's function ``f(y, prediction)``.

    Names of scikit-learn, such as "mae", are known as well.

    >>> loss_named(lambda y, p: np.abs(y - p) ** 3)([0.0], [2.0])
    array([8.])
    >>> loss_named("quadratic")
    Traceback (most recent call last):
    shiftune.errors.SettingsError: there is no loss 'quadratic'; choose from ...
    """
    if isinstance(loss, Loss):
        return loss
    if callable(loss):
        return Loss(loss, getattr(loss, "__name__", type(loss).__name__))
    return LOSSES[loss_name(loss)]


def bounded(loss: str | Loss | Callable[..., Any], upper: float) -> Loss:
    """Return the loss cut off at `upper`, as the theory needs a bounded one.

    >>> bounded("squared", 1.0)([0.0, 0.0], [0.5, 3.0])
    array([0.25, 1.  ])
    """
    if not upper > 0:
        raise SettingsError(f"the bound of a loss must be > 0, got {upper}")
    base = loss_named(loss)
    return replace(base, upper=float(upper), name=f"{base.name} up to {upper:g}")


def pinball(quantile: float = 0.5) -> Loss:
    r"""Loss of a predicted quantile: :math:`q (y - p)` above it, :math:`(1 - q)(p - y)` below.

    >>> pinball(0.9)([1.0, 0.0], [0.0, 1.0])
    array([0.9, 0.1])
    """
    if not 0 < quantile < 1:
        raise SettingsError(f"a quantile lies between 0 and 1, got {quantile}")

    def loss(y: Floats, p: Floats) -> Floats:
        above = _numeric("pinball", y) - p
        return np.asarray(np.maximum(quantile * above, (quantile - 1) * above))

    return Loss(loss, f"pinball at {quantile:g}")


def _squared(y: Floats, p: Floats) -> Floats:
    return (_numeric("squared", y) - _numeric("squared", p)) ** 2


def _half_squared(y: Floats, p: Floats) -> Floats:
    return _squared(y, p) / 2


def _absolute(y: Floats, p: Floats) -> Floats:
    return np.abs(_numeric("absolute", y) - _numeric("absolute", p))


def _zero_one(y: NDArray[Any], p: NDArray[Any]) -> Floats:
    if (y.dtype.kind in "OUS") != (p.dtype.kind in "OUS"):
        raise DataError("zero_one: the labels are text but the predictions numbers, or vice versa")
    return np.asarray(y != p, dtype=float)


def _log_loss(y: NDArray[Any], P: Floats, classes: NDArray[Any]) -> Floats:
    p = P[np.arange(len(y)), _codes("log_loss", y, classes)]
    # The smallest probability whose logarithm is taken is the resolution of a double near 1.
    return -np.log(np.maximum(p, np.finfo(float).eps))


def _brier(y: NDArray[Any], P: Floats, classes: NDArray[Any]) -> Floats:
    """Sum over the classes of (p - [y is the class])^2, halved for two classes: (p - y)^2."""
    truth = np.zeros_like(P)
    truth[np.arange(len(y)), _codes("brier", y, classes)] = 1
    total = ((P - truth) ** 2).sum(axis=1)
    return np.asarray(total / 2 if len(classes) == 2 else total)


def _numeric(name: str, y: NDArray[Any]) -> Floats:
    if y.dtype.kind not in "biuf":
        raise DataError(f"{name}: labels or predictions are {y.dtype}, but this loss needs numbers")
    return np.asarray(y, dtype=float)


def _probabilities(
    name: str, predicted: NDArray[Any], classes: ArrayLike | None
) -> tuple[Floats, NDArray[Any]]:
    """Return probabilities of shape (n, C) that add up to 1, and the C classes."""
    if classes is None:
        raise SettingsError(f"{name}: classes= is needed, in the order of the model's columns")
    labels = np.asarray(classes)
    P = predicted.astype(float)
    if P.ndim == 1 and len(labels) == 2:  # the probability of the second class
        P = np.column_stack([1 - P, P])
    if P.ndim != 2 or P.shape[1] != len(labels):
        raise DataError(
            f"{name}: probabilities of shape {predicted.shape} do not fit {len(labels)} classes"
        )
    if np.isnan(P).any():
        raise DataError(f"{name}: {int(np.isnan(P).any(axis=1).sum())} row(s) are NaN")
    if P.min(initial=0) < -1e-6 or not np.allclose(P.sum(axis=1), 1, atol=1e-3):
        raise DataError(f"{name}: the probabilities of a row must be >= 0 and add up to 1")
    return P / P.sum(axis=1, keepdims=True), labels


def _codes(name: str, y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the column of every label, shape (n,); labels can be of any kind."""
    if (y.dtype.kind in "OUS") != (classes.dtype.kind in "OUS"):
        raise DataError(
            f"{name}: the labels are {y.dtype} but the model's classes {classes.dtype}; text and "
            "numbers are never the same class"
        )
    order = np.argsort(classes)
    ranked = classes[order]
    place = np.minimum(np.searchsorted(ranked, y), len(ranked) - 1)
    unseen = ranked[place] != y
    if np.any(unseen):
        missing = sorted({str(label) for label in y[unseen]})
        raise DataError(
            f"{name}: the class(es) {missing} occur in the labels but the model has never seen "
            f"them; it knows {[str(c) for c in classes]}"
        )
    return np.asarray(order[place])


LOSSES = complete(
    _names.LOSSES,
    {
        "squared": Loss(_squared, "squared"),
        "half_squared": Loss(_half_squared, "half_squared"),
        "absolute": Loss(_absolute, "absolute"),
        "zero_one": Loss(_zero_one, "zero_one"),
        "log_loss": Loss(_log_loss, "log_loss", needs="predict_proba"),
        "brier": Loss(_brier, "brier", needs="predict_proba"),
        "pinball": pinball(0.5),
    },
)
