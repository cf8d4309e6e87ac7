"""Gaussian process regression: Matern 5/2, one length-scale per parameter, noise known per row.

scikit-learn's ``GaussianProcessRegressor`` does the same; ``benchmarks/samplers.py`` has a
sampler built on it for comparison, and the figures that decided against it are in
``benchmarks/results``.

Letters: n rows with a value, m rows of a query, C columns (`shiftune.search.gp._acquisition`), P
parameters; `y` are the values, (n,), `variances` the known variance of each, (n,), and `groups` the
parameter that each column belongs to, (C,).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.optimize import minimize

Array = NDArray[np.float64]
Groups = NDArray[np.intp]

# Log-normal priors, (mean, sd) of the logarithm. Coordinates are in the unit cube and values are
# standardised, so the priors suit every study. On the functions of
# benchmarks/samplers.py, from 20 other starts, plain maximum likelihood gave a mean regret of 0.25
# on the noisy and 0.03 on the mixed problem, the prior log-normal(sqrt 2 + log(P)/2, sqrt 3) 0.39
# and 0.06, and one about exp(-0.5) 0.08 and 0.005. Centres from exp(-1) to exp(-0.3) and spreads
# from 0.5 to 1 did not differ beyond their error (16 other seeds, seven functions).
LENGTH_SCALE_PRIOR = (-0.7, 0.7)
SIGNAL_PRIOR = (0.0, 0.5)
NOISE_PRIOR = (-8.0, 3.0)

# exp(-13.8) = 1e-6: with less noise two equal rows make the kernel matrix singular.
LENGTH_SCALE_BOUNDS = (-4.0, 4.0)
SIGNAL_BOUNDS = (-3.0, 3.0)
NOISE_BOUNDS = (-13.8, 2.0)

# Where the fit starts. One start: with two, regret was the same within its error (20 seeds, three
# functions) and the CPU time a third more.
START = (-0.5, 0.0, -6.0)

# A variance below this is rounding.
SMALLEST_VARIANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Length-scales (P,), variance of the signal, variance of the noise common to all rows."""

    length_scales: Array
    signal: float
    noise: float

    @classmethod
    def from_log(cls, theta: Array) -> Hyperparameters:
        """Read ``theta = (log l_1, ..., log l_P, log signal, log noise)``, (P + 2,)."""
        return cls(np.exp(theta[:-2]), float(np.exp(theta[-2])), float(np.exp(theta[-1])))


def matern52(r2: Array) -> tuple[Array, Array]:
    """``k = (1 + s + s^2/3) exp(-s)`` with ``s = sqrt(5 r2)``, and ``dk/dr2``, any shape.

    >>> k, slope = matern52(np.array([0.0, 1.0]))
    >>> k.round(4).tolist(), slope.round(4).tolist()
    ([1.0, 0.524], [-0.8333, -0.2882])
    """
    s = np.sqrt(5.0 * r2)
    e = np.exp(-s)
    return (1.0 + s + s * s / 3.0) * e, (-5.0 / 6.0) * (1.0 + s) * e


def squared_distances(rows: Array, groups: Groups) -> Array:
    """Squared distances (P, n, n) between the rows (n, C), parameter by parameter."""
    by_column = np.square(rows.T[:, :, None] - rows.T[:, None, :])
    first_columns = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.add.reduceat(by_column, first_columns, axis=0)


def log_marginal_likelihood(
    theta: Array, distances: Array, y: Array, variances: Array
) -> tuple[float, Array]:
    r"""``log N(y | 0, K)``, ``K = signal k(r2) + diag(noise + variances)``, and its gradient.

    With ``a = K^-1 y`` the derivative is ``1/2 tr((a a' - K^-1) dK/dtheta)``. ``theta``, (P + 2,),
    is in the order of `Hyperparameters.from_log`, ``distances`` are `squared_distances`.

    >>> value, gradient = log_marginal_likelihood(
    ...     np.zeros(3), np.zeros((1, 1, 1)), np.array([0.0]), np.array([0.0]))
    >>> round(value, 4), gradient[1:].round(4).tolist()  # N(0 | 0, 1 + 1)
    (-1.2655, [-0.25, -0.25])
    """
    n = len(y)
    flat = distances.reshape(len(distances), n * n)
    inverse_squares = np.exp(-2.0 * theta[:-2])
    signal, noise = np.exp(theta[-2]), np.exp(theta[-1])
    k, slope = matern52(inverse_squares @ flat)
    K = (signal * k).reshape(n, n)
    K.flat[:: n + 1] += noise + variances
    # LAPACK itself: at n = 50 the checks around scipy.linalg's functions cost more than the work.
    L, failed = lapack.dpotrf(K, lower=1, clean=1)
    if failed:
        return -np.inf, np.zeros_like(theta)
    a, _ = lapack.dpotrs(L, y, lower=1)
    lower, _ = lapack.dpotri(L, lower=1)
    W = np.outer(a, a) - lower - np.tril(lower, -1).T
    value = -0.5 * (y @ a) - np.log(L.diagonal()).sum() - 0.5 * n * np.log(2.0 * np.pi)
    w = W.ravel()
    gradient = np.empty_like(theta)
    gradient[:-2] = -signal * inverse_squares * (flat @ (w * slope))
    gradient[-2] = 0.5 * signal * (w @ k)
    gradient[-1] = 0.5 * noise * np.trace(W)
    return float(value), gradient


def log_prior(theta: Array) -> tuple[float, Array]:
    """Sum of the log-normal log densities (without constants), and its gradient (P + 2,)."""
    n_scales = len(theta) - 2
    priors = np.array([LENGTH_SCALE_PRIOR] * n_scales + [SIGNAL_PRIOR, NOISE_PRIOR])
    z = (theta - priors[:, 0]) / priors[:, 1]
    return float(-0.5 * (z @ z)), -z / priors[:, 1]


def fit(rows: Array, y: Array, variances: Array, groups: Groups) -> Hyperparameters:
    """Return the hyperparameters of largest posterior density: likelihood times log-normal priors.

    Depends on its arguments alone. Starting from the last trial's optimum would save some time,
    but a study that is stopped and resumed would then continue differently.
    """
    distances = squared_distances(rows, groups)
    n_scales = len(distances)

    def loss(theta: Array) -> tuple[float, Array]:
        value, gradient = log_marginal_likelihood(theta, distances, y, variances)
        prior, prior_gradient = log_prior(theta)
        return -(value + prior), -(gradient + prior_gradient)

    optimum = minimize(
        loss,
        np.array([START[0]] * n_scales + [START[1], START[2]]),
        jac=True,
        method="L-BFGS-B",
        bounds=[LENGTH_SCALE_BOUNDS] * n_scales + [SIGNAL_BOUNDS, NOISE_BOUNDS],
        options={"maxiter": 50, "ftol": 1e-6, "gtol": 1e-3},
    )
    return Hyperparameters.from_log(np.asarray(optimum.x))


class Posterior:
    """Mean and standard deviation of the process, given values at some rows.

    ``mean(x) = k(x)' K^-1 y`` and ``sd(x)^2 = signal - k(x)' K~^-1 k(x)``, where K~ also has the
    ``pending`` rows, (q, C). That is the posterior after values equal to the mean were observed
    there: they leave the mean unchanged and remove the uncertainty (GP-BUCB: Desautels, Krause and
    Burdick, JMLR 15, 2014).

    >>> x, zero = np.array([[0.0], [1.0]]), np.zeros(2)
    >>> h = Hyperparameters(np.array([0.5]), signal=1.0, noise=1e-6)
    >>> p = Posterior(x, np.array([1.0, -1.0]), zero, np.array([0]), h)
    >>> mean, sd = p.predict(np.array([[0.0], [0.5]]))
    >>> mean.round(2).tolist(), sd.round(2).tolist()
    ([1.0, 0.0], [0.0, 0.72])
    """

    def __init__(
        self,
        rows: Array,
        y: Array,
        variances: Array,
        groups: Groups,
        hyperparameters: Hyperparameters,
        pending: Array | None = None,
    ) -> None:
        n = len(rows)
        all_rows = rows if pending is None else np.vstack([rows, pending])
        self._n = n
        self._signal = hyperparameters.signal
        self._inverse_scales = 1.0 / hyperparameters.length_scales[groups]
        self._known = all_rows * self._inverse_scales
        K = self._kernel(self._known)
        K.flat[:: len(K) + 1] += hyperparameters.noise
        K.flat[: n * len(K) : len(K) + 1] += variances
        L, failed = lapack.dpotrf(K, lower=1, clean=1)
        if failed:
            raise np.linalg.LinAlgError("the kernel matrix of the trials is not positive definite")
        self._weights: Array = lapack.dpotrs(np.asfortranarray(L[:n, :n]), y, lower=1)[0]
        self._whiten: Array = lapack.dtrtri(L, lower=1)[0]

    def _kernel(self, scaled: Array) -> Array:
        """Kernel (m, n + q) of rows already divided by the length-scales."""
        squares = np.square(scaled).sum(axis=1)[:, None] + np.square(self._known).sum(axis=1)
        r2 = np.maximum(squares - 2.0 * (scaled @ self._known.T), 0.0)
        return self._signal * matern52(r2)[0]

    def predict(self, rows: Array) -> tuple[Array, Array]:
        """Mean (m,) and standard deviation (m,) of the noise-free value at rows (m, C)."""
        k = self._kernel(rows * self._inverse_scales)
        white = k @ self._whiten.T
        variance = self._signal - np.square(white).sum(axis=1)
        return k[:, : self._n] @ self._weights, np.sqrt(np.maximum(variance, SMALLEST_VARIANCE))

    def lower_bound(self, rows: Array, beta: float) -> Array:
        """``mean - beta sd`` (m,) at rows (m, C): beta counts standard deviations."""
        mean, sd = self.predict(rows)
        return mean - beta * sd

    def lower_bound_gradient(self, row: Array, beta: float) -> tuple[float, Array]:
        """``mean - beta sd`` at one row (C,), and its gradient (C,)."""
        offset = row * self._inverse_scales - self._known
        k, slope = matern52(np.square(offset).sum(axis=1))
        k *= self._signal
        slope *= self._signal
        white = self._whiten @ k
        sd = np.sqrt(np.maximum(self._signal - white @ white, SMALLEST_VARIANCE))
        by_kernel = (beta / sd) * (white @ self._whiten)
        by_kernel[: self._n] += self._weights
        gradient = 2.0 * self._inverse_scales * ((by_kernel * slope) @ offset)
        return float(k[: self._n] @ self._weights - beta * sd), gradient
