"""Posterior of a site's effect, from a few labelled rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

Floats = NDArray[np.float64]

# Residuals beyond so many standard deviations count less (Huber), so that one outlier among ten
# labels does not decide.
HUBER_THRESHOLD = 2.0
MOST_REWEIGHTED = 20
MOST_STEPS = 60
MOST_HALVED = 20
TOLERANCE = 1e-4


def posterior_mean(
    scaled: Floats, Z: Floats, y: NDArray[Any], spread: Floats, noise: float
) -> Floats:
    r"""Return the posterior mean of the effects of m labelled rows, shape (K, p).

    Values: :math:`y = f + z^\top b + e`, with :math:`e` of variance `noise` and residuals beyond
    two standard deviations weighted down. Classes: :math:`P(y = c) \propto
    \exp(f_c + z^\top b_c)`, and the mode instead of the mean. In both cases
    :math:`b \sim N(0, \mathrm{diag}(s^2))`.

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

    >>> posterior_mean(np.zeros((3, 1)), np.ones((3, 1)), np.full(3, 2.0), np.ones(1), 3.0)
    array([[1.]])
    """
    design, back = _reduced(Z, spread)
    if scaled.shape[1] == 1:
        return _of_values(y - scaled[:, 0], design, noise)[None] @ back.T
    return _of_classes(scaled, design, y) @ back.T


def posterior_deviation(
    scaled: Floats, Z: Floats, y: NDArray[Any], spread: Floats, noise: float, mean: Floats
) -> Floats:
    """Return the posterior standard deviations at the mean, shape (K, p).

    Those of classes are of the difference from the mean over all classes, since adding the same
    to all of them changes nothing.

    >>> about = np.zeros((3, 1)), np.ones((3, 1)), np.full(3, 2.0), np.ones(1), 3.0
    >>> posterior_deviation(*about, posterior_mean(*about)).round(3)
    array([[0.707]])
    """
    design, back = _reduced(Z, spread)
    r, classes = design.shape[1], scaled.shape[1]
    outside = np.maximum(spread**2 - np.sum(back**2, axis=1), 0.0)
    if classes == 1:
        weights = huber_weights(y - scaled[:, 0] - Z @ mean[0], noise)
        covariance = np.linalg.inv((design.T * weights) @ design / noise + np.eye(r))
        return np.asarray(np.sqrt(outside + np.sum((back @ covariance) * back, axis=1)))[None]
    P = softmax(scaled + Z @ mean.T, axis=1)
    curvature = P[:, :, None] * (np.eye(classes) - P[:, None, :])  # (m, C, C)
    hessian = np.einsum("mr,mkl,ms->krls", design, curvature, design)
    hessian = hessian.reshape(classes * r, classes * r)
    covariance = np.linalg.inv(hessian + np.eye(classes * r)).reshape(classes, r, classes, r)
    centred = np.eye(classes) - 1 / classes
    of_classes = np.einsum("kl,lrms,km->krs", centred, covariance, centred)
    inside = np.sum((back @ of_classes) * back, axis=2)
    return np.asarray(np.sqrt(outside * (1 - 1 / classes) + inside))


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


def huber_weights(residuals: Floats, noise: float) -> Floats:
    """Weights of residuals: 1, less beyond the threshold."""
    return np.asarray(
        HUBER_THRESHOLD / np.maximum(np.abs(residuals) / np.sqrt(noise), HUBER_THRESHOLD)
    )


def _of_values(residuals: Floats, design: Floats, noise: float) -> Floats:
    """Posterior mean of standard normal effects, shape (r,)."""
    weights, prior = np.ones(len(residuals)), np.eye(design.shape[1])
    for _ in range(MOST_REWEIGHTED):
        weighted = design.T * weights
        precision = weighted @ design / noise + prior
        mean = np.linalg.solve(precision, weighted @ residuals / noise)
        before, weights = weights, huber_weights(residuals - design @ mean, noise)
        if np.max(np.abs(weights - before), initial=0.0) < TOLERANCE:
            break
    return np.asarray(mean)


def _of_classes(scaled: Floats, design: Floats, y: NDArray[np.intp]) -> Floats:
    """Posterior mode of standard normal effects by class, shape (C, r).

    Newton's direction of every class, shortened until the posterior grows.
    """
    r, classes = design.shape[1], scaled.shape[1]
    effects, truth, prior = np.zeros((classes, r)), np.eye(classes)[y], np.eye(r)

    def at(b: Floats) -> tuple[float, Floats]:
        """Log posterior and probabilities (m, C); SciPy's functions take three times as long."""
        eta = scaled + design @ b.T
        top = eta.max(axis=1, keepdims=True)
        shares = np.exp(eta - top)
        total = shares.sum(axis=1, keepdims=True)
        height = (truth * eta).sum() - (np.log(total) + top).sum() - (b**2).sum() / 2
        return float(height), shares / total

    reached, P = at(effects)
    for _ in range(MOST_STEPS):
        W = (P * (1 - P)).T
        slopes = (truth - P).T @ design - effects
        steps = np.linalg.solve(prior + (design.T * W[:, None]) @ design, slopes[..., None])
        for halved in range(MOST_HALVED):
            step = steps[..., 0] / 2**halved
            height, tried = at(effects + step)
            if height > reached:
                break
        else:
            break
        effects, reached, P = effects + step, height, tried
        if np.max(np.abs(step), initial=0.0) < TOLERANCE:
            break
    return np.asarray(effects)
