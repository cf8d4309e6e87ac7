r"""Learnt embedding of p(x): a small network, averaged over the rows of a data set.

.. math:: \psi(D) = \Big( \frac1m \sum_{x \in D} \tanh(x W_1 + b) \Big) W_2

Letters: T data sets with m rows in all, d columns, h hidden units, p coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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
