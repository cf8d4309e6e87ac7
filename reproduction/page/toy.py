"""The page's section on the toy problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from reproduction import tables
from reproduction.experiments import WEIGHTS
from reproduction.figures import draw
from reproduction.markdown import METHODS, markdown, pipe_table
from reproduction.page.parts import (
    compact,
    comparable_runs,
    guarded_against_others,
    has,
    images,
    paragraph,
    percent,
)
from reproduction.settings import SETTINGS
from reproduction.weights import DISTANCES, LARGEST_C, by_distance
from shiftune.errors import StorageError
from shiftune.problem import PAPER_SHARES

if TYPE_CHECKING:
    from pathlib import Path

# The table has the paper's seeds, the comparisons have all.
PAPER_SEEDS = 30


def toy_section(folder: Path, pictures: Path) -> str:
    """Return the section, and draw its figures."""
    runs = comparable_runs(folder)
    first = runs[runs["seed"] < PAPER_SEEDS]
    shown = draw(first, pictures, ["svg"])
    sources = _weights(folder)
    weights = by_distance(sources)
    comparisons = "\n\n".join(
        _comparison(runs, than) for than in ("unbiased", "naive", "li", "distbo") if has(runs, than)
    )
    return f"""
## Toy problem

Target loss of the chosen theta on the target's rows, as in the paper (which prints curves only),
over {first["seed"].nunique()} seeds:

{markdown(first)}

{images(shown, pictures)}

### Who is better, seed by seed

Differences in *true* risk, paired by seed, with 95 % intervals; positive: the variance reduced
estimator is better; bold: the interval lies on one side of 0.

{comparisons}

{_verdicts(runs)}

{_growth(runs)}

{guarded_against_others(runs, "true_risk")}

### Why

Weights at c = {LARGEST_C:g}, by the distance between a source's mean and the target's (in standard
deviations of x): median mean weight of the source's rows, which should be 1 at any distance;
median effective rows; mean share in the variance reduced estimate.

{pipe_table(weights)}

{_explained(weights, sources)}
"""


def _weights(folder: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(folder / WEIGHTS)
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{folder / WEIGHTS} is damaged or missing ({error}); run python -m reproduction toy "
            f"--out {folder} to write it"
        ) from error


def _explained(weights: pd.DataFrame, sources: pd.DataFrame) -> str:
    """Explain the comparisons by the weights: by distance, and of every source."""

    def row(setting: str, place: int) -> tuple[str, pd.Series[float]]:
        of = weights.loc[setting]
        distance = of.index[min(place, len(of) - 1)]
        return str(distance), of.loc[distance]

    far, published = row("as-published", 3)
    near, described = row("as-described", 2)
    _, guarded = row("guarded", 3)
    grids = [len(SETTINGS[name].bandwidths or ()) for name in ("as-published", "as-described")]
    density, _, validation = PAPER_SHARES
    distant = (sources["setting"] == "guarded") & (sources["distance"] >= DISTANCES[-2])
    left_out = percent(sources["left_out"][distant].mean())
    return paragraph(
        f"""
        Naive and LI tune for the average source, wherever the target is. The variance reduced
        estimator beats the unbiased one by a theorem about *true* weights and *known* divergences;
        here both are estimated. As published, sources at a distance of {far} have a mean weight of
        {published["mean weight"]:.2g}: the unbiased estimator adds such weights up, the variance
        reduced one gives these sources a share of {published["share"]:.2g}. As described, with
        {grids[1]} bandwidths instead of {grids[0]}, {percent(density)} of the rows for the ratio
        and {percent(validation)} for the risk instead of all, sources at {near} have a mean weight
        of {described["mean weight"]:.2g} on {described["effective rows"]:.2g} effective rows, too
        few to estimate a divergence. Guarded, sources at {far} have a mean weight of
        {guarded["mean weight"]:.2g}; the guard leaves {left_out} of them out, so that both
        estimators see nearly the same rows. DistBO weighs nothing: it learns how the best theta
        moves with p(x), which on this problem is a straight line.
        """
    )


def _comparison(runs: pd.DataFrame, than: str) -> str:
    compared = tables.paired(runs, "variance_reduced", than, value="true_risk")
    seeds = _span(compared["n"])
    return (
        f"Variance reduced against {METHODS[than]} ({seeds} seeds):\n\n"
        f"{pipe_table(compact(compared))}"
    )


def _span(counts: pd.Series[int]) -> str:
    low, high = counts.min(), counts.max()
    return f"{low}" if low == high else f"{low} to {high}"


def _verdicts(runs: pd.DataFrame) -> str:
    """Compare the paper's claims with the intervals, in words."""
    lines = []
    for setting in (name for name in SETTINGS if name in set(runs["setting"])):
        found = []
        for than in (name for name in ("naive", "li", "unbiased", "distbo") if has(runs, name)):
            compared = tables.paired(runs, "variance_reduced", than, value="true_risk")
            if setting not in compared.index.get_level_values("setting"):
                continue
            rows = compared.loc[setting]
            better = [f"{c:g}" for c in rows.index[rows["low"] > 0]]
            worse = [f"{c:g}" for c in rows.index[rows["high"] < 0]]
            text = f"better than {METHODS[than]} at {_cs(better, len(rows))}"
            if worse:
                text += f", worse at {_cs(worse, len(rows))}"
            found.append(text)
        lines.append(
            paragraph(f"- *{setting}*: the variance reduced estimator is {'; '.join(found)}.")
        )
    return f"{CLAIMS.strip()}\n\n" + "\n".join(lines)


CLAIMS = """
The paper claims that the corrected estimators beat naive and LI in all settings, that the variance
reduced one also beats DistBO where c is large, and that its advantage over the unbiased one grows
with c. By these intervals:
"""


def _cs(values: list[str], all_of_them: int) -> str:
    if not values:
        return "no c"
    return "every c" if len(values) == all_of_them else f"c = {', '.join(values)}"


def _growth(runs: pd.DataFrame) -> str:
    if not has(runs, "unbiased"):
        return ""
    slopes = tables.trend(runs, "variance_reduced", "unbiased", value="true_risk")
    return f"{GROWTH.strip()}\n\n{pipe_table(slopes)}"


GROWTH = """
Does the advantage over the unbiased estimator grow with c? Slope of the difference over c, one
per seed:
"""
