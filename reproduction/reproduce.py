"""An experiment from its runs to its table and figures, in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reproduction.choosing import METHOD_NAMES
from reproduction.drawing import can_draw
from reproduction.figures import draw
from reproduction.markdown import markdown
from reproduction.record import RUNS, TABLE, read_runs
from reproduction.runs import run_all
from reproduction.settings import SETTINGS
from shiftune.errors import ProblemError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

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
    """Run an experiment of the paper (or its missing runs) and write table and figures.

    Parameters
    ----------
    experiment : Toy or Patients
        See `reproduction.experiments`.
    seeds : range
    folder : path
        Gets ``runs.csv`` (one line per run, as it finishes), ``options.json`` with the versions,
        a file of facts about the data, ``table.md`` and (with Matplotlib) the figures as PNG and
        SVG.
    methods, settings
        Default: all.
    n_jobs : int
        Processes.
    progress : bool, optional
        Show a progress bar; default: on terminals.
    command : str
        The call, for the record.

    Returns
    -------
    DataFrame
        The requested runs; see `reproduction.record.Run` for the columns.
    """
    figures = can_draw()
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
    experiment.describe(folder)
    # All runs of the folder, so that its files agree after a call for a few.
    everything = read_runs(folder / RUNS).dropna(subset="score")
    (folder / TABLE).write_text(markdown(everything) + "\n", encoding="utf-8")
    if figures:
        draw(everything, folder)
    return runs
