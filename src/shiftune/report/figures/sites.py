"""Figures of the sites: their estimates, and how they differ from the target."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.ratio.overlap import is_doubtful
from shiftune.report.figures.canvas import (
    BLUE,
    GREY,
    HEAT,
    HOVER,
    RED,
    ROW,
    bars,
    canvas,
    labels,
    log_axis,
    name_rows,
    rows_of_table,
)
from shiftune.risk.result import RiskEstimate
from shiftune.wording import number, percent, with_interval

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from shiftune.search.result import Overlap

MOST_COLUMNS = 10
MOST_SITES = 24
MOST_SITES_ACROSS = 10
SMALLEST_WEIGHT = 1e-3


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
    table = outermost_sites(risk, level, most)[::-1]
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
        for site, row in zip(table.index, rows_of_table(table), strict=True)
    ]
    figure = canvas(height=80 + ROW * (len(table) + 1))
    for name, part, color in (("used", ~out, BLUE), ("left out", out, GREY)):
        if not part.any():
            continue
        symbols = np.where(inside, "square", np.where(value < left, "arrow-left", "arrow-right"))
        sizes = np.where(inside, 5 + 17 * np.sqrt(table["share"].to_numpy(dtype=float)), 9)
        figure.add_scatter(
            x=seen[part],
            y=place[part],
            error_x=bars(seen[part], low[part], high[part], color),
            mode="markers",
            marker={
                "symbol": symbols[part],
                "size": sizes[part],
                "color": color,
                "opacity": 1,
                "line": {"width": 0},
            },
            customdata=[text for text, wanted in zip(texts, part, strict=True) if wanted],
            hovertemplate=HOVER,
            name=name,
        )
    figure.add_scatter(
        x=[interval[0], risk.value, interval[1], risk.value, interval[0]],
        y=[0, 0.32, 0, -0.32, 0],
        mode="lines",
        line={"color": RED, "width": 1},
        fill="toself",
        fillcolor=RED,
        customdata=[f"all sources: {with_interval(risk.value, interval)}"] * 5,
        hovertemplate=HOVER,
        name="all sources",
        showlegend=False,
    )
    figure.add_vline(x=risk.value, line={"color": RED, "width": 1, "dash": "dot"})
    figure.update_xaxes(
        range=[left - margin, right + margin],
        title=f"estimated target risk ({percent(level)} interval)",
    )
    name_rows(figure, ["all sources", *table.index])
    figure.update_layout(showlegend=bool(out.any()) and not out.all())
    return figure


def outermost_sites(
    risk: RiskEstimate, level: float = 0.95, most: int = MOST_SITES
) -> pd.DataFrame:
    """Return the sources that `forest` shows: of many, those with the lowest and highest estimates.

    The columns are those of `RiskEstimate.sources_with_intervals`.
    """
    return _outermost(risk.sources_with_intervals(level), "estimate", most)


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
    names = list(_outermost(overlap.table, "ess_share", most).index)[::-1]
    spread = _weight_quantiles({name: overlap.weights[name] for name in names})
    table = overlap.table.loc[names]
    out = is_doubtful(table)
    place = np.arange(1, len(names) + 1)
    figure = canvas(height=80 + ROW * len(names))
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
        hovertemplate=HOVER,
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
    figure.add_vline(x=1, line={"color": GREY, "width": 1, "dash": "dot"})
    ends = spread[["q05", "q95", "mean"]].to_numpy()
    figure.update_xaxes(title="weight of a row (logarithmic)", **log_axis(ends.min(), ends.max()))
    name_rows(figure, names, first=1)
    figure.update_layout(margin={"r": 64})
    return figure


def shifts(table: pd.DataFrame, most: int = MOST_COLUMNS, most_sites: int = MOST_SITES) -> Figure:
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
    few = shown.shape[1] <= MOST_SITES_ACROSS
    grid = (shown if few else shown.T)[::-1]
    texts = [
        [_about_shift(*((down, across) if few else (across, down)), z) for across, z in row.items()]
        for down, row in grid.iterrows()
    ]
    figure = canvas(height=130 + ROW * len(grid))
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
        hovertemplate=HOVER,
    )
    name_rows(figure, list(grid.index))
    across = labels(grid.columns, 16)
    figure.update_xaxes(
        tickvals=list(range(len(across))),
        ticktext=across,
        tickangle=-60 if max(map(len, across)) > 3 else 0,
        range=[-0.5, len(across) - 0.5],
        showgrid=False,
    )
    figure.update_yaxes(range=[-0.5, len(grid) - 0.5])
    return figure


def _outermost(table: pd.DataFrame, column: str, most: int) -> pd.DataFrame:
    """Return the rows with the lowest and highest values of a column, by these if there are others.

    >>> _outermost(pd.DataFrame({"x": [3, 1, 2, 4]}, index=list("abcd")), "x", 2).index.to_list()
    ['b', 'd']
    """
    if len(table) <= most:
        return table
    ordered = table[column].sort_values(kind="stable").index
    kept = [*ordered[: most // 2], *ordered[len(ordered) - most // 2 :]]
    return table.loc[kept]


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
            max(float(w.mean()), SMALLEST_WEIGHT),
            *np.quantile(np.maximum(w, SMALLEST_WEIGHT), [0.05, 0.25, 0.5, 0.75, 0.95]),
        ]
        for name, w in weights.items()
    }
    columns = ["mean", "q05", "q25", "q50", "q75", "q95"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def _about_source(site: str, row: Mapping[str, Any]) -> str:
    text = f"<b>{escape(site)}</b><br>" + with_interval(row["estimate"], (row["low"], row["high"]))
    text += f"<br>share {percent(row['share'])}, {row['n']} rows, {number(row['ess'])} effective"
    return text + (f"<br>left out: {escape(row['left_out'])}" if row["left_out"] else "")


def _about_shift(column: object, site: object, distance: float) -> str:
    where = f"<b>{escape(str(column))}</b> at {escape(str(site))}"
    return f"{where}<br>distance to the target {distance:.2f}"


def _two_digits(distance: float) -> str:
    """Write a distance so that it fits into a small cell.

    >>> _two_digits(0.043), _two_digits(0.999)
    ('.04', '1')
    """
    return f"{distance:.2f}".removeprefix("0") if distance < 0.995 else "1"
