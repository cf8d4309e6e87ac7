"""Figures of a search, with Matplotlib (``pip install shiftune[plot]``)."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from shiftune.errors import ProblemError
from shiftune.report.tables import (
    completed,
    forest_scale,
    needs_log_scale,
    sources_with_intervals,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from shiftune.risk.result import RiskEstimate

BLUE, GREY, RED = "#1f5fa8", "#9a9a9a", "#b3362b"


def history(trials: pd.DataFrame, ax: Axes | None = None, *, chosen: int | None = None) -> Axes:
    """Draw the estimated risk of every trial with its interval, and the best so far.

    Trials that cannot be told apart from the best are blue, the chosen one has a ring; failed
    trials are crosses at the bottom.

    Parameters
    ----------
    trials : DataFrame
        `ShiftSearch.trials_`.
    ax : matplotlib Axes, optional
    chosen : int, optional
        Number of the trial that won, `ShiftSearch.best_index_`.

    Examples
    --------
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> trials = pd.DataFrame({"state": "COMPLETE", "risk": [2.0, 1.0], "low": [1.5, 0.7],
    ...                        "high": [2.5, 1.3], "tied_with_best": [False, True]})
    >>> ax = history(trials, Figure().subplots(), chosen=1)
    >>> [text.get_text() for text in ax.get_legend().get_texts()][:2]
    ['best so far', 'chosen']
    """
    good = completed(trials, chosen)
    ax = ax or _new_axes()
    for tied, rows in good.groupby("tied_with_best"):
        label = "cannot be told apart\nfrom the best" if tied else "worse"
        error = np.abs(rows[["low", "high"]].to_numpy().T - rows["risk"].to_numpy())
        color = BLUE if tied else GREY
        ax.errorbar(rows.index, rows["risk"], error, fmt="o", ms=4, lw=1, color=color, label=label)
    ax.step(good.index, good["risk"].cummin(), where="post", color=RED, lw=1.2, label="best so far")
    if chosen is not None:
        value = good["risk"].to_dict()[chosen]
        ax.plot(chosen, value, "o", ms=11, mfc="none", mec=RED, mew=1.5, zorder=3, label="chosen")
    failed = trials.index[trials["state"] == "FAIL"]
    if len(failed):
        at_the_bottom = ax.get_xaxis_transform()  # in parts of the axis, whatever its scale
        ax.plot(
            failed,
            np.full(len(failed), 0.02),
            "x",
            color=RED,
            label="failed",
            transform=at_the_bottom,
        )
    ax.set(xlabel="trial", ylabel="estimated target risk (95 % interval)")
    if needs_log_scale(good["risk"]):
        ax.set_yscale("log")
    # Beside the axes: inside it covers trials, above it the title that a user may set.
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return ax


def forest(risk: RiskEstimate, ax: Axes | None = None, level: float = 0.95) -> Axes:
    """Draw what every source says about the target risk, and what they say together.

    The area of a square is the source's share in the estimate. Sources that were left out are
    grey, with the reason, and arrows where they lie off the scale. The interval of a source is
    from Student's t with one degree of freedom less than it has effective rows (at least 1).

    Parameters
    ----------
    risk : RiskEstimate
    ax : matplotlib Axes, optional
    level : float
        Of the intervals.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from shiftune.risk import estimate
    >>> risk = estimate([[1.0, 2.0, 3.0], [2.0, 2.5]], method="naive", names=["B", "C"])
    >>> ax = forest(risk, Figure().subplots())
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['target', 'C', 'B']
    """
    low, high = risk.interval(level)
    k = len(risk.names)
    ax = ax or _new_axes(height=1.2 + 0.32 * k)
    table = sources_with_intervals(risk, level)[::-1]
    out = table["left_out"] != ""
    left, right = forest_scale(table, (low, high))
    margin = 0.05 * (right - left) or 0.05
    for y, site in enumerate(table.index, start=1):
        row = table.loc[site]
        color = GREY if out[site] else BLUE
        ax.plot([row["low"], row["high"]], [y, y], color=color, lw=1)
        seen = np.clip(row["estimate"], left - margin / 2, right + margin / 2)
        marker = "s" if seen == row["estimate"] else "<" if seen < left else ">"
        size = 3 + 14 * np.sqrt(row["share"]) if marker == "s" else 6
        ax.plot(seen, y, marker, color=color, ms=size, clip_on=False)
        if out[site]:
            ax.annotate(
                textwrap.fill(f"left out: {row['left_out']}", 30),
                (1.02, y),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=7,
                color=GREY,
            )
    ax.fill([low, risk.value, high, risk.value], [0, 0.3, 0, -0.3], color=RED)
    ax.axvline(risk.value, color=RED, lw=0.8, ls=":")
    ax.set_yticks(range(k + 1), ["target", *table.index])
    ax.set(xlabel=f"estimated target risk ({level:.0%} interval)")
    ax.set(xlim=(left - margin, right + margin), ylim=(-0.7, k + 0.7))
    return ax


def need_matplotlib() -> None:
    """Raise a ProblemError where figures cannot be drawn, before hours of work are done."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ProblemError("figures need Matplotlib; pip install 'shiftune[plot]'") from error


def _new_axes(height: float = 4.0) -> Axes:
    need_matplotlib()
    from matplotlib import pyplot as plt

    _, ax = plt.subplots(figsize=(8, height), layout="constrained")
    return ax
