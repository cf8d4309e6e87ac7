"""Posterior mean of a site's effect, from a few labelled rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

Floats = NDArray[np.float64]

# Residuals beyond so many standard deviations count less (Huber), so that one outlier among ten
# labels does not decide.
FAR = 2.0
REWEIGHTED = 4
NEWTON_STEPS = 25
# Of a step for one class at a time. With two classes it is Newton's own step.
STEP = 0.5
CLOSE = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Effect of a site.

    Attributes
    ----------
    mean : array of shape (K, p)
        Coefficients of the terms: one set for values, one per class otherwise.
    precisions : array of shape (K, r, r)
        Of standard normal effects.
    back : array of shape (p, r)
        From standard normal effects to coefficients.
    spread : array of shape (p,)
        Prior standard deviations of the coefficients.
    """

    mean: Floats
    precisions: Floats
    back: Floats
    spread: Floats

    @property
    def deviation(self) -> Floats:
        """Posterior standard deviations of the coefficients, shape (K, p)."""
        outside = np.maximum(self.spread**2 - np.sum(self.back**2, axis=1), 0.0)
        inside = np.sum((self.back @ np.linalg.inv(self.precisions)) * self.back, axis=2)
        return np.asarray(np.sqrt(outside + inside))

    def at(self, Z: Floats) -> Floats:
        """Return what is added to the answers of rows with terms Z, shape (n, K)."""
        return np.asarray(Z @ self.mean.T)


def posterior(
    scaled: Floats, Z: Floats, y: NDArray[Any], spread: Floats, noise: float
) -> Posterior:
    r"""Return the posterior of the effects of m labelled rows.

    Values: :math:`y = f + z^\top b + e`, with :math:`e` of variance `noise` and residuals beyond
    two standard deviations weighted down. Classes: :math:`P(y = c) \propto
    \exp(f_c + z^\top b_c)`. In both cases :math:`b \sim N(0, \mathrm{diag}(s^2))`.

    Parameters
    ----------
    scaled : array of shape (m, K)
        Answers f on the scale of the effects.
    Z : array of shape (m, p)
    y : array of shape (m,)
        Values, or the numbers of the classes.
    spread : array of shape (p,)
        s.
    noise : float
        Variance of a value around its answer; not used for classes.

    Examples
    --------
    Three values that lie 2 above their answers, and sites that differ by 1 as a rule:

    >>> found = posterior(np.zeros((3, 1)), np.ones((3, 1)), np.full(3, 2.0), np.ones(1), 3.0)
    >>> found.mean, found.deviation.round(3)
    (array([[1.]]), array([[0.707]]))
    """
    design, back = _reduced(Z, spread)
    if scaled.shape[1] == 1:
        means, precisions = _of_values(y - scaled[:, 0], design, noise)
    else:
        means, precisions = _of_classes(scaled, design, y)
    return Posterior(means @ back.T, precisions, back, spread)


def _reduced(Z: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Return the design of standard normal effects, (m, r), and the way back to terms, (p, r).

    r is the smaller of m and p: labels know nothing of directions that their rows do not have.
    """
    live = np.flatnonzero(spread > 0)
    back = np.zeros((len(spread), len(live)))
    back[live, np.arange(len(live))] = spread[live]
    design = Z @ back
    if len(live) <= len(Z):
        return design, back
    Q, R = np.linalg.qr(design.T)
    return R.T, back @ Q


def _of_values(residuals: Floats, design: Floats, noise: float) -> tuple[Floats, Floats]:
    """Posterior mean and precision of standard normal effects, (1, r) and (1, r, r)."""
    weights, prior = np.ones(len(residuals)), np.eye(design.shape[1])
    for _ in range(REWEIGHTED):
        weighted = design.T * weights
        precision = weighted @ design / noise + prior
        mean = np.linalg.solve(precision, weighted @ residuals / noise)
        left = np.abs(residuals - design @ mean) / np.sqrt(noise)
        weights = FAR / np.maximum(left, FAR)
    return np.asarray(mean)[None], np.asarray(precision)[None]


def _of_classes(scaled: Floats, design: Floats, y: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Posterior modes and precisions of standard normal effects by class, (C, r), (C, r, r)."""
    r, classes = design.shape[1], scaled.shape[1]
    effects, truth, prior = np.zeros((classes, r)), np.eye(classes)[y], np.eye(r)
    for _ in range(NEWTON_STEPS):
        P = softmax(scaled + design @ effects.T, axis=1).T
        precisions = prior + (design.T * (P * (1 - P))[:, None]) @ design
        slopes = (truth.T - P) @ design - effects
        steps = np.linalg.solve(precisions, slopes[..., None])[..., 0]
        effects = effects + STEP * steps
        if np.max(np.abs(steps), initial=0.0) < CLOSE:
            break
    return np.asarray(effects), np.asarray(precisions)
