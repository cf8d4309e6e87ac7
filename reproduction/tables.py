"""Comparisons of runs: means, paired differences, trends.

Every function takes the runs of one experiment, one row per run, and does not change them. Setting,
method, c (toy problem only) and seed identify a run; lower scores are better. Runs without a score
(NaN) are left out; n counts the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from reproduction.choosing import METHOD_NAMES
from reproduction.settings import SETTINGS
from shiftune.errors import DataError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pandas.core.groupby import SeriesGroupBy


def summary(runs: pd.DataFrame, value: str = "score") -> pd.DataFrame:
    r"""Describe the runs of every setting and method (and c).

    Parameters
    ----------
    runs : DataFrame
        Runs of one experiment.
    value : str
        Column to describe.

    Returns
    -------
    DataFrame
        n, mean, stderr (:math:`s / \sqrt n`; NaN for one run) and median.

    Examples
    --------
    >>> runs = pd.DataFrame({"experiment": "gvhd", "setting": "guarded", "method": "naive",
    ...                      "c": np.nan, "seed": [0, 1, 2], "score": [0.01, 0.02, 0.06]})
    >>> summary(runs).round(4)
                    n  mean  stderr  median
    setting method
    guarded naive   3  0.03  0.0153    0.02
    """
    groups = runs.groupby(["setting", "method", *c_of(runs)])[value]
    return _in_order(_moments(groups).assign(median=groups.median()))


def paired(
    runs: pd.DataFrame, better: str, than: str, *, level: float = 0.95, value: str = "score"
) -> pd.DataFrame:
    r"""Compare two methods by :math:`d_s = \text{than}_s - \text{better}_s` over common seeds s.

    Parameters
    ----------
    runs : DataFrame
        Runs of one experiment.
    better, than : str
        Methods; differences are positive where `better` is better.
    level : float
        Of the interval.
    value : str
        Column to compare.

    Returns
    -------
    DataFrame
        For every setting (and c): n common seeds, mean and stderr of the differences, Student's
        interval low to high, wins (share of the seeds where `better` is strictly lower), and clear
        (low > 0). With fewer than two common seeds there is no interval, and nothing is clear.

    Examples
    --------
    >>> runs = pd.DataFrame({"experiment": "gvhd", "setting": "guarded", "c": np.nan,
    ...                      "method": ["naive"] * 3 + ["unbiased"] * 3, "seed": [0, 1, 2] * 2,
    ...                      "score": [0.5, 0.7, 0.9, 0.4, 0.5, 0.6]})
    >>> paired(runs, "unbiased", "naive").round(3)
             n  mean  stderr    low   high  wins  clear
    setting
    guarded  3   0.2   0.058 -0.048  0.448   1.0  False
    """
    pairs = _pairs(runs, "method", (better, than), ["setting", *c_of(runs)], value)
    return _describe(pairs[than] - pairs[better], level)


def paired_settings(
    runs: pd.DataFrame,
    method: str,
    better: str,
    than: str,
    *,
    level: float = 0.95,
    value: str = "score",
) -> pd.DataFrame:
    """Compare one method in two settings, over the seeds that both have.

    Parameters and columns are those of `paired`, with settings as `better` and `than`; there is
    one row (for every c).

    Examples
    --------
    >>> runs = pd.DataFrame({"experiment": "gvhd", "method": "naive", "c": np.nan, "seed": [0] * 2,
    ...                      "setting": ["as-published", "guarded"], "score": [0.5, 0.4]})
    >>> paired_settings(runs, "naive", "guarded", "as-published")[["n", "mean", "clear"]].round(3)
            n  mean  clear
    method
    naive   1   0.1  False
    """
    by = ["method", *c_of(runs)]
    pairs = _pairs(_only(runs, "method", method), "setting", (better, than), by, value)
    return _describe(pairs[than] - pairs[better], level)


def trend(
    runs: pd.DataFrame, better: str, than: str, *, level: float = 0.95, value: str = "score"
) -> pd.DataFrame:
    r"""Estimate how the advantage of one method over another grows with c.

    One observation per seed: the least-squares slope over c of its differences,
    :math:`b_s = \sum_c (c - \bar c) d_{sc} / \sum_c (c - \bar c)^2`. Whatever the runs of one seed
    share (the target, for one) cancels; seeds without all values of c are not used.

    Parameters
    ----------
    runs : DataFrame
        Runs of the toy problem.
    better, than, level, value
        As in `paired`.

    Returns
    -------
    DataFrame
        For every setting: n seeds, mean slope, stderr, low, high, and clear (low > 0).

    Examples
    --------
    >>> runs = pd.DataFrame({"experiment": "toy", "setting": "guarded",
    ...                      "method": ["naive"] * 4 + ["unbiased"] * 4, "c": [1.0, 2.0] * 4,
    ...                      "seed": [0, 0, 1, 1] * 2, "score": [1, 2, 1, 2.2, 1, 1, 1, 1]})
    >>> trend(runs, "unbiased", "naive").round(2)
             n  slope  stderr   low  high  clear
    setting
    guarded  2    1.1     0.1 -0.17  2.37  False
    """
    if not c_of(runs):
        raise SettingsError("a trend over c needs runs of the toy problem; these have no c")
    pairs = _pairs(runs, "method", (better, than), ["setting", "c"], value)
    by_setting = (pairs[than] - pairs[better]).groupby("setting")
    slopes = {setting: _slopes(differences) for setting, differences in by_setting}
    observations = pd.concat(slopes, names=["setting"])
    return _describe(observations, level).drop(columns="wins").rename(columns={"mean": "slope"})


def ratio_of_means(
    runs: pd.DataFrame, above: str, below: str, value: str = "score"
) -> pd.DataFrame:
    r"""Divide the mean of one method by that of another, over the seeds that both have.

    With :math:`r = \bar a / \bar b`, the standard error is the delta method's for pairs: that of
    the mean of :math:`(a_s - r b_s) / \bar b`.

    Parameters
    ----------
    runs : DataFrame
        Runs of one experiment.
    above, below : str
        Methods; ratios are above 1 where `below` is better.
    value : str
        Column to compare.

    Returns
    -------
    DataFrame
        For every setting (and c): n, ratio, stderr.

    Examples
    --------
    >>> runs = pd.DataFrame({"experiment": "gvhd", "setting": "guarded", "c": np.nan,
    ...                      "method": ["naive"] * 2 + ["unbiased"] * 2, "seed": [0, 1] * 2,
    ...                      "score": [1.0, 3.0, 1.0, 1.0]})
    >>> ratio_of_means(runs, "naive", "unbiased")
             n  ratio  stderr
    setting
    guarded  2    2.0     1.0
    """
    by = ["setting", *c_of(runs)]
    pairs = _pairs(runs, "method", (above, below), by, value).dropna()
    means = pairs.groupby(by).mean()
    ratio = means[above] / means[below]
    influence = (pairs[above] - pairs[below] * ratio) / means[below]
    groups = influence.groupby(by)
    return _in_order(pd.DataFrame({"n": groups.size(), "ratio": ratio, "stderr": groups.sem()}))


def collapse(runs: pd.DataFrame) -> pd.DataFrame:
    """Summarise how far the variance reduced estimate depends on one source without overlap.

    The mean weight of a source should be 1. The estimate need not equal the score, for which the
    model is trained anew at the target, but it should have the same size.

    Returns
    -------
    DataFrame
        For every setting: n runs; medians of top_share and top_mean_weight; one_source, the share
        of the runs with top_share > .99; no_overlap, that with top_mean_weight < .1; and the
        median of estimate / score.

    Examples
    --------
    >>> runs = pd.DataFrame({"experiment": "gvhd", "setting": "guarded", "c": np.nan,
    ...                      "method": "variance_reduced", "seed": [0, 1], "score": [0.2, 0.4],
    ...                      "estimate": 0.1, "top_share": [0.6, 1], "top_mean_weight": [1, 0.01]})
    >>> collapse(runs).T["guarded"].round(3).to_dict()
    {'n': 2.0, 'top_share': 0.8, 'top_mean_weight': 0.505, 'one_source': 0.5, 'no_overlap': 0.5,
     'estimate_over_score': 0.375}
    """
    _check(runs)
    ours = _only(runs, "method", "variance_reduced").dropna(
        subset=["score", "top_share", "top_mean_weight"]
    )
    columns = {
        "top_share": ours["top_share"],
        "top_mean_weight": ours["top_mean_weight"],
        "one_source": (ours["top_share"] > 0.99).astype(float),
        "no_overlap": (ours["top_mean_weight"] < 0.1).astype(float),
        "estimate_over_score": ours["estimate"] / ours["score"],
    }
    how = dict.fromkeys(columns, "median") | {"one_source": "mean", "no_overlap": "mean"}
    groups = pd.DataFrame(columns).groupby(ours["setting"])
    described = groups.agg(how)
    described.insert(0, "n", groups.size())
    return _in_order(described)


def _check(runs: pd.DataFrame) -> None:
    """Refuse runs of several experiments, and duplicates."""
    names = runs["experiment"].unique().tolist()
    if len(names) != 1:
        raise DataError(
            f"expected the runs of one experiment, got {names}; "
            "choose with runs[runs['experiment'] == ...]"
        )
    keys = ["setting", "method", "c", "seed"]
    again = runs.loc[runs.duplicated(keys), keys]
    if len(again):
        raise DataError(
            f"{len(again)} runs of {names[0]} occur more than once, first "
            f"{again.iloc[0].to_dict()}; keep one of each with runs.drop_duplicates({keys})"
        )


def c_of(runs: pd.DataFrame) -> list[str]:
    """Check the runs; return ["c"] where they have one, that is on the toy problem."""
    _check(runs)
    return ["c"] if runs["c"].notna().any() else []


def _only(runs: pd.DataFrame, column: str, name: str) -> pd.DataFrame:
    chosen = runs[runs[column] == name]
    if chosen.empty:
        there = runs[column].unique().tolist()
        raise SettingsError(f"no run has {column} {name!r}; there are {there}")
    return chosen


def _pairs(
    runs: pd.DataFrame, of: str, names: tuple[str, str], by: list[str], value: str
) -> pd.DataFrame:
    """Index (*by, seed), a column for each of the two names; NaN where a run is missing."""
    keys = [*by, "seed"]
    return pd.DataFrame({name: _only(runs, of, name).set_index(keys)[value] for name in names})


def _slopes(differences: pd.Series[float]) -> pd.Series[float]:
    """Slope over c of every seed, NaN for seeds without all values of c (or if there is one)."""
    c = differences.index.get_level_values("c").to_numpy(float)
    values = np.unique(c)
    centred = values - values.mean()
    products = differences * (c - values.mean()) / (centred @ centred)
    slopes: pd.Series[float] = products.groupby("seed").sum(min_count=len(values))
    return slopes


def _moments(groups: SeriesGroupBy[float, Any]) -> pd.DataFrame:
    return pd.DataFrame({"n": groups.count(), "mean": groups.mean(), "stderr": groups.sem()})


def _describe(observations: pd.Series[float], level: float) -> pd.DataFrame:
    """Mean and Student's interval for every group: all levels of the index but the seed."""
    by: list[Hashable] = [name for name in observations.index.names if name != "seed"]
    groups = observations.groupby(by)
    frame = _moments(groups)
    reach = stdtrit((frame["n"] - 1).clip(lower=1), 0.5 + level / 2) * frame["stderr"]
    frame["low"], frame["high"] = frame["mean"] - reach, frame["mean"] + reach
    frame["wins"] = groups.agg(lambda d: (d.dropna() > 0).mean())
    frame["clear"] = frame["low"] > 0
    return _in_order(frame)


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Sort by setting and method in the paper's order, others after them, then by c."""
    orders: dict[str, list[str]] = {"setting": [*SETTINGS], "method": [*METHOD_NAMES]}

    def rank(level: pd.Index) -> pd.Index:
        order = orders.get(str(level.name))
        if order is None:
            return level
        return level.map(lambda name: order.index(name) if name in order else len(order))

    return frame.sort_index(key=rank)
