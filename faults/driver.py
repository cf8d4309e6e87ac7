"""Searches that faults are done to: the command line, or a script that uses the API."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from optuna.distributions import FloatDistribution
from reproduction.toy import toy_problem
from sklearn.linear_model import Ridge

from faults.around import AROUND, NOBODY
from shiftune import _interrupts, cli
from shiftune.search import ShiftSearch, _driver
from shiftune.search._storage import load_study
from shiftune.workers import _in_worker, _processes

N_TRIALS = 8
# Of this many seconds only hanging trials take notice; with a limit, trials run in processes.
LIMIT = 20.0
RESULT = "result.txt"
STOPS = {signal.SIGINT, signal.SIGTERM}
# Name of the file that tells that a process is about to hang.
HANGING = "hanging"
DRIVER = "SHIFTUNE_FAULTS_DRIVER"


class Faulty(Ridge):
    """Ridge regression with a fault where `alpha` is large, except in the driver."""

    def __init__(self, alpha: float = 1.0, fault: str = "") -> None:
        super().__init__(alpha=alpha)
        self.fault = fault

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Faulty:
        """Fit, or not."""
        if self.fault and self.alpha > 100 and os.environ.get(DRIVER) != str(os.getpid()):
            do_fault(self.fault)
        super().fit(X, y, sample_weight)
        return self


def do_fault(fault: str) -> None:
    """End, stop or block this process, by the name of a fault."""
    if fault == "raise":
        raise RuntimeError("a fault")
    if fault == "hang":
        Path(f"{HANGING}-{os.getpid()}").touch()
        ctypes.PyDLL(None).sleep(3600)  # without letting any other thread run
    if fault == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "exit":
        os._exit(1)
    if fault == "fork" and not os.fork():
        while True:
            time.sleep(1.0)
    if fault == "memory":
        while True:
            _leaked.append(np.ones(10_000_000))
    if fault == "leak":
        _leaked.append(np.ones(40_000_000))


_leaked: list[Any] = []


@dataclass(frozen=True)
class Driver:
    """A search: how it is started and where its trials run and are stored."""

    way: str = "script"
    """Or "command", or "cold command": with the imports of a new interpreter."""

    storage: str = "journal"
    jobs: int = 1
    place: str = "absolute"
    cluster: str = ""
    """File of a Dask scheduler."""

    fault: str = ""
    join: bool = False
    model: str = "ridge"
    """Or "xgboost" or "catboost", in a script."""

    n_trials: int = N_TRIALS
    around: str = ""
    """Circumstances, one of `AROUND`."""

    @property
    def name(self) -> str:
        """Words for the log."""
        where = "Dask" if self.cluster else f"{self.jobs} process{'es' * (self.jobs > 1)}"
        more = f", {self.around}" if self.around else ""
        return f"{self.way}, {self.model}, {self.storage}, {where}, {self.place} path{more}"

    def command(self, folder: Path) -> list[str]:
        """Return the arguments of the command line."""
        out = folder / "out" if self.place == "absolute" else "out"
        line = f"tune data.csv --site site --target A --label y --model ridge --trials {N_TRIALS}"
        jobs = f" --jobs {self.jobs}" + f" --trial-timeout {LIMIT:g}" * (self.jobs > 1)
        return [*f"{line}{jobs} --out".split(), str(out)]

    def study(self, folder: Path) -> str:
        """Return the storage, of which trials can be read."""
        path = folder / ("out/study.journal" if self.way != "script" else f"study.{self.storage}")
        if self.place == "relative" and self.way == "script":
            path = Path(path.name)
        return f"sqlite:///{path}" if self.storage == "sqlite" else str(path)

    def finished(self, folder: Path) -> dict[int, str]:
        """Return the finished trials by number, as text with their times."""
        path = self.study(folder).removeprefix("sqlite:///")
        if not (folder / path).exists():
            return {}
        inside = str(folder / path)
        try:
            trials = load_study(
                f"sqlite:///{inside}" if self.storage == "sqlite" else inside
            ).trials
        except Exception:  # no study yet
            return {}
        return {
            trial.number: f"{trial.params} {trial.value} {trial.datetime_complete}"
            for trial in trials
            if trial.state.is_finished() and trial.value is not None
        }

    def result(self, folder: Path) -> str | None:
        """Return what the search found, but for times; None before its end."""
        if self.way == "script":
            path = folder / RESULT
            return path.read_text() if path.exists() else None
        if not (folder / "out" / "report.html").exists():
            return None
        trials = pd.read_csv(folder / "out" / "trials.csv").drop(columns="seconds")
        return trials.to_csv() + (folder / "out" / "predictions.csv").read_text()

    def prepare(self, folder: Path) -> None:
        """Write what the search needs."""
        (folder / "tmp").mkdir(parents=True)
        if self.way != "script":
            write_table(folder / "data.csv")
        if self.around == "another user":
            for path in (folder, *folder.iterdir()):
                os.chown(path, NOBODY, NOBODY)

    def run(self, folder: Path) -> None:
        """Run in this process, which has been forked for it."""
        os.chdir(folder)
        tempfile.tempdir = str(folder / "tmp")
        os.environ[DRIVER] = str(os.getpid())
        if self.around:
            AROUND[self.around](folder)
        _processes.STOPPED_SECONDS, _in_worker.GRACE_SECONDS = 2.0, 1.0
        _driver.INTERVAL, _driver.POLL_SECONDS = 0.5, 0.05
        if self.way == "script":
            with _interrupts.deferred():
                hear_signals()
                self.run_script(folder)
        else:
            sys.argv = ["shiftune", *self.command(folder)]
            _interrupts.run(_load)

    def run_script(self, folder: Path) -> None:
        """Search as a script does, in this process."""
        warnings.simplefilter("ignore")
        options: dict[str, Any] = {"n_jobs": self.jobs}
        if self.jobs > 1:
            options["trial_timeout"] = LIMIT
        if self.cluster:
            from distributed import Client

            options = {"executor": Client(scheduler_file=self.cluster).get_executor}
        problem = toy_problem(1.0, n=60, random_state=1).problem
        space: dict[str, Any] = {"alpha": FloatDistribution(1e-3, 1e3, log=True)}
        if self.model != "ridge":
            space = {"learning_rate": FloatDistribution(0.01, 0.3, log=True)}
        search = ShiftSearch(
            _model(self.model, self.fault),
            space,
            n_trials=self.n_trials,
            sampler="random" if self.fault or self.n_trials > N_TRIALS else "gp_lcb",
            storage=self.study(folder),
            predictions_folder=folder / "predictions",
            join=self.join,
            progress=False,
            **options,
        )
        search.fit(problem)
        trials = search.trials_.drop(columns=["seconds", "failure"])
        text = trials.to_csv() + repr(search.risk_.value)
        if self.join:  # the order depends on who was faster
            text = repr(search.risk_.value)
        path = folder / (f"{os.getpid()}-{RESULT}" if self.join else RESULT)
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").rename(path)


def _model(name: str, fault: str) -> Any:
    if name == "xgboost":
        from xgboost import XGBRegressor

        return XGBRegressor(n_estimators=50, n_jobs=1)
    if name == "catboost":
        from catboost import CatBoostRegressor

        return CatBoostRegressor(
            iterations=50, thread_count=1, verbose=0, allow_writing_files=False
        )
    return Faulty(fault=fault)


def _load() -> Callable[[], object]:
    hear_signals()
    return cli.app


def hear_signals() -> None:
    """Receive signals, which are blocked until a process has its handlers."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


def write_table(path: Path) -> None:
    """Write a small table with three sites."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(150, 2)), columns=["a", "b"])
    frame["y"] = (frame["a"] + 2 * frame["b"] + 0.3 * rng.normal(size=150)).round(3)
    frame["site"] = list("ABC") * 50
    frame.to_csv(path, index=False)
