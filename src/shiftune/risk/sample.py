"""The losses and weights of all sources, checked once and laid end to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftune.errors import DataError
from shiftune.evaluate.losses import LARGEST_LOSS


@dataclass(frozen=True, slots=True)
class Sample:
    """Losses L and weights w of all rows, source after source.

    Attributes
    ----------
    L, w : arrays of shape (n,)
    n : array of shape (k,)
        Rows of each source.
    starts : array of shape (k,)
        Where each source begins.
    names : tuple of k names
    """

    L: NDArray[np.float64]
    w: NDArray[np.float64]
    n: NDArray[np.intp]
    starts: NDArray[np.intp]
    names: tuple[str, ...]

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum over the rows of each source: (n,) -> (k,)."""
        return np.asarray(np.add.reduceat(values, self.starts))

    def means(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean over the rows of each source: (n,) -> (k,)."""
        return self.sums(values) / self.n

    def rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """Give every row the value of its source: (k,) -> (n,)."""
        return np.repeat(values, self.n)

    def only(self, chosen: NDArray[np.bool_]) -> Sample:
        """Keep some of the sources."""
        rows = self.rows(chosen)
        names = tuple(name for name, yes in zip(self.names, chosen, strict=True) if yes)
        return laid_out(self.L[rows], self.w[rows], self.n[chosen], names)

    def where(self, rows: NDArray[np.bool_]) -> Sample:
        """Keep some of the rows, at least one of every source."""
        n = np.add.reduceat(rows, self.starts, dtype=np.intp)
        return laid_out(self.L[rows], self.w[rows], n, self.names)


def laid_out(
    L: NDArray[np.float64],
    w: NDArray[np.float64],
    n: NDArray[np.intp],
    names: tuple[str, ...],
) -> Sample:
    """Build a sample from rows that are already end to end."""
    return Sample(L, w, n, np.concatenate([[0], np.cumsum(n)[:-1]]).astype(np.intp), names)


def read_sample(
    losses: Sequence[Any], weights: Sequence[Any] | None, names: Sequence[str] | None
) -> Sample:
    """Check losses and weights, one array per source, and lay them end to end.

    >>> read_sample([[1.0, 2.0], [3.0]], None, ["B", "C"]).n
    array([2, 1])
    """
    k = len(losses)
    if k == 0:
        raise DataError("there are no losses; give one array per source")
    labels = tuple(str(j) for j in range(1, k + 1)) if names is None else tuple(map(str, names))
    if len(labels) != k:
        raise DataError(f"there are {len(labels)} names for {k} sources")
    if len(set(labels)) < k:
        raise DataError(f"the names of the sources must differ, got {list(labels)}")
    L = [_column(values, "loss", name) for values, name in zip(losses, labels, strict=True)]
    for values, name in zip(L, labels, strict=True):
        if (most := np.abs(values).max()) > LARGEST_LOSS:
            raise DataError(
                f"source {name!r} has losses of up to {most:.0e}, too large to compute with; "
                "divide them, or the labels they come from"
            )
    n = np.array([len(values) for values in L], dtype=np.intp)
    if weights is None:
        return laid_out(np.concatenate(L), np.ones(n.sum()), n, labels)
    if len(weights) != k:
        raise DataError(f"there are losses of {k} sources but weights of {len(weights)}")
    w = [_column(values, "weight", name) for values, name in zip(weights, labels, strict=True)]
    for name, l_j, w_j in zip(labels, L, w, strict=True):
        if len(l_j) != len(w_j):
            raise DataError(f"source {name!r} has {len(l_j)} losses but {len(w_j)} weights")
    sample = laid_out(np.concatenate(L), np.concatenate(w), n, labels)
    if sample.w.min() < 0:
        j = int(np.argmax(np.minimum.reduceat(sample.w, sample.starts) < 0))
        raise DataError(
            f"source {labels[j]!r} has negative weights; a density ratio is never negative"
        )
    return sample


def _column(values: Any, what: str, name: str) -> NDArray[np.float64]:
    try:
        column = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"source {name!r}: the {what}es are not numbers ({error})") from error
    if column.ndim != 1:
        raise DataError(
            f"source {name!r}: one {what} per row is needed, shape (n,), got {column.shape}"
        )
    if len(column) == 0:
        raise DataError(f"source {name!r} has no rows; leave it out")
    if not np.isfinite(column).all():
        bad = int((~np.isfinite(column)).sum())
        raise DataError(f"source {name!r}: {bad} {what}(s) are not finite (NaN or infinite)")
    return column
