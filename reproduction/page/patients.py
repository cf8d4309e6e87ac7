"""The page's sections on the patients."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pandas as pd

from reproduction import tables
from reproduction.markdown import METHODS, markdown, pipe_table
from reproduction.page.parts import (
    across,
    compact,
    comparable_runs,
    guarded_against_others,
    has,
    images,
)
from reproduction.reproduction import draw
from shiftune.ratio import Guard

if TYPE_CHECKING:
    from pathlib import Path


TITLES = {"parkinson": "Parkinson (SVM, mean absolute error)", "gvhd": "GvHD (LightGBM, BCE)"}


PATIENTS_EXPLAINED = {
    "parkinson": """
So much of the label's variance lies between patients (93 %) that p(y|x) itself moves from one to
the next, which no density ratio repairs.
""",
    "gvhd": """
The losses of single seeds differ by factors of hundreds, so means over ten of them are decided by
one or two seeds. In the guarded setting the oracle has a part of the target's training rows only
to tune on, and is no upper bound.
""",
}


def patients_section(folder: Path, pictures: Path) -> str:
    """Return the section of an experiment, and draw its figure."""
    runs = comparable_runs(folder)
    name = str(runs["experiment"].iloc[0])
    shown = draw(runs, pictures)
    compared = {
        than: tables.paired(runs, "variance_reduced", than)
        for than in ("naive", "unbiased", "li", "distbo")
        if has(runs, than)
    }
    together = pd.concat(
        {METHODS[than]: frame for than, frame in compared.items()}, names=["against"]
    )
    return f"""
## {TITLES[name]}

{markdown(runs)}

{images(shown, pictures)}

Variance reduced against the others, paired by seed (positive: it is better; 95 % intervals):

{pipe_table(across(compact(together)["difference"], "setting"))}

{guarded_against_others(runs, "score")}

{_collapse(runs, "all runs")}

{_collapsed_in_words(runs)}

{PATIENTS_EXPLAINED[name].strip()}
"""


def _collapse(runs: pd.DataFrame, which: str) -> str:
    """Show whether the variance reduced estimate was left to one source without overlap."""
    return f"""
What the variance reduced estimate rests on ({which}): median share of the source that counts most
and the mean of its density ratios (which should be 1), share of the runs in which one source has
more than 99 %, share in which that source's mean ratio is below 0.1, and the median of estimate /
score.

{pipe_table(tables.collapse(runs))}
""".strip()


def _collapsed_in_words(runs: pd.DataFrame) -> str:
    """Say what the table says about the setting that the printed results come from."""
    table = tables.collapse(runs)
    lines = []
    for setting, row in table.iterrows():
        said = (
            f"In the setting *{setting}* the source that counts most has {row['top_share']:.0%} of "
            f"the variance reduced estimate, its density ratios have a mean of "
            f"{row['top_mean_weight']:.2g}, and the estimate is {row['estimate_over_score']:.2g} "
            "times the score (medians)"
        )
        low = row["top_mean_weight"] < Guard().min_mean_weight
        end = (
            ": the estimate has collapsed; it rests mostly on a patient who is unlike the target, "
            "and what it chooses is what suits a few rows of that patient."
            if low and row["estimate_over_score"] < 0.1
            else "."
        )
        if end != "." and setting == "as-published":
            end += " The printed results come from this setting."
        lines.append(textwrap.fill(f"- {said}{end}", 100, subsequent_indent="  "))
    return "\n".join(lines)
