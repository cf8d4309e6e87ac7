"""Figures of the trials: their history, and the importance of the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from shiftune.errors import SettingsError
from shiftune.report.figures.canvas import (
    BLUE,
    GREY,
    HOVER,
    RED,
    ROW,
    bars,
    canvas,
    label,
    labels,
    log_axis,
    name_rows,
    rows_of_table,
)
from shiftune.search.records import finished_trials
from shiftune.search.result import SearchResult
from shiftune.wording import number, percent, short_names, shortened, with_interval

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def history(trials: pd.DataFrame, *, chosen: int | None = None) -> Figure:
    """Plot the estimated risk of every trial with its interval, and the best so far.

    Trials that cannot be distinguished from the best are blue, the chosen one has a ring; failed
    trials are crosses at the bottom.

    Parameters
    ----------
    trials : DataFrame
        `ShiftSearch.trials_`.
    chosen : int, optional
        Number of the trial that won, `ShiftSearch.best_index_`.
    """
    good = _completed(trials, chosen)
    figure = canvas(height=380)
    for tied, name, color in ((False, "worse", GREY), (True, "tied with the best", BLUE)):
        rows = good[good["tied_with_best"] == tied]
        if len(rows):
            figure.add_scatter(
                x=rows.index,
                y=rows["risk"],
                error_y=bars(rows["risk"], rows["low"], rows["high"], color),
                mode="markers",
                marker={"color": color, "size": 7},
                customdata=_about_trials(rows),
                hovertemplate=HOVER,
                name=name,
            )
    figure.add_scatter(
        x=good.index,
        y=good["risk"].cummin(),
        mode="lines",
        line={"color": RED, "width": 1.5, "shape": "hv"},
        hoverinfo="skip",
        name="best so far",
    )
    if chosen is not None:
        figure.add_scatter(
            x=[chosen],
            y=[good["risk"].to_dict()[chosen]],
            mode="markers",
            marker={"symbol": "circle-open", "size": 16, "color": RED, "line": {"width": 2}},
            hoverinfo="skip",
            name="chosen",
        )
    failed = trials.index[trials["state"] == "FAIL"]
    if len(failed):
        figure.add_scatter(
            x=failed,
            y=np.zeros(len(failed)),
            yaxis="y2",
            mode="markers",
            marker={"symbol": "x", "color": RED, "size": 7},
            customdata=[f"trial {n} failed" for n in failed],
            hovertemplate=HOVER,
            name="failed",
        )
        # An axis of their own, so that they lie at the bottom whatever the scale of the risk.
        figure.update_layout(yaxis2={"overlaying": "y", "range": [-0.03, 1], "visible": False})
    figure.update_xaxes(title="trial")
    log = _needs_log_scale(good["risk"])
    figure.layout.yaxis.update(title="estimated target risk", type="log" if log else "linear")
    return figure


def importances(shares: Mapping[str, float]) -> Figure:
    """Plot the share of every parameter in the differences between trials (functional ANOVA)."""
    if not shares:
        raise SettingsError(
            "importances need at least 10 completed trials that differ and two parameters that "
            "all of them have"
        )
    names = list(shares)[::-1]
    figure = canvas(height=70 + ROW * len(names))
    figure.add_bar(
        x=[shares[name] for name in names],
        y=list(range(len(names))),
        orientation="h",
        marker={"color": BLUE},
        customdata=[f"{escape(name)}: {percent(shares[name])}" for name in names],
        hovertemplate=HOVER,
    )
    name_rows(figure, list(short_names(names).values()))
    figure.update_xaxes(title="share of the differences", tickformat=".0%")
    figure.update_layout(showlegend=False)
    return figure


def parameter_slice(result: SearchResult, name: str) -> Figure:
    """Plot the risk of every trial against one of the parameters."""
    good = _completed(result.trials, result.chosen)
    column = f"param_{name}"
    if name not in result.distributions:
        names = parameter_names(good)
        raise SettingsError(f"no trial has a parameter {name!r}; there are {names}")
    distribution = result.distributions[name]
    tried = {t.number for t in finished_trials(result.study) if name in t.params}
    have = good[good.index.isin(tried)]
    place = _places(have[column], distribution)
    figure = canvas(height=250)
    for tied, color in ((False, GREY), (True, BLUE)):
        part = (have["tied_with_best"] == tied).to_numpy(bool)
        rows = have[part]
        if len(rows):
            figure.add_scatter(
                x=place[part],
                y=rows["risk"],
                mode="markers",
                marker={"color": color, "size": 7},
                customdata=_about_trials(rows),
                hovertemplate=HOVER,
            )
    chosen = (have.index == result.chosen).nonzero()[0]
    figure.add_scatter(
        x=place[chosen],
        y=have["risk"].to_numpy()[chosen],
        mode="markers",
        marker={"symbol": "circle-open", "size": 14, "color": RED, "line": {"width": 2}},
        hoverinfo="skip",
    )
    if isinstance(distribution, CategoricalDistribution):
        choices = [str(choice) for choice in distribution.choices]
        figure.update_xaxes(
            tickvals=list(range(len(choices))),
            ticktext=labels(choices, 14),
            range=[-0.6, len(choices) - 0.4],
        )
    elif isinstance(distribution, FloatDistribution | IntDistribution) and distribution.log:
        figure.update_xaxes(**log_axis(distribution.low, distribution.high, most_decades=4))
    log = _needs_log_scale(have["risk"])
    figure.update_xaxes(title=label(short_names(parameter_names(good))[name], 36))
    figure.update_yaxes(title="estimated risk", type="log" if log else "linear")
    figure.update_layout(showlegend=False)
    return figure


def parameter_names(trials: pd.DataFrame) -> list[str]:
    """Return the parameters that any trial has."""
    return [str(c).removeprefix("param_") for c in trials if str(c).startswith("param_")]


def _completed(trials: pd.DataFrame, chosen: int | None) -> pd.DataFrame:
    """Return the trials that have a risk, in their order; `chosen` must be one of them."""
    good = trials[trials["state"] == "COMPLETE"].sort_index()
    if chosen is not None and chosen not in good.index:
        raise SettingsError(
            f"chosen must be the number of a completed trial, got {chosen!r}; a fitted search has "
            "it as best_index_"
        )
    return good


def _needs_log_scale(risks: pd.Series) -> bool:
    """Whether a few very bad trials would hide the differences between the others."""
    return bool(risks.min() > 0 and risks.max() > 10 * risks.min())


def _places(values: pd.Series, distribution: BaseDistribution) -> NDArray[np.float64]:
    """Where the values lie on the axis: numbers as they are, choices by their position."""
    if isinstance(distribution, CategoricalDistribution):
        position = {repr(choice): place for place, choice in enumerate(distribution.choices)}
        return np.array([position.get(repr(v), np.nan) for v in values.tolist()])
    return values.to_numpy(dtype=float)


def _about_trials(rows: pd.DataFrame) -> list[str]:
    short = short_names(parameter_names(rows))
    texts = []
    for trial, row in zip(rows.index, rows_of_table(rows), strict=True):
        lines = [f"<b>trial {trial}</b>: {with_interval(row['risk'], (row['low'], row['high']))}"]
        lines += [
            f"{escape(shortened(shown, 40))} {escape(shortened(number(value), 40))}"
            for name, shown in short.items()
            # A parameter that this trial lacks is NaN.
            if (value := row[f"param_{name}"]) is not None and value == value
        ]
        texts.append("<br>".join(lines))
    return texts
