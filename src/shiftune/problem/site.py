"""One site: a name, its rows and, where known, their labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.errors import DataError

Features = pd.DataFrame | np.ndarray
Values = TypeVar("Values", bound=NDArray[Any] | None)
Table = TypeVar("Table")

# From pandas 3 on a shallow copy is safe: writing to it leaves the original as it was.
COPY_IS_LAZY = int(pd.__version__.split(".", maxsplit=1)[0]) >= 3


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

    __slots__ = ("_X", "_at", "_groups", "_rows", "_sample_weight", "_y", "name")

    name: str
    _X: Features
    _y: NDArray[Any] | None
    _rows: NDArray[np.intp]
    _groups: NDArray[np.intp] | None
    _sample_weight: NDArray[np.float64] | None
    _at: NDArray[np.integer] | None
    """Positions of the rows in the tables above; None for all of them."""

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
        fixed(self, "_X", lazy_copy(X) if isinstance(X, pd.DataFrame) else read_only(X))
        fixed(self, "_y", None if y is None else read_only(y))
        fixed(self, "_rows", read_only(np.arange(len(X)) if rows is None else rows))
        fixed(self, "_groups", None if groups is None else read_only(groups))
        weights = None if sample_weight is None else read_only(sample_weight)
        fixed(self, "_sample_weight", weights)
        fixed(self, "_at", None)

    @property
    def X(self) -> Features:
        """The rows; writing to them does not change the site."""
        if self._at is not None:
            some: Features = frozen(rows_of(self._X, self._at))
            # A shallow copy, so that older versions of pandas do not take it for a view.
            return some.copy(deep=False) if isinstance(some, pd.DataFrame) else some
        return lazy_copy(self._X) if isinstance(self._X, pd.DataFrame) else self._X

    @property
    def y(self) -> NDArray[Any] | None:
        """The labels, or None."""
        return self._of_rows(self._y)

    @property
    def rows(self) -> NDArray[np.intp]:
        """Row numbers in the table the site came from."""
        return self._of_rows(self._rows)

    @property
    def groups(self) -> NDArray[np.intp] | None:
        """Codes of rows that belong together, or None."""
        return self._of_rows(self._groups)

    @property
    def sample_weight(self) -> NDArray[np.float64] | None:
        """Weights of the rows, or None."""
        return self._of_rows(self._sample_weight)

    @property
    def labels(self) -> NDArray[Any]:
        """The labels; an error for a site without labels."""
        if (y := self.y) is None:
            raise DataError(f"site {self.name!r} has no labels")
        return y

    def take(self, positions: NDArray[np.intp]) -> Site:
        """Return the same site with only the rows at these positions, which are not copied."""
        at = np.asarray(positions) if self._at is None else self._at[positions]
        few = len(self._X) <= np.iinfo(np.int32).max
        part = object.__new__(Site)
        for name in self.__slots__:
            object.__setattr__(part, name, getattr(self, name))
        object.__setattr__(part, "_at", at.astype(np.int32 if few else np.int64))
        if len(part) == 0:
            raise DataError(f"site {self.name!r} has no rows; it needs at least one")
        return part

    def numbered(self, rows: NDArray[np.intp]) -> Site:
        """Return the same site with other row numbers, shape (n,)."""
        return Site(self.name, self.X, self.y, rows, self.groups, self.sample_weight)

    def write_to(self, out: NDArray[Any]) -> None:
        """Write the rows of a site of arrays into another one of shape (n, d)."""
        if self._at is None:
            out[:] = self._X
        else:
            np.take(self._X, self._at, axis=0, out=out, mode="clip")  # "raise" would copy first

    def _of_rows(self, values: Values) -> Values:
        return values if values is None or self._at is None else frozen(values[self._at])

    def __len__(self) -> int:
        return len(self._X) if self._at is None else len(self._at)

    def __setattr__(self, key: str, value: object) -> None:
        raise AttributeError(f"a Site cannot be changed (tried to set {key!r})")

    def __reduce__(self) -> tuple[type[Site], tuple[Any, ...]]:
        return Site, (self.name, self.X, self.y, self.rows, self.groups, self.sample_weight)

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
    labels = np.concatenate([site.labels for site in sites])
    like = sites[0]._X
    if isinstance(like, pd.DataFrame):
        return stacked([site.X for site in sites]), labels
    ends = np.cumsum([len(site) for site in sites])
    rows = np.empty((ends[-1], like.shape[1]), dtype=like.dtype)
    for site, end in zip(sites, ends, strict=True):
        site.write_to(rows[end - len(site) : end])
    return rows, labels


def stacked(tables: Sequence[Features]) -> Features:
    """Stack the rows of tables with the same columns."""
    if isinstance(tables[0], pd.DataFrame):
        return pd.concat(tables, ignore_index=True)  # type: ignore[arg-type]
    return np.concatenate(tables)


def rows_of(values: Any, which: NDArray[Any]) -> Any:
    """Return the rows of a frame, series or array at these positions or where a mask is true."""
    return values.iloc[which] if hasattr(values, "iloc") else np.asarray(values)[which]


def read_only(values: NDArray[Any], dtype: Any = None) -> NDArray[Any]:
    """Return an array that cannot be written to: a copy, unless it is such an array already.

    >>> fixed = read_only(np.zeros(3))
    >>> read_only(fixed) is fixed
    True
    """
    is_array = isinstance(values, np.ndarray) and values.base is None
    if is_array and not values.flags.writeable and dtype in (None, values.dtype):
        return values
    return frozen(np.array(values, dtype=dtype))


def lazy_copy(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame that changes neither with this one nor the other way round."""
    return frame.copy(deep=not COPY_IS_LAZY)


def frozen(values: Table) -> Table:
    """Return the same array, which cannot be written to any more; all else as it is."""
    if isinstance(values, np.ndarray):
        values.flags.writeable = False
    return values
