"""Figures of a search that answer to the mouse, with Plotly (``pip install shiftune[report]``).

They draw from the same tables as those of `shiftune.report.figures`. Whatever comes from the
user's file is escaped: Plotly reads labels as HTML.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.distributions import CategoricalDistribution

from shiftune.errors import ProblemError
from shiftune.report.tables import (
    completed,
    forest_scale,
    importances_of,
    needs_log_scale,
    overlap_of,
    shifts_of,
    source_weights,
    sources_with_intervals,
    weight_quantiles,
)
from shiftune.report.wording import figures, number, shortened, with_interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray
    from optuna.distributions import BaseDistribution

    from shiftune.risk.result import RiskEstimate
    from shiftune.search import ShiftSearch

# Each at least 3 to 1 against white paper and against a dark screen.
BLUE, GREY, RED = "#3b82d0", "#858b93", "#d1493f"
FADED = "rgba(133,139,147,0.45)"

TOLD = "%{customdata}<extra></extra>"
MOST_COLUMNS = 10
MOST_SITES_ACROSS = 10
SMALLEST_WEIGHT = 1e-3
ROW = 26  # pixels that a site needs


def forest(risk: RiskEstimate, level: float = 0.95) -> Any:
    """Draw what every source says about the target risk, and what they say together.

    The interactive twin of `shiftune.report.forest`: the area of a square is the source's share,
    sources that were left out are grey, with arrows where they lie off the scale.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> from shiftune.risk import estimate
    >>> risk = estimate([[1.0, 2.0, 3.0], [2.0, 2.5]], method="naive", names=["B", "<b>"])
    >>> forest(risk).layout.yaxis.ticktext
    ('target', '&lt;b&gt;', 'B')
    """
    go = _plotly()
    interval = risk.interval(level)
    table = sources_with_intervals(risk, level)[::-1]
    left, right = forest_scale(table, interval)
    margin = 0.05 * (right - left) or 0.05
    out = (table["left_out"] != "").to_numpy()
    value, low, high = (table[c].to_numpy(dtype=float) for c in ("estimate", "low", "high"))
    seen = np.clip(value, left - margin / 2, right + margin / 2)
    inside = seen == value
    place = np.arange(1, len(table) + 1)
    told = [_about_source(site, row) for site, row in zip(table.index, _rows(table), strict=True)]
    figure = _figure(height=80 + ROW * (len(table) + 1))
    for name, part, color in (("counts", ~out, BLUE), ("left out", out, GREY)):
        if not part.any():
            continue
        symbols = np.where(inside, "square", np.where(value < left, "arrow-left", "arrow-right"))
        sizes = np.where(inside, 5 + 17 * np.sqrt(table["share"].to_numpy(dtype=float)), 9)
        figure.add_scatter(
            x=seen[part],
            y=place[part],
            error_x=_bars(seen[part], low[part], high[part], color),
            mode="markers",
            marker={"symbol": symbols[part], "size": sizes[part], "color": color, "opacity": 1},
            customdata=[text for text, wanted in zip(told, part, strict=True) if wanted],
            hovertemplate=TOLD,
            name=name,
        )
    figure.add_scatter(
        x=[interval[0], risk.value, interval[1], risk.value, interval[0]],
        y=[0, 0.32, 0, -0.32, 0],
        mode="lines",
        line={"color": RED, "width": 1},
        fill="toself",
        fillcolor=RED,
        customdata=[f"together: {with_interval(risk.value, interval)}"] * 5,
        hovertemplate=TOLD,
        name="together",
        showlegend=False,
    )
    figure.add_vline(x=risk.value, line={"color": RED, "width": 1, "dash": "dot"})
    figure.update_xaxes(
        range=[left - margin, right + margin], title=f"estimated target risk ({level:.0%} interval)"
    )
    _name_rows(figure, ["target", *table.index])
    figure.update_layout(go.Layout(showlegend=bool(out.any()) and not out.all()))
    return figure


def history(trials: pd.DataFrame, *, chosen: int | None = None) -> Any:
    """Draw the estimated risk of every trial with its interval, and the best so far.

    The interactive twin of `shiftune.report.history`.

    Parameters
    ----------
    trials : DataFrame
        `ShiftSearch.trials_`.
    chosen : int, optional
        Number of the trial that won, `ShiftSearch.best_index_`.

    Returns
    -------
    plotly.graph_objects.Figure
    """
    good = completed(trials, chosen)
    figure = _figure(height=380)
    for tied, name, color in ((False, "worse", GREY), (True, "cannot be told apart", BLUE)):
        rows = good[good["tied_with_best"] == tied]
        if len(rows):
            figure.add_scatter(
                x=rows.index,
                y=rows["risk"],
                error_y=_bars(rows["risk"], rows["low"], rows["high"], color),
                mode="markers",
                marker={"color": color, "size": 7},
                customdata=_about_trials(rows),
                hovertemplate=TOLD,
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
            hovertemplate=TOLD,
            name="failed",
        )
        # An axis of their own, so that they lie at the bottom whatever the scale of the risk.
        figure.update_layout(yaxis2={"overlaying": "y", "range": [-0.03, 1], "visible": False})
    figure.update_xaxes(title="trial")
    log = needs_log_scale(good["risk"])
    figure.update_yaxes(
        title="estimated target risk", type="log" if log else "linear", selector={"anchor": "x"}
    )
    return figure


def weights(search: ShiftSearch) -> Any:
    """Draw how the weights of every source are spread, and how many rows they leave effective.

    Boxes hold the middle half of a source's rows, whiskers 90 % of them; the diamond is the mean
    weight, which is 1 where source and target overlap and the ratio is right.

    Returns
    -------
    plotly.graph_objects.Figure
    """
    return _weights(source_weights(search), overlap_of(search))


def _weights(by_source: Mapping[str, NDArray[np.float64]], table: pd.DataFrame) -> Any:
    names = list(by_source)[::-1]
    if not names:
        raise ProblemError("this search used no density ratios, so there are no weights to draw")
    spread = weight_quantiles([by_source[name] for name in names], names, SMALLEST_WEIGHT)
    table = table.loc[names]
    out = table["verdict"].str.startswith("left out")
    place = np.arange(1, len(names) + 1)
    figure = _figure(height=80 + ROW * len(names))
    for part, color in ((~out, BLUE), (out, GREY)):
        rows = spread[part]
        if len(rows):
            figure.add_box(
                y=place[part],
                q1=rows["q25"],
                median=rows["q50"],
                q3=rows["q75"],
                lowerfence=rows["q05"],
                upperfence=rows["q95"],
                orientation="h",
                width=0.5,
                line={"color": color, "width": 1.5},
                hoverinfo="skip",
                showlegend=False,
            )
    ess, n = table["ess"].to_numpy(dtype=float), table["n"].to_numpy()
    figure.add_scatter(
        x=spread["mean"],
        y=place,
        mode="markers",
        marker={"symbol": "diamond", "size": 9, "color": RED},
        customdata=[
            f"<b>{escape(name)}</b><br>mean weight {number(float(mean))}<br>"
            f"{number(float(e))} effective rows of {rows}<br>{escape(verdict)}"
            for name, mean, e, rows, verdict in zip(
                names, table["mean_weight"], ess, n, table["verdict"], strict=True
            )
        ],
        hovertemplate=TOLD,
        name="mean weight",
        showlegend=False,
    )
    for y, share in zip(place, ess / n, strict=True):
        figure.add_annotation(
            x=1, xref="paper", xanchor="left", xshift=6, y=y, text=f"{share:.0%}", showarrow=False
        )
    figure.add_annotation(
        x=1,
        xref="paper",
        xanchor="left",
        xshift=6,
        y=1,
        yref="paper",
        yanchor="bottom",
        text="ESS",
        showarrow=False,
    )
    figure.add_vline(x=1, line={"color": GREY, "width": 1, "dash": "dot"})
    figure.update_xaxes(title="weight of a row (logarithmic)", type="log", dtick=1)
    _name_rows(figure, names, first=1)
    figure.update_layout(margin={"r": 52})
    return figure


def shifts(search: ShiftSearch, most: int = MOST_COLUMNS) -> Any:
    """Draw which columns are distributed differently at the target, and at which source.

    Parameters
    ----------
    search : ShiftSearch
        Fitted.
    most : int
        So many columns, those that shift most.

    Returns
    -------
    plotly.graph_objects.Figure
    """
    return _shifts(shifts_of(search), most)


def _shifts(table: pd.DataFrame, most: int = MOST_COLUMNS) -> Any:
    shown = table.iloc[:most]
    # What there is more of goes down the page; a phone has no room for 30 sites side by side.
    few = shown.shape[1] <= MOST_SITES_ACROSS
    grid = (shown if few else shown.T)[::-1]
    told = [
        [_about_shift(*((down, across) if few else (across, down)), z) for across, z in row.items()]
        for down, row in grid.iterrows()
    ]
    figure = _figure(height=130 + ROW * len(grid))
    figure.add_heatmap(
        z=grid.to_numpy(),
        zmin=0,
        zmax=1,
        colorscale=[[0, "rgba(59,130,208,0.05)"], [1, "rgba(59,130,208,0.8)"]],
        xgap=2,
        ygap=2,
        showscale=False,
        text=[[_two_digits(z) for z in row] for row in grid.to_numpy()],
        texttemplate="%{text}",
        customdata=told,
        hovertemplate=TOLD,
    )
    _name_rows(figure, list(grid.index))
    across = _labels(grid.columns, 16)
    figure.update_xaxes(
        tickvals=list(range(len(across))),
        ticktext=across,
        tickangle=-60 if max(map(len, across)) > 3 else 0,
        showgrid=False,
    )
    figure.update_yaxes(range=[-0.5, len(grid) - 0.5])
    return figure


def _about_shift(column: str, site: str, distance: float) -> str:
    return f"<b>{escape(column)}</b> at {escape(site)}<br>distance to the target {distance:.2f}"


def _two_digits(distance: float) -> str:
    """Write a distance so that it fits into a small cell.

    >>> _two_digits(0.043), _two_digits(0.999)
    ('.04', '1')
    """
    return f"{distance:.2f}".removeprefix("0") if distance < 0.995 else "1"


def importances(search: ShiftSearch) -> Any:
    """Draw the share of every parameter in the differences between trials (functional ANOVA).

    Returns
    -------
    plotly.graph_objects.Figure
    """
    shares = importances_of(search.study_)
    if not shares:
        raise ProblemError(
            "importances need at least 10 completed trials that differ and two parameters that "
            "all of them have"
        )
    return _importances(shares)


def _importances(shares: Mapping[str, float]) -> Any:
    names = list(shares)[::-1]
    figure = _figure(height=70 + ROW * len(names))
    figure.add_bar(
        x=[shares[name] for name in names],
        y=list(range(len(names))),
        orientation="h",
        marker={"color": BLUE},
        customdata=[f"{escape(name)}: {shares[name]:.0%}" for name in names],
        hovertemplate=TOLD,
    )
    _name_rows(figure, [last_part(name) for name in names])
    figure.update_xaxes(title="share of the differences", tickformat=".0%")
    figure.update_layout(showlegend=False)
    return figure


def parameter_slice(search: ShiftSearch, name: str) -> Any:
    """Draw the risk of every trial against one of the parameters.

    Returns
    -------
    plotly.graph_objects.Figure
    """
    good = completed(search.trials_, search.best_index_)
    column = f"param_{name}"
    if column not in good:
        known = [c.removeprefix("param_") for c in good if c.startswith("param_")]
        raise ProblemError(f"no trial has a parameter {name!r}; there are {known}")
    tried = [t for t in search.study_.get_trials(deepcopy=False) if name in t.distributions]
    distribution = tried[0].distributions[name]
    have = good[[number_ in {t.number for t in tried} for number_ in good.index]]
    place = _places(have[column], distribution)
    figure = _figure(height=250)
    for tied, color in ((False, GREY), (True, BLUE)):
        part = (have["tied_with_best"] == tied).to_numpy()
        rows = have[part]
        if len(rows):
            figure.add_scatter(
                x=place[part],
                y=rows["risk"],
                mode="markers",
                marker={"color": color, "size": 7},
                customdata=_about_trials(rows),
                hovertemplate=TOLD,
            )
    chosen = (have.index == search.best_index_).nonzero()[0]
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
            ticktext=_labels(choices, 14),
            range=[-0.6, len(choices) - 0.4],
        )
    elif getattr(distribution, "log", False):
        decades = np.log10(distribution.high / distribution.low)
        figure.update_xaxes(type="log", dtick=1 if decades <= 4 else 2)
    log = needs_log_scale(have["risk"])
    figure.update_xaxes(title=_label(last_part(name), 36))
    figure.update_yaxes(title="estimated risk", type="log" if log else "linear")
    figure.update_layout(showlegend=False)
    return figure


def last_part(name: str) -> str:
    """Return a parameter's name without the steps of the pipeline it belongs to.

    >>> last_part("pipeline__lgbmregressor__num_leaves")
    'num_leaves'
    """
    return name.rpartition("__")[2]


def need_plotly() -> None:
    """Raise a ProblemError where these figures cannot be drawn, before hours of work are done."""
    _plotly()


def _plotly() -> Any:
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise ProblemError(
            "interactive figures need Plotly; pip install 'shiftune[report]'"
        ) from error
    return go


def _figure(height: int) -> Any:
    return _plotly().Figure(
        layout={
            "height": height,
            "margin": {"l": 8, "r": 12, "t": 34, "b": 52},
            "hoverlabel": {"align": "left"},
            "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
            "xaxis": {"zeroline": False, "automargin": True, "title": {"standoff": 8}},
            "yaxis": {"zeroline": False, "automargin": True, "title": {"standoff": 8}},
        }
    )


def _bars(value: Any, low: Any, high: Any, color: str) -> dict[str, Any]:
    middle, ends = np.asarray(value), (np.asarray(low), np.asarray(high))
    return {
        "type": "data",
        "symmetric": False,
        "array": np.maximum(ends[1] - middle, 0),
        "arrayminus": np.maximum(middle - ends[0], 0),
        "color": color,
        "thickness": 1.2,
        "width": 0,
    }


def _name_rows(figure: Any, names: Sequence[str], first: int = 0) -> None:
    # Positions and texts, not Plotly's categories: a site called "2024" would become a number.
    figure.update_yaxes(
        tickvals=list(range(first, first + len(names))),
        ticktext=_labels(names),
        range=[first - 0.8, first + len(names) - 0.2],
        showgrid=False,
    )


def _labels(names: Iterable[str], most: int = 24) -> list[str]:
    return [_label(name, most) for name in names]


def _label(name: str, most: int = 24) -> str:
    return escape(shortened(str(name), most))


def _places(values: pd.Series, distribution: BaseDistribution) -> NDArray[np.float64]:
    """Where the values lie on the axis: numbers as they are, choices by their position."""
    if isinstance(distribution, CategoricalDistribution):
        position = {repr(choice): place for place, choice in enumerate(distribution.choices)}
        return np.array([position.get(repr(v), np.nan) for v in values.tolist()])
    return values.to_numpy(dtype=float)


def _about_source(site: str, row: Mapping[str, Any]) -> str:
    said = f"<b>{escape(site)}</b><br>" + with_interval(row["estimate"], (row["low"], row["high"]))
    said += f"<br>share {row['share']:.0%}, {row['n']} rows, {number(row['ess'])} effective"
    return said + (f"<br>left out: {escape(row['left_out'])}" if row["left_out"] else "")


def _about_trials(rows: pd.DataFrame) -> list[str]:
    params = [column for column in rows if column.startswith("param_")]
    texts = []
    for trial, row in zip(rows.index, _rows(rows), strict=True):
        value, low, high = figures(row["risk"], row["low"], row["high"])
        lines = [f"<b>trial {trial}</b>: {value} ({low} to {high})"]
        lines += [
            f"{escape(last_part(shortened(p.removeprefix('param_'), 60)))} "
            f"{escape(shortened(number(row[p]), 40))}"
            for p in params
            if row[p] is not None and row[p] == row[p]  # a parameter that this trial lacks is NaN
        ]
        texts.append("<br>".join(lines))
    return texts


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(k): v for k, v in row.items()} for row in table.to_dict("records")]
