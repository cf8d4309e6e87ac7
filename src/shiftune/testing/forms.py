"""Forms in which a user may give the same table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from scipy import sparse

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
        arguments["group"] = GROUP
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
        arguments["group"] = np.asarray(table.group)[~own]
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
