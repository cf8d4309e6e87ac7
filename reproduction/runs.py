"""All runs of an experiment, written to a file as they finish."""

from __future__ import annotations

import json
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

from reproduction.record import RUNS, Run, append_run, note, read_runs
from reproduction.settings import SETTINGS
from shiftune import _interrupts
from shiftune.errors import StorageError
from shiftune.search._trial import reason
from shiftune.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from reproduction.choosing import MethodName
    from reproduction.experiments import Case, Experiment, Scored
    from reproduction.settings import SettingName

Task = tuple["SettingName", "MethodName", "Case"]


def run_all(
    experiment: Experiment,
    seeds: range,
    methods: Sequence[MethodName],
    settings: Sequence[SettingName],
    folder: Path,
    *,
    n_jobs: int = 1,
    progress: bool | None = None,
    command: str = "from Python",
) -> pd.DataFrame:
    """Do the runs that the folder does not have yet; return all requested ones.

    Parameters
    ----------
    experiment : Experiment
    seeds, methods, settings
        The requested runs.
    folder : Path
        Runs are added to its ``runs.csv`` as they finish, also those that fail, with the reason.
        A folder of an experiment with other options (budget, rows, ...) is refused. One call at a
        time can use it.
    n_jobs : int
        Processes; every run uses one thread.
    progress : bool, optional
        Show a progress bar; default: on terminals.
    command : str
        The call, for the record.
    """
    experiment.prepare()
    note(folder, experiment.options, command)
    path = folder / RUNS
    if path.exists():
        _drop_torn_line(path)
    earlier = read_runs(path)
    strangers = set(earlier["experiment"]) - {experiment.name}
    if strangers:
        raise StorageError(f"{folder} has runs of {sorted(strangers)}; choose another folder")
    done = set(_keys(earlier))
    tasks: list[Task] = [
        (setting, method, case)
        for case in experiment.cases(seeds)
        for setting in settings
        for method in methods
    ]
    asked = {_key(setting, method, case.c, case.seed) for setting, method, case in tasks}
    missing = [
        task for task in tasks if _key(task[0], task[1], task[2].c, task[2].seed) not in done
    ]
    with (
        _interrupts.deferred(),
        Workers(_run, experiment, n_jobs=n_jobs) as workers,
        tqdm(
            total=len(tasks),
            initial=len(tasks) - len(missing),
            disable=None if progress is None else not progress,
            desc=experiment.name,
            unit="run",
            dynamic_ncols=True,
        ) as bar,
    ):
        for key, task in enumerate(missing):
            workers.submit(key, task)
        for key in range(len(missing)):
            append_run(path, workers.result(key))
            bar.update()
    runs = read_runs(path)
    return runs[[key in asked for key in _keys(runs)]].reset_index(drop=True)


def _run(experiment: Experiment, task: Task) -> Run:
    setting, method, case = task
    start, cpu = time.perf_counter(), time.process_time()
    try:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # models count as they are
            scored = experiment.run(method, SETTINGS[setting], case)
        found = _found(scored)
    except Exception as error:  # one run that fails must not cost the others
        found = {
            "params": "",
            **dict.fromkeys(("score", "true_risk", "estimate"), np.nan),
            **dict.fromkeys(("top_share", "top_mean_weight"), np.nan),
            "left_out": 0,
            "failure": reason(error),
        }
    return Run(
        experiment=experiment.name,
        setting=setting,
        method=method,
        c=case.c,
        seed=case.seed,
        **found,
        seconds=round(time.perf_counter() - start, 3),
        cpu_seconds=round(time.process_time() - cpu, 3),
    )


def _found(scored: Scored) -> dict[str, Any]:
    """The choice, its score, and the source with the largest share in its estimate."""
    risk = scored.choice.risk
    share = weight = estimate = np.nan
    if risk is not None:
        shares = risk.lam * risk.n
        top = int(np.argmax(shares))
        share, weight, estimate = float(shares[top]), float(risk.mean_weights[top]), risk.value
    return {
        "params": json.dumps(scored.choice.params),
        "score": scored.score,
        "true_risk": scored.true_risk,
        "estimate": estimate,
        "top_share": share,
        "top_mean_weight": weight,
        "left_out": 0 if risk is None else sum(map(bool, risk.left_out)),
    }


def _key(setting: str, method: str, c: float, seed: int) -> tuple[Any, ...]:
    return setting, method, None if np.isnan(c) else float(c), int(seed)


def _keys(runs: pd.DataFrame) -> list[tuple[Any, ...]]:
    return [_key(*row) for row in runs[["setting", "method", "c", "seed"]].to_numpy()]


def _drop_torn_line(path: Path) -> None:
    r"""Cut off a last line that was not written to its end, by a process that was killed.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "runs.csv"
    ...     _ = path.write_text("a,b\n1,2\n3,")
    ...     _drop_torn_line(path)
    ...     path.read_text()
    'a,b\n1,2\n'
    """
    with path.open("rb+") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
