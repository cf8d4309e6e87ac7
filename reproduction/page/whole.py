"""The page from its introduction to how it was made."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pandas as pd

from reproduction.page.patients import patients_section
from reproduction.page.regret import regret_section
from reproduction.page.toy import toy_section
from reproduction.record import RUNS, noted_in
from reproduction.reproduction import worked_example
from reproduction.settings import SETTINGS
from shiftune.errors import ProblemError

if TYPE_CHECKING:
    from pathlib import Path

SECTIONS = {
    "toy": toy_section,
    "parkinson": patients_section,
    "gvhd": patients_section,
    "regret": regret_section,
}


def write_page(results: Path, out: Path) -> None:
    """Write the page from the folders ``toy``, ``parkinson``, ``gvhd`` and ``regret``.

    Parameters
    ----------
    results : Path
        Folder with one folder for every experiment, as `shiftune reproduce` leaves them.
        Experiments that are not there are not shown.
    out : Path
        The page. Its figures go into a folder of the same name beside it.
    """
    there = [name for name in SECTIONS if (results / name / RUNS).exists()]
    if not there:
        raise ProblemError(
            f"{results} has none of the folders {list(SECTIONS)} with a {RUNS}; run "
            "shiftune reproduce first, with --out"
        )
    pictures = out.with_suffix("")
    try:
        pictures.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProblemError(
            f"{pictures} cannot be a folder for figures ({error.strerror}); give another --out"
        ) from error
    parts = [INTRODUCTION.format(settings=_settings()), f"## Worked example\n\n{worked_example()}"]
    parts += [SECTIONS[name](results / name, pictures) for name in there]
    parts += [DIFFERENCES, _provenance(results, there)]
    try:
        out.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")
    except OSError as error:
        raise ProblemError(
            f"{out} cannot be written ({error.strerror}); give another --out"
        ) from error


INTRODUCTION = """
# The paper, reproduced

Nomura and Saito, *Efficient Hyperparameter Optimization under Multi-Source Covariate Shift*
(CIKM 2021): every experiment, in three settings side by side. `shiftune reproduce page` writes
this page, with its figures and every number of ours, from the raw runs; the paper's printed values
and those of its released code are quoted beside them. Lower is better everywhere; `±` is the
standard error over the seeds; the best method that does not see the target's labels is bold.
Intervals are for one comparison each, not for all of them together.

{settings}

The released code has neither LI nor DistBO; both are ours in every setting. LI differs between the
settings by the sampler alone, DistBO also by the target's rows that it sees.
"""

DIFFERENCES = """
## Where figures differ from the printed ones

- *Seeds and streams.* The released code draws data and search from one global stream; nothing
  here can repeat its numbers bit for bit.
- *uLSIF.* The released code uses densratio's leave-one-out scores; ours are five-fold, with the
  same kernels and grids. Where no source covers the target both choose among useless fits, and not
  the same one.
- *LI and DistBO* come out several times better on the patients than printed, and we cannot say
  why: the paper gives no code for LI, and runs the authors' TensorFlow code for DistBO. Ours
  departs from that in the fit (L-BFGS from several starts with weak priors, instead of an early
  stopped gradient ascent) and in the caution of its choice (2 standard deviations, theirs 2.58).
  Turning its bound round (optimistic instead of cautious) did not give the printed values either.
  With 50 fits for 29 or 41 patients each is tried once or twice; a patient tried once tells LI
  nothing.
- *Scoring.* As in the paper, the chosen parameters train a new model on 70 % of the target's
  *labelled* rows. That measures whether the parameters suit the target, not whether the model
  trained on the sources does, which is what an estimate is about; so an estimate need not equal
  its score. It also forgives much: on Parkinson the recording's time alone gives the label of one
  patient away.
"""


def _settings() -> str:
    return "\n".join(
        textwrap.fill(f"- *{setting.name}*: {setting.described}.", 100, subsequent_indent="  ")
        for setting in SETTINGS.values()
    )


def _provenance(results: Path, there: list[str]) -> str:
    lines = ["## How this was made", ""]
    for name in there:
        runs = pd.read_csv(results / name / RUNS)
        noted = noted_in(results / name)
        options = ", ".join(f"{key} {value}" for key, value in noted["options"].items())
        lines.append(f"- {name}: {len(runs)} runs, seeds 0 to {runs['seed'].max()} ({options})")
        for call in noted["made"]:
            packages = ", ".join(f"{package} {v}" for package, v in call["versions"].items())
            said = f"{call['date']}, code {call['code']}, {packages}"
            lines += [f"  - `{call['command']}`", f"    ({said})"]
    return "\n".join(lines)
