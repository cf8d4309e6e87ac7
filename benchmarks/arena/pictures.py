"""Pictures of the arena's tables, for readers of any colour vision: marks differ in shape too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator
from matplotlib.transforms import blended_transform_factory
from regret import NAIVE, PUBLISHED

# Blue, orange and grey stay apart for readers who do not see red or green.
BLUE, ORANGE, GREY, BLACK = "#0072B2", "#D55E00", "#707070", "#333333"
LINES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#333333", "#707070"]
MARKS = "oDs^vP*X"
ROW = 0.205  # inches
TICKS = [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10]
CLOSE_TICKS = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.4, 1.7, 2, 2.5, 3]


def forest(table: pd.DataFrame, default: str) -> Figure:
    """Draw regret relative to naive of every estimator, by group, with its interval.

    Parameters
    ----------
    table
        Of `tables.overall`.
    default
        Drawn in blue; VR as published in orange.
    """
    groups = list(dict.fromkeys(table["group"]))
    rows = len(table) + 1.35 * len(groups)
    figure, ax = _canvas(8.2, 1.0 + ROW * rows)
    low, high = _limits([*table["relative"], *table["low"]], table["high"])
    beside = blended_transform_factory(ax.transAxes, ax.transData)
    y, places = 0.0, {}
    for group in groups:
        y += 0.35
        ax.text(-0.02, y, group, transform=beside, ha="right", va="center", color=GREY, size=9)
        for name, row in table[table["group"] == group].sort_values("relative").iterrows():
            y += 1
            places[name] = y
            colour, mark, size = _look(str(name), default)
            ax.plot([max(row["low"], low), min(row["high"], high)], [y, y], color=colour, lw=1.4)
            if row["high"] > high:
                ax.plot(high, y, ">", color=colour, ms=4, clip_on=False)
            ax.plot(min(row["relative"], high), y, mark, color=colour, ms=size, zorder=3)
            text = f"{row['relative']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
            text = "1, by definition" if name == NAIVE else text
            bold = "bold" if name in (default, PUBLISHED) else "normal"
            ax.text(1.02, y, text, transform=beside, va="center", size=8.5, weight=bold)
        y += 1
    ax.axvline(1, color=BLACK, lw=1, ls="--", zorder=1)
    _ratio_axis(ax, "x", low, high)
    names = [f"{name} (default)" if name == default else str(name) for name in places]
    ax.set_yticks(list(places.values()), names, size=9)
    for name, label in zip(places, ax.get_yticklabels(), strict=True):
        if name in (default, PUBLISHED):
            label.set(weight="bold", color=_look(str(name), default)[0])
    ax.set(ylim=(y - 0.2, -0.5), xlabel="regret relative to naive (90 % interval over data sets)")
    ax.tick_params(axis="y", length=0)
    ax.text(0.01, 1.005, "← chooses better than naive", transform=ax.transAxes, size=8.5)
    ax.text(0.99, 1.005, "worse →", transform=ax.transAxes, ha="right", size=8.5)
    return figure


def datasets(table: pd.DataFrame, default: str) -> Figure:
    """Draw the regret of naive, VR as published and the default on every data set.

    Parameters
    ----------
    table
        Of `tables.per_dataset`, with the three among its columns.
    """
    ordered = table.assign(gain=table[NAIVE] - table[default]).sort_values("gain", ascending=False)
    figure, ax = _canvas(7.5, 1.3 + ROW * len(ordered))
    places = np.arange(len(ordered))
    ax.hlines(places, ordered[NAIVE], ordered[default], color=BLUE, lw=2, alpha=0.35)
    for name in (NAIVE, PUBLISHED, default):
        colour, mark, size = _look(name, default)
        ax.plot(ordered[name], places, mark, color=colour, ms=size, label=name, alpha=0.9)
    ax.set_yticks(places, [str(name) for name in ordered.index], size=8.5)
    ax.set(ylim=(len(ordered) - 0.4, -0.6), xlabel="mean regret (0: best of the pool, 1: median)")
    ax.set_xlim(left=-0.03)
    ax.grid(axis="y", lw=0.4, alpha=0.6)
    ax.tick_params(axis="y", length=0)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
    return figure


def labels(table: pd.DataFrame, default: str) -> Figure:
    """Draw the regret relative to naive by number of labelled target rows.

    Parameters
    ----------
    table
        Of `tables.few_labels`.
    """
    figure, ax = _canvas(8.0, 4.2)
    counts = sorted(table.index.unique("labels"))
    names = [name for name in table.index.unique("estimator") if name != NAIVE]
    names.sort(key=lambda name: -table.xs(name, level="estimator")["value"].iloc[-1])
    shown = {name: i for i, name in enumerate([default, *(n for n in names if n != default)])}
    low, high = _limits([*table["value"], *table["low"]], table["high"])
    for step, name in enumerate(names):
        own = table.xs(name, level="estimator")
        x = [counts.index(count) + 0.05 * (step - (len(names) - 1) / 2) for count in own.index]
        look = shown[name] % len(LINES)
        error = np.abs(own[["low", "high"]].to_numpy().T - own["value"].to_numpy())
        ax.errorbar(
            x,
            own["value"],
            error,
            color=LINES[look],
            marker=MARKS[look],
            ms=7 if name == default else 5,
            lw=2.2 if name == default else 1.2,
            elinewidth=1,
            label=name,
            zorder=4 if name == default else 3,
        )
    ax.axhline(1, color=BLACK, lw=1, ls="--", zorder=1)
    ax.text(-0.38, 1, NAIVE, va="bottom", size=9)
    ax.set_xticks(range(len(counts)), [str(count) for count in counts])
    ax.set(
        xlim=(-0.4, len(counts) - 0.6),
        xlabel="labelled rows of the target",
        ylabel="regret relative to naive\n(90 % interval over data sets)",
    )
    _ratio_axis(ax, "y", low, high)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    return figure


def intervals(
    tables: dict[str, pd.DataFrame], nominal: float, least: float, default: str
) -> Figure:
    """Draw how often intervals cover the true loss, per estimator and kind of problem.

    Parameters
    ----------
    tables
        Of `tables.coverage`, by kind ("real", "generated").
    nominal, least
        Nominal coverage, and the least that is asked for on generated problems.
    """
    names = list(dict.fromkeys(name for table in tables.values() for name in table.index))
    figure, ax = _canvas(7.5, 1.4 + 1.25 * ROW * len(names))
    looks = {"real": (BLUE, "o", -0.16), "generated": (ORANGE, "D", 0.16)}
    for kind, table in tables.items():
        colour, mark, step = looks[kind]
        places = np.array([names.index(name) for name in table.index]) + step
        error = np.abs(table[["low", "high"]].to_numpy().T - table["value"].to_numpy())
        ax.errorbar(
            table["value"], places, xerr=error, fmt=mark, color=colour, ms=5, lw=1.1, label=kind
        )
    ax.axvline(nominal, color=BLACK, lw=1, ls="--", label=f"nominal, {100 * nominal:g} %")
    ax.axvline(least, color=GREY, lw=1, ls=":", label=f"asked for, generated: {100 * least:g} %")
    ax.set_yticks(range(len(names)), names, size=9)
    for label in ax.get_yticklabels():
        if label.get_text() == default:
            label.set_fontweight("bold")
    ax.set(
        xlim=(0, 1.01),
        ylim=(len(names) - 0.4, -0.6),
        xlabel="share of intervals that cover the chosen model's true loss",
    )
    ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", lw=0.4, alpha=0.6)
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4, frameon=False, fontsize=8.5)
    return figure


USES = {
    "update": "shiftune update",
    "refit": "labels added to the training rows",
    "alone": "labels alone",
}


def uses_of_labels(table: pd.DataFrame, what: str) -> Figure:
    """Draw the loss relative to no labels against the number of labels, for every use.

    Parameters
    ----------
    table
        Indexed by the number of labels, with a column for every key of `USES`, 1 being no labels.
    what
        "mean" or "median", over tables.
    """
    figure, ax = _canvas(6.4, 3.8)
    for (use, words), colour, mark in zip(USES.items(), LINES, MARKS, strict=False):
        ax.plot(table.index, table[use], f"-{mark}", color=colour, lw=1.8, ms=6, label=words)
        for m, value in table[use].items():
            beside = (0, -13 if use == "update" else 7)  # the lines lie close
            ax.annotate(
                f"{value:.2f}", (m, value), beside, textcoords="offset points", ha="center", size=8
            )
    ax.axhline(1, color=BLACK, lw=1, ls="--")
    ax.set_xscale("log")
    ax.set_xticks(table.index, [str(m) for m in table.index])
    ax.xaxis.set_minor_locator(NullLocator())
    _ratio_axis(ax, "y", 0.9 * table.min().min(), 1.15 * table.max().max())
    ax.set_xlabel("labelled rows of the target")
    ax.set_ylabel(f"loss / loss without labels, {what} of tables")
    ax.legend(frameon=False, fontsize=9)
    return figure


def _look(name: str, default: str) -> tuple[str, str, float]:
    if name == default:
        return BLUE, "o", 8
    if name == PUBLISHED:
        return ORANGE, "D", 6.5
    return (BLACK, "s", 4.5) if name == NAIVE else (BLACK, "o", 4.5)


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    ax = figure.subplots()
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)
    return figure, ax


def _limits(values: Sequence[float], ends: pd.Series) -> tuple[float, float]:
    """Ends of an axis: all values, and intervals up to a factor beyond the largest value."""
    seen = np.array([v for v in values if 0 < v < np.inf])
    return max(0.85 * seen.min(), TICKS[0]), min(1.1 * ends.max(), 1.6 * max(seen.max(), 1.0))


def _ratio_axis(ax: Axes, axis: str, low: float, high: float) -> None:
    ax.set(**{f"{axis}scale": "log", f"{axis}lim": (low, high)})
    ticks = getattr(ax, f"{axis}axis")
    places = CLOSE_TICKS if high < 8 * low else TICKS
    ticks.set_major_locator(FixedLocator([tick for tick in places if low <= tick <= high]))
    ticks.set_major_formatter("{x:g}")
    ticks.set_minor_locator(NullLocator())
    ticks.set_minor_formatter(NullFormatter())
    ax.grid(axis=axis, lw=0.4, alpha=0.6)
