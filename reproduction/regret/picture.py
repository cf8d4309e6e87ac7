"""The figure of the regret study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reproduction.drawing import BLUE, GREY, RED, need_matplotlib
from reproduction.regret.run import DELTAS
from shiftune.errors import SettingsError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from reproduction.regret.objective import Method
    from reproduction.regret.run import Sampler


def figure(
    frame: pd.DataFrame, *, method: Method = "variance_reduced", sampler: Sampler = "gp_lcb"
) -> Figure:
    """Draw the regret over n for every B, and beside it the regret under its bounds.

    Needs Matplotlib (``pip install matplotlib``).

    Parameters
    ----------
    frame : DataFrame
        Of `regret_study`, with runs of the known ratio.
    method, sampler
        Whose runs to draw.
    """
    need_matplotlib()
    from matplotlib.figure import Figure

    runs = frame[(frame["method"] == method) & (frame["sampler"] == sampler)]
    known = runs[runs["ratio"] == "known"]
    if known.empty:
        raise SettingsError(f"the study has no runs of {method} with known ratios and {sampler}")
    drawn = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = drawn.subplots(1, 2)
    _draw_regret(left, known)
    _draw_bounds(right, runs)
    for ax in (left, right):
        ns = sorted(known["n"].unique())
        ax.set(xscale="log", yscale="log", xlabel="rows per source, n")
        ax.set_xticks(ns, [str(n) for n in ns])
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
    return drawn


def _draw_regret(ax: Axes, runs: pd.DataFrame) -> None:
    """Mean regret with its standard error over n, darker for more trials."""
    Bs = sorted(runs["B"].unique())
    for place, B in enumerate(Bs, start=1):
        regret = runs[runs["B"] == B].groupby("n")["regret"]
        shade = (0.12, 0.37, 0.66, 0.25 + 0.75 * place / len(Bs))
        ax.errorbar(
            regret.mean().index,
            regret.mean(),
            regret.sem(),
            marker="vso^D"[place % 5],
            ms=5,
            lw=1.4,
            capsize=2,
            color=shade,
            label=f"B = {B}",
        )
    last = runs[runs["B"] == Bs[-1]].groupby("n")["regret"].mean()
    ns = last.index.to_numpy(dtype=float)
    # Below the curves, to be compared with and not to hide them.
    ax.plot(ns, last.iloc[0] / 2 * ns[0] / ns, ls=":", color=GREY, lw=1.4, label="slope of 1/n")
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[1:] + handles[:1], labels[1:] + labels[:1], frameon=False, fontsize=8)
    ax.set(ylabel="mean true regret (± standard error)", title="More rows and more trials")


def _draw_bounds(ax: Axes, runs: pd.DataFrame) -> None:
    """Medians of regret and bounds at the largest B; the regret with its middle 90 %."""
    delta = DELTAS[0]
    runs = runs[runs["B"] == runs["B"].max()]
    by_ratio = {str(ratio): group.groupby("n") for ratio, group in runs.groupby("ratio")}
    known = by_ratio["known"]
    low, middle, high = (known["regret"].quantile(q) for q in (0.05, 0.5, 0.95))
    lines = [("bound, true variances", known[f"bound_{delta}"].median(), "-", "s")]
    # The two plug-in bounds nearly coincide: a ring around the square shows both.
    lines += [
        (f"plug-in bound, {ratio} ratio", group[f"plug_in_{delta}"].median(), *look)
        for (ratio, group), look in zip(by_ratio.items(), [("--", "s"), (":", "o")], strict=False)
    ]
    for label, values, style, marker in lines:
        ax.plot(
            values.index,
            values,
            ls=style,
            lw=1.4,
            color=RED,
            marker=marker,
            ms=8 if marker == "o" else 3,
            mfc="none" if marker == "o" else RED,
            label=label,
        )
    ax.fill_between(low.index, low, high, color=BLUE, alpha=0.15, lw=0)
    ax.plot(
        middle.index,
        middle,
        marker="o",
        ms=4,
        lw=1.4,
        color=BLUE,
        label="regret, 5 to 95 % of seeds",
    )
    ax.legend(frameon=False, fontsize=8, loc="lower left")
    ax.set(
        ylabel="median over seeds",
        title=f"Regret and its bound, δ = {delta}, B = {runs['B'].max()}",
    )
