"""Figures of a search, with Matplotlib (``pip install shiftune[plot]``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shiftune.errors import ProblemError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from shiftune.risk.result import RiskEstimate

BLUE, GREY, RED = "#1f5fa8", "#9a9a9a", "#b3362b"


def history(trials: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the estimated risk of every trial with its interval, and the best so far.

    Trials that cannot be told apart from the best are blue; failed trials are crosses at the
    bottom.

    Parameters
    ----------
    trials : DataFrame
        `ShiftSearch.trials_`.
    ax : matplotlib Axes, optional
    """
    ax = ax or _new_axes()
    good = trials[trials["state"] == "COMPLETE"].sort_index()
    for tied, rows in good.groupby("tied_with_best"):
        label = "cannot be told apart from the best" if tied else "worse"
        error = np.abs(rows[["low", "high"]].to_numpy().T - rows["risk"].to_numpy())
        color = BLUE if tied else GREY
        ax.errorbar(rows.index, rows["risk"], error, fmt="o", ms=4, lw=1, color=color, label=label)
    ax.step(good.index, good["risk"].cummin(), where="post", color=RED, lw=1.2, label="best so far")
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
    if good["risk"].min() > 0 and good["risk"].max() > 10 * good["risk"].min():
        ax.set_yscale("log")  # a few very bad trials would leave no difference between the others
    ax.legend(frameon=False)
    return ax


def forest(risk: RiskEstimate, ax: Axes | None = None, level: float = 0.95) -> Axes:
    """Draw what every source says about the target risk, and what they say together.

    The area of a square is the source's share in the estimate; sources that were left out are
    grey, with the reason.

    Parameters
    ----------
    risk : RiskEstimate
    ax : matplotlib Axes, optional
    level : float
        Of the intervals.
    """
    k = len(risk.names)
    ax = ax or _new_axes(height=1.2 + 0.32 * k)
    reach = (risk.value - risk.interval(level)[0]) / max(risk.stderr, 1e-300)
    table = risk.sources
    for y, (_, row) in enumerate(table.iloc[::-1].iterrows(), start=1):
        out = bool(row["left_out"])
        color = GREY if out else BLUE
        ax.plot(
            row["estimate"] + reach * row["stderr"] * np.array([-1, 1]), [y, y], color=color, lw=1
        )
        ax.plot(row["estimate"], y, "s", color=color, ms=3 + 14 * np.sqrt(row["share"]))
        if out:
            ax.annotate(
                f"left out: {row['left_out']}",
                (0.99, y + 0.18),
                xycoords=("axes fraction", "data"),
                ha="right",
                fontsize=7,
                color=GREY,
            )
    low, high = risk.interval(level)
    ax.fill([low, risk.value, high, risk.value], [0, 0.3, 0, -0.3], color=RED)
    ax.axvline(risk.value, color=RED, lw=0.8, ls=":")
    ax.set_yticks(range(k + 1), ["target", *table.index[::-1]])
    ax.set(xlabel=f"estimated target risk ({level:.0%} interval)", ylim=(-0.7, k + 0.7))
    return ax


def _new_axes(height: float = 4.0) -> Axes:
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ProblemError("figures need Matplotlib; pip install 'shiftune[plot]'") from error
    _, ax = plt.subplots(figsize=(8, height), layout="constrained")
    return ax
