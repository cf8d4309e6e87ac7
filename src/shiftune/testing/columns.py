"""Columns of all kinds, most of them odd, as users' tables have them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

Column = Callable[[np.random.Generator, int], Any]

# What a spreadsheet, a terminal, HTML, a path or a parser might take for something else.
ODD_TEXTS = [
    "",
    " ",
    "=cmd|' /C calc'!A1",
    "@SUM(1)",
    "\x1b[31mred\x1b[0m",
    "\x00",
    "\r\n",
    "<script>alert(1)</script>",
    "[bold]x[/bold]",
    "{{ 7 * 7 }}",
    "../../etc",
    "a/b\\c",
    "'; DROP TABLE x;--",
    "żółć",
    "日本",
    "🏥",
    "‮rtl",
    "e\u0301",
    "é",
    "NaN",
    "None",
    "nan",
    "inf",
    "1",
    "1.0",
    "01",
    "-1",
    "1e5",
    "1,5",
    "true",
    "x" * 300,
    "%s%n",
    '"quoted"',
    "a,b;c\td",
]


def _normal(rng: np.random.Generator, n: int) -> Any:
    return rng.standard_normal(n)


def _with(column: Column, value: Any, share: float = 0.3) -> Column:
    def made(rng: np.random.Generator, n: int) -> Any:
        values = np.asarray(column(rng, n))
        if not isinstance(value, float):
            values = values.astype(object)
        return np.where(rng.random(n) < share, np.asarray(value, dtype=values.dtype), values)

    return made


def _of(values: list[Any], dtype: Any = object) -> Column:
    def made(rng: np.random.Generator, n: int) -> Any:
        return pd.Series([values[i] for i in rng.integers(0, len(values), n)], dtype=dtype)

    return made


def _as(column: Column, dtype: Any) -> Column:
    return lambda rng, n: pd.Series(column(rng, n)).astype(dtype)


def _scaled(scale: float) -> Column:
    return lambda rng, n: rng.standard_normal(n) * scale


def _integers(low: int, high: int, dtype: Any = np.int64) -> Column:
    return lambda rng, n: rng.integers(low, high, n, dtype=dtype)


def _dates(unit: str = "D", *, start: str = "2020-01-01") -> Column:
    return lambda rng, n: pd.Series(
        pd.Timestamp(start) + pd.to_timedelta(rng.integers(0, 900, n), unit)  # type: ignore[call-overload]
    )


def _nullable(values: Column, dtype: Any) -> Column:
    def made(rng: np.random.Generator, n: int) -> Any:
        column = pd.Series(values(rng, n)).astype(dtype)
        return column.mask(rng.random(n) < 0.3)

    return made


def _mixture_of_scales(rng: np.random.Generator, n: int) -> Any:
    return rng.standard_normal(n) * 10.0 ** rng.integers(-300, 300, n)


def _heavy_tailed(rng: np.random.Generator, n: int) -> Any:
    return np.clip(rng.standard_cauchy(n) ** 3, -1e200, 1e200)


def _nearly_constant(rng: np.random.Generator, n: int) -> Any:
    values = np.full(n, 3.0)
    values[rng.integers(n)] = np.nextafter(3.0, 4.0)
    return values


def _unique_texts(rng: np.random.Generator, n: int) -> Any:
    return pd.Series([f"id-{i}" for i in rng.permutation(n)], dtype=object)


_small = _integers(0, 4)
_letters = _of(["a", "b", "c", None])

COLUMNS: dict[str, Column] = {
    "normal": _normal,
    "float32": _as(_normal, np.float32),
    "float16": _as(_normal, np.float16),
    "missing values": _with(_normal, np.nan),
    "nearly all missing": _with(_normal, np.nan, 0.95),
    "all missing": lambda rng, n: np.full(n, np.nan),
    "all None": lambda rng, n: np.full(n, None, dtype=object),
    "constant": lambda rng, n: np.full(n, 7.0),
    "constant text": lambda rng, n: np.full(n, "same", dtype=object),
    "nearly constant": _nearly_constant,
    "zero": lambda rng, n: np.zeros(n),
    "huge": _scaled(1e148),
    "too large": lambda rng, n: rng.choice([-1, 1], n) * np.finfo(float).max,
    "tiny": _scaled(1e-150),
    "subnormal": lambda rng, n: rng.integers(0, 9, n) * 5e-324,
    "scales": _mixture_of_scales,
    "heavy tails": _heavy_tailed,
    "infinite": _with(_normal, np.inf, 0.1),
    "small integers": _small,
    "large integers": _integers(2**62, 2**63 - 1),
    "uint64": _integers(0, 2**64 - 1, np.uint64),
    "int8": _integers(-128, 127, np.int8),
    "row numbers": lambda rng, n: np.arange(n),
    "booleans": lambda rng, n: rng.random(n) < 0.5,
    "Int64": _nullable(_small, "Int64"),
    "Float64": _nullable(_normal, "Float64"),
    "boolean": _nullable(lambda rng, n: rng.random(n) < 0.5, "boolean"),
    "letters": _letters,
    "identifiers": _unique_texts,
    "odd texts": _of([*ODD_TEXTS, None]),
    "string": _as(_letters, "string"),
    "category": _as(_letters, "category"),
    "ordered": _as(_letters, pd.CategoricalDtype(["c", "b", "a", "z"], ordered=True)),
    "categories of numbers": _as(_small, "category"),
    "categories of bytes": _as(_of([b"a", b"\xff"]), "category"),
    "categories of dates": _as(_dates(), "category"),
    "numbers as text": _as(_small, str),
    "text among numbers": _of([1, 2.5, "3", "n/a", None]),
    "kinds mixed": _of([1, "a", True, None, dt.date(2020, 1, 1), 2.5, b"\xff"]),
    "booleans and None": _of([True, False, None]),
    "decimals": _of([Decimal("1.5"), Decimal("NaN"), Decimal("1e400"), None]),
    "long integers": _of([10**400, 1, 2]),
    "bytes": _of([b"a", b"\xff", None]),
    "tuples": _of([(1, 2), (3,), None]),
    "lists": _of([[1], [2, 3], None]),
    "complex": lambda rng, n: rng.standard_normal(n) + 1j,
    "dates": _dates(),
    "dates far back": _dates("D", start="1700-01-01"),
    "dates missing": lambda rng, n: _dates()(rng, n).mask(rng.random(n) < 0.5),
    "dates with zone": lambda rng, n: _dates("h")(rng, n).dt.tz_localize(
        "Europe/Berlin", ambiguous="NaT", nonexistent="NaT"
    ),
    "date objects": lambda rng, n: _dates()(rng, n).dt.date,
    "dates as text": lambda rng, n: _dates()(rng, n).dt.strftime("%d/%m/%Y").astype(object),
    "lengths of time": lambda rng, n: pd.Series(pd.to_timedelta(rng.integers(0, 99, n), "h")),
    "periods": lambda rng, n: _dates()(rng, n).dt.to_period("M"),
    "intervals": lambda rng, n: pd.cut(pd.Series(rng.random(n)), [0, 0.3, 0.6, 1]),
    "sparse": lambda rng, n: pd.arrays.SparseArray(rng.integers(0, 2, n).astype(float)),
}


def columns_here() -> dict[str, Column]:
    """Return the kinds above, and those of pyarrow where it is installed."""
    try:
        import pyarrow as pa
    except ImportError:
        return COLUMNS
    arrow = {
        "string[pyarrow]": _as(_letters, pd.StringDtype("pyarrow")),
        "arrow text": _as(_letters, pd.ArrowDtype(pa.string())),
        "arrow integers": _nullable(_small, "int64[pyarrow]"),
        "arrow numbers": _nullable(_normal, "double[pyarrow]"),
        "arrow booleans": _nullable(lambda rng, n: rng.random(n) < 0.5, "bool[pyarrow]"),
        "arrow dates": _as(_dates(), pd.ArrowDtype(pa.timestamp("us"))),
        "arrow bytes": _of([b"a", b"\xff", None], pd.ArrowDtype(pa.binary())),
        "arrow lists": _of([[1], [2, 3], None], pd.ArrowDtype(pa.list_(pa.int64()))),
        "arrow decimals": _of(
            [Decimal("1.50"), Decimal("2.25"), None], pd.ArrowDtype(pa.decimal128(5, 2))
        ),
    }
    return COLUMNS | arrow
