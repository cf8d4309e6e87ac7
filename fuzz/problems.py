"""Random problems of all kinds, most of them odd; Hypothesis draws and shrinks them.

    @given(random_problems())
    def test_mine(given):
        problem = given.read()  # a ShiftProblem, or a ProblemError

Hypothesis chooses kinds and sizes; the numbers in the cells come from a seed that it chooses too.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from scipy import sparse

from shiftune.problem import ShiftProblem

# ---------------------------------------------------------------- columns

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


def _column_with(column: Column, value: Any, share: float = 0.3) -> Column:
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


def _scaled_column(scale: float) -> Column:
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
    "missing values": _column_with(_normal, np.nan),
    "nearly all missing": _column_with(_normal, np.nan, 0.95),
    "all missing": lambda rng, n: np.full(n, np.nan),
    "all None": lambda rng, n: np.full(n, None, dtype=object),
    "constant": lambda rng, n: np.full(n, 7.0),
    "constant text": lambda rng, n: np.full(n, "same", dtype=object),
    "nearly constant": _nearly_constant,
    "zero": lambda rng, n: np.zeros(n),
    "huge": _scaled_column(1e148),
    "too large": lambda rng, n: rng.choice([-1, 1], n) * np.finfo(float).max,
    "tiny": _scaled_column(1e-150),
    "subnormal": lambda rng, n: rng.integers(0, 9, n) * 5e-324,
    "scales": _mixture_of_scales,
    "heavy tails": _heavy_tailed,
    "infinite": _column_with(_normal, np.inf, 0.1),
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


# ---------------------------------------------------------------- labels, weights, groups

# Of a generator, the site number of every row, and a number that the label may depend on.
Label = Callable[[np.random.Generator, np.ndarray, np.ndarray], Any]


def _signal(rng: np.random.Generator, site: np.ndarray, x: np.ndarray) -> np.ndarray:
    noise: np.ndarray = x + rng.standard_normal(len(x)) + 0.3 * site
    return noise


def _yes(rng: np.random.Generator, site: np.ndarray, x: np.ndarray) -> np.ndarray:
    yes: np.ndarray = _signal(rng, site, x) > 0
    return yes


def _classes(k: int) -> Label:
    def made(rng: np.random.Generator, site: np.ndarray, x: np.ndarray) -> Any:
        noisy = _signal(rng, site, x)
        return np.argsort(np.argsort(noisy, kind="stable")) * k // max(len(noisy), 1)

    return made


def _named(names: list[str]) -> Label:
    of = _classes(len(names))
    return lambda rng, site, x: np.array(names, dtype=object)[of(rng, site, x)]


def _scaled_label(scale: float, dtype: Any = float) -> Label:
    return lambda rng, site, x: (_signal(rng, site, x) * scale).astype(dtype)


def _one_class_at_a_site(rng: np.random.Generator, site: np.ndarray, x: np.ndarray) -> Any:
    return np.where(site % 2 == 0, 1, _yes(rng, site, x)).astype(int)


def _one_class_per_site(rng: np.random.Generator, site: np.ndarray, x: np.ndarray) -> Any:
    return np.char.add("class ", (site % 5).astype(str)).astype(object)


def _rare(rng: np.random.Generator, site: np.ndarray, x: np.ndarray) -> Any:
    return (np.arange(len(x)) == len(x) - 1).astype(int)


def _label_missing(label: Label, share: float) -> Label:
    def made(rng: np.random.Generator, site: np.ndarray, x: np.ndarray) -> Any:
        values = np.asarray(label(rng, site, x)).astype(object)
        values[rng.random(len(x)) < share] = None
        return values

    return made


def _label_with(label: Label, value: Any) -> Label:
    def made(rng: np.random.Generator, site: np.ndarray, x: np.ndarray) -> Any:
        values = np.asarray(
            label(rng, site, x), dtype=object if not isinstance(value, float) else None
        )
        values[rng.integers(len(values))] = value
        return values

    return made


USUAL_LABELS: dict[str, Label] = {
    "0 and 1": lambda rng, site, x: _yes(rng, site, x).astype(int),
    "booleans": _yes,
    "yes and no": _named(["no", "yes"]),
    "three classes": _named(["a", "b", "c"]),
    "15 classes": _classes(15),
    "60 names": _named([f"class {i}" for i in range(60)]),
    "odd names": _named(ODD_TEXTS[2:9]),
    "-1 and 1": lambda rng, site, x: 2 * _yes(rng, site, x).astype(int) - 1,
    "0.0 and 1.0": lambda rng, site, x: _yes(rng, site, x).astype(float),
    "known from the column": lambda rng, site, x: (np.nan_to_num(x) > 0).astype(int),
    "one class at a site": _one_class_at_a_site,
    "one class per site": _one_class_per_site,
    "one rare row": _rare,
    "quantity": _signal,
    "large quantity": _scaled_label(1e25),
    "small quantity": _scaled_label(1e-25),
    "float32": _scaled_label(1, np.float32),
    "counts": lambda rng, site, x: rng.poisson(30 + 5 * site),
    "heavy tails": lambda rng, site, x: np.clip(rng.standard_cauchy(len(x)) ** 3, -1e25, 1e25),
    "quantity known from the column": lambda rng, site, x: 2 * np.nan_to_num(x) + 1.5,
    "mostly zero": lambda rng, site, x: np.where(rng.random(len(x)) < 0.9, 0.0, 1.5),
    "Int64": lambda rng, site, x: pd.array(_yes(rng, site, x).astype(int), dtype="Int64"),
    "category": lambda rng, site, x: pd.Categorical(_named(["no", "yes"])(rng, site, x)),
    "boolean": lambda rng, site, x: pd.array(_yes(rng, site, x), dtype="boolean"),
}
ODD_LABELS: dict[str, Label] = {
    "constant quantity": lambda rng, site, x: np.full(len(x), 2.5),
    "constant class": lambda rng, site, x: np.full(len(x), "all", dtype=object),
    "constant per site": lambda rng, site, x: site + 0.5,
    "nearly constant": _label_with(lambda rng, site, x: np.full(len(x), 2.5), 2.5000001),
    "too large": _scaled_label(1e200),
    "too small": _scaled_label(1e-200),
    "infinite": _label_with(_signal, np.inf),
    "some missing": _label_missing(_yes, 0.2),
    "most missing": _label_missing(_signal, 0.9),
    "all missing": _label_missing(_signal, 1.1),
    "mixed": _label_with(_yes, "maybe"),
    "dates": lambda rng, site, x: pd.Timestamp("2020-01-01") + pd.to_timedelta(site, "D"),
    "lists": _label_with(_signal, dt.date(2020, 1, 1)),
    "complex": lambda rng, site, x: _signal(rng, site, x) + 1j,
    "large integers": lambda rng, site, x: rng.integers(2**62, 2**63 - 1, len(x)),
    "every row a class": lambda rng, site, x: np.array(
        [f"c{i}" for i in range(len(x))], dtype=object
    ),
}

Rows = Callable[[np.random.Generator, int], Any]

WEIGHTS: dict[str, Rows] = {
    "weights": lambda rng, n: rng.exponential(1, n) + 1e-3,
    "ones": lambda rng, n: np.ones(n),
    "weights of all scales": lambda rng, n: 10.0 ** rng.integers(-12, 12, n),
    "one heavy row": lambda rng, n: np.where(np.arange(n) == 0, 1e9, 1.0),
    "whole weights": lambda rng, n: rng.integers(1, 5, n),
}
ODD_WEIGHTS: dict[str, Rows] = {
    "a weight of 0": lambda rng, n: rng.integers(0, 5, n),
    "extreme weights": lambda rng, n: 10.0 ** rng.integers(-300, 300, n),
    "negative weights": lambda rng, n: rng.standard_normal(n),
    "missing weights": lambda rng, n: np.where(rng.random(n) < 0.2, np.nan, 1.0),
    "weights as text": lambda rng, n: np.full(n, "heavy", dtype=object),
}
GROUPS: dict[str, Rows] = {
    "pairs": lambda rng, n: np.arange(n) // 2,
    "few groups": lambda rng, n: rng.integers(0, 3, n),
    "one group": lambda rng, n: np.zeros(n, dtype=int),
    "rows": lambda rng, n: np.arange(n),
    "named": lambda rng, n: np.array(ODD_TEXTS, dtype=object)[rng.integers(0, len(ODD_TEXTS), n)],
    "some missing": lambda rng, n: np.where(rng.random(n) < 0.5, np.nan, rng.integers(0, 5, n)),
}
ODD_GROUPS: dict[str, Rows] = {
    "all missing": lambda rng, n: np.full(n, np.nan),
    "lists": lambda rng, n: pd.Series([[i] for i in range(n)]),
    "complex": lambda rng, n: np.arange(n) + 1j,
}

# ---------------------------------------------------------------- forms of the same table

SITE, LABEL, GROUP, WEIGHT = "site", "y", "group", "weight"


@dataclass(frozen=True)
class Table:
    """Rows of all sites, the target's first; columns as pandas has them."""

    columns: dict[Any, Any]
    sites: list[Any]
    codes: np.ndarray
    y: Any
    group: Any
    weight: Any

    @property
    def own(self) -> np.ndarray:
        """Which rows are the target's."""
        mine: np.ndarray = self.codes == 0
        return mine

    @property
    def rows(self) -> pd.DataFrame:
        """The features."""
        table = pd.concat([series(v) for v in self.columns.values()], axis=1)
        table.columns = pd.Index(list(self.columns), tupleize_cols=False)
        return table

    @property
    def where(self) -> pd.Series:
        """The site of every row."""
        return pd.Series([self.sites[code] for code in self.codes], dtype=object).infer_objects()

    def frame(self) -> pd.DataFrame:
        """Return everything in one table."""
        more = {SITE: self.where, LABEL: series(self.y)}
        if self.group is not None:
            more[GROUP] = series(self.group)
        if self.weight is not None:
            more[WEIGHT] = series(self.weight)
        table = pd.concat([*more.values(), self.rows], axis=1)
        table.columns = pd.Index([*more, *self.columns], tupleize_cols=False)
        return table


def series(values: Any) -> pd.Series:
    """Return values as a column whose index counts rows."""
    return pd.Series(values).reset_index(drop=True)


def _hidden(table: Table, few: int) -> pd.DataFrame:
    """Everything in one table, with as many labels of the target."""
    frame = table.frame()
    hidden = np.flatnonzero(table.own)[few:]
    y = frame.iloc[:, 1]  # another column may have its name
    mask = np.isin(np.arange(len(frame)), hidden)
    shown: Any = y.mask(mask) if y.dtype.kind != "b" else y.astype(object).mask(mask)
    frame.isetitem(1, shown)
    return frame


def _in_frame(table: Table, few: int, draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    frame = _hidden(table, few)
    order = draw(st.sampled_from(["as it is", "as it is", "shuffled", "index of ones"]))
    if order == "shuffled":
        frame = frame.sample(frac=1, random_state=0)
    elif order == "index of ones":
        frame.index = pd.Index(np.ones(len(frame), dtype=int))
    arguments: dict[str, Any] = {"df": frame, "site": SITE, "label": LABEL}
    arguments["target"] = table.sites[0]
    arguments["missing_labels"] = draw(st.sampled_from(["error", "drop"]))
    arguments["target_labels"] = draw(st.sampled_from(["hide", "use", "use", "oracle"]))
    if table.group is not None:
        arguments["subject"] = GROUP
    if table.weight is not None:
        arguments["sample_weight"] = WEIGHT
    return "from_frame", arguments


def _target_apart(table: Table, few: int, draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    how, arguments = _in_frame(table, few, draw)
    df = arguments["df"]
    own = (df.iloc[:, 0] == table.sites[0]).to_numpy()
    more = draw(st.sampled_from(["same", "without label", "a column less", "a column more"]))
    target = df[own].drop(columns=[SITE])
    if more == "without label":
        target = target.drop(columns=[LABEL])
    elif more == "a column less":
        target = target.iloc[:, :-1]
    elif more == "a column more":
        target = target.assign(more=1)
    return how, arguments | {"df": df[~own], "target": target}


def _as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the same with text where a column mixes kinds, which polars and pyarrow refuse."""
    names = [str(name).replace("\0", "0") for name in frame.columns]  # polars would abort
    frame = frame.set_axis(names, axis=1)
    for i, dtype in enumerate(frame.dtypes):
        if dtype.kind == "O" or isinstance(dtype, pd.PeriodDtype):  # categories too
            column = frame.iloc[:, i]
            text: Any = column.astype(object).where(column.isna(), column.map(str))
            frame.isetitem(i, text)
    return frame


def _in_polars(table: Table, few: int, draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    how, arguments = _in_frame(table, few, draw)
    try:
        import polars as pl

        # Complex numbers and doubled names have no place there.
        return how, arguments | {"df": pl.from_pandas(_as_text(arguments["df"]))}
    except Exception:
        return how, arguments


def _in_arrow(table: Table, few: int, draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    how, arguments = _in_frame(table, few, draw)
    try:
        import pyarrow as pa

        frame = _as_text(arguments["df"])
        return how, arguments | {"df": pa.Table.from_pandas(frame, preserve_index=False)}
    except Exception:
        return how, arguments


def _in_large(table: Table, few: int, draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    _, arguments = _in_frame(table, few, draw)
    most = draw(st.sampled_from([1, 10, 40, 1000]))
    data = arguments.pop("df")
    return "from_large", arguments | {"data": data, "most_rows": most}


def _in_arrays(table: Table, few: int, draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    return _stacked(table, few, table.rows)


def _stacked(table: Table, few: int, rows: Any) -> tuple[str, dict[str, Any]]:
    own = table.own
    y, where = series(table.y), table.where
    taken = rows.loc if isinstance(rows, pd.DataFrame) else rows
    arguments: dict[str, Any] = {
        "X": taken[~own],
        "y": y[~own],
        "groups": where[~own],
        "X_target": taken[own],
    }
    if table.group is not None:
        arguments["subject"] = np.asarray(table.group)[~own]
    if table.weight is not None:
        arguments["sample_weight"] = np.asarray(table.weight)[~own]
    if few:
        first = np.flatnonzero(own)[:few]
        arguments["labelled_target"] = (taken[np.isin(np.arange(len(own)), first)], y[first])
    return "from_arrays", arguments


def _floats(table: Table) -> np.ndarray:
    """Return the columns as numbers: those of text as their codes."""
    columns = [series(values) for values in table.columns.values()]
    numbers = [
        column if column.dtype.kind in "iuf" else pd.Series(pd.factorize(column.map(str))[0])
        for column in columns
    ]
    return np.column_stack([column.to_numpy(float, na_value=np.nan) for column in numbers])


def _in_objects(table: Table, few: int, draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    return _stacked(table, few, table.rows.to_numpy(dtype=object))


def _in_sparse(table: Table, few: int, draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    return _stacked(table, few, sparse.csr_array(_floats(table)))


def _in_masked(table: Table, few: int, draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    rows = _floats(table)
    return _stacked(table, few, np.ma.masked_where(rows > np.nanmax(rows, initial=0) / 2, rows))


def _in_lists(table: Table, few: int, draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    how, arguments = _stacked(table, few, _floats(table))
    return how, {
        name: value.tolist() if hasattr(value, "tolist") else value
        for name, value in arguments.items()
    }


def _in_sites(table: Table, few: int, draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    rows, y, own = table.rows, series(table.y), table.own
    sites = {}
    for code in range(1, 1 + table.codes.max()):
        mine = table.codes == code
        more = [] if table.weight is None else [np.asarray(table.weight)[mine]]
        sites[str(table.sites[code])] = (rows[mine], y[mine], *more)
    arguments: dict[str, Any] = {"sites": sites, "X_target": rows[own]}
    if draw(st.booleans()):
        arguments["sites"] = list(sites.values())
    if few:
        first = np.flatnonzero(own)[:few]
        arguments["labelled_target"] = (rows.iloc[first], y[first])
    return "from_sites", arguments


def _in_domains(table: Table, few: int, draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    domain = np.where(table.own, -1, table.codes)
    arguments = {"X": _floats(table), "y": table.y, "sample_domain": domain}
    if table.weight is not None:
        arguments["sample_weight"] = table.weight
    return "from_sample_domain", arguments


FORMS_OF_TABLES = {
    "frame": _in_frame,
    "target apart": _target_apart,
    "polars": _in_polars,
    "arrow": _in_arrow,
    "large": _in_large,
    "arrays": _in_arrays,
    "objects": _in_objects,
    "sparse": _in_sparse,
    "masked": _in_masked,
    "lists": _in_lists,
    "sites": _in_sites,
    "domains": _in_domains,
}

# ---------------------------------------------------------------- problems

# Kinds of columns that a problem refuses.
REFUSED: tuple[str, ...] = ("infinite", "too large", "lists", "bytes", "complex", "sparse")
REFUSED += ("kinds mixed", "categories of bytes", "arrow bytes", "arrow lists")
# About half of all problems have one thing that is likely to be refused, so that others get far.
FAULTS = ("column", "label", "weight", "group", "sites", "names", "target", "sizes")
SIZES, FEW = (4, 6, 9, 12, 20, 30), (1, 2, 3, 12)
# Data frames are most common.
FORMS = ("frame", "frame", *FORMS_OF_TABLES)


@dataclass(frozen=True)
class RandomProblem:
    """Call of a constructor of `ShiftProblem`.

    Attributes
    ----------
    how : str
        Name of the constructor.
    arguments : dict
        Its arguments.
    kinds : dict
        Choices behind them, which is what `repr` shows.
    """

    how: str
    arguments: Mapping[str, Any]
    kinds: Mapping[str, Any]

    def read(self) -> ShiftProblem:
        """Return the problem, or raise the error that the input deserves."""
        problem: ShiftProblem = getattr(ShiftProblem, self.how)(**self.arguments)
        return problem

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.kinds.items())
        return f"<{self.how}: {shown}>"


SITE_NAMES = st.one_of(
    st.just(list("ABCDEFGH")),
    st.just(list(range(8))),
    st.just([0.5 * i for i in range(8)]),
    st.lists(st.sampled_from(ODD_TEXTS), min_size=8, max_size=8, unique=True),
    st.lists(st.text(max_size=5), min_size=8, max_size=8, unique=True),
    st.just([pd.Timestamp("2020-01-01") + pd.Timedelta(days=i) for i in range(8)]),
)
ODD_SITE_NAMES = st.sampled_from(
    [[True, False, "True", 1, "1", 1.5, None, "B"], ["B", *"BCDEFGH"], [1, 1.0, *"BCDEFG"]]
)
COLUMN_NAMES = st.one_of(
    st.just(["x0", "x1", "x2", "x3", "x4", "x5", "x6"]),
    st.just(list(range(7))),
    st.lists(st.sampled_from(ODD_TEXTS), min_size=7, max_size=7, unique=True),
    st.lists(st.text(max_size=4), min_size=7, max_size=7, unique=True),
    st.just([True, False, 0.5, None, ("a", "b"), "x", 7]),
    st.just(["x0", "X0", "x0 ", " x0", "x0\n", "x_0", "y"]),
)


@st.composite
def _tables(draw: st.DrawFn, most_sources: int) -> tuple[Table, dict[str, Any]]:
    """Draw the rows of all sites, and the choices behind them."""
    kinds: dict[str, Any] = {}

    def chosen(name: str, strategy: st.SearchStrategy[Any]) -> Any:
        kinds[name] = draw(strategy)
        return kinds[name]

    rng = np.random.default_rng(chosen("seed", st.integers(0, 2**16)))
    fault = chosen("fault", st.sampled_from([""] * len(FAULTS) + [*FAULTS]))
    size = st.sampled_from(FEW if fault == "sizes" else SIZES)
    sizes = chosen("sizes", st.lists(size, min_size=1, max_size=most_sources))
    sizes = kinds["sizes"] = [draw(st.sampled_from(FEW + SIZES)), *sizes]
    codes = np.repeat(np.arange(len(sizes)), sizes)
    known = columns_here()
    usual = st.sampled_from([kind for kind in known if kind not in REFUSED])
    columns = chosen("columns", st.lists(usual, min_size=1, max_size=5))
    if fault == "column":
        columns = kinds["columns"] = [
            *columns,
            draw(st.sampled_from([kind for kind in REFUSED if kind in known])),
        ]
    n = len(codes)
    values = [known[kind](rng, n) for kind in columns]
    quirk = chosen("quirk", st.sampled_from(["", "", "", *_QUIRKS]))
    if quirk:
        values = [_QUIRKS[quirk](v, codes, rng) for v in values]
    names = chosen("names", COLUMN_NAMES)
    labels = ODD_LABELS if fault == "label" else USUAL_LABELS
    label = labels[chosen("label", st.sampled_from(list(labels)))]
    weights = ODD_WEIGHTS if fault == "weight" else WEIGHTS
    groups = ODD_GROUPS if fault == "group" else GROUPS
    weight = chosen("weight", st.sampled_from([None] * (fault != "weight") * 6 + [*weights]))
    group = chosen("group", st.sampled_from([None] * (fault != "group") * 6 + [*groups]))
    table = Table(
        dict(zip(names, values, strict=False)),
        chosen("sites", ODD_SITE_NAMES if fault == "sites" else SITE_NAMES),
        codes,
        label(rng, codes, _numbers(values[0], rng)),
        None if group is None else groups[group](rng, n),
        None if weight is None else weights[weight](rng, n),
    )
    return table, kinds


def _numbers(values: Any, rng: np.random.Generator) -> np.ndarray:
    """Return a column as moderate numbers, which labels depend on."""
    series = pd.Series(values)
    if series.dtype.kind in "iuf":
        found = series.to_numpy(float, na_value=np.nan)
        with np.errstate(all="ignore"):
            found = np.nan_to_num(found / np.nanmax(np.abs(found), initial=1e-300))
        return np.asarray(np.clip(2 * found, -3, 3))
    return rng.standard_normal(len(series))


def _shift(by: float) -> Any:
    def shifted(values: Any, codes: np.ndarray, rng: np.random.Generator) -> Any:
        plain = isinstance(values, np.ndarray) and values.dtype.kind == "f"
        with np.errstate(all="ignore"):
            return values + by * codes * np.nanmax(np.abs(values), initial=0) if plain else values

    return shifted


def _unseen(values: Any, codes: np.ndarray, rng: np.random.Generator) -> Any:
    series = pd.Series(values)
    return series.where(codes > 0, "unseen") if series.dtype == object else values


def _empty_at_target(values: Any, codes: np.ndarray, rng: np.random.Generator) -> Any:
    return pd.Series(values).where(codes > 0)


def _empty_at_a_source(values: Any, codes: np.ndarray, rng: np.random.Generator) -> Any:
    return pd.Series(values).where(codes != 1)


def _same_rows(values: Any, codes: np.ndarray, rng: np.random.Generator) -> Any:
    return series(pd.Series(values).iloc[np.zeros(len(codes), dtype=int)])


def _doubled_rows(values: Any, codes: np.ndarray, rng: np.random.Generator) -> Any:
    return series(pd.Series(values).iloc[np.arange(len(codes)) // 2])


_QUIRKS = {
    "sites differ": _shift(0.3),
    "sites do not overlap": _shift(50.0),
    "unseen at the target": _unseen,
    "empty at the target": _empty_at_target,
    "empty at a source": _empty_at_a_source,
    "all rows the same": _same_rows,
    "rows doubled": _doubled_rows,
}


@st.composite
def random_problems(
    draw: st.DrawFn, *, forms: tuple[str, ...] = FORMS, most_sources: int = 6
) -> RandomProblem:
    """Strategy of calls that make a `ShiftProblem`, or end in a `ProblemError`.

    Parameters
    ----------
    forms : names
        Forms of the input, of `FORMS`.
    most_sources : int
    """
    table, kinds = draw(_tables(most_sources))
    kinds["form"] = draw(st.sampled_from(forms))
    task = draw(st.sampled_from([None, None, None, None, "classification", "regression"]))
    few = draw(st.sampled_from([0, 0, 1, 3]))
    kinds |= {"task": task, "labels of the target": few}
    how, arguments = FORMS_OF_TABLES[kinds["form"]](table, few, draw)
    if kinds["fault"] == "names" and "df" in arguments:
        df = arguments["df"]
        if isinstance(df, pd.DataFrame):
            arguments["df"] = pd.concat([df, df.iloc[:, -1:]], axis=1)
    if kinds["fault"] == "target" and "target" in arguments:
        arguments["target"] = "nowhere"
    if task is not None:
        arguments["task"] = task
    return RandomProblem(how, arguments, kinds)
