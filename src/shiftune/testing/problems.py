"""Random problems of all kinds, most of them odd; Hypothesis draws and shrinks them.

Hypothesis chooses kinds and sizes; the numbers in the cells come from a seed that it chooses too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from shiftune.problem import ShiftProblem
from shiftune.testing.columns import ODD_TEXTS, columns_here
from shiftune.testing.forms import FORMS_OF_TABLES, Table, series
from shiftune.testing.labels import (
    GROUPS,
    ODD_GROUPS,
    ODD_LABELS,
    ODD_WEIGHTS,
    USUAL_LABELS,
    WEIGHTS,
)

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
        Forms of the input, of `shiftune.testing.problems.FORMS`.
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
