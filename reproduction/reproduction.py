"""An experiment from its runs to its table and figures, in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from reproduction import figures
from reproduction.choosing import METHOD_NAMES
from reproduction.example import WORKED_EXAMPLE
from reproduction.markdown import markdown, pipe_table
from reproduction.record import RUNS, TABLE, read_runs
from reproduction.runs import run_all
from reproduction.settings import SETTINGS
from shiftune.errors import ProblemError
from shiftune.report.figures import need_matplotlib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reproduction.choosing import MethodName
    from reproduction.experiments import Experiment
    from reproduction.settings import SettingName


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
        See `reproduction`.
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
        The runs that were asked for; see `reproduction.record.Run` for the columns.
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
