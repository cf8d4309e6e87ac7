"""The page's section on the toy problem."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from reproduction import tables
from reproduction.markdown import METHODS, markdown, pipe_table
from reproduction.page.parts import (
    compact,
    comparable_runs,
    guarded_against_others,
    has,
    images,
)
from reproduction.reproduction import draw
from reproduction.settings import SETTINGS
from reproduction.weights import weights_by_distance

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

# The table is of the paper's seeds; the comparisons are of all that were run.
PAPER_SEEDS = 30
WEIGHED_SEEDS = 60


def toy_section(folder: Path, pictures: Path) -> str:
    """Return the section, and draw its figures."""
    runs = comparable_runs(folder)
    first = runs[runs["seed"] < PAPER_SEEDS]
    shown = draw(first, pictures)
    comparisons = "\n\n".join(
        _comparison(runs, than) for than in ("unbiased", "naive", "li", "distbo") if has(runs, than)
    )
    return f"""
## Toy problem

Target loss of the chosen theta, on the target's rows as in the paper (which prints curves only),
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

What the estimators are given at c = 5, by the distance between a source's mean and the target's
(in standard deviations of x): the mean weight of the source's rows, which should be 1 at any
distance; its effective rows; and its share in the variance reduced estimate.

{pipe_table(weights_by_distance(range(WEIGHED_SEEDS)))}

{TOY_EXPLAINED.strip()}
"""


TOY_EXPLAINED = """
Naive and LI tune for the average source, wherever the target is. Why the variance reduced estimator
should be better than the unbiased one is a theorem about *true* weights and *known* divergences;
here both are estimated. As published, uLSIF gives sources out of its reach weights that are several
times too large (the last line): the unbiased estimator adds them up, the variance reduced one gives
such a source a small share. As described, with more bandwidths to choose from and a third of the
rows, already nearer sources get such weights, on a handful of effective rows whose divergence
nobody can tell. Guarded, sources out of reach have no say in either estimator, which then mostly
rest on the same source. DistBO does not weigh anything: it learns how the best theta moves with
p(x), which on this problem is a straight line.
"""


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
    """Say in words where the paper's order holds, read off the intervals."""
    lines = []
    for setting in (name for name in SETTINGS if name in set(runs["setting"])):
        said = []
        for than in ("naive", "li", "unbiased", "distbo"):
            if not has(runs, than):
                continue
            compared = tables.paired(runs, "variance_reduced", than, value="true_risk")
            if setting not in compared.index.get_level_values("setting"):
                continue
            rows = compared.loc[setting]
            better = [f"{c:g}" for c in rows.index[rows["low"] > 0]]
            worse = [f"{c:g}" for c in rows.index[rows["high"] < 0]]
            text = f"better than {METHODS[than]} at {_cs(better, len(rows))}"
            if worse:
                text += f", worse at {_cs(worse, len(rows))}"
            said.append(text)
        lines.append(
            textwrap.fill(
                f"- *{setting}*: the variance reduced estimator is {'; '.join(said)}.",
                100,
                subsequent_indent="  ",
            )
        )
    return f"{CLAIMS.strip()}\n\n" + "\n".join(lines)


CLAIMS = """
The paper says that the corrected estimators beat naive and LI in all settings, that the variance
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
