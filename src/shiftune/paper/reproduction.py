"""An experiment from its runs to its table and figures, in one folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from shiftune.errors import ProblemError
from shiftune.paper import figures
from shiftune.paper.choosing import METHOD_NAMES
from shiftune.paper.example import WORKED_EXAMPLE
from shiftune.paper.markdown import markdown, pipe_table
from shiftune.paper.record import RUNS, note, read_runs
from shiftune.paper.regret import figure, regret_study
from shiftune.paper.regret.tables import coverage_table, shrinkage_table
from shiftune.paper.runs import run_all
from shiftune.paper.settings import SETTINGS
from shiftune.report.figures import need_matplotlib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shiftune.paper.choosing import MethodName
    from shiftune.paper.experiments import Experiment
    from shiftune.paper.settings import SettingName

TABLE = "table.md"
# Seeds of the regret study that are written together, and the c at which it looks at poor overlap.
BLOCK = 10
POOR_OVERLAP = 5.0


def reproduce(
    experiment: Experiment,
    seeds: range,
    folder: str | Path,
    *,
    methods: Sequence[MethodName] = METHOD_NAMES,
    settings: Sequence[SettingName] = tuple(SETTINGS),
    n_jobs: int = 1,
    progress: bool | None = None,
    command: str = "from Python",
) -> pd.DataFrame:
    """Run an experiment of the paper (or what is missing of it) and write table and figures.

    Parameters
    ----------
    experiment : Toy or Patients
        See `shiftune.paper`.
    seeds : range
    folder : path
        Gets ``runs.csv`` (one line per run, as it finishes), ``options.json`` with the versions,
        ``table.md`` and the figures as PNG and SVG.
    methods, settings
        Default: all.
    n_jobs : int
        Processes.
    progress : bool, optional
        Show a progress bar; default: on terminals.
    command : str
        How this was called, for the record.

    Returns
    -------
    DataFrame
        The runs that were asked for; see `shiftune.paper.record.Run` for the columns.
    """
    need_matplotlib()
    folder = Path(folder)
    runs = run_all(
        experiment,
        seeds,
        tuple(dict.fromkeys(methods)),
        tuple(dict.fromkeys(settings)),
        folder,
        n_jobs=n_jobs,
        progress=progress,
        command=command,
    )
    if runs["score"].isna().all():
        raise ProblemError(
            f"all {len(runs)} runs failed; the first reason: {runs['failure'].iloc[0]}"
        )
    # Of all runs in the folder, so that it does not contradict itself after a call for a few.
    everything = read_runs(folder / RUNS).dropna(subset="score")
    (folder / TABLE).write_text(markdown(everything) + "\n", encoding="utf-8")
    draw(everything, folder)
    return runs


def draw(runs: pd.DataFrame, folder: Path) -> list[Path]:
    """Write the figures of an experiment; return their paths, the PNG of each first."""
    if runs["c"].isna().all():
        return figures.save(figures.by_method(runs), folder / runs["experiment"].iloc[0])
    paths = []
    for setting in runs["setting"].unique():
        paths += figures.save(figures.over_c(runs, setting), folder / f"toy-{setting}")
    if {"unbiased", "variance_reduced"} <= set(runs["method"]):
        paths += figures.save(figures.ratio_over_c(runs), folder / "toy-ratio")
    return paths


def reproduce_regret(
    seeds: range,
    folder: str | Path,
    *,
    ns: Sequence[int] = (100, 300, 1000, 3000),
    Bs: Sequence[int] = (5, 10, 20, 50),
    n_jobs: int = 1,
    progress: bool | None = None,
    command: str = "from Python",
) -> pd.DataFrame:
    """Run the regret study (`shiftune.paper.regret`) and write table and figure.

    Known ratios with GP-LCB and random search and logistic ratios with GP-LCB, at c = 2 for every
    n, and at c = 5, where overlap is poor, for the two smallest. Seeds that the folder has are not
    run again.
    """
    need_matplotlib()
    folder = Path(folder)
    note(folder, {"experiment": "regret", "ns": list(ns), "Bs": list(Bs)}, command)
    path = folder / RUNS
    done = set(read_study(path)["seed"]) if path.exists() else set()
    missing = [seed for seed in seeds if seed not in done]
    for start in range(0, len(missing), BLOCK):
        block = missing[start : start + BLOCK]
        study = partial(regret_study, block, Bs=Bs, n_jobs=n_jobs, progress=progress)
        parts = [
            study(ns, samplers=("gp_lcb", "random")),
            study(ns, ratios=("logistic",)),
            study(ns[:2], c=POOR_OVERLAP, methods=("variance_reduced",)),
            study(ns[:2], c=POOR_OVERLAP, methods=("variance_reduced",), ratios=("logistic",)),
        ]
        frame = pd.concat(parts, ignore_index=True)
        frame.to_csv(path, mode="a", header=not path.exists(), index=False)
    frame = read_study(path)
    frame = frame[frame["seed"].isin(list(seeds))]
    (folder / TABLE).write_text(regret_tables(frame) + "\n", encoding="utf-8")
    figures.save(figure(frame[frame["c"] < POOR_OVERLAP]), folder / "regret")
    return frame


def read_study(path: Path) -> pd.DataFrame:
    """Return the runs of a regret study."""
    try:
        frame = pd.read_csv(path)
        frame[["seed", "c", "B", "regret"]].astype(float)
    except (ValueError, KeyError, OSError) as error:
        raise ProblemError(
            f"{path} is damaged or of another experiment ({error}); give another folder"
        ) from error
    return frame


def regret_tables(frame: pd.DataFrame) -> str:
    """Return how often the bound holds and how the regret shrinks, as Markdown."""
    poor = frame["c"] == POOR_OVERLAP
    usual = frame[~poor]
    parts = {
        f"How often the bound holds (c = {usual['c'].iloc[0]:g}, delta = 0.1 / 0.2)": (
            coverage_table(usual)
        ),
        f"The same where overlap is poor (c = {POOR_OVERLAP:g})": coverage_table(frame[poor]),
        "Mean regret by rows, at the largest B": shrinkage_table(usual, "n"),
        "Mean regret by trials, at the largest n": shrinkage_table(usual, "B"),
    }
    return "\n\n".join(f"{title}:\n\n{pipe_table(table)}" for title, table in parts.items())


def worked_example() -> str:
    """Return the paper's worked example as a table, beside the printed values.

    >>> print(worked_example())
    |                                | here   | paper  |
    | ------------------------------ | ------ | ------ |
    | divergence of source 1         | 252.81 | 252.81 |
    | divergence of source 2         | 4.27   | 4.27   |
    | weight of source 1             | 0.017  | 0.017  |
    | weight of source 2             | 0.983  | 0.983  |
    | variance, unbiased             | 64.27  | 64.27  |
    | variance, first source dropped | 4.27   | 4.27   |
    | variance, variance reduced     | 4.20   | 4.21   |
    """
    one, two = WORKED_EXAMPLE.divergences
    first, second = WORKED_EXAMPLE.lambdas
    variances = WORKED_EXAMPLE.variances
    rows = {
        "divergence of source 1": (f"{one:.2f}", "252.81"),
        "divergence of source 2": (f"{two:.2f}", "4.27"),
        "weight of source 1": (f"{first:.3f}", "0.017"),
        "weight of source 2": (f"{second:.3f}", "0.983"),
        "variance, unbiased": (f"{variances['unbiased']:.2f}", "64.27"),
        "variance, first source dropped": (f"{variances['first source dropped']:.2f}", "4.27"),
        "variance, variance reduced": (f"{variances['variance reduced']:.2f}", "4.21"),
    }
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["here", "paper"])
    return pipe_table(frame.rename_axis(""))
