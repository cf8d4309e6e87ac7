"""The page's sections on the patients."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pandas as pd

from reproduction import tables
from reproduction.experiments import DATA
from reproduction.figures import draw
from reproduction.markdown import METHODS, markdown, pipe_table
from reproduction.page.parts import (
    across,
    compact,
    comparable_runs,
    guarded_against_others,
    has,
    images,
    paragraph,
    percent,
)
from reproduction.published import PRINTED
from reproduction.record import noted_in
from shiftune.errors import StorageError
from shiftune.ratio import Guard

if TYPE_CHECKING:
    from pathlib import Path


TITLES = {"parkinson": "Parkinson (SVM, mean absolute error)", "gvhd": "GvHD (LightGBM, BCE)"}
# An estimate below this share of the score is called collapsed.
COLLAPSED = 0.1


def patients_section(folder: Path, pictures: Path) -> str:
    """Return the section of an experiment, and draw its figure."""
    runs = comparable_runs(folder)
    name = str(runs["experiment"].iloc[0])
    shown = draw(runs, pictures, ["svg"])
    compared = {
        than: tables.paired(runs, "variance_reduced", than)
        for than in ("naive", "unbiased", "li", "distbo")
        if has(runs, than)
    }
    together = pd.concat(
        {METHODS[than]: frame for than, frame in compared.items()}, names=["against"]
    )
    facts, budget = _facts(folder), int(noted_in(folder)["options"]["budget"])
    notes = "\n\n".join([_nature(name, runs, facts), _baselines(name, runs, facts, budget)])
    return f"""
## {TITLES[name]}

{markdown(runs)}

{images(shown, pictures)}

Variance reduced against the others, paired by seed (positive: it is better; 95 % intervals):

{pipe_table(across(compact(together)["difference"], "setting"))}

{guarded_against_others(runs, "score")}

{COLLAPSE.strip()}

{pipe_table(tables.collapse(runs))}

{_collapse_in_words(runs)}

{notes}
"""


COLLAPSE = """
Basis of the variance reduced estimate, over all runs: median share of the source that counts most;
median of the mean of its density ratios, which should be 1; share of the runs in which one source
has more than 99 %; share in which that source's mean ratio is below 0.1; median of estimate /
score.
"""


def _facts(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / DATA).read_text()))
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{folder / DATA} is damaged or missing ({error}); run python -m reproduction "
            f"{folder.name} --out {folder} to write it"
        ) from error


def _collapse_in_words(runs: pd.DataFrame) -> str:
    """Describe the table of the estimate's basis, setting by setting."""
    lines = []
    for setting, row in tables.collapse(runs).iterrows():
        basis = (
            f"- *{setting}*: the source that counts most has {percent(row['top_share'])} of the "
            f"variance reduced estimate, the mean of its density ratios is "
            f"{row['top_mean_weight']:.2g}, and the estimate is {row['estimate_over_score']:.2g} "
            "times the score (medians)."
        )
        low = row["top_mean_weight"] < Guard().min_mean_weight
        if low and row["estimate_over_score"] < COLLAPSED:
            basis += (
                " The estimate has collapsed: it depends mostly on one patient who is unlike the "
                "target, and it chooses what suits a few rows of that patient."
            )
            if setting == "as-published":
                basis += (
                    " We infer that the printed results come from this setting, since it has the "
                    "released code's choices; the paper does not say so."
                )
        lines.append(paragraph(basis))
    return "\n".join(lines)


def _nature(name: str, runs: pd.DataFrame, facts: dict[str, Any]) -> str:
    """Describe the difficulty of the data set."""
    if name == "parkinson":
        return paragraph(
            f"{percent(facts['between_patients'])} of the label's variance lies between patients: "
            "p(y|x) itself differs from one patient to the next, which no density ratio repairs. "
            "Within the target, the time of the recording alone gives the label away: "
            f"interpolating over it has a mean absolute error of {facts['error_by_time']:.1g} on "
            "the rows that the paper scores on."
        )
    spread = runs.groupby(["setting", "method"])["score"].agg(lambda s: s.max() / s.min())
    low, high = (f"{float(f'{value:.2g}'):,g}" for value in (spread.min(), spread.max()))
    text = (
        "The largest loss of a method over the seeds is "
        f"{low} to {high} times its smallest, so one or two seeds decide a mean."
    )
    if has(runs, "oracle", "guarded"):
        text += (
            " In the guarded setting the oracle is tuned within the target's training rows; it is "
            "no bound for the others."
        )
    return paragraph(text)


def _baselines(name: str, runs: pd.DataFrame, facts: dict[str, Any], budget: int) -> str:
    """Compare our LI and DistBO with the printed ones."""
    means = tables.summary(runs)["mean"]
    ratios = []
    for method in ("li", "distbo"):
        if has(runs, method):
            ours = means.xs(method, level="method")
            low, high = (PRINTED[name][method][0] / value for value in (ours.max(), ours.min()))
            span = f"{low:.2g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g}"
            ratios.append(f"{METHODS[method]}'s printed loss is {span} times ours")
    if not ratios:
        return ""
    return paragraph(
        f"{', '.join(ratios)}. A budget of {budget} fits for {facts['sources']} sources is "
        f"{budget / facts['sources']:.1f} per source; a source with one fit does not "
        "influence LI's choice."
    )
