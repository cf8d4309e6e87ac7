"""Columns of sites: checked for each site (`as_features`), then made alike for all (`align`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types
from scipy import sparse

from shiftune._wording import alike
from shiftune.errors import DataError
from shiftune.problem._site import Features, lazy_copy, read_only

ColumnKind = Literal["number", "category", "date"]

# Values of a column; variances need their squares.
_LARGEST = 1e150
# Types of objects that are neither numbers nor text.
_UNUSABLE = (list, dict, set, bytes, bytearray, np.ndarray)
# Numbers of a sparse matrix that is read as an array, 800 MB.
_MOST_DENSE = 1e8


def kind_of(column: pd.Series) -> ColumnKind:
    """Return the kind of a column: number, category (also text and booleans) or date."""
    if types.is_datetime64_any_dtype(column) or types.is_timedelta64_dtype(column):
        return "date"
    if types.is_bool_dtype(column) or not types.is_numeric_dtype(column):
        return "category"
    return "number"


def column_kinds(frames: Mapping[str, pd.DataFrame]) -> dict[Any, ColumnKind]:
    """Return the kind of every column, from all sites together.

    A column that is empty in a site fits any kind; two sites with different kinds are an error
    that names both.
    """
    first = next(iter(frames.values()))
    found: dict[Any, ColumnKind] = {}
    plain = set.intersection(*map(plain_numbers, frames.values()))
    for name in first.columns:
        if name in plain:
            found[name] = "number"
            continue
        by_kind: dict[ColumnKind, str] = {}
        for site, frame in frames.items():
            if frame[name].notna().any():
                by_kind.setdefault(kind_of(frame[name]), site)
        if len(by_kind) > 1:
            (kind_a, site_a), (kind_b, site_b) = list(by_kind.items())[:2]
            words = {"number": "numbers", "category": "categories or text", "date": "dates"}
            raise DataError(
                f"column {name!r} holds {words[kind_a]} in site {site_a!r} but "
                f"{words[kind_b]} in site {site_b!r}; convert it to one kind in all sites"
            )
        found[name] = next(iter(by_kind), kind_of(first[name]))
    return found


def plain_numbers(X: pd.DataFrame) -> set[Any]:
    """Return the names of columns with a NumPy number type, which can be checked all at once."""
    kinds = zip(X.columns, X.dtypes, strict=True)
    return {name for name, dtype in kinds if isinstance(dtype, np.dtype) and dtype.kind in "iuf"}


def days_in(column: pd.Series) -> NDArray[np.float64]:
    """Days since 1970 of every date, or length in days, shape (n,); missing dates are NaN.

    Counted in whole seconds, so that any year fits.
    """
    if column.dtype.kind == "m":
        values = column.to_numpy(dtype="timedelta64[s]")
    else:
        stamps = pd.to_datetime(column, utc=True).dt.tz_localize(None)
        values = stamps.to_numpy(dtype="datetime64[s]")
    days: NDArray[np.float64] = values.astype(np.int64) / 86_400
    return np.where(np.isnat(values), np.nan, days)


def as_pandas(table: Any) -> Any:
    """Return a table or a column of polars, pyarrow and the like as one of pandas.

    What can only become an array becomes one; all else stays as it is.
    """
    if hasattr(table, "to_pandas"):
        try:
            return table.to_pandas()
        except (TypeError, ValueError, NotImplementedError) as error:  # types that pandas lacks
            kind = f"{type(table).__module__.split('.')[0]} {type(table).__name__}"
            raise DataError(
                f"the {kind} cannot be turned into one of pandas ({error}); leave out columns that "
                "are neither numbers, text, booleans nor dates"
            ) from error
    only_array = hasattr(table, "__array__") and not hasattr(table, "shape")
    return np.asarray(table) if only_array else table


def dense(X: Any, where: str) -> Any:
    """Return a sparse matrix as an array, up to a size; anything else as it is."""
    if not sparse.issparse(X):
        return X
    matrix: Any = X
    if np.prod(matrix.shape, dtype=float) > _MOST_DENSE:
        raise DataError(
            f"{where}: a sparse matrix of shape {matrix.shape} is too large to be read as an array "
            f"(more than {_MOST_DENSE:.0e} numbers); reduce the columns first, for example with "
            "TruncatedSVD"
        )
    return matrix.toarray()


def check_columns(columns: pd.Index, where: str) -> None:
    """Refuse column names that occur more than once, or that end for others before their end."""
    if doubled := columns[columns.duplicated()].unique().to_list():
        raise DataError(f"{where}: the column names {doubled} occur more than once; rename them")
    if cut := [name for name in columns if isinstance(name, str) and "\0" in name]:
        raise DataError(f"{where}: the column names {cut} have a NUL character; rename them")


def rows_like(X: Any, known: Features) -> Any:
    """Return new rows with the columns of known ones, in their order.

    Columns of a table are found by name, and others left out; those of an array by place.
    """
    X = dense(as_pandas(X), "the rows")
    if isinstance(X, pd.DataFrame) and isinstance(known, pd.DataFrame):
        check_columns(X.columns, "the rows")
        for name in known.columns:
            if name not in X.columns:
                near = alike(str(name), map(str, X.columns))
                advice = f"did you mean {near[0]!r}?" if near else "the model was trained with it"
                raise DataError(f"the rows lack the column {name!r}; {advice}")
        return X.reindex(columns=known.columns)
    shape = np.shape(X)
    if len(shape) == 2 and shape[1] != known.shape[1]:
        raise DataError(
            f"the rows have {shape[1]} columns, but the model was trained with {known.shape[1]}"
        )
    if isinstance(known, pd.DataFrame) and len(shape) == 2:
        return pd.DataFrame(X, columns=known.columns).infer_objects()
    return X


def as_features(X: Any, site: str) -> Features:
    """Return a copy of a site's rows: a data frame or a float array of shape (n, d).

    Arrays of objects or text become data frames, so that their columns can differ in kind. An
    array that cannot be written to is not copied; float32 stays float32.
    """
    X = dense(X, f"site {site!r}")
    if isinstance(X, pd.DataFrame):
        return _checked_frame(X, site)
    values = np.asarray(X)
    if isinstance(X, np.ma.MaskedArray):
        values = np.ma.filled(X.astype(float), np.nan)
    if values.ndim != 2:
        raise DataError(
            f"site {site!r}: the rows must form a table of shape (n, d), got shape "
            f"{values.shape}; a single column is X.reshape(-1, 1)"
        )
    if values.dtype.kind == "c":
        raise DataError(f"site {site!r}: complex numbers cannot be features; use X.real or X.imag")
    if values.dtype.kind not in "biuf":
        return _checked_frame(pd.DataFrame(values), site)
    _check_any(values.shape[1], site)
    numbers = read_only(values, np.float32 if values.dtype == np.float32 else float)
    for column in np.flatnonzero(_largest(numbers) > _LARGEST):
        _check_size(numbers[:, column], site, int(column))
    return numbers


def _checked_frame(X: pd.DataFrame, site: str) -> pd.DataFrame:
    check_columns(X.columns, f"site {site!r}")
    _check_any(X.shape[1], site)
    frame = lazy_copy(X.infer_objects())
    plain = plain_numbers(frame)
    numbers = frame.loc[:, [name in plain for name in frame.columns]].to_numpy(float)
    if _largest(numbers).max(initial=0) > _LARGEST:
        plain = set()  # check column by column, to name it
    for name in [name for name in frame.columns if name not in plain]:
        column = frame[name]
        kinds = _types_in(column)
        if unusable := sorted(kind.__name__ for kind in kinds if issubclass(kind, _UNUSABLE)):
            raise DataError(
                f"site {site!r}: column {name!r} holds values of type {', '.join(unusable)}; "
                "features are numbers, text, booleans or dates"
            )
        if column.dtype == object and str in kinds:
            # Text among numbers makes the whole column text, in any part of the rows.
            frame[name] = column.where(column.isna(), column.astype(str))
            continue
        if isinstance(column.dtype, pd.SparseDtype):
            raise DataError(
                f"site {site!r}: column {name!r} is sparse; use X.sparse.to_dense() first"
            )
        if column.dtype.kind == "c":
            raise DataError(
                f"site {site!r}: column {name!r} holds complex numbers; use the real part"
            )
        if kind_of(column) == "number":
            _check_size(column.to_numpy(dtype=float, na_value=np.nan), site, name)
    return frame


def _types_in(column: pd.Series) -> set[type]:
    """Return the types of the objects in a column; none where it has numbers, text or dates."""
    dtype = column.dtype
    values = dtype.categories if isinstance(dtype, pd.CategoricalDtype) else column
    if isinstance(values.dtype, pd.ArrowDtype) and issubclass(values.dtype.type, _UNUSABLE):
        return {values.dtype.type}
    if values.dtype != object or types.infer_dtype(values) == "string":
        return set()
    return {type(value) for value in values[values.notna()]}


def _check_any(columns: int, site: str) -> None:
    if columns == 0:
        raise DataError(f"site {site!r} has no feature columns; at least one is needed")


def _check_size(values: NDArray[np.float64], site: str, column: object) -> None:
    if count := int(np.isinf(values).sum()):
        raise DataError(
            f"site {site!r}: column {column!r} has {count} infinite value(s); replace them with "
            "NaN (missing) or with the largest value that makes sense"
        )
    if (most := float(_largest(values))) > _LARGEST:
        raise DataError(
            f"site {site!r}: column {column!r} has values of up to {most:.0e}, too large to "
            "compute with; divide the column, or replace them with NaN (missing)"
        )


def _largest(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest absolute value of every column, shape (d,); missing values are none."""
    with np.errstate(invalid="ignore"):
        low, high = (f.reduce(X, axis=0, initial=0) for f in (np.fmin, np.fmax))
    return np.asarray(np.maximum(-low, high), dtype=float)


def align(tables: Mapping[str, Features]) -> dict[str, Features]:
    """Give all sites the same columns in the same order, with the same categories.

    The first site sets the order. Sites whose columns differ are an error that names both.
    """
    frames = {site: X for site, X in tables.items() if isinstance(X, pd.DataFrame)}
    arrays = {site: X for site, X in tables.items() if not isinstance(X, pd.DataFrame)}
    if frames and arrays:
        raise DataError(
            f"site {next(iter(frames))!r} is a data frame but site {next(iter(arrays))!r} is an "
            "array; give all sites in the same form"
        )
    first = next(iter(tables))
    for site, X in arrays.items():
        if X.shape[1] != arrays[first].shape[1]:
            raise DataError(
                f"site {site!r} has {X.shape[1]} columns but site {first!r} has "
                f"{arrays[first].shape[1]}; all sites and the target need the same columns"
            )
    if arrays:
        dtype = np.result_type(*(X.dtype for X in arrays.values()))
        return {site: X.astype(dtype, copy=False) for site, X in arrays.items()}
    expected = frames[first].columns
    for site, frame in frames.items():
        missing = expected[~expected.isin(frame.columns)].to_list()
        extra = frame.columns[~frame.columns.isin(expected)].to_list()
        if missing or extra:
            raise DataError(
                f"sites {first!r} and {site!r} have different columns: {site!r} lacks "
                f"{missing or 'none'} and has {extra or 'none'} in addition; all sites and the "
                "target need the same columns"
            )
    return dict(_same_kinds({site: X.reindex(columns=expected) for site, X in frames.items()}))


def _same_kinds(frames: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    shared = {site: lazy_copy(frame) for site, frame in frames.items()}
    plain = set.intersection(*map(plain_numbers, frames.values()))
    for name, kind in column_kinds(frames).items():
        if name in plain:
            continue
        columns = {site: frame[name] for site, frame in frames.items()}
        if any(isinstance(c.dtype, pd.CategoricalDtype) for c in columns.values()):
            levels = _union_of_levels(list(columns.values()))
            for site, column in columns.items():
                shared[site][name] = column.astype(levels)
            continue
        like = next((c for c in columns.values() if c.notna().any()), None)
        for site, column in columns.items():
            if like is not None and column.isna().all() and kind_of(column) != kind:
                empty = np.nan if kind == "number" else None
                dtype = like.dtype if kind == "date" else float if kind == "number" else object
                shared[site][name] = pd.Series([empty] * len(column), column.index, dtype=dtype)
    return shared


def _union_of_levels(columns: list[pd.Series]) -> pd.CategoricalDtype:
    dtypes = [c.dtype for c in columns if isinstance(c.dtype, pd.CategoricalDtype)]
    if len(dtypes) == len(columns) and all(dtype == dtypes[0] for dtype in dtypes):
        return dtypes[0]
    levels: dict[Any, None] = {}
    for column in columns:
        dtype = column.dtype
        values = dtype.categories if isinstance(dtype, pd.CategoricalDtype) else column.dropna()
        levels.update(dict.fromkeys(values))
    return pd.CategoricalDtype(list(levels))


def constant_columns(tables: Sequence[Features]) -> list[str]:
    """Return the names of columns with a single value (or none) in all sites together."""
    first = tables[0]
    if isinstance(first, pd.DataFrame):
        frames = [X for X in tables if isinstance(X, pd.DataFrame)]
        return [str(name) for name in first.columns if _is_constant([X[name] for X in frames])]
    with np.errstate(invalid="ignore"):
        low = np.fmin.reduce([np.fmin.reduce(X, axis=0) for X in tables])
        high = np.fmax.reduce([np.fmax.reduce(X, axis=0) for X in tables])
    return [str(column) for column in np.flatnonzero(~(low < high))]


def _is_constant(parts: Sequence[pd.Series]) -> bool:
    """Whether a column has a single value (or none) in all sites together."""
    seen: set[Any] = set()
    for part in parts:
        values = part.dropna()
        if isinstance(part.dtype, np.dtype) and part.dtype.kind in "iuf":
            seen.update([values.min(), values.max()] if len(values) else [])
        else:
            seen.update(values.unique()[:2])
        if len(seen) > 1:
            return False
    return True


def id_like_columns(tables: Sequence[Features]) -> list[str]:
    """Return the names of text columns with a different value in almost every row."""
    if not isinstance(tables[0], pd.DataFrame):
        return []
    rows = pd.concat([X for X in tables if isinstance(X, pd.DataFrame)])
    names = [c for c in rows.columns if kind_of(rows[c]) == "category"]
    return [str(c) for c in names if len(rows) >= 20 and rows[c].nunique() > 0.9 * len(rows)]
