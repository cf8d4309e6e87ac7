"""All runs of an experiment, kept in a file as they finish: it can be stopped and resumed."""

from __future__ import annotations

import csv
import json
import platform
import time
from dataclasses import asdict, dataclass, fields
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

from shiftune.errors import ProblemError
from shiftune.paper.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from shiftune.paper.choosing import MethodName
    from shiftune.paper.experiments import Case, Experiment, Scored
    from shiftune.paper.settings import SettingName

RUNS, OPTIONS = "runs.csv", "options.json"
PACKAGES = ("shiftune", "numpy", "scipy", "pandas", "scikit-learn", "optuna", "lightgbm")


@dataclass(frozen=True, slots=True)
class Run:
    """One row of the file: what was run, what was chosen, how good it is.

    Attributes
    ----------
    experiment, setting, method, c, seed
        What was run.
    params : str
        The chosen parameters, as JSON.
    score : float
        Loss at the target.
    true_risk : float
        Known for the toy problem only.
    estimate : float
        What the estimator said of its choice.
    top_share, top_mean_weight : float
        Largest share of one source in that estimate, and the mean of its density ratios, which
        should be 1.
    left_out : int
        Sources without a say.
    seconds, cpu_seconds : float
    """

    experiment: str
    setting: str
    method: str
    c: float
    seed: int
    params: str
    score: float
    true_risk: float
    estimate: float
    top_share: float
    top_mean_weight: float
    left_out: int
    seconds: float
    cpu_seconds: float

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells runs of one experiment apart."""
        return _key(self.setting, self.method, self.c, self.seed)


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
) -> pd.DataFrame:
    """Run what the folder does not have yet, and return all that was asked for.

    Parameters
    ----------
    experiment : Experiment
    seeds, methods, settings
        What to run.
    folder : Path
        Runs are added to its ``runs.csv`` as they finish. A folder of an experiment with other
        options (budget, rows, ...) is refused.
    n_jobs : int
        Processes; every run uses one thread.
    progress : bool, optional
        Show a progress bar; default: on terminals.
    """
    _check_options(experiment, folder)
    path = folder / RUNS
    done = set(_keys(read_runs(path)))
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
    finished = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)(
        joblib.delayed(_run)(experiment, *task) for task in missing
    )
    shown = None if progress is None else not progress
    with tqdm(
        total=len(tasks), initial=len(tasks) - len(missing), disable=shown, unit="run"
    ) as bar:
        bar.set_description(experiment.name)
        for run in finished:
            _append(path, run)
            bar.set_postfix_str(f"{run.setting}, {run.method}", refresh=False)
            bar.update()
    runs = read_runs(path)
    return runs[[key in asked for key in _keys(runs)]].reset_index(drop=True)


def _run(experiment: Experiment, setting: SettingName, method: MethodName, case: Case) -> Run:
    start, cpu = time.perf_counter(), time.process_time()
    with threadpool_limits(1):
        scored = experiment.run(method, SETTINGS[setting], case)
    share, weight, left_out = _top_source(scored)
    risk = scored.choice.risk
    return Run(
        experiment=experiment.name,
        setting=setting,
        method=method,
        c=case.c,
        seed=case.seed,
        params=json.dumps(scored.choice.params),
        score=scored.score,
        true_risk=scored.true_risk,
        estimate=np.nan if risk is None else risk.value,
        top_share=share,
        top_mean_weight=weight,
        left_out=left_out,
        seconds=time.perf_counter() - start,
        cpu_seconds=time.process_time() - cpu,
    )


def _top_source(scored: Scored) -> tuple[float, float, int]:
    """Share and mean weight of the source that counts most, and how many count nothing."""
    risk = scored.choice.risk
    if risk is None:
        return np.nan, np.nan, 0
    shares = risk.lam * risk.n
    top = int(np.argmax(shares))
    return float(shares[top]), float(risk.mean_weights[top]), sum(map(bool, risk.left_out))


def _key(setting: str, method: str, c: float, seed: int) -> tuple[Any, ...]:
    return setting, method, None if np.isnan(c) else float(c), int(seed)


def _keys(runs: pd.DataFrame) -> list[tuple[Any, ...]]:
    return [_key(*row) for row in runs[["setting", "method", "c", "seed"]].to_numpy()]


# -------------------------------------------------------------------- the file


def read_runs(path: Path) -> pd.DataFrame:
    """Return the runs of a file, in the order of seeds; without a last line torn by a kill."""
    names = [field.name for field in fields(Run)]
    if not path.exists():
        return pd.DataFrame(columns=names)
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    runs = pd.read_csv(StringIO(whole))
    if list(runs.columns) != names:
        raise ProblemError(
            f"{path} is no file of runs (or of another version); give another folder"
        )
    order = runs.sort_values(["c", "seed", "setting", "method"], kind="stable")
    return order.reset_index(drop=True)


def _append(path: Path, run: Run) -> None:
    line = StringIO()
    writer = csv.writer(line, lineterminator="\n")
    if not path.exists():
        writer.writerow([field.name for field in fields(Run)])
    writer.writerow(["" if value != value else value for value in asdict(run).values()])
    with path.open("a") as file:
        file.write(line.getvalue())


def _check_options(experiment: Experiment, folder: Path) -> None:
    """Keep runs of different budgets and sizes apart; note the versions."""
    make_folder(folder)
    options, path = experiment.options, folder / OPTIONS
    if not path.exists():
        write_options(options, folder)
        return
    known = json.loads(path.read_text())["options"]
    if known != options:
        raise ProblemError(
            f"{folder} holds runs with other options ({_differing(known, options)}); give "
            "another folder"
        )


def make_folder(folder: Path) -> None:
    """Make the folder, unless it is there; say so where that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProblemError(
            f"{folder} cannot be a folder for results ({error.strerror}); give another"
        ) from error


def write_options(options: dict[str, Any], folder: Path) -> None:
    """Note with what options, on which day and with which versions the runs were begun."""
    noted = {"options": options, "begun": date.today().isoformat(), "versions": _versions()}
    (folder / OPTIONS).write_text(json.dumps(noted, indent=2) + "\n")


def _differing(known: dict[str, Any], options: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {known.get(name)} instead of {value}"
        for name, value in options.items()
        if known.get(name) != value
    )


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _installed(PACKAGES):
        found[package] = version(package)
    return found


def _installed(packages: Iterable[str]) -> list[str]:
    there = []
    for package in packages:
        try:
            version(package)
        except PackageNotFoundError:
            continue
        there.append(package)
    return there
