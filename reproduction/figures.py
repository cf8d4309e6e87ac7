"""Figures of an experiment's runs, as in the paper.

Matplotlib is needed (``pip install matplotlib``), but no screen: the figures are not known to
pyplot, so none stays open.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from reproduction.drawing import BLUE, GREY, RED, need_matplotlib
from reproduction.markdown import METHODS
from reproduction.published import PRINTED
from reproduction.settings import SETTINGS
from reproduction.tables import ratio_of_means, summary
from shiftune.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ORANGE, GREEN, PURPLE = "#d9871c", "#2f8f6b", "#7d5ba6"
LOOK = {
    "li": (PURPLE, "v", "-"),
    "distbo": (ORANGE, "^", "-"),
    "naive": (RED, "s", "-"),
    "unbiased": (GREEN, "D", "-"),
    "variance_reduced": (BLUE, "o", "-"),
    "oracle": (GREY, "", "--"),
}
"""Colour, marker and line of every method."""

LOSSES = {"parkinson": "mean absolute error", "gvhd": "binary cross-entropy"}
SETTING_COLOURS = dict(zip(SETTINGS, (RED, ORANGE, BLUE), strict=True))
STEP = 0.045  # in units of c, between marks that would else lie on each other


def draw(runs: pd.DataFrame, folder: Path, kinds: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write the figures of an experiment; return their paths."""
    if runs["c"].isna().all():
        return save(by_method(runs), folder / runs["experiment"].iloc[0], kinds)
    paths = []
    for setting in (name for name in SETTINGS if name in set(runs["setting"])):
        paths += save(over_c(runs, setting), folder / f"toy-{setting}", kinds)
    if {"unbiased", "variance_reduced"} <= set(runs["method"]):
        paths += save(ratio_over_c(runs), folder / "toy-ratio", kinds)
    return paths


def over_c(runs: pd.DataFrame, setting: str) -> Figure:
    """Draw the target loss of every method over c: the paper's toy figure (a).

    Means with bars of one standard error. Neighbouring methods are moved sideways by a hair, so
    that bars do not hide each other; the legend follows the order at the last c.

    Parameters
    ----------
    runs : DataFrame
        Runs of the toy problem.
    setting : str

    Examples
    --------
    >>> import pandas as pd
    >>> runs = pd.DataFrame({"experiment": "toy", "setting": "guarded", "method": "naive",
    ...                      "c": [1.0, 1.0, 2.0, 2.0], "seed": [0, 1] * 2, "score": [1, 2, 3, 5]})
    >>> over_c(runs, "guarded").axes[0].lines[0].get_ydata().tolist()
    [1.5, 4.0]
    """
    _need(runs, c=True)
    if setting not in set(runs["setting"]):
        raise SettingsError(
            f"no run has setting {setting!r}; there are {sorted(set(runs['setting']))}"
        )
    means = summary(runs[runs["setting"] == setting]).loc[setting]
    figure, ax = _new_figure(7.5, 4.2)
    methods = list(dict.fromkeys(means.index.get_level_values("method")))
    for step, method in zip(_steps(len(methods)), methods, strict=True):
        rows = means.loc[method]
        colour, marker, line = LOOK.get(method, ("black", "x", "-"))
        ax.errorbar(
            rows.index.to_numpy() + step,
            rows["mean"],
            rows["stderr"],
            color=colour,
            marker=marker,
            linestyle=line,
            markersize=4.5,
            linewidth=1.4,
            elinewidth=1,
            label=METHODS.get(method, method),
            zorder=2 if method == "oracle" else 3,
        )
    ax.set_xticks(sorted(means.index.unique("c")))
    ax.set(
        xlabel="c of the sources (1 at the target)", ylabel="target loss (mean ± standard error)"
    )
    _log_if_wide(ax, means["mean"], "y")
    last = means.groupby("method")["mean"].last()
    entries = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    names = [METHODS.get(m, m) for m in last.sort_values(ascending=False).index]
    ax.legend(
        [entries[name] for name in names],
        names,
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        frameon=False,
        title=setting,
        alignment="left",
    )
    return figure


def ratio_over_c(runs: pd.DataFrame) -> Figure:
    """Draw mean loss of unbiased / that of variance reduced over c: the paper's toy figure (b).

    Bars are one standard error by the delta method, paired by seed (`tables.ratio_of_means`).
    Above 1 the variance reduced estimator chooses better.

    Parameters
    ----------
    runs : DataFrame
        Runs of the toy problem.

    Examples
    --------
    >>> import pandas as pd
    >>> runs = pd.DataFrame({"experiment": "toy", "setting": "guarded", "c": [1.0, 2.0] * 2,
    ...                      "method": ["unbiased"] * 2 + ["variance_reduced"] * 2, "seed": 0,
    ...                      "score": [1, 3, 1, 2]})
    >>> ratio_over_c(runs).axes[0].lines[0].get_ydata().tolist()
    [1.0, 1.5]
    """
    _need(runs, c=True)
    ratios = ratio_of_means(runs, "unbiased", "variance_reduced")
    figure, ax = _new_figure(7.5, 4.2)
    settings = list(dict.fromkeys(ratios.index.get_level_values("setting")))
    for step, setting in zip(_steps(len(settings)), settings, strict=True):
        rows = ratios.loc[setting]
        ax.errorbar(
            rows.index.to_numpy() + step,
            rows["ratio"],
            rows["stderr"],
            color=SETTING_COLOURS.get(setting, "black"),
            marker="o",
            markersize=4.5,
            linewidth=1.4,
            elinewidth=1,
            label=setting,
        )
    ax.axhline(1, color=GREY, linewidth=1, linestyle="--", zorder=1)
    ax.set_xticks(sorted(ratios.index.unique("c")))
    ax.set(
        xlabel="c of the sources (1 at the target)",
        ylabel="mean loss, unbiased / variance reduced\n(± standard error, paired delta method)",
    )
    _legend_above(ax)
    return figure


def by_method(runs: pd.DataFrame) -> Figure:
    """Draw mean and standard error of every method and setting, the paper's too, and the seeds.

    Parameters
    ----------
    runs : DataFrame
        Runs of Parkinson or GvHD.

    Examples
    --------
    >>> import pandas as pd
    >>> runs = pd.DataFrame({"experiment": "gvhd", "setting": "guarded", "method": "naive",
    ...                      "c": np.nan, "seed": [0, 1], "score": [0.01, 0.03]})
    >>> ax = by_method(runs).axes[0]
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['naive']
    >>> ours, paper = ax.containers
    >>> ours.lines[0].get_xdata().tolist(), paper.lines[0].get_xdata().tolist()
    ([0.02], [0.02121])
    """
    _need(runs, c=False)
    means = summary(runs)
    experiment = runs["experiment"].iloc[0]
    printed = PRINTED.get(experiment, {})
    there = list(means.index.unique("method"))
    methods = [*(m for m in METHODS if m in there), *(m for m in there if m not in METHODS)]
    settings = list(dict.fromkeys(means.index.get_level_values("setting")))
    gap = 0.8 / (len(settings) + bool(printed))  # rows of one method fill 0.8 of its place
    place = {method: y for y, method in enumerate(methods)}  # the first method on top
    figure, ax = _new_figure(7.5, 1.2 + 0.2 * len(methods) * (len(settings) + 1.5))
    for i, setting in enumerate(settings):
        rows = means.loc[setting].reindex(methods)
        down = {method: y - 0.4 + gap * (i + 0.5) for method, y in place.items()}
        colour = SETTING_COLOURS.get(setting, "black")
        seeds = runs[runs["setting"] == setting]
        ax.plot(
            seeds["score"],
            seeds["method"].map(down),
            linestyle="",
            marker="o",
            markersize=4,
            markeredgewidth=0,
            color=colour,
            alpha=0.25,
        )
        ax.errorbar(
            rows["mean"],
            list(down.values()),
            xerr=rows["stderr"],
            linestyle="",
            marker="o",
            markersize=6,
            color=colour,
            label=setting,
        )
    paper = {m: printed[m] for m in methods if m in printed}
    if paper:
        ax.errorbar(
            [mean for mean, _ in paper.values()],
            [place[m] + 0.4 - gap / 2 for m in paper],
            xerr=[stderr for _, stderr in paper.values()],
            linestyle="",
            marker="D",
            markersize=6,
            color="black",
            markerfacecolor="white",
            elinewidth=0.8,
            label="paper (printed)",
        )
    for y in range(1, len(methods)):
        ax.axhline(y - 0.5, color=GREY, linewidth=0.5, alpha=0.5)
    ax.set_yticks(range(len(methods)), [METHODS.get(m, m) for m in methods])
    ax.set(
        ylim=(len(methods) - 0.5, -0.5),
        xlabel=f"{LOSSES.get(experiment, 'loss')} at the target (mean ± standard error; each seed)",
    )
    ax.tick_params(axis="y", length=0)
    _log_if_wide(ax, [*runs["score"].dropna(), *(mean for mean, _ in paper.values())], "x")
    _legend_above(ax)
    return figure


def save(
    figure: Figure, path_without_suffix: str | Path, kinds: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Write a figure as PNG (200 dpi) and as SVG, or as one of them, and close it.

    The SVG of the same figure is the same byte for byte: no date, and no random names in it. No
    setting of Matplotlib is changed.

    Parameters
    ----------
    figure : Figure
    path_without_suffix : str or Path
        Its folder is made where needed.
    kinds : of "png" and "svg"

    Returns
    -------
    list of Path
        The files.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from matplotlib.figure import Figure
    >>> with TemporaryDirectory() as folder:
    ...     [path.name for path in save(Figure(), Path(folder) / "toy-c.5")]
    ['toy-c.5.png', 'toy-c.5.svg']
    """
    from matplotlib import pyplot as plt
    from matplotlib import rc_context

    base = Path(path_without_suffix)
    base.parent.mkdir(parents=True, exist_ok=True)
    paths = [base.with_name(f"{base.name}.{kind}") for kind in kinds]
    with rc_context({"svg.hashsalt": "shiftune"}):
        for path in paths:
            figure.savefig(path, dpi=200, metadata={"Date": None} if path.suffix == ".svg" else {})
    plt.close(figure)  # a figure that someone made with pyplot would else stay open
    return paths


def _new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    need_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    ax = figure.subplots()
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax


def _need(runs: pd.DataFrame, *, c: bool) -> None:
    if runs["c"].notna().any() != c:
        raise SettingsError(
            "a figure over c needs runs of the toy problem; for these, use by_method"
            if c
            else "by_method has no place for c; for runs of the toy problem, use over_c"
        )


def _steps(k: int) -> list[float]:
    """Sideways moves of k lines, symmetric about 0."""
    return [STEP * (i - (k - 1) / 2) for i in range(k)]


def _log_if_wide(ax: Axes, values: Iterable[float], axis: str) -> None:
    """Take a logarithmic axis where the largest value is more than ten times the smallest."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = np.nanmin(list(values)), np.nanmax(list(values))
    if 0 < 10 * low < high:
        ax.set(**{f"{axis}scale": "log"})
        ticks = getattr(ax, f"{axis}axis")
        ticks.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
        ticks.set_major_formatter("{x:g}")
        ticks.set_minor_formatter(NullFormatter())


def _legend_above(ax: Axes) -> None:
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, borderaxespad=0.2)
