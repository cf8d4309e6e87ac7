r"""DistBO: one Gaussian process over pairs of a configuration and a data set.

.. math:: k\big((\theta, D), (\theta', D')\big) = s \; k_{5/2}(|\theta - \theta'|_\ell) \;
          k_{5/2}(|\psi(D) - \psi(D')|)

Trials on data sets with an embedding near the target's weigh more in predictions for the target.
The embedding of p(x) is a small network, averaged over the rows of a data set,

.. math:: \psi(D) = \Big( \frac1m \sum_{x \in D} \tanh(x W_1 + b) \Big) W_2,

and is learnt together with the hyperparameters, by the marginal likelihood.

Letters: n trials, P parameters of the space; T data sets with m rows in all, d columns, h hidden
units, p coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.optimize import OptimizeResult, minimize
from threadpoolctl import threadpool_limits

from reproduction.baselines.source_transfer import SourceTransfer, SourceTrials, check_counts
from shiftune.errors import SettingsError
from shiftune.problem import ShiftProblem
from shiftune.rows._encoding import RowEncoder, subsample
from shiftune.search.gp._acquisition import minimise_lower_bound
from shiftune.search.gp._gaussian_process import (
    LENGTH_SCALE_BOUNDS,
    NOISE_BOUNDS,
    SIGNAL_BOUNDS,
    SMALLEST_VARIANCE,
    START,
    Hyperparameters,
    Posterior,
    log_prior,
    matern52,
    squared_distances,
)
from shiftune.search.gp._sampler import standardise

Array = NDArray[np.float64]

# Rows that an embedding averages over: the mean of 500 rows has a standard error of 5 % of a
# row's spread, and the cost of a fit is proportional to their number.
MOST_ROWS = 500


@dataclass(eq=False, repr=False, kw_only=True)
class DistBO(SourceTransfer):
    r"""Transfer by distributional embeddings, DistBO (Law et al. 2019 [1]_), with p(x).

    One Gaussian process over (configuration, data set) is fitted to the trials of all sources, with
    the kernel of this module. A data set's embedding is the output of a
    small network, averaged over its rows (the authors' sizes: 20 hidden units, 10 coordinates).
    Network and process are learnt together, by marginal likelihood times weak priors; the authors
    stop a gradient ascent early instead. Without either, hundreds of weights would fit a few dozen
    trials. The target has no labels, so the embedding is of p(x) and not of p(x, y), as in the
    paper. The configuration for the target is the first that the authors' method would try there,
    by their one-shot rule: they *maximise* a score and take the best *lower* confidence bound, the
    configuration that is most certainly good. For a loss that is

    .. math:: \arg\min_\theta \; \mu_T(\theta) + \beta\, \sigma_T(\theta).

    Parameters
    ----------
    beta : float
        Number of standard deviations added to the mean.
    hidden_units, dimensions : int
        Sizes of the network's hidden layer and of the embedding.
    max_iter, n_starts : int
        Largest number of steps of a fit, and number of random networks from which fits start;
        the best fit is used.
    estimator, space, loss, n_trials, sampler, random_state
        See `SourceTransfer`.

    Attributes
    ----------
    likeness_ : Series
        Learnt kernel between the target and each source with trials; 1 for the same
        distribution. One or two trials per source are too few to learn it well.

    References
    ----------
    .. [1] Law, Zhao, Chan, Huang, Sejdinovic. Hyperparameter learning via distributional
       transfer. NeurIPS 2019.

    Examples
    --------
    >>> from optuna.distributions import FloatDistribution
    >>> from sklearn.linear_model import Ridge
    >>> from reproduction.toy import toy_problem
    >>> search = DistBO(Ridge(), {"alpha": FloatDistribution(0.01, 1e4, log=True)}, n_trials=12)
    >>> search.fit(toy_problem(1.0, n=200).problem).likeness_.shape
    (2,)
    """

    beta: float = 2.0
    hidden_units: int = 20
    dimensions: int = 10
    max_iter: int = 200
    n_starts: int = 4

    def _check(self) -> None:
        if not isinstance(self.beta, Real) or not 0 <= self.beta < np.inf:
            raise SettingsError(f"beta must be a finite number >= 0, got {self.beta!r}")
        check_counts(self, "hidden_units", "dimensions", "max_iter", "n_starts")

    def _choose(self, trials: SourceTrials, problem: ShiftProblem) -> Array:
        rng = np.random.default_rng(self.random_state)
        sites = [problem.labelled_sites[j].X for j in np.unique(trials.site)]
        encoder = RowEncoder().fit([problem.target.X, *sites])
        tables = [
            encoder.transform(subsample(X, MOST_ROWS, self.random_state))
            for X in [problem.target.X, *sites]
        ]
        table = np.unique(trials.site, return_inverse=True)[1] + 1  # 0 is the target
        y, variances, _, _ = standardise(trials.values, np.zeros(len(trials.values)))
        groups = trials.cube.groups
        with threadpool_limits(1, user_api="blas"):
            rows = Rows(tables)
            process = fit_jointly(
                rows,
                trials.rows,
                groups,
                y,
                table,
                hidden_units=self.hidden_units,
                dimensions=self.dimensions,
                max_iter=self.max_iter,
                n_starts=self.n_starts,
                rng=rng,
            )
            likeness = process.kernel(rows)
            names = [problem.labelled_sites[j].name for j in np.unique(trials.site)]
            self.likeness_ = pd.Series(likeness[0, 1:], names, name="likeness")
            posterior = TransferPosterior(
                trials.rows,
                y,
                variances,
                groups,
                process.hyperparameters,
                between=likeness[np.ix_(table, table)],
                toward=likeness[0, table],
            )
            return minimise_lower_bound(posterior, trials.cube, -self.beta, rng, trials.rows)


@dataclass(frozen=True, slots=True)
class Network:
    """Weights of the network, and their layout in one vector.

    >>> net = Network.drawn(d=2, h=3, p=1, rng=np.random.default_rng(0))
    >>> net.flat().shape, Network.of(net.flat(), d=2, h=3, p=1).W2.shape
    ((12,), (3, 1))
    """

    W1: Array
    b: Array
    W2: Array

    @classmethod
    def drawn(cls, d: int, h: int, p: int, rng: np.random.Generator) -> Network:
        """Draw weights with variance 1 / (number of inputs), which gives outputs of order 1."""
        W1, b, W2 = rng.standard_normal((d, h)), rng.standard_normal(h), rng.standard_normal((h, p))
        return cls(W1 / np.sqrt(max(d, 1)), b, W2 / np.sqrt(h))

    @classmethod
    def of(cls, flat: Array, d: int, h: int, p: int) -> Network:
        """Read the weights from a vector (d h + h + h p,)."""
        W1, b, W2 = np.split(flat, [d * h, d * h + h])
        return cls(W1.reshape(d, h), b, W2.reshape(h, p))

    def flat(self) -> Array:
        """Return all weights in one vector."""
        return np.concatenate([self.W1.ravel(), self.b, self.W2.ravel()])

    def log_prior(self) -> tuple[float, Array]:
        """Gaussian log density of the weights, with the variances of `drawn`, and its gradient.

        It keeps hundreds of weights from growing freely on a few dozen trials.
        """
        d, h = self.W1.shape
        precision = np.concatenate(
            [np.full(self.W1.size, d), np.ones(h), np.full(self.W2.size, h)]
        ).astype(float)
        flat = self.flat()
        return float(-0.5 * precision @ flat**2), -precision * flat


class Rows:
    """Rows of all data sets, concatenated, with means over each data set."""

    def __init__(self, tables: Sequence[Array]) -> None:
        self.Z = np.concatenate(tables)
        self.sizes = np.array([len(table) for table in tables])
        self._starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])

    def means(self, values: Array) -> Array:
        """Mean over the rows of each data set, (m, h) -> (T, h)."""
        return np.asarray(np.add.reduceat(values, self._starts, axis=0) / self.sizes[:, None])

    def spread(self, by_table: Array) -> Array:
        """Repeat each data set's values for its rows, (T, h) -> (m, h)."""
        return np.repeat(by_table, self.sizes, axis=0)


def embed(net: Network, rows: Rows) -> tuple[Array, Array, Array]:
    """Return embeddings (T, p) and, for `backward`, hidden units (m, h) and their means (T, h)."""
    hidden = np.tanh(rows.Z @ net.W1 + net.b)
    pooled = rows.means(hidden)
    return pooled @ net.W2, hidden, pooled


def backward(net: Network, rows: Rows, hidden: Array, pooled: Array, slope: Array) -> Array:
    """Gradient with respect to all weights, from the gradient by the embeddings (T, p).

    >>> rng = np.random.default_rng(0)
    >>> net, rows = Network.drawn(1, 2, 1, rng), Rows([rng.normal(size=(4, 1))])
    >>> psi, hidden, pooled = embed(net, rows)
    >>> backward(net, rows, hidden, pooled, np.ones_like(psi)).shape
    (6,)
    """
    by_row = rows.spread(slope @ net.W2.T / rows.sizes[:, None]) * (1.0 - hidden**2)
    return np.concatenate(
        [(rows.Z.T @ by_row).ravel(), by_row.sum(axis=0), (pooled.T @ slope).ravel()]
    )


def log_marginal_likelihood(
    theta: Array, psi: Array, distances: Array, y: Array, table: NDArray[np.intp]
) -> tuple[float, Array, Array]:
    r"""``log N(y | 0, K)`` and its gradients with respect to theta (P + 2,) and psi (T, p).

    With :math:`W = a a^\top - K^{-1}`, :math:`a = K^{-1} y`, the derivative along any dK is
    :math:`\frac12 \mathrm{tr}(W\, dK)`. Embeddings enter through squared distances between data
    sets t and u alone: summed over the trials of both,
    :math:`G_{tu} = \frac12 \sum W_{ij}\, s\, k_\theta\, k_\psi'`, and the gradient for
    :math:`\psi_t` is :math:`4 \sum_u G_{tu} (\psi_t - \psi_u)`.

    Parameters
    ----------
    theta : (P + 2,)
        Logarithms of length-scales, signal and noise, as in `Hyperparameters.from_log`.
    psi : (T, p)
    distances : (P, n, n)
        From `squared_distances`.
    y : (n,)
    table : (n,)
        Data set of each trial.
    """
    n = len(y)
    inverse_squares = np.exp(-2.0 * theta[:-2])
    signal, noise = np.exp(theta[-2]), np.exp(theta[-1])
    k_theta, slope_theta = matern52(np.tensordot(inverse_squares, distances, axes=1))
    offsets = psi[:, None, :] - psi[None, :, :]
    k_psi, slope_psi = matern52(np.square(offsets).sum(axis=2))
    across = np.ix_(table, table)
    k_tables = k_psi[across]
    K = signal * k_theta * k_tables
    K.flat[:: n + 1] += noise
    L, failed = lapack.dpotrf(K, lower=1, clean=1)
    if failed:
        return -np.inf, np.zeros_like(theta), np.zeros_like(psi)
    a, _ = lapack.dpotrs(L, y, lower=1)
    lower, _ = lapack.dpotri(L, lower=1)
    W = np.outer(a, a) - lower - np.tril(lower, -1).T
    value = -0.5 * (y @ a) - np.log(L.diagonal()).sum() - 0.5 * n * np.log(2.0 * np.pi)
    gradient = np.empty_like(theta)
    along = W * slope_theta * k_tables
    gradient[:-2] = -signal * inverse_squares * np.einsum("pij,ij->p", distances, along)
    gradient[-2] = 0.5 * signal * np.sum(W * k_theta * k_tables)
    gradient[-1] = 0.5 * noise * np.trace(W)
    G = np.zeros_like(k_psi)
    np.add.at(G, across, 0.5 * signal * W * k_theta)
    G *= slope_psi
    return float(value), gradient, 4.0 * np.einsum("tu,tup->tp", G, offsets)


@dataclass(frozen=True, slots=True)
class JointProcess:
    """Hyperparameters of the process, and the network behind the embeddings."""

    hyperparameters: Hyperparameters
    network: Network

    def kernel(self, rows: Rows) -> Array:
        """Kernel between data sets, (T, T); 1 for the same distribution."""
        psi, _, _ = embed(self.network, rows)
        offsets = psi[:, None, :] - psi[None, :, :]
        return matern52(np.square(offsets).sum(axis=2))[0]


def fit_jointly(
    rows: Rows,
    configurations: Array,
    groups: NDArray[np.intp],
    y: Array,
    table: NDArray[np.intp],
    *,
    hidden_units: int,
    dimensions: int,
    max_iter: int,
    n_starts: int,
    rng: np.random.Generator,
) -> JointProcess:
    """Maximise likelihood times priors over hyperparameters and network together (L-BFGS).

    The density has many maxima in the network's weights, so the best of several starts is used.

    Parameters
    ----------
    rows : Rows of T data sets
    configurations : (n, C)
    groups : (C,)
        Parameter that each column belongs to.
    y : (n,)
        Standardised.
    table : (n,)
    hidden_units, dimensions : h and p of the network
    max_iter : int
        Largest number of steps from each start.
    n_starts : int
    rng : draws the initial networks
    """
    distances = squared_distances(configurations, groups)
    P = len(distances)
    shape = (rows.Z.shape[1], hidden_units, dimensions)

    def loss(parameters: Array) -> tuple[float, Array]:
        theta, net = parameters[: P + 2], Network.of(parameters[P + 2 :], *shape)
        psi, hidden, pooled = embed(net, rows)
        value, by_theta, by_psi = log_marginal_likelihood(theta, psi, distances, y, table)
        by_weights = backward(net, rows, hidden, pooled, by_psi)
        prior, prior_theta = log_prior(theta)
        decay, prior_weights = net.log_prior()
        gradient = np.concatenate([by_theta + prior_theta, by_weights + prior_weights])
        return -(value + prior + decay), -gradient

    def fitted(network: Network) -> OptimizeResult:
        n_weights = len(network.flat())
        return minimize(
            loss,
            np.concatenate([[START[0]] * P, [START[1], START[2]], network.flat()]),
            jac=True,
            method="L-BFGS-B",
            bounds=[LENGTH_SCALE_BOUNDS] * P
            + [SIGNAL_BOUNDS, NOISE_BOUNDS]
            + [(None, None)] * n_weights,
            options={"maxiter": max_iter, "ftol": 1e-8, "gtol": 1e-4},
        )

    tried = [fitted(Network.drawn(*shape, rng)) for _ in range(n_starts)]
    best = np.asarray(min(tried, key=lambda found: float(found.fun)).x)
    return JointProcess(Hyperparameters.from_log(best[: P + 2]), Network.of(best[P + 2 :], *shape))


class TransferPosterior(Posterior):
    """Posterior at the target, given values at rows that were observed on several data sets.

    Parameters
    ----------
    rows, y, variances, groups, hyperparameters
        As of `Posterior`.
    between : (n, n)
        Kernel between the data sets of the rows; multiplies that of the rows.
    toward : (n,)
        The same kernel between each row's data set and the target.
    """

    def __init__(
        self,
        rows: Array,
        y: Array,
        variances: Array,
        groups: NDArray[np.intp],
        hyperparameters: Hyperparameters,
        *,
        between: Array,
        toward: Array,
    ) -> None:
        self._between, self._toward = between, toward
        super().__init__(rows, y, variances, groups, hyperparameters)

    def _kernel(self, scaled: Array) -> Array:
        if scaled is self._known:  # with each other, when the process is made
            return super()._kernel(scaled) * self._between
        squares = np.square(scaled).sum(axis=1)[:, None] + np.square(self._known).sum(axis=1)
        r2 = np.maximum(squares - 2.0 * (scaled @ self._known.T), 0.0)
        return self._signal * self._toward * matern52(r2)[0]

    def lower_bound_gradient(self, row: Array, beta: float) -> tuple[float, Array]:
        """``mean - beta sd`` at one row (C,), and its gradient (C,)."""
        offset = row * self._inverse_scales - self._known
        k, slope = matern52(np.square(offset).sum(axis=1))
        k *= self._signal * self._toward
        slope *= self._signal * self._toward
        white = self._whiten @ k
        sd = np.sqrt(np.maximum(self._signal - white @ white, SMALLEST_VARIANCE))
        by_kernel = (beta / sd) * (white @ self._whiten) + self._weights
        gradient = 2.0 * self._inverse_scales * ((by_kernel * slope) @ offset)
        return float(k @ self._weights - beta * sd), gradient
