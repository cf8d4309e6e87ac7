"""One site: a name, its rows and, where known, their labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.errors import DataError

Features = pd.DataFrame | np.ndarray

# From pandas 3 on a shallow copy is safe: writing to it leaves the original as it was.
_COPY_IS_LAZY = int(pd.__version__.split(".", maxsplit=1)[0]) >= 3


class Site:
    """Named, immutable set of rows.

    Parameters
    ----------
    name : str
        Name of the site in the user's table.
    X : DataFrame or array of shape (n, d)
        Already checked columns; see `shiftune.problem.columns`.
    y : array of shape (n,), optional
        Labels; None for a site without labels.
    rows : array of shape (n,), optional
        Row numbers in the table the site came from, to trace results back.
    groups : array of shape (n,), optional
        Codes of rows that belong together, such as visits of a patient; the same code at two sites
        is the same group. None where all rows are independent.
    sample_weight : array of shape (n,), optional
        Numbers above 0: a row of weight 2 counts as two rows. None where every row counts once.

    Examples
    --------
    >>> site = Site("B", np.array([[1.0], [2.0]]), np.array([0, 1]))
    >>> len(site), site.X.flags.writeable
    (2, False)
    """

    __slots__ = ("_X", "groups", "name", "rows", "sample_weight", "y")

    name: str
    y: NDArray[Any] | None
    rows: NDArray[np.intp]
    groups: NDArray[np.intp] | None
    sample_weight: NDArray[np.float64] | None
    _X: Features

    def __init__(
        self,
        name: str,
        X: Features,
        y: NDArray[Any] | None = None,
        rows: NDArray[np.intp] | None = None,
        groups: NDArray[np.intp] | None = None,
        sample_weight: NDArray[np.float64] | None = None,
    ) -> None:
        if len(X) == 0:
            raise DataError(f"site {name!r} has no rows; it needs at least one")
        if y is not None and len(y) != len(X):
            raise DataError(f"site {name!r} has {len(X)} rows but {len(y)} labels")
        if groups is not None and len(groups) != len(X):
            raise DataError(f"site {name!r} has {len(X)} rows but {len(groups)} group ids")
        fixed = object.__setattr__
        fixed(self, "name", name)
        fixed(self, "_X", _copied(X))
        fixed(self, "y", None if y is None else _read_only(y))
        fixed(self, "rows", _read_only(np.arange(len(X)) if rows is None else rows))
        fixed(self, "groups", None if groups is None else _read_only(groups))
        weights = None if sample_weight is None else _read_only(sample_weight)
        fixed(self, "sample_weight", weights)

    @property
    def X(self) -> Features:
        """The rows; writing to them does not change the site."""
        if isinstance(self._X, pd.DataFrame):
            return self._X.copy(deep=not _COPY_IS_LAZY)
        return self._X

    @property
    def labels(self) -> NDArray[Any]:
        """The labels; an error for a site without labels."""
        if self.y is None:
            raise DataError(f"site {self.name!r} has no labels")
        return self.y

    def take(self, positions: NDArray[np.intp]) -> Site:
        """Return the same site with only the rows at these positions."""
        X = self._X.iloc[positions] if isinstance(self._X, pd.DataFrame) else self._X[positions]
        y = None if self.y is None else self.y[positions]
        groups = None if self.groups is None else self.groups[positions]
        weights = None if self.sample_weight is None else self.sample_weight[positions]
        return Site(self.name, X, y, self.rows[positions], groups, weights)

    def __len__(self) -> int:
        return len(self._X)

    def __setattr__(self, key: str, value: object) -> None:
        raise AttributeError(f"a Site cannot be changed (tried to set {key!r})")

    def __reduce__(self) -> tuple[type[Site], tuple[Any, ...]]:
        return Site, (self.name, self._X, self.y, self.rows, self.groups, self.sample_weight)

    def __repr__(self) -> str:
        labels = "no labels" if self.y is None else "labelled"
        return f"<Site {self.name!r}: {len(self)} rows, {labels}>"


def pooled(sites: Sequence[Site]) -> tuple[Features, NDArray[Any]]:
    """Stack the rows and labels of labelled sites, in their order.

    >>> a = Site("a", np.zeros((2, 1)), np.array([0, 1]))
    >>> X, y = pooled([a, a])
    >>> X.shape, y
    ((4, 1), array([0, 1, 0, 1]))
    """
    return stacked([site.X for site in sites]), np.concatenate([site.labels for site in sites])


def stacked(tables: Sequence[Features]) -> Features:
    """Stack the rows of tables with the same columns."""
    if isinstance(tables[0], pd.DataFrame):
        return pd.concat(tables, ignore_index=True)  # type: ignore[arg-type]
    return np.concatenate(tables)


def rows_of(values: Any, which: NDArray[Any]) -> Any:
    """Return the rows of a frame, series or array at these positions or where a mask is true."""
    return values.iloc[which] if hasattr(values, "iloc") else np.asarray(values)[which]


def _copied(X: Features) -> Features:
    return X.copy() if isinstance(X, pd.DataFrame) else _read_only(X)


def _read_only(values: NDArray[Any]) -> NDArray[Any]:
    fixed = np.array(values)
    fixed.flags.writeable = False
    return fixed
