"""Figures of a result, with Matplotlib (the extra ``report``).

Names come from the user's file: they are text, not mathematics, even with two dollar signs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from shiftune._wording import (
    MOST_COLUMNS,
    MOST_SITES,
    how_to_install,
    number,
    percent,
    shortened,
    written_like,
)
from shiftune.errors import MissingPackageError, SettingsError
from shiftune.ratio._overlap import is_doubtful
from shiftune.risk._result import RiskEstimate

try:
    from matplotlib import style
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap, to_rgba
    from matplotlib.figure import Figure
    from matplotlib.ticker import Formatter, MaxNLocator, NullLocator
except ImportError as error:
    raise MissingPackageError(f"figures need Matplotlib; {how_to_install('report')}") from error

if TYPE_CHECKING:
    from shiftune.search._result import Overlap

__all__ = [
    "calibration",
    "decision",
    "expected",
    "forest",
    "history",
    "importance",
    "shifts",
    "targets",
    "weights",
]

# Each at least 3 to 1 against white paper and against a dark screen.
_BLUE, _GREY, _RED, _AMBER = "#3b82d0", "#858b93", "#d1493f", "#b07d10"
# What a page in the dark has in other colours: texts, titles, the grid and the ground.
TEXT, SOFT, LINE, GROUND = "#24292f", "#57606a", "#dde1e6", "#ffffff"
_STYLE = {
    "font.sans-serif": ["DejaVu Sans"],  # the one that Matplotlib brings
    "font.size": 9,
    "text.parse_math": False,
    "text.color": TEXT,
    "xtick.labelcolor": TEXT,
    "ytick.labelcolor": TEXT,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "axes.labelcolor": SOFT,
    "axes.labelsize": 9,
    "axes.titlecolor": SOFT,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "xaxis.labellocation": "right",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    **{f"axes.spines.{side}": False for side in ("left", "right", "top", "bottom")},
    "legend.frameon": False,
    "legend.borderpad": 0,
    "legend.columnspacing": 1.2,
    "legend.handlelength": 1.4,
    "legend.handletextpad": 0.5,
}
_ROW = 0.26  # height of a site's row in inches
_SMALLEST_WEIGHT = 1e-3  # on a logarithmic axis
_MOST_COLUMNS, MOST_CURVES = 10, 40
_MOST_SITES_ACROSS = 10
_MOST_LETTERS_ACROSS = 40  # on a phone

# ---------------------------------------------------------------- what all figures use


class _Figure(Figure):
    """Figure that a notebook shows even where nothing has imported pyplot."""

    def _repr_png_(self) -> bytes:
        stream = BytesIO()
        self.savefig(stream, format="png")
        return stream.getvalue()


class _Numbers(Formatter):
    """Ticks as the page writes numbers: 0.25, 12,000, 3 billion."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return number(x)

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        if not len(values):
            return []
        top, step = np.abs(values).max(), np.ptp(values) / max(len(values) - 1, 1)
        # An interval of ten steps has the decimals of a step. The last tick that is seen has the
        # unit; a phone has no room for more.
        axis: Any = self.axis
        last = max((x for x in values if x <= axis.get_view_interval()[1]), default=top)
        texts = [written_like(x, (top - 10.01 * step, top)) if x else "0" for x in values]
        return [t if x == last else t.partition(" ")[0] for x, t in zip(values, texts, strict=True)]


def settings(more: Mapping[str, Any] = MappingProxyType({})) -> AbstractContextManager[None]:
    """Set what figures are drawn with; the user's settings have no influence, and come back."""
    return style.context(["default", {**_STYLE, **more}])


@contextmanager
def _canvas(height: float, width: float = 8.2) -> Iterator[tuple[Figure, Axes]]:
    """Give an empty figure of a size in inches, and its axes, to draw with our settings."""
    with settings():
        figure = _Figure((width, height), layout="constrained")
        axes = figure.subplots()
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
            axis.set_major_formatter(_Numbers())
        yield figure, axes


def _name_rows(axes: Axes, names: Sequence[str], first: int = 0) -> None:
    """Write names at the rows `first`, `first` + 1, ... from the bottom up."""
    places = np.arange(first, first + len(names))
    axes.set_yticks(places, [_label(name) for name in names])
    axes.set_ylim(first - 0.8, first + len(names) - 0.2)
    axes.yaxis.grid(False)


def _log_scale(axes: Axes, which: str, most_decades: int = 6) -> None:
    """Make an axis logarithmic, with numbers in full: 20, 50, 100 and not 2, 5, 100."""
    axes.set(**{f"{which}scale": "log"})
    axis = getattr(axes, f"{which}axis")
    low, high = getattr(axes, f"get_{which}lim")()
    first, last = np.floor(np.log10(low)), np.ceil(np.log10(high))
    steps: Sequence[float] = (1,) if high / low > 100 else (1, 2, 5)
    if high / low < 5:
        steps = (1, 1.5, 2, 3, 4, 5, 6, 8)
    powers = np.arange(first, last + 1, 1 if np.log10(high / low) <= most_decades else 2)
    ticks = [float(f"{step}e{power:.0f}") for power in powers for step in steps]
    shown = [tick for tick in ticks if low <= tick <= high]
    axis.set_ticks(shown, [number(tick) for tick in shown])
    axis.set_minor_locator(NullLocator())


def _errors(value: ArrayLike, low: ArrayLike, high: ArrayLike) -> list[NDArray[np.float64]]:
    """Return how far intervals reach below and above their values."""
    middle = np.asarray(value, dtype=float)
    return [np.maximum(middle - low, 0), np.maximum(high - middle, 0)]


def _label(name: object, most: int = 22) -> str:
    """Return a name in one line, so that it fits on an axis."""
    text = "".join(letter if letter.isprintable() else " " for letter in str(name))
    wide = sum(east_asian_width(letter) in "WF" for letter in text)
    return shortened(text, most // 2 if 2 * wide > len(text) else most)


# ---------------------------------------------------------------- the result


def expected(picture: Mapping[str, Any]) -> Figure:
    """Plot what to expect at the target, beside every site, a constant and plain cross-validation.

    Parameters
    ----------
    picture : mapping
        ``search.summary()["picture"]``.
    """
    rows = picture["rows"][::-1]
    marks = {"expected": ("D", _RED), "sites": ("o", _BLUE)}
    with _canvas(height=0.6 + 1.6 * _ROW * len(rows)) as (figure, axes):
        for place, row in enumerate(rows):
            marker, color = marks.get(row["kind"], ("|", TEXT))
            if row["kind"] == "expected" and row["low"] is not None:
                axes.hlines(place, row["low"], row["high"], colors=color, linewidth=2)
            if row["kind"] == "constant":
                axes.axvline(row["values"][0], linestyle=":", color=_GREY, linewidth=1)
            values, filled = row["values"], row["kind"] == "expected"
            axes.plot(
                values,
                [place] * len(values),
                marker,
                color=color,
                markersize=12 if marker == "|" else 7,
                markeredgewidth=2 if marker == "|" else 1,
                markerfacecolor=color if filled else "none",
            )
        names = [f"{_label(row['name'], 34)}\n{_label(row['says'], 40)}" for row in rows]
        axes.set_yticks(range(len(rows)), names)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.yaxis.grid(False)
        if picture["scale"] == "logarithmic":
            _log_scale(axes, "x")
        axes.set_xlabel(f"{picture['title']} ({picture['better']})")
    return figure


_OF_VERDICT = {"trust": ("o", _BLUE), "with care": ("s", _AMBER), "do not use": ("X", _RED)}
# An axis ends at so many times the largest expected loss; wider intervals go on beyond it.
_MOST_TIMES = 3


def targets(table: pd.DataFrame, sources: ArrayLike, most: int = MOST_SITES) -> Figure:
    """Plot the expected loss of every target with its interval, the lowest at the top.

    Up to `most` targets have a row with their name; more make a curve.

    Parameters
    ----------
    table : DataFrame
        ``search.targets_``.
    sources : array of shape (k,)
        Losses of the sources, which have a row of their own.
    """
    shown = table.sort_values("risk", ascending=False, kind="stable")
    at_sources = np.asarray(sources, dtype=float)
    risk, low, high = (shown[name].to_numpy(float) for name in ("risk", "low", "high"))
    every = np.concatenate([risk, at_sources])
    beyond = (_MOST_TIMES - 1) * np.abs(every).max()
    low = np.fmax(low, every.min() - beyond)
    high = np.fmin(high, every.max() + beyond)
    named, place = len(shown) <= most, np.arange(1, len(shown) + 1)
    with _canvas(height=1.0 + _ROW * (len(shown) + 1 if named else most)) as (figure, axes):
        for verdict, (marker, color) in _OF_VERDICT.items():
            rows = (shown["verdict"] == verdict).to_numpy()
            if rows.any():
                ends, width = (place[rows], low[rows], high[rows]), min(1.0, 150 / len(shown))
                axes.hlines(*ends, colors=color, linewidth=width)
                size = 6 if named else 2.5
                axes.plot(
                    risk[rows], place[rows], marker, color=color, markersize=size, label=verdict
                )
        if named:
            _name_rows(axes, ["sources", *shown.index])
        else:
            axes.set_yticks([])
            axes.set_ylabel(f"{len(shown):,} targets")
        below = np.full(len(at_sources), 0 if named else -0.04 * len(shown))
        axes.plot(at_sources, below, "d", color=_GREY, markerfacecolor="none", label="a source")
        axes.set_xlabel("expected loss (95 % interval)")
        figure.legend(loc="outside upper left", ncols=4)
    return figure


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
    with _canvas(height=3.8) as (figure, axes):
        for at_site in list((sites or {}).values())[:MOST_CURVES]:
            axes.plot(at_site.index, at_site["observed"], color=_GREY, linewidth=0.6)
        _with_band(axes, curve, "observed", "target")
        end = max(1e-3, float(curve.index.max()), float(curve["observed"].max()))
        axes.plot([0, end], [0, end], ":", color=_RED, linewidth=1, label="ideal")
        axes.set_ylim(bottom=0)
        axes.set(xlabel="predicted probability", title="observed share")
        figure.legend(loc="outside upper left", ncols=3)
    return figure


def decision(curve: pd.DataFrame) -> Figure:
    """Plot net benefit by threshold: of the predictions, of acting on all rows and on none.

    Parameters
    ----------
    curve : DataFrame
        Of `ShiftSearch.decision_curve`.
    """
    with _canvas(height=3.4) as (figure, axes):
        _with_band(axes, curve, "net_benefit", "predictions")
        axes.plot(curve.index, curve["all"], color=_GREY, linewidth=1, label="act on all")
        axes.axhline(0, linestyle=":", color=_RED, linewidth=1)
        top = float(curve[["high", "all"]].max().max())
        if top > 0:  # not where it is unknown, or acting always harms
            axes.set_ylim(-0.25 * top, 1.05 * top)
        axes.set(xlabel="threshold: risk at which one would just act", title="net benefit per row")
        figure.legend(loc="outside upper left", ncols=2)
    return figure


def _with_band(axes: Axes, curve: pd.DataFrame, column: str, name: str) -> None:
    """Draw a curve and its interval."""
    axes.fill_between(
        curve.index,
        curve["low"],
        curve["high"],
        color=_BLUE,
        alpha=0.2,
        linewidth=0,
        label="interval for a new site",
    )
    axes.plot(curve.index, curve[column], color=_BLUE, linewidth=1.8, label=name)


# ---------------------------------------------------------------- sites


def _outermost(table: pd.DataFrame, column: str, most: int) -> pd.DataFrame:
    """Return all rows or, if there are too many, those with extreme values of a column."""
    if len(table) <= most:
        return table
    ordered = table[column].sort_values(kind="stable").index
    kept = [*ordered[: most // 2], *ordered[len(ordered) - most // 2 :]]
    return table.loc[kept]


def forest(risk: RiskEstimate, most: int = MOST_SITES) -> Figure:
    """Plot every source's estimate of the target risk, and the combined estimate.

    With more than `most` sources, the lowest and highest estimates are shown.

    Squares are larger where the source's share is. Sources that were left out are grey, with
    arrows where they lie off the scale. The interval of a source is from Student's t with one
    degree of freedom less than it has effective rows (at least 1).

    Examples
    --------
    >>> from shiftune.risk import estimate
    >>> risk = estimate([[1.0, 2.0, 3.0], [2.0, 2.5]], method="naive", names=["B", "C"])
    >>> [text.get_text() for text in forest(risk).axes[0].get_yticklabels()]
    ['all sources', 'C', 'B']
    """
    interval = risk.interval()
    table = _outermost(risk.sources, "estimate", most)[::-1]
    # A source that was left out may be far off; the scale is that of the others.
    used = table[table["left_out"] == ""]
    used = used if len(used) else table
    left, right = min(interval[0], used["low"].min()), max(interval[1], used["high"].max())
    margin = 0.05 * (right - left) or 0.05
    # An estimate that fell back may use sources that the guard would leave out.
    out = ((table["left_out"] != "") & (table["share"] == 0)).to_numpy()
    value, low, high = (table[c].to_numpy(dtype=float) for c in ("estimate", "low", "high"))
    seen = np.clip(value, left - margin / 2, right + margin / 2)
    area = 15 + 150 * table["share"].to_numpy(dtype=float)
    place = np.arange(1, len(table) + 1)
    with _canvas(height=0.8 + _ROW * (len(table) + 1)) as (figure, axes):
        axes.axvline(risk.value, linestyle=":", color=_RED, linewidth=1)
        for name, part, color in (("used", ~out, _BLUE), ("left out", out, _GREY)):
            axes.errorbar(
                seen[part],
                place[part],
                xerr=_errors(seen[part], low[part], high[part]),
                fmt="none",
                ecolor=color,
                elinewidth=1,
                label=name,
            )
            for marker, some in (("s", seen == value), ("<", value < seen), (">", value > seen)):
                rows = part & some
                axes.scatter(
                    seen[rows], place[rows], s=area[rows], marker=marker, color=color, linewidth=0
                )
        diamond = [interval[0], risk.value, interval[1], risk.value], [0, 0.32, 0, -0.32]
        axes.fill(*diamond, color=_RED)
        axes.set_xlim(left - margin, right + margin)
        axes.set_xlabel("estimated target risk (95 % interval)")
        _name_rows(axes, ["all sources", *table.index])
        if out.any() and not out.all():
            figure.legend(loc="outside upper left", ncols=2)
    return figure


def weights(overlap: Overlap, most: int = MOST_SITES) -> Figure:
    """Plot the distribution of every source's weights, and its effective share of rows.

    With more than `most` sources, those with the smallest and largest shares are shown.

    Boxes hold the middle half of a source's rows, whiskers 90 % of them; the diamond is the mean
    weight, which is 1 where source and target overlap and the ratio is right.

    Parameters
    ----------
    overlap : Overlap
        ``search.result_.overlap``. Where the risk is estimated without weights, they are those of
        ``problem.diagnose()``.
    """
    names = list(_outermost(overlap.table, "ess_share", most).index)[::-1]
    shown = [overlap.weights[name] for name in names]
    mean = np.maximum([w.mean() for w in shown], _SMALLEST_WEIGHT)
    ends = [np.quantile(w, [0.05, 0.25, 0.5, 0.75, 0.95]) for w in shown]
    q05, q25, q50, q75, q95 = np.maximum(ends, _SMALLEST_WEIGHT).T
    table = overlap.table.loc[names]
    color = [_GREY if doubtful else _BLUE for doubtful in is_doubtful(table)]
    place = np.arange(1, len(names) + 1)
    with _canvas(height=0.8 + _ROW * len(names)) as (figure, axes):
        axes.axvline(1, linestyle=":", color=_GREY, linewidth=1)
        axes.hlines(place, q05, q25, colors=color, linewidth=1)
        axes.hlines(place, q75, q95, colors=color, linewidth=1)
        axes.barh(place, q75 - q25, 0.5, left=q25, fill=False, edgecolor=color)
        axes.vlines(q50, place - 0.25, place + 0.25, colors=color, linewidth=1)
        axes.plot(mean, place, "D", color=_RED, markersize=4.5)
        axes.set_xlabel("weight of a row (logarithmic)")
        _log_scale(axes, "x")
        _name_rows(axes, names, first=1)
        beside = axes.get_yaxis_transform()
        for y, share in enumerate(table["ess_share"], start=1):
            axes.text(1.01, y, percent(share), transform=beside, verticalalignment="center")
        axes.text(1.01, 1, "effective", transform=axes.transAxes, verticalalignment="bottom")
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
    grid = (shown if shown.shape[1] <= _MOST_SITES_ACROSS else shown.T)[::-1]
    across = [_label(name, 16) for name in grid.columns]
    with _canvas(height=1.3 + _ROW * len(grid)) as (figure, axes):
        blues = [to_rgba(_BLUE, opacity) for opacity in (0.05, 0.8)]
        axes.pcolormesh(
            np.arange(grid.shape[1] + 1) - 0.5,
            np.arange(grid.shape[0] + 1) - 0.5,
            grid.to_numpy(),
            cmap=LinearSegmentedColormap.from_list("distance", blues),
            vmin=0,
            vmax=1,
            edgecolors=GROUND,
            linewidth=2,
        )
        for (row, column), distance in np.ndenumerate(grid.to_numpy()):
            axes.text(
                column,
                row,
                # So that it fits into a small cell: .04, 1.
                f"{distance:.2f}".removeprefix("0") if distance < 0.995 else "1",
                horizontalalignment="center",
                verticalalignment="center",
                in_layout=False,
            )
        _name_rows(axes, list(grid.index))
        axes.set_ylim(-0.5, len(grid) - 0.5)
        axes.set_xticks(range(len(across)), across)
        if sum(map(len, across)) > _MOST_LETTERS_ACROSS:
            for text in axes.get_xticklabels():
                text.set(rotation=60, ha="right", va="center", rotation_mode="anchor")
        axes.xaxis.grid(False)
    return figure


def importance(table: pd.DataFrame, most: int = MOST_COLUMNS) -> Figure:
    """Plot the columns that matter most at the target, with intervals.

    Parameters
    ----------
    table : DataFrame
        ``search.importance()``.
    most : int
        Number of columns to show.
    """
    shown = table.dropna(subset="importance").iloc[:most][::-1]
    value, low, high = (shown[name].to_numpy(float) for name in ("importance", "low", "high"))
    with _canvas(height=0.7 + _ROW * len(shown)) as (figure, axes):
        axes.axvline(0, linestyle=":", color=_GREY, linewidth=1)
        place, errors = range(len(shown)), np.nan_to_num(_errors(value, low, high))
        axes.errorbar(value, place, xerr=errors, fmt="o", color=_BLUE, markersize=5, elinewidth=1)
        _name_rows(axes, list(shown.index))
        axes.set_xlabel("rise of the loss without the column (95 % interval)")
    return figure


# ---------------------------------------------------------------- trials


def history(trials: pd.DataFrame, *, chosen: int) -> Figure:
    """Plot the estimated risk of every trial with its interval, and the best so far.

    Trials that cannot be distinguished from the best are blue, the chosen one has a ring; failed
    trials are crosses at the bottom.

    Parameters
    ----------
    trials : DataFrame
        `ShiftSearch.trials_`.
    chosen : int
        Number of the trial that won, `ShiftSearch.best_index_`.
    """
    good = trials[trials["state"] == "COMPLETE"].sort_index()
    if chosen not in good.index:
        raise SettingsError(f"chosen must be the number of a completed trial, got {chosen!r}")
    with _canvas(height=3.8) as (figure, axes):
        for tied, name, color in ((False, "worse", _GREY), (True, "tied with the best", _BLUE)):
            rows = good[good["tied_with_best"] == tied]
            if len(rows):
                axes.errorbar(
                    rows.index,
                    rows["risk"],
                    yerr=_errors(rows["risk"], rows["low"], rows["high"]),
                    fmt="o",
                    color=color,
                    markersize=5,
                    elinewidth=1,
                    label=name,
                )
        best = good["risk"].cummin()
        axes.step(good.index, best, where="post", color=_RED, linewidth=1.2, label="best so far")
        ring: Any = {"markersize": 11, "markerfacecolor": "none", "markeredgewidth": 1.5}
        axes.plot([chosen], good["risk"][[chosen]], "o", color=_RED, label="chosen", **ring)
        failed = trials.index[trials["state"] == "FAIL"]
        if len(failed):
            # At the bottom, whatever the scale of the risk.
            axes.plot(
                failed,
                np.full(len(failed), 0.02),
                "x",
                color=_RED,
                markersize=5,
                transform=axes.get_xaxis_transform(),
                label="failed",
            )
        # A few very bad trials would hide the differences between the others.
        if good["risk"].min() > 0 and good["risk"].max() > 10 * good["risk"].min():
            _log_scale(axes, "y")
        axes.locator_params("x", integer=True)
        axes.set(xlabel="trial", title="estimated target risk")
        figure.legend(loc="outside upper left", ncols=3)
    return figure
