"""The page that shows all results and says what they mean; every figure in it is computed."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pandas as pd

from shiftune.errors import ProblemError
from shiftune.paper import figures, tables
from shiftune.paper.markdown import METHODS, markdown, pipe_table
from shiftune.paper.record import RUNS, noted_in, read_runs
from shiftune.paper.regret import figure as regret_figure
from shiftune.paper.regret.reproduction import POOR_OVERLAP, read_study
from shiftune.paper.regret.tables import coverage_table, shrinkage_table
from shiftune.paper.reproduction import draw, worked_example
from shiftune.paper.settings import SETTINGS
from shiftune.paper.weights import weights_by_distance
from shiftune.ratio import Guard

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
    try:
        pictures.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProblemError(
            f"{pictures} cannot be a folder for figures ({error.strerror}); give another --out"
        ) from error
    sections: dict[str, Callable[[Path, Path], str]] = {
        "toy": _toy,
        "parkinson": _patients,
        "gvhd": _patients,
        "regret": _regret,
    }
    parts = [INTRODUCTION.format(settings=_settings()), f"## Worked example\n\n{worked_example()}"]
    parts += [sections[name](results / name, pictures) for name in there]
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


def _runs(folder: Path) -> pd.DataFrame:
    """Return the runs of an experiment that have a score, if they can be compared at all."""
    runs = read_runs(folder / RUNS).dropna(subset="score")
    found = set(runs["experiment"])
    if found != {folder.name}:
        raise ProblemError(f"{folder} should hold runs of {folder.name}, and has {sorted(found)}")
    if "variance_reduced" not in set(runs["method"]):
        raise ProblemError(
            f"{folder} has no runs of variance_reduced, with which the page compares; run "
            f"shiftune reproduce {folder.name} -m variance_reduced --out {folder}"
        )
    return runs


def _settings() -> str:
    return "\n".join(
        textwrap.fill(f"- *{setting.name}*: {setting.described}.", 100, subsequent_indent="  ")
        for setting in SETTINGS.values()
    )


# -------------------------------------------------------------------- toy


def _toy(folder: Path, pictures: Path) -> str:
    runs = _runs(folder)
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

Differences in *true* risk, paired by seed, with 95 % intervals; positive: the variance reduced
estimator is better; bold: the interval lies on one side of 0.

{comparisons}

{_verdicts(runs)}

{_growth(runs)}

{_sound(runs, "true_risk")}

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


def _has(runs: pd.DataFrame, method: str) -> bool:
    return method in set(runs["method"])


def _comparison(runs: pd.DataFrame, than: str) -> str:
    compared = tables.paired(runs, "variance_reduced", than, value="true_risk")
    seeds = _span(compared["n"])
    return (
        f"Variance reduced against {METHODS[than]} ({seeds} seeds):\n\n"
        f"{pipe_table(_compact(compared))}"
    )


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


def _growth(runs: pd.DataFrame) -> str:
    if not _has(runs, "unbiased"):
        return ""
    slopes = tables.trend(runs, "variance_reduced", "unbiased", value="true_risk")
    return f"{GROWTH.strip()}\n\n{pipe_table(slopes)}"


GROWTH = """
Does the advantage over the unbiased estimator grow with c? Slope of the difference over c, one
per seed:
"""


def _span(counts: pd.Series[int]) -> str:
    low, high = counts.min(), counts.max()
    return f"{low}" if low == high else f"{low} to {high}"


def _verdicts(runs: pd.DataFrame) -> str:
    """Say in words where the paper's order holds, read off the intervals."""
    lines = []
    for setting in (name for name in SETTINGS if name in set(runs["setting"])):
        said = []
        for than in ("naive", "li", "unbiased", "distbo"):
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


# -------------------------------------------------------------------- patients


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


def _patients(folder: Path, pictures: Path) -> str:
    runs = _runs(folder)
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

{_collapsed_in_words(runs)}

{PATIENTS_EXPLAINED[name].strip()}
"""


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


def _sound(runs: pd.DataFrame, value: str) -> str:
    """Compare the guarded setting with the other two, method by method."""
    compared = {}
    there = set(runs["setting"])
    for method in (name for name in ("unbiased", "variance_reduced") if _has(runs, name)):
        for than in (name for name in ("as-published", "as-described") if name in there):
            if "guarded" not in there:
                continue
            frame = tables.paired_settings(runs, method, "guarded", than, value=value)
            compared[METHODS[method], than] = _compact(frame).reset_index(drop=True)
    if not compared:
        return ""
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
The theorem rests on Chebyshev's inequality, which is loose: the bound falls like 1/sqrt(n), the
regret faster. And one step of its proof is not sound: lemma B takes the chosen theta as fixed,
although it was chosen on the same rows. Where overlap is poor that shows, in the lemma and in the
plug-in bound that a user has. `ShiftSearch.regret_bound` is infinite where no source overlaps
enough with the target for an estimate of the unbiased class.
"""


def _regret(folder: Path, pictures: Path) -> str:
    frame = read_study(folder / RUNS)
    poor = frame["c"] == POOR_OVERLAP
    usual = frame[~poor]
    figures.save(regret_figure(usual), pictures / "regret")
    return f"""
## Regret on the toy problem

How often the main theorem's bound holds, over {frame["seed"].nunique()} seeds (c =
{usual["c"].iloc[0]:g}, B = {frame["B"].max()}, delta = 0.1 / 0.2, so at least 0.90 / 0.80 is
promised), with true variances ("theorem"), its two lemmas, and with what a user has ("plug-in"):

{pipe_table(coverage_table(usual))}

Mean regret by rows and by trials (at the largest of the other):

{pipe_table(shrinkage_table(usual, "n"))}

{pipe_table(shrinkage_table(usual, "B"))}

![Regret and its bound]({pictures.name}/regret.svg)

The same where overlap is poor, c = {POOR_OVERLAP:g}:

{pipe_table(coverage_table(frame[poor]))}

{REGRET_EXPLAINED.strip()}
"""


# -------------------------------------------------------------------- the rest


def _images(paths: list[Path], pictures: Path) -> str:
    drawn = [path for path in paths if path.suffix == ".svg"]
    return "\n\n".join(f"![{path.stem}]({pictures.name}/{path.name})" for path in drawn)


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
