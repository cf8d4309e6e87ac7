"""The page that shows all results and says what they mean; every figure in it is computed."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

import pandas as pd

from shiftune.errors import ProblemError
from shiftune.paper import figures, tables
from shiftune.paper.markdown import METHODS, markdown, pipe_table
from shiftune.paper.regret import coverage, shrinkage
from shiftune.paper.regret import figure as regret_figure
from shiftune.paper.reproduce import draw, worked_example
from shiftune.paper.runs import OPTIONS, RUNS, read_runs
from shiftune.paper.settings import SETTINGS
from shiftune.paper.weights import weights_by_distance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# The toy problem's table is of the paper's seeds; its comparisons are of all that were run.
PAPER_SEEDS = 30
WEIGHED_SEEDS = 60
EXPERIMENTS = ("toy", "parkinson", "gvhd", "regret")


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
    there = [name for name in EXPERIMENTS if (results / name / RUNS).exists()]
    if not there:
        raise ProblemError(
            f"{results} has none of the folders {list(EXPERIMENTS)} with a {RUNS}; run "
            "shiftune reproduce first, with --out"
        )
    pictures = out.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    sections: dict[str, Callable[[Path, Path], str]] = {
        "toy": _toy,
        "parkinson": _patients,
        "gvhd": _patients,
        "regret": _regret,
    }
    parts = [INTRODUCTION.format(settings=_settings()), f"## Worked example\n\n{worked_example()}"]
    parts += [sections[name](results / name, pictures) for name in there]
    parts += [DIFFERENCES, _provenance(results, there)]
    out.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")


INTRODUCTION = """
# The paper, reproduced

Nomura and Saito, *Efficient Hyperparameter Optimization under Multi-Source Covariate Shift*
(CIKM 2021): every experiment, in three settings side by side. `shiftune reproduce page` writes
this page from the raw runs; no figure in it is typed. Lower is better everywhere; `±` is the
standard error over the seeds; the best method that does not see the target's labels is bold.

{settings}

LI and DistBO are ours in every setting (the released code has neither); they depend on the setting
through the sampler alone.
"""

DIFFERENCES = """
## Where figures differ from the printed ones, and why

- *Other seeds and other streams.* The released code draws its data and its search from one global
  stream; nothing here can repeat its numbers bit for bit. With ten seeds the printed standard
  errors are a quarter to a half of the means on Parkinson.
- *uLSIF.* The released code uses densratio's leave-one-out scores; ours are five-fold, with the
  same kernels and grids. Where no source covers the target, both choose among useless fits, and
  not the same one.
- *LI and DistBO.* The paper runs the DistBO authors' TensorFlow code and gives no code for LI.
  Ours have hand-written gradients, and both do better on GvHD than printed. The budget of 50 fits
  is shared over the sources, as the paper says, so a patient is tried once or twice.
- *Scoring.* As in the paper the chosen parameters are used to train a new model on 70 % of the
  target's *labelled* rows. This measures whether the parameters suit the target, not whether the
  model trained on the sources does, and it forgives much: on Parkinson `test_time` alone gives
  the label away, since it rises linearly with time for each patient.
"""


def _settings() -> str:
    return "\n".join(
        textwrap.fill(f"- *{setting.name}*: {setting.described}.", 100, subsequent_indent="  ")
        for setting in SETTINGS.values()
    )


# -------------------------------------------------------------------- toy


def _toy(folder: Path, pictures: Path) -> str:
    runs = read_runs(folder / RUNS)
    first = runs[runs["seed"] < PAPER_SEEDS]
    shown = draw(first, pictures)
    comparisons = "\n\n".join(
        _comparison(runs, than)
        for than in ("unbiased", "naive", "li", "distbo")
        if _has(runs, than)
    )
    return f"""
## Toy problem

Target loss of the chosen theta, on the target's rows as in the paper (which prints curves only),
over {first["seed"].nunique()} seeds:

{markdown(first)}

{_images(shown, pictures)}

### Who is better, seed by seed

Differences in *true* risk, paired by seed, with 95 % intervals, over {_counts(runs)}; positive: the
variance reduced estimator is better; bold: the interval lies on one side of 0.

{comparisons}

{_verdicts(runs)}

Does the advantage over the unbiased estimator grow with c? Slope of the difference over c, one
per seed:

{pipe_table(tables.trend(runs, "variance_reduced", "unbiased", value="true_risk"))}

{_sound(runs, "true_risk")}

### Why

What the estimators are given at c = 5, by the distance between a source's mean and the target's
(in standard deviations of x): the mean weight of the source's rows, which should be 1 at any
distance; its effective rows; and its share in the variance reduced estimate.

{pipe_table(weights_by_distance(range(WEIGHED_SEEDS)))}

{TOY_EXPLAINED.strip()}
"""


TOY_EXPLAINED = """
Correcting for the shift pays at once, in every setting: naive and LI tune for the average source.
The advantage of the variance reduced over the unbiased estimator is another matter. The theorem
behind it is about *true* weights and *known* divergences. In the setting of the released code uLSIF
gives sources beyond its reach weights that are several times too large; the unbiased estimator
adds them up, the variance reduced one turns away from them, and that is the advantage. As the text
describes it, with a wider grid of bandwidths and a third of the rows, nearer sources get such
weights on a handful of effective rows, whose divergence nobody can tell, and the variance reduced
estimator often turns towards the wrong source. With weights that are right about the sources in
reach and a guard that silences the others, both estimators are better than either was, and there
is little left for the variances to decide.
"""


def _has(runs: pd.DataFrame, method: str) -> bool:
    return method in set(runs["method"])


def _comparison(runs: pd.DataFrame, than: str) -> str:
    compared = tables.paired(runs, "variance_reduced", than, value="true_risk")
    return f"Variance reduced against {METHODS[than]}:\n\n{pipe_table(_compact(compared))}"


def _compact(compared: pd.DataFrame) -> pd.DataFrame:
    """Write differences as text, with c as columns where there is one."""
    cells = pd.Series(
        [
            f"**{text}**" if row["low"] > 0 or row["high"] < 0 else text
            for _, row in compared.iterrows()
            for text in [f"{row['mean']:.2g} ({row['low']:.2g} to {row['high']:.2g})"]
        ],
        compared.index,
    )
    if "c" not in compared.index.names:
        return cells.to_frame("difference")
    return _across(cells, "c").rename(columns=lambda c: f"c = {c:g}")


def _across(cells: pd.Series[str], level: str) -> pd.DataFrame:
    """Lay one level of the index out as columns, in the order in which it appears."""
    return cells.unstack(level, sort=False)  # noqa: PD010 - pivoting would sort the rows


def _counts(runs: pd.DataFrame) -> str:
    """Say how many seeds each setting has."""
    counts = runs.groupby("setting")["seed"].nunique().reindex(list(SETTINGS)).dropna().astype(int)
    if len(set(counts)) == 1:
        return f"{counts.iloc[0]} seeds"
    return ", ".join(f"{n} seeds ({setting})" for setting, n in counts.items())


def _verdicts(runs: pd.DataFrame) -> str:
    """Say in words where the paper's order holds, read off the intervals."""
    lines = []
    for setting in (name for name in SETTINGS if name in set(runs["setting"])):
        said = []
        for than in ("naive", "li", "unbiased"):
            if not _has(runs, than):
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
        lines.append(f"- *{setting}*: the variance reduced estimator is clearly {'; '.join(said)}.")
    return "\n".join(lines)


def _cs(values: list[str], all_of_them: int) -> str:
    if not values:
        return "no c"
    return "every c" if len(values) == all_of_them else f"c = {', '.join(values)}"


# -------------------------------------------------------------------- patients


TITLES = {"parkinson": "Parkinson (SVM, mean absolute error)", "gvhd": "GvHD (LightGBM, BCE)"}
PATIENTS_EXPLAINED = {
    "parkinson": """
The printed result of the variance reduced estimator comes from a collapsed estimate: in the
setting of the released code one patient, on whom nearly every weight is 0, has nearly all the
mass, so that the "target risk" is the loss on a few recordings of one arbitrary patient, scaled
by tiny weights. What it chooses is then a matter of luck, and so is the printed order. 93 % of the
label's variance lies between patients: p(y|x) itself moves, which no density ratio repairs.
""",
    "gvhd": """
Here all methods come close to the oracle, and the differences between them are of the size of
their standard errors: with ten seeds the printed order is not established. In the setting of the
released code the variance reduced estimate is again a small fraction of the loss it stands for.
""",
}


def _patients(folder: Path, pictures: Path) -> str:
    runs = read_runs(folder / RUNS)
    name = str(runs["experiment"].iloc[0])
    shown = draw(runs, pictures)
    compared = {
        than: tables.paired(runs, "variance_reduced", than)
        for than in ("naive", "unbiased", "li", "distbo")
        if _has(runs, than)
    }
    together = pd.concat(
        {METHODS[than]: frame for than, frame in compared.items()}, names=["against"]
    )
    return f"""
## {TITLES[name]}

{markdown(runs)}

{_images(shown, pictures)}

Variance reduced against the others, paired by seed (positive: it is better; 95 % intervals):

{pipe_table(_across(_compact(together)["difference"], "setting"))}

{_sound(runs, "score")}

{_collapse(runs, "all runs")}

{PATIENTS_EXPLAINED[name].strip()}
"""


def _sound(runs: pd.DataFrame, value: str) -> str:
    """Compare the guarded setting with the other two, method by method."""
    compared = {}
    for method in ("unbiased", "variance_reduced"):
        for than in ("as-published", "as-described"):
            frame = tables.paired_settings(runs, method, "guarded", than, value=value)
            compared[METHODS[method], than] = _compact(frame).reset_index(drop=True)
    together = pd.concat(compared, names=["method", "guarded against"]).droplevel(-1)
    title = "The guarded setting against the others (positive: it is better):"
    return f"{title}\n\n{pipe_table(together)}"


def _collapse(runs: pd.DataFrame, which: str) -> str:
    """Show whether the variance reduced estimate was left to one source without overlap."""
    return f"""
What the variance reduced estimate rests on ({which}): median share of the source that counts most
and the mean of its density ratios (which should be 1), share of the runs in which one source has
more than 99 %, share in which that source's mean ratio is below 0.1, and the median of estimate /
score.

{pipe_table(tables.collapse(runs))}
""".strip()


# -------------------------------------------------------------------- regret


REGRET_EXPLAINED = """
The theorem holds, more often than it promises, because Chebyshev's inequality is loose: the bound
falls like 1/sqrt(n) and the regret like 1/n. One step of the proof is not sound: lemma B takes the
chosen theta as fixed, although it was chosen on the same rows. With poor overlap (larger c) the
lemma itself fails, and the plug-in version that a user has fails with it; the guard notices (it
reports that the estimate fell back, and `regret_bound` is then infinite).
"""


def _regret(folder: Path, pictures: Path) -> str:
    frame = pd.read_csv(folder / RUNS)
    figures.save(regret_figure(frame), pictures / "regret")
    return f"""
## Regret on the toy problem

How often the main theorem's bound holds, over {frame["seed"].nunique()} seeds (c =
{frame["c"].iloc[0]:g}, B = {frame["B"].max()}), with true variances ("theorem"), its two lemmas,
and with what a user has ("plug-in"):

{pipe_table(coverage(frame))}

How the regret shrinks with rows and trials:

{pipe_table(shrinkage(frame))}

![Regret and its bound]({pictures.name}/regret.svg)

{REGRET_EXPLAINED.strip()}
"""


# -------------------------------------------------------------------- the rest


def _images(paths: list[Path], pictures: Path) -> str:
    drawn = [path for path in paths if path.suffix == ".svg"]
    return "\n\n".join(f"![{path.stem}]({pictures.name}/{path.name})" for path in drawn)


def _provenance(results: Path, there: list[str]) -> str:
    lines = ["## How this was made", ""]
    versions: dict[str, Any] = {}
    for name in there:
        noted = json.loads((results / name / OPTIONS).read_text())
        versions = noted["versions"]
        runs = pd.read_csv(results / name / RUNS)
        options = ", ".join(f"{key} {value}" for key, value in noted["options"].items())
        lines.append(
            f"- `shiftune reproduce {name} --out {results.name}/{name}`: {len(runs)} runs, seeds 0 "
            f"to {runs['seed'].max()} ({options}); begun {noted['begun']}"
        )
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    return "\n".join([*lines, "", f"With {packages}."])
