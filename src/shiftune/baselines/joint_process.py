r"""Gaussian process over pairs of a configuration and a data set.

.. math:: k\big((\theta, D), (\theta', D')\big) = s \; k_{5/2}(|\theta - \theta'|_\ell) \;
          k_{5/2}(|\psi(D) - \psi(D')|)

Trials on data sets with an embedding near the target's weigh more in predictions for the target.
The embedding is learnt together with the hyperparameters, by the marginal likelihood.

Letters: n trials, T data sets, P parameters of the space; the rest as in `embedding`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.optimize import OptimizeResult, minimize

from shiftune.baselines.embedding import Network, Rows, backward, embed
from shiftune.search.gp.gaussian_process import (
    LENGTH_SCALE_BOUNDS,
    NOISE_BOUNDS,
    SIGNAL_BOUNDS,
    START,
    Hyperparameters,
    log_prior,
    matern52,
    squared_distances,
)

Array = NDArray[np.float64]


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
        From `shiftune.search.gp.gaussian_process.squared_distances`.
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
