"""The page from its introduction to the record of its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from reproduction.baselines import DistBO
from reproduction.example import worked_example
from reproduction.page.parts import paragraph, percent
from reproduction.page.patients import patients_section
from reproduction.page.regret import regret_section
from reproduction.page.toy import toy_section
from reproduction.record import RUNS, noted_in
from reproduction.settings import SETTINGS, TRAIN_SHARE
from shiftune.errors import StorageError

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
        Folder with one folder for every experiment, as `python -m reproduction` leaves them.
        Missing experiments are not shown.
    out : Path
        The page. Its figures go into a folder of the same name beside it.
    """
    there = [name for name in SECTIONS if (results / name / RUNS).exists()]
    if not there:
        raise StorageError(
            f"{results} has none of the folders {list(SECTIONS)} with a {RUNS}; run "
            "python -m reproduction toy first, with --out"
        )
    pictures = out.with_suffix("")
    try:
        pictures.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot create the folder {pictures} for figures ({error.strerror}); choose another "
            "--out"
        ) from error
    parts = [_introduction(), f"## Worked example\n\n{worked_example()}"]
    parts += [SECTIONS[name](results / name, pictures) for name in there]
    parts += [_differences(), _provenance(results, there)]
    try:
        out.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"cannot write {out} ({error.strerror}); choose another --out"
        ) from error


INTRODUCTION = """
# The paper, reproduced

Nomura and Saito, *Efficient Hyperparameter Optimization under Multi-Source Covariate Shift*
(CIKM 2021): every experiment, in three settings side by side. `python -m reproduction page` writes
this page, with its figures and every number of ours, from the raw runs in `reproduction/results`.
Two columns cannot be traced to raw runs: the paper's printed values, and those of its released
code, which we ran before this package was written and of which only means and standard errors were
kept (`reproduction/published.json`). Lower is better everywhere; `±` is the standard error over the
seeds; the best method that does not see the target's labels is bold. Intervals are for one
comparison each, not for all of them together.
"""

TRAINING = """
*Training as described.* Algorithms 1 and 2 obtain the model by minimising the estimate itself on
the training rows. For the unbiased estimator that is training with the weights w; for the variance
reduced one the weights are λ*_j w, and λ*_j depends on the divergence of w L, hence on the model
that is being trained. No learner minimises that directly, and the text gives no scheme. Here every
trial fits two models: the first with w, the second with λ*_j w, where λ*_j comes from the first
one's losses on the training rows; the second one's losses on the validation rows are its score.
That is one step of iterative reweighting, repeats itself exactly, and ignores a source whose
weights are all 0, as the estimate does. λ* from the weights alone would need one fit, but it
would not be the paper's divergence, which includes the loss.
"""

BASELINES = """
The released code has neither LI nor DistBO; both are ours in every setting. LI differs between the
settings only by the sampler, DistBO also by the target's rows that it sees.
"""


def _introduction() -> str:
    settings = "\n".join(
        paragraph(f"- *{setting.name}*: {setting.described}.") for setting in SETTINGS.values()
    )
    return "\n\n".join([INTRODUCTION.strip(), settings, TRAINING.strip(), BASELINES.strip()])


def _differences() -> str:
    beta = DistBO(None, {}).beta
    items = (
        """- *Seeds and streams.* The released code draws data and search from one global stream;
        nothing here can repeat its numbers bit for bit.""",
        """- *uLSIF.* The released code uses densratio's leave-one-out scores; ours are
        5-fold, with the same kernels and grids. Where no source covers the target
        both choose among useless fits, and not the same one.""",
        f"""- *LI and DistBO* have lower losses on the patients than the printed ones (figures in
        the sections above), and we do not know why: the paper gives no code for LI, and runs the
        authors' TensorFlow code (https://github.com/hcllaw/distBO) for DistBO. Ours differs from
        that in the fit (L-BFGS from several starts with weak priors, instead of gradient ascent
        with early stopping) and in the caution of its choice ({beta:g} standard deviations; the
        default in its `experiments/train_test.py` is 2.58). An optimistic bound instead of the
        cautious one did not give the printed values either.""",
        f"""- *Scoring.* As in the paper, the chosen parameters train a new model on
        {percent(TRAIN_SHARE)} of the target's *labelled* rows. The score measures whether the
        parameters suit the target, not whether the model trained on the sources does, which is
        what an estimate is about; so an estimate need not equal its score.""",
    )
    text = "\n".join(paragraph(item) for item in items)
    return f"## Where figures differ from the printed ones\n\n{text}"


def _provenance(results: Path, there: list[str]) -> str:
    lines = ["## Runs behind this page", ""]
    for name in there:
        runs = pd.read_csv(results / name / RUNS)
        noted = noted_in(results / name)
        options = ", ".join(f"{key} {value}" for key, value in noted["options"].items())
        lines.append(f"- {name}: {len(runs)} runs, seeds 0 to {runs['seed'].max()} ({options})")
        for call in noted["made"]:
            packages = ", ".join(f"{package} {v}" for package, v in call["versions"].items())
            lines += [
                f"  - `{call['command']}`",
                f"    ({call['date']}, code {call['code']}, {packages})",
            ]
    return "\n".join(lines)
