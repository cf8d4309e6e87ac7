"""Figures of a result, with Plotly (the extra ``report``).

Every name that comes from the user's file is escaped: Plotly reads labels as HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from shiftune._wording import how_to_install, number, percent, short_names, shortened, with_interval
from shiftune.errors import MissingPackageError, SettingsError
from shiftune.ratio._overlap import is_doubtful
from shiftune.risk._result import RiskEstimate
from shiftune.search._result import SearchResult
from shiftune.search._trial import finished_trials

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from shiftune.search._result import Overlap

__all__ = [
    "calibration",
    "decision",
    "forest",
    "history",
    "importances",
    "parameter_slice",
    "shifts",
    "weights",
]

# Each at least 3 to 1 against white paper and against a dark screen.
BLUE, _GREY, _RED = "#3b82d0", "#858b93", "#d1493f"
_BAND = "rgba(59, 130, 208, 0.2)"
# Users' names go into the data and not into a template, where %{...} has a meaning.
_HOVER = "%{customdata}<extra></extra>"
# Opacity of cells whose value is 0, and 1.
HEAT = (0.05, 0.8)
_ROW = 26  # height of a site's row in pixels
_SMALLEST_WEIGHT = 1e-3  # on a logarithmic axis
_MOST_COLUMNS, MOST_CURVES = 10, 40
MOST_SITES, _MOST_SITES_ACROSS = 24, 10

# ---------------------------------------------------------------- what all figures use


def plotly() -> Any:
    """Return Plotly's graph objects."""
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise MissingPackageError(f"figures need Plotly; {how_to_install('report')}") from error
    return go


def canvas(height: int) -> Any:
    """Return an empty figure of a height in pixels, as wide as the page lets it be."""
    return plotly().Figure(
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
    """Return the error bars of values with intervals."""
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


def name_rows(figure: Any, names: Sequence[str], first: int = 0) -> None:
    """Write names at the rows `first`, `first` + 1, ... from the bottom up."""
    # Positions and texts, not Plotly's categories: a site called "2024" would become a number.
    figure.update_yaxes(
        tickvals=list(range(first, first + len(names))),
        ticktext=[_label(name) for name in names],
        range=[first - 0.8, first + len(names) - 0.2],
        showgrid=False,
    )


def outermost(table: pd.DataFrame, column: str, most: int) -> pd.DataFrame:
    """Return all rows or, of more, those with the lowest and highest values of a column."""
    if len(table) <= most:
        return table
    ordered = table[column].sort_values(kind="stable").index
    kept = [*ordered[: most // 2], *ordered[len(ordered) - most // 2 :]]
    return table.loc[kept]


def log_axis(low: float, high: float, most_decades: int = 6) -> dict[str, Any]:
    """Return a logarithmic axis with numbers written in full: 20, 50, 100 and not 2, 5, 100."""
    first, last = np.floor(np.log10(low)), np.ceil(np.log10(high))
    steps = (1, 2, 5) if last - first <= 2 or high / low <= 100 else (1,)
    apart = 1 if last - first <= most_decades else 2
    powers = np.arange(first, last + 1, apart)
    ticks = [float(f"{step}e{power:.0f}") for power in powers for step in steps]
    shown = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
    return {"type": "log", "tickvals": shown, "ticktext": [number(tick) for tick in shown]}


def _label(name: str, most: int = 24) -> str:
    """Return a name so that it fits on an axis and Plotly shows it as it is written."""
    return escape(shortened(str(name), most))


# ---------------------------------------------------------------- probabilities


def calibration(curve: pd.DataFrame, sites: Mapping[str, pd.DataFrame] | None = None) -> Figure:
    """Plot observed shares against predicted probabilities, with the band for a new site.

    Parameters
    ----------
    curve : DataFrame
        Of `ShiftSearch.calibration_curve`.
    sites : mapping from names to such tables, optional
        Curves of the sources, as thin lines; of the first 40.
    """
    figure = canvas(height=380)
    for name, own in list((sites or {}).items())[:MOST_CURVES]:
        figure.add_scatter(
            x=own.index,
            y=own["observed"],
            mode="lines",
            line={"color": _GREY, "width": 0.8},
            customdata=[_label(name)] * len(own),
            hovertemplate=_HOVER,
            showlegend=False,
        )
    _with_band(figure, curve, "observed", "target")
    ends = [0, max(1e-3, float(curve.index.max()), float(curve["observed"].max()))]
    figure.add_scatter(
        x=ends, y=ends, mode="lines", line={"color": _RED, "width": 1, "dash": "dot"}, name="ideal"
    )
    figure.update_xaxes(title="predicted probability")
    figure.update_yaxes(title="observed share", rangemode="tozero")
    return figure


def decision(curve: pd.DataFrame) -> Figure:
    """Plot net benefit by threshold: of the predictions, of acting on all rows and on none.

    Parameters
    ----------
    curve : DataFrame
        Of `ShiftSearch.decision_curve`.
    """
    figure = canvas(height=340)
    _with_band(figure, curve, "net_benefit", "predictions")
    figure.add_scatter(
        x=curve.index,
        y=curve["all"],
        mode="lines",
        line={"color": _GREY, "width": 1.2},
        name="act on all",
    )
    figure.add_hline(y=0, line={"color": _RED, "width": 1, "dash": "dot"})
    top = float(curve[["high", "all"]].max().max())
    figure.update_xaxes(title="threshold: risk at which one would just act")
    figure.update_yaxes(title="net benefit per row")
    if top > 0:  # not where it is unknown, or acting always harms
        figure.update_yaxes(range=[-0.25 * top, 1.05 * top])
    return figure


def _with_band(figure: Any, curve: pd.DataFrame, column: str, name: str) -> None:
    """Draw a curve and its interval."""
    around = [*curve.index, *curve.index[::-1]]
    figure.add_scatter(
        x=around,
        y=[*curve["high"], *curve["low"][::-1]],
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=_BAND,
        hoverinfo="skip",
        name="interval for a new site",
    )
    rows = zip(curve.index, curve[column], curve["low"], curve["high"], strict=True)
    figure.add_scatter(
        x=curve.index,
        y=curve[column],
        mode="lines",
        line={"color": BLUE, "width": 2.5},
        customdata=[
            f"at {number(float(x), 2)}: {with_interval(value, (low, high))}"
            for x, value, low, high in rows
        ],
        hovertemplate=_HOVER,
        name=name,
    )


# ---------------------------------------------------------------- sites


def forest(risk: RiskEstimate, level: float = 0.95, most: int = MOST_SITES) -> Figure:
    """Plot every source's estimate of the target risk, and the combined estimate.

    Of more than `most` sources, the lowest and highest estimates are shown.

    The area of a square is the source's share. Sources that were left out are grey, with arrows
    where they lie off the scale. The interval of a source is from Student's t with one degree of
    freedom less than it has effective rows (at least 1).

    >>> from shiftune.risk import estimate
    >>> risk = estimate([[1.0, 2.0, 3.0], [2.0, 2.5]], method="naive", names=["B", "<b>"])
    >>> forest(risk).layout.yaxis.ticktext
    ('all sources', '&lt;b&gt;', 'B')
    """
    interval = risk.interval(level)
    table = outermost(risk.sources_with_intervals(level), "estimate", most)[::-1]
    left, right = _forest_scale(table, interval)
    margin = 0.05 * (right - left) or 0.05
    # An estimate that fell back may use sources that the guard would leave out.
    out = ((table["left_out"] != "") & (table["share"] == 0)).to_numpy()
    value, low, high = (table[c].to_numpy(dtype=float) for c in ("estimate", "low", "high"))
    seen = np.clip(value, left - margin / 2, right + margin / 2)
    inside = seen == value
    place = np.arange(1, len(table) + 1)
    texts = [
        _about_source(site, row)
        for site, row in zip(table.index, table.to_dict("records"), strict=True)
    ]
    figure = canvas(height=80 + _ROW * (len(table) + 1))
    for name, part, color in (("used", ~out, BLUE), ("left out", out, _GREY)):
        if not part.any():
            continue
        symbols = np.where(inside, "square", np.where(value < left, "arrow-left", "arrow-right"))
        sizes = np.where(inside, 5 + 17 * np.sqrt(table["share"].to_numpy(dtype=float)), 9)
        figure.add_scatter(
            x=seen[part],
            y=place[part],
            error_x=_bars(seen[part], low[part], high[part], color),
            mode="markers",
            marker={
                "symbol": symbols[part],
                "size": sizes[part],
                "color": color,
                "opacity": 1,
                "line": {"width": 0},
            },
            customdata=[text for text, wanted in zip(texts, part, strict=True) if wanted],
            hovertemplate=_HOVER,
            name=name,
        )
    figure.add_scatter(
        x=[interval[0], risk.value, interval[1], risk.value, interval[0]],
        y=[0, 0.32, 0, -0.32, 0],
        mode="lines",
        line={"color": _RED, "width": 1},
        fill="toself",
        fillcolor=_RED,
        customdata=[f"all sources: {with_interval(risk.value, interval)}"] * 5,
        hovertemplate=_HOVER,
        name="all sources",
        showlegend=False,
    )
    figure.add_vline(x=risk.value, line={"color": _RED, "width": 1, "dash": "dot"})
    figure.update_xaxes(
        range=[left - margin, right + margin],
        title=f"estimated target risk ({percent(level)} interval)",
    )
    name_rows(figure, ["all sources", *table.index])
    figure.update_layout(showlegend=bool(out.any()) and not out.all())
    return figure


def weights(overlap: Overlap, most: int = MOST_SITES) -> Figure:
    """Plot the distribution of every source's weights, and its effective share of rows.

    Of more than `most` sources, those with the smallest and largest shares are shown.

    Boxes hold the middle half of a source's rows, whiskers 90 % of them; the diamond is the mean
    weight, which is 1 where source and target overlap and the ratio is right.

    Parameters
    ----------
    overlap : Overlap
        ``search.result_.overlap``. Where the risk is estimated without weights, they are those of
        ``problem.diagnose()``.
    """
    names = list(outermost(overlap.table, "ess_share", most).index)[::-1]
    spread = _weight_quantiles({name: overlap.weights[name] for name in names})
    table = overlap.table.loc[names]
    out = is_doubtful(table)
    place = np.arange(1, len(names) + 1)
    figure = canvas(height=80 + _ROW * len(names))
    for part, color in ((~out, BLUE), (out, _GREY)):
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
        marker={"symbol": "diamond", "size": 9, "color": _RED},
        customdata=[
            f"<b>{escape(name)}</b><br>mean weight {number(float(mean))}<br>"
            f"{number(float(e))} effective rows of {rows}<br>{escape(verdict)}"
            for name, mean, e, rows, verdict in zip(
                names, table["mean_weight"], ess, n, table["verdict"], strict=True
            )
        ],
        hovertemplate=_HOVER,
        name="mean weight",
        showlegend=False,
    )
    for y, share in zip(place, ess / n, strict=True):
        figure.add_annotation(
            x=1, xref="paper", xanchor="left", xshift=6, y=y, text=percent(share), showarrow=False
        )
    figure.add_annotation(
        x=1,
        xref="paper",
        xanchor="left",
        xshift=6,
        y=1,
        yref="paper",
        yanchor="bottom",
        text="effective",
        showarrow=False,
    )
    figure.add_vline(x=1, line={"color": _GREY, "width": 1, "dash": "dot"})
    ends = spread[["q05", "q95", "mean"]].to_numpy()
    figure.update_xaxes(title="weight of a row (logarithmic)", **log_axis(ends.min(), ends.max()))
    name_rows(figure, names, first=1)
    figure.update_layout(margin={"r": 64})
    return figure


def shifts(table: pd.DataFrame, most: int = _MOST_COLUMNS, most_sites: int = MOST_SITES) -> Figure:
    """Plot the columns whose distribution differs most between the sources and the target.

    Parameters
    ----------
    table : DataFrame
        Of `shiftune.ratio.column_shifts`; ``search.result_.shifts``.
    most : int
        Number of columns to show.
    most_sites : int
        Number of sites to show: those that differ most.
    """
    farthest = table.mean().nlargest(most_sites).index
    shown = table.loc[:, table.columns.isin(farthest)].iloc[:most]
    # The longer list goes down the page; a phone has no room for 30 sites side by side.
    few = shown.shape[1] <= _MOST_SITES_ACROSS
    grid = (shown if few else shown.T)[::-1]
    texts = [
        [_about_shift(*((down, across) if few else (across, down)), z) for across, z in row.items()]
        for down, row in grid.iterrows()
    ]
    figure = canvas(height=130 + _ROW * len(grid))
    figure.add_heatmap(
        z=grid.to_numpy(),
        zmin=0,
        zmax=1,
        colorscale=[[end, f"rgba(59,130,208,{opacity})"] for end, opacity in enumerate(HEAT)],
        xgap=2,
        ygap=2,
        showscale=False,
        text=[[_two_digits(z) for z in row] for row in grid.to_numpy()],
        texttemplate="%{text}",
        customdata=texts,
        hovertemplate=_HOVER,
    )
    name_rows(figure, list(grid.index))
    across = [_label(name, 16) for name in grid.columns]
    figure.update_xaxes(
        tickvals=list(range(len(across))),
        ticktext=across,
        tickangle=-60 if max(map(len, across)) > 3 else 0,
        range=[-0.5, len(across) - 0.5],
        showgrid=False,
    )
    figure.update_yaxes(range=[-0.5, len(grid) - 0.5])
    return figure


def _forest_scale(sources: pd.DataFrame, interval: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of a forest plot's axis, without margin.

    A source that was left out may be far off; the scale is that of the others.
    """
    out = sources["left_out"] != ""
    used = sources if out.all() else sources[~out]
    return min(interval[0], used["low"].min()), max(interval[1], used["high"].max())


def _weight_quantiles(weights: Mapping[str, NDArray[np.float64]]) -> pd.DataFrame:
    """Mean and quantiles of every source's weights, which a logarithmic axis can show."""
    rows = {
        name: [
            max(float(w.mean()), _SMALLEST_WEIGHT),
            *np.quantile(np.maximum(w, _SMALLEST_WEIGHT), [0.05, 0.25, 0.5, 0.75, 0.95]),
        ]
        for name, w in weights.items()
    }
    columns = ["mean", "q05", "q25", "q50", "q75", "q95"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def _about_source(site: str, row: Mapping[Any, Any]) -> str:
    text = f"<b>{escape(site)}</b><br>" + with_interval(row["estimate"], (row["low"], row["high"]))
    text += f"<br>share {percent(row['share'])}, {row['n']} rows, {number(row['ess'])} effective"
    return text + (f"<br>left out: {escape(row['left_out'])}" if row["left_out"] else "")


def _about_shift(column: object, site: object, distance: float) -> str:
    where = f"<b>{escape(str(column))}</b> at {escape(str(site))}"
    return f"{where}<br>distance to the target {distance:.2f}"


def _two_digits(distance: float) -> str:
    """Write a distance so that it fits into a small cell: .04, 1."""
    return f"{distance:.2f}".removeprefix("0") if distance < 0.995 else "1"


# ---------------------------------------------------------------- trials


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
    for tied, name, color in ((False, "worse", _GREY), (True, "tied with the best", BLUE)):
        rows = good[good["tied_with_best"] == tied]
        if len(rows):
            figure.add_scatter(
                x=rows.index,
                y=rows["risk"],
                error_y=_bars(rows["risk"], rows["low"], rows["high"], color),
                mode="markers",
                marker={"color": color, "size": 7},
                customdata=_about_trials(rows),
                hovertemplate=_HOVER,
                name=name,
            )
    figure.add_scatter(
        x=good.index,
        y=good["risk"].cummin(),
        mode="lines",
        line={"color": _RED, "width": 1.5, "shape": "hv"},
        hoverinfo="skip",
        name="best so far",
    )
    if chosen is not None:
        figure.add_scatter(
            x=[chosen],
            y=[good["risk"].to_dict()[chosen]],
            mode="markers",
            marker={"symbol": "circle-open", "size": 16, "color": _RED, "line": {"width": 2}},
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
            marker={"symbol": "x", "color": _RED, "size": 7},
            customdata=[f"trial {n} failed" for n in failed],
            hovertemplate=_HOVER,
            name="failed",
        )
        # An axis of their own, so that they lie at the bottom whatever the scale of the risk.
        figure.update_layout(yaxis2={"overlaying": "y", "range": [-0.03, 1], "visible": False})
    figure.update_xaxes(title="trial")
    figure.layout.yaxis.update(title="estimated target risk", type=_scale(good["risk"]))
    return figure


def importances(shares: Mapping[str, float]) -> Figure:
    """Plot the share of every parameter in the differences between trials (functional ANOVA)."""
    if not shares:
        raise SettingsError(
            "importances need at least 10 completed trials that differ and two parameters that "
            "all of them have"
        )
    names = list(shares)[::-1]
    figure = canvas(height=70 + _ROW * len(names))
    figure.add_bar(
        x=[shares[name] for name in names],
        y=list(range(len(names))),
        orientation="h",
        marker={"color": BLUE},
        customdata=[f"{escape(name)}: {percent(shares[name])}" for name in names],
        hovertemplate=_HOVER,
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
    for tied, color in ((False, _GREY), (True, BLUE)):
        part = (have["tied_with_best"] == tied).to_numpy(bool)
        rows = have[part]
        if len(rows):
            figure.add_scatter(
                x=place[part],
                y=rows["risk"],
                mode="markers",
                marker={"color": color, "size": 7},
                customdata=_about_trials(rows),
                hovertemplate=_HOVER,
            )
    chosen = (have.index == result.chosen).nonzero()[0]
    figure.add_scatter(
        x=place[chosen],
        y=have["risk"].to_numpy()[chosen],
        mode="markers",
        marker={"symbol": "circle-open", "size": 14, "color": _RED, "line": {"width": 2}},
        hoverinfo="skip",
    )
    if isinstance(distribution, CategoricalDistribution):
        choices = [str(choice) for choice in distribution.choices]
        figure.update_xaxes(
            tickvals=list(range(len(choices))),
            ticktext=[_label(choice, 14) for choice in choices],
            range=[-0.6, len(choices) - 0.4],
        )
    elif isinstance(distribution, FloatDistribution | IntDistribution) and distribution.log:
        figure.update_xaxes(**log_axis(distribution.low, distribution.high, most_decades=4))
    figure.update_xaxes(title=_label(short_names(parameter_names(good))[name], 36))
    figure.update_yaxes(title="estimated risk", type=_scale(have["risk"]))
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


def _scale(risks: pd.Series) -> str:
    # A few very bad trials would hide the differences between the others.
    return "log" if risks.min() > 0 and risks.max() > 10 * risks.min() else "linear"


def _places(values: pd.Series, distribution: BaseDistribution) -> NDArray[np.float64]:
    """Where the values lie on the axis: numbers as they are, choices by their position."""
    if isinstance(distribution, CategoricalDistribution):
        position = {repr(choice): place for place, choice in enumerate(distribution.choices)}
        return np.array([position.get(repr(v), np.nan) for v in values.tolist()])
    return values.to_numpy(dtype=float)


def _about_trials(rows: pd.DataFrame) -> list[str]:
    short = short_names(parameter_names(rows))
    texts = []
    for trial, row in zip(rows.index, rows.to_dict("records"), strict=True):
        lines = [f"<b>trial {trial}</b>: {with_interval(row['risk'], (row['low'], row['high']))}"]
        lines += [
            f"{escape(shortened(shown, 40))} {escape(shortened(number(value), 40))}"
            for name, shown in short.items()
            # A parameter that this trial lacks is NaN.
            if (value := row[f"param_{name}"]) is not None and value == value
        ]
        texts.append("<br>".join(lines))
    return texts
