"""One search by each system: `python drivers.py SYSTEM FOLDER TRIALS SECONDS`; again, it continues.

The objective is the same everywhere: it sleeps, and returns a number. It notes in a file of its
own when it begins and ends, whatever the system records. The last line printed has the parameters
of all trials that the system holds to be complete.

Every system is used as its documentation advises for runs that may be killed. This file imports
only what its system needs, since the others are not installed beside shiftune.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def objective(x: float, folder: str, seconds: float) -> float:
    """Sleep; note begin and end, with the process that did it."""
    note(folder, "begin", x)
    time.sleep(seconds)
    note(folder, "end", x)
    return (x - 0.3) ** 2


def note(folder: str, what: str, x: float) -> None:
    """Append a line to the file of evaluations; short lines are written whole."""
    line = f"{what} {x!r} {os.getpid()} {time.time()}\n".encode()
    file = os.open(os.environ["EVALUATIONS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line)
    os.close(file)


def finished(xs: list[float], others: int) -> None:
    """Print what the system holds at its end: complete trials, and those in any other state."""
    print(json.dumps({"complete": xs, "others": others}), flush=True)


def by_optuna(folder: str, trials: int, seconds: float, *, heartbeat: bool = False) -> None:
    """SQLite, two threads; with a heartbeat, trials of dead processes are queued again."""
    import optuna
    from optuna.study import MaxTrialsCallback
    from optuna.trial import TrialState

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    options: dict[str, Any] = {}
    if heartbeat:
        from optuna.storages import RetryHeartbeatStaleTrialCallback

        again = RetryHeartbeatStaleTrialCallback()
        options = {"heartbeat_interval": 1, "grace_period": 3}
        options["heartbeat_stale_trial_callback"] = again
    url = f"sqlite:///{folder}/study.db"
    patient = {"connect_args": {"timeout": 60}}
    storage = optuna.storages.RDBStorage(url, engine_kwargs=patient, **options)
    study = optuna.create_study(
        storage=storage,
        study_name="s",
        load_if_exists=True,
        sampler=optuna.samplers.RandomSampler(),
    )
    enough = MaxTrialsCallback(trials, states=(TrialState.COMPLETE,))
    complete = len(study.get_trials(states=(TrialState.COMPLETE,)))
    if complete < trials:
        study.optimize(
            lambda trial: objective(trial.suggest_float("x", 0, 1), folder, seconds),
            n_jobs=1 if os.environ.get("ONE") else 2,
            callbacks=[enough],
        )
    held = study.get_trials()
    xs = [t.params["x"] for t in held if t.state == TrialState.COMPLETE]
    finished(xs, len(held) - len(xs))


def by_ray(folder: str, trials: int, seconds: float) -> None:
    """Two actors at a time; an experiment in the folder is restored."""
    import ray
    from ray import tune

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")

    def trainable(config: dict[str, float]) -> dict[str, float]:
        return {"loss": objective(config["x"], folder, seconds)}

    path = Path(folder) / "experiment"
    if tune.Tuner.can_restore(str(path)):
        tuner = tune.Tuner.restore(str(path), trainable, resume_errored=True)
    else:
        tuner = tune.Tuner(
            trainable,
            param_space={"x": tune.uniform(0, 1)},
            tune_config=tune.TuneConfig(num_samples=trials, metric="loss", mode="min"),
            run_config=tune.RunConfig(
                name="experiment",
                storage_path=folder,
                failure_config=tune.FailureConfig(max_failures=3),
                verbose=0,
            ),
        )
    results = tuner.fit()
    xs = [r.config["x"] for r in results if r.metrics and "loss" in r.metrics]
    finished(xs, len(results) - len(xs))
    ray.shutdown()


def by_dask(folder: str, trials: int, seconds: float) -> None:
    """Two workers; nothing is kept, so a driver that is killed begins again."""
    import random

    from distributed import Client, LocalCluster, as_completed

    xs = [random.random() for _ in range(trials)]
    options = {"threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
        futures = client.map(objective, xs, folder=folder, seconds=seconds, pure=False)
        done = [f for f in as_completed(futures) if f.status == "finished"]
        keys = {f.key for f in done}
        held = [x for f, x in zip(futures, xs, strict=True) if f.key in keys]
    finished(held, trials - len(held))


def by_shiftune(folder: str, trials: int, seconds: float, *, join: bool = False) -> None:
    """Journal, two worker processes, one fit per trial."""
    import warnings

    import numpy as np
    from faults_model import Sleeper

    from shiftune import ShiftProblem, ShiftSearch

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    sites = {name: (rng.normal(size=(20, 1)), rng.normal(size=20)) for name in "BCD"}
    search = ShiftSearch(
        Sleeper(folder=folder, seconds=seconds),
        {"x": (0.0, 1.0)},
        risk="naive",
        final="best",
        sampler="random",
        n_trials=trials,
        n_jobs=2,
        trial_timeout=600,
        storage=Path(folder) / "study.journal",
        join=join,
        progress=False,
    )
    search.fit(ShiftProblem.from_sites(sites, rng.normal(size=(20, 1))))
    held = search.study_.get_trials()
    xs = [t.params.get("x", 0.5) for t in held if t.state.name == "COMPLETE"]
    finished(xs, len(held) - len(xs))


SYSTEMS = {
    "optuna": by_optuna,
    "optuna-heartbeat": lambda *given: by_optuna(*given, heartbeat=True),
    "ray": by_ray,
    "dask": by_dask,
    "shiftune": by_shiftune,
    "shiftune-join": lambda *given: by_shiftune(*given, join=True),
}

if __name__ == "__main__":
    SYSTEMS[sys.argv[1]](sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
