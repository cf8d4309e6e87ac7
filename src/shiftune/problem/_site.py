"""One site: a name, its rows and, where known, their labels; labels as arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from shiftune._names import Task
from shiftune._wording import listed
from shiftune.errors import DataError

Features = pd.DataFrame | np.ndarray
Values = TypeVar("Values", bound=NDArray[Any] | None)
Table = TypeVar("Table")

# From pandas 3 on a shallow copy is safe: writing to it leaves the original as it was.
_COPY_IS_LAZY = int(pd.__version__.split(".", maxsplit=1)[0]) >= 3


class Site:
    """Named, immutable set of rows.

    Parameters
    ----------
    name : str
        Name of the site in the user's table.
    X : DataFrame or array of shape (n, d)
        Already checked columns.
    y : array of shape (n,), optional
        Labels; None for a site without labels.
    rows : array of shape (n,), optional
        Row numbers in the table the site came from, to trace results back.
    groups : array of shape (n,), optional
        Codes of the subjects of the rows, such as patients with visits; the same code at two sites
        is the same subject. None where all rows are independent.
    sample_weight : array of shape (n,), optional
        Numbers above 0: a row of weight 2 counts as two rows. None where every row counts once.

    Examples
    --------
    >>> site = Site("B", np.array([[1.0], [2.0]]), np.array([0, 1]))
    >>> len(site), site.X.flags.writeable
    (2, False)
    """

    __slots__ = ("_X", "_at", "_groups", "_name", "_rows", "_sample_weight", "_y")

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
        rows = np.arange(len(X)) if rows is None else rows
        columns = {"labels": y, "row numbers": rows, "subjects": groups, "weights": sample_weight}
        for what, values in columns.items():
            if values is not None and len(values) != len(X):
                raise DataError(f"site {name!r} has {len(X)} rows but {len(values)} {what}")
        self._name = name
        self._X = lazy_copy(X) if isinstance(X, pd.DataFrame) else read_only(X)
        self._y = None if y is None else read_only(y)
        self._rows = read_only(rows)
        self._groups = None if groups is None else read_only(groups)
        self._sample_weight = None if sample_weight is None else read_only(sample_weight)
        # Positions of the rows in the tables above; None for all of them.
        self._at: NDArray[np.integer] | None = None

    @property
    def name(self) -> str:
        """Name of the site in the user's table."""
        return self._name

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

    def take(self, positions: NDArray[np.intp], name: str | None = None) -> Site:
        """Return the same site with only the rows at these positions, which are not copied.

        It keeps its name, unless another is given.
        """
        at = np.asarray(positions) if self._at is None else self._at[positions]
        few = len(self._X) <= np.iinfo(np.int32).max
        part = object.__new__(Site)
        for slot in self.__slots__:
            setattr(part, slot, getattr(self, slot))
        part._name = self.name if name is None else name
        part._at = at.astype(np.int32 if few else np.int64)
        if len(part) == 0:
            raise DataError(f"site {self.name!r} has no rows; it needs at least one")
        return part

    def _of_rows(self, values: Values) -> Values:
        return values if values is None or self._at is None else frozen(values[self._at])

    def __len__(self) -> int:
        return len(self._X) if self._at is None else len(self._at)

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
        out = rows[end - len(site) : end]
        if site._at is None:
            out[:] = site._X
        else:
            np.take(site._X, site._at, axis=0, out=out, mode="clip")  # "raise" would copy first
    return rows, labels


def groups_of(sites: Sequence[Site]) -> tuple[NDArray[np.intp], ...] | None:
    """Return the groups of every site; None where all rows are independent."""
    groups = tuple(site.groups for site in sites if site.groups is not None)
    return groups if len(groups) == len(sites) else None


def weights_of(sites: Sequence[Site]) -> tuple[NDArray[np.float64], ...] | None:
    """Return the weights of every site; None where all rows count once."""
    weights = tuple(site.sample_weight for site in sites if site.sample_weight is not None)
    return weights if len(weights) == len(sites) else None


def sites_have(names: Collection[str]) -> str:
    """Begin a sentence: "site 'B' has", "sites 'B' and 'C' have"."""
    return f"site {listed(names)} has" if len(names) == 1 else f"sites {listed(names)} have"


def stacked(tables: Sequence[Features]) -> Features:
    """Stack the rows of tables with the same columns."""
    if isinstance(tables[0], pd.DataFrame):
        return pd.concat(tables, ignore_index=True)  # type: ignore[arg-type]
    return np.concatenate(tables)


def rows_of(values: Any, which: NDArray[Any]) -> Any:
    """Return the rows of a frame, series or array at these positions or where a mask is true."""
    return values.iloc[which] if hasattr(values, "iloc") else np.asarray(values)[which]


def read_only(values: NDArray[Any], dtype: Any = None) -> NDArray[Any]:
    """Return an array that cannot be written to: a copy, unless it is such an array already."""
    is_array = isinstance(values, np.ndarray) and values.base is None
    if is_array and not values.flags.writeable and dtype in (None, values.dtype):
        return values
    return frozen(np.array(values, dtype=dtype))


def lazy_copy(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame that changes neither with this one nor the other way round."""
    return frame.copy(deep=not _COPY_IS_LAZY)


def frozen(values: Table) -> Table:
    """Return the same array, which cannot be written to any more; all else as it is."""
    if isinstance(values, np.ndarray):
        values.flags.writeable = False
    return values


# Whole-number labels with more distinct values than this are read as counts or scores.
MOST_CLASSES = 20


def as_labels(y: Any, site: str, label: str = "y") -> NDArray[Any]:
    """Return labels as an array of shape (n,) in which nothing is missing or infinite."""
    # The many forms of text and optional numbers in pandas and NumPy are reduced to a few.
    values = np.asarray(y.to_numpy() if isinstance(y, pd.Series | pd.DataFrame) else y)
    if values.dtype.kind in "US":
        values = values.astype(object)
    elif values.dtype.kind == "O" and types.infer_dtype(values.ravel()) != "string":
        values = np.asarray(pd.Series(values.ravel()).infer_objects()).reshape(values.shape)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if flaw := _flaw_of(values):
        raise DataError(f"site {site!r}: the label {label!r} {flaw}")
    return values


def _flaw_of(labels: NDArray[Any]) -> str:
    """Say why an array cannot be the labels of a site, and what to do; empty if it can."""
    if names := labels.dtype.names:
        return (
            f"is a record of {', '.join(names)}; survival times with censoring are not supported; "
            "use one number or class per row, such as whether the event came within a year"
        )
    if labels.ndim == 2:
        return (
            f"has {labels.shape[1]} columns; several labels at once are not supported: make a "
            "search for each"
        )
    if labels.ndim != 1:
        return f"must have shape (n,), got {labels.shape}"
    if missing := int(pd.isna(labels).sum()):
        return f"is missing in {missing} of {len(labels)} rows; leave those rows out"
    kind = labels.dtype.kind
    if kind == "f" and not np.isfinite(labels).all():
        return "has infinite values; correct them, or leave those rows out"
    kinds = set()
    if kind not in "biufO":
        kinds = {str(labels.dtype)}
    elif kind == "O" and len(labels) and types.infer_dtype(labels) != "string":
        kinds = {type(value).__name__ for value in labels}
    if len(kinds) == 1:
        return f"holds values of type {kinds.pop()}; labels are numbers, text or booleans"
    if kinds:
        return (
            f"mixes {' and '.join(sorted(kinds))}; convert it to one type, for example with "
            "y.astype(str)"
        )
    if kind == "O" and any("\0" in value for value in set(labels)):
        return "has values with a NUL character; replace them"
    return ""


def distinct_labels(labels: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Return the labels that occur at any site, sorted."""
    return np.unique(np.concatenate([pd.unique(y) for y in labels]))  # texts are slow to sort


def task_of(labels: Iterable[NDArray[Any]]) -> Task:
    """Decide on the task: text, booleans and at most 20 different whole numbers are classes."""
    values = np.concatenate([np.asarray(y) for y in labels])
    if values.dtype.kind not in "iuf":
        return "classification"
    whole = bool(np.all(values == np.round(values)))
    return "classification" if whole and len(np.unique(values)) <= MOST_CLASSES else "regression"
