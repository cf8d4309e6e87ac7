"""Whole searches beside AutoML in the arena, at equal CPU time, on hidden targets.

    SHIFTUNE_DATA=FOLDER AUTOML/bin/python benchmarks/arena/automl.py --out FILE
        [--first-seed 95] [--seeds 96] [--targets 1] [--seconds 15] [--labels 0 30]
        [--searches auto "naive lightgbm" flaml autogluon] [--datasets NAME ...] [--stop-after 600]

`benchmarks/results/peers.md` has what it found; `python -m benchmarks.peers development` prints the
tables of that page. The versions that AutoGluon and FLAML ask for are not those of shiftune's
tests, so everything is run in an environment of its own, here AUTOML, without torch:

    python3.11 -m venv AUTOML
    AUTOML/bin/pip install -r benchmarks/arena/automl-requirements.txt
    AUTOML/bin/pip install --no-deps -e .

A cell is a (data set, target, seed), with the rows and targets of the arena. Every search gets
all rows of all sources, the site of each, the loss (absolute error or log loss), one thread and the
same seconds of CPU. Their clocks are set to the CPU time of the process (`cpu_clock`), so that a
busy machine takes nothing away from any of them. FILE (CSV) gets a row per cell and search: the
mean loss on the target, seconds of wall clock and of CPU to fit and predict, the number of trials
or models, the members of the final model with their weights, or the reason of a failure. A search
that fails is repeated with twice and four times the seconds (AutoGluon, for one, fails where no
model fits into its time); the CPU is that of the last attempt.

Rows that FILE has are not computed again; delete a row to repeat it. Ctrl-C ends the run after the
present search, a second one at once; with ``--stop-after`` it ends after the first search that
finishes later than so many seconds. The order is the first target of all data sets, shuffled, then
the second, and all searches in each cell: whenever the run is stopped, what is finished is a fair
sample. Generated problems are only run where ``--datasets`` names them.

With ``--labels``, so many rows of the target, the first draw of ``labels.py``, are labelled, and
the loss is that on its other rows. To all but "auto" they are training rows of a further site; its
predictor is updated by them (`ShiftSearch.update`).

- *auto*, *naive lightgbm*: `ShiftSearch` with as many trials as the time allows. "auto" is
  judged on unseen sites; "naive lightgbm" is LightGBM alone (l1 for absolute errors), tuned by
  ordinary validation on random rows.
- *flaml*: ``split_type="group"``, which is GroupKFold, with the sites as groups. Its ensembles are
  left out: the stacker splits rows without the groups, after the budget and on all cores.
- *autogluon*: models bagged over the values of the column ``groups``, which are the folds of
  GroupKFold over sites; its weighted ensemble is fitted out of fold. The option
  ``validation_structure`` would keep the site as a feature, which a new site does not have. All of
  its default models but the two neural networks, which need torch, and a linear model.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, for `reproduction`

import numpy as np
import pandas as pd
from autogluon.tabular import TabularPredictor
from autogluon.tabular.configs.hyperparameter_configs import get_hyperparameter_config
from cells import losses_of, predictions_of
from flaml import AutoML
from labels import labelled_first
from problems import Problem, cells_in_turn, problem
from row_file import RowFile
from sklearn.model_selection import GroupKFold
from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch
from shiftune._interrupts import deferred
from shiftune.search import Updated

FOLDS = 5
LEVEL = 0.9
ATTEMPTS = 3
MOST_TRIALS = 10_000  # the time ends a search, not this
KEY = ("dataset", "target", "seed", "labels", "search", "budget")
FOUND = (
    *("loss_name", "loss", "estimate", "low", "high", "seconds", "cpu_seconds", "tried"),
    *("members", "attempts", "version", "reason"),
)

# Without torch, AutoGluon logs an error for every model when it counts GPUs.
logging.getLogger("autogluon.common.utils.resource_utils").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class Cell:
    """Rows and labels of sources and target, of which the first `labels` rows are labelled."""

    problem: Problem
    seed: int
    labels: int

    @property
    def classes(self) -> np.ndarray | None:
        """Classes of the sources; None for regression."""
        return None if self.is_regression else np.unique(np.concatenate(self.problem.y))

    @property
    def is_regression(self) -> bool:
        return self.problem.task == "regression"

    @property
    def labelled(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows (m, d) and labels (m,) of the target that are known."""
        own = self._order()[: self.labels]
        return self.problem.X_target[own], self.problem.y_target[own]

    @property
    def hidden(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the target on which predictions are scored, and their labels."""
        others = self._order()[self.labels :]
        return self.problem.X_target[others], self.problem.y_target[others]

    def training(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, labels and sites of all labelled rows; those of the target are a further site."""
        X, y = self.labelled
        rows, labels = [*self.problem.X, X], [*self.problem.y, y]
        site = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
        return np.concatenate(rows), np.concatenate(labels), site

    def losses(self, predictions: np.ndarray) -> np.ndarray:
        """Absolute errors, or log losses, at most those of a probability of 1e-3."""
        _, y = self.hidden
        if self.is_regression:
            return np.abs(y - predictions)
        return losses_of(predictions, y, self.classes)

    def _order(self) -> np.ndarray:
        return labelled_first(len(self.problem.y_target), self.seed, self.labels, 0)


class Found(NamedTuple):
    """Predictions of a search for the hidden rows, and what its final model consists of."""

    predictions: np.ndarray
    tried: int  # trials or models
    members: Mapping[str, float]  # weights
    # Of the loss, with a 90 % interval; of peers it would be for rows like the sources'.
    estimate: tuple[float | str, float | str, float | str] = ("", "", "")


def auto(cell: Cell, seconds: float) -> Found:
    """Predict with shiftune's default search, updated by the labels that there are."""
    search = _searched("auto", replace(cell, labels=0), seconds)
    model = search.update(*cell.labelled) if cell.labels else search
    return _found(search, model, cell)


def naive_lightgbm(cell: Cell, seconds: float) -> Found:
    """Predict with the LightGBM that ordinary validation on random rows chooses."""
    name = "lightgbm_l1" if cell.is_regression else "lightgbm"
    search = _searched(name, cell, seconds, risk="naive")
    return _found(search, search, cell)


def _searched(name: str, cell: Cell, seconds: float, **options: str) -> ShiftSearch:
    X, y, site = cell.training()
    p = cell.problem
    given = ShiftProblem.from_arrays(X, y, site, p.X_target, task=p.task)
    return ShiftSearch(
        name,
        loss="absolute" if cell.is_regression else None,
        n_trials=MOST_TRIALS,
        timeout=seconds,
        random_state=cell.seed,
        progress=False,
        **options,
    ).fit(given)


def _found(search: ShiftSearch, model: ShiftSearch | Updated, cell: Cell) -> Found:
    members = search.members_
    weights = members["weight"].groupby(members["model"]).sum() if "model" in members else {}
    X, _ = cell.hidden
    predictions = predictions_of(model, X, cell.classes)
    estimate = (model.risk_.value, *model.risk_.interval(LEVEL))
    return Found(predictions, len(search.trials_), dict(weights), estimate)


def flaml(cell: Cell, seconds: float) -> Found:
    """Predict with FLAML's best model."""
    X, y, site = cell.training()
    model = AutoML()
    model.fit(
        X,
        y,
        task="regression" if cell.is_regression else "classification",
        metric="mae" if cell.is_regression else "log_loss",
        estimator_list=[
            *("lgbm", "xgboost", "xgb_limitdepth", "catboost", "rf", "extra_tree"),
            "enet" if cell.is_regression else "lrl1",
        ],
        eval_method="cv",
        split_type="group",
        groups=site,
        n_splits=min(FOLDS, int(site.max()) + 1),
        time_budget=seconds,
        n_jobs=1,
        seed=cell.seed,
        verbose=0,
    )
    tried = len(model.config_history)  # of configurations that were the best so far
    predictions = predictions_of(model, cell.hidden[0], cell.classes)
    return Found(predictions, tried, {model.best_estimator: 1.0})


def autogluon(cell: Cell, seconds: float) -> Found:
    """Predict with AutoGluon's weighted ensemble of bagged models."""
    X, y, site = cell.training()
    folds = min(FOLDS, int(site.max()) + 1)
    fold = np.empty(len(y), dtype=int)
    for i, (_, held) in enumerate(GroupKFold(folds).split(X, groups=site)):
        fold[held] = i
    names = [f"x{j}" for j in range(X.shape[1])]
    table = pd.DataFrame(X, columns=names).assign(label=y, fold=fold)
    classes = cell.classes
    task = "regression" if classes is None else "binary" if len(classes) == 2 else "multiclass"
    families = get_hyperparameter_config("default")
    with tempfile.TemporaryDirectory() as folder:
        predictor = TabularPredictor(
            "label",
            problem_type=task,
            eval_metric="mean_absolute_error" if cell.is_regression else "log_loss",
            path=folder,
            verbosity=0,
            groups="fold",
        ).fit(
            table,
            time_limit=seconds,
            hyperparameters={f: families[f] for f in ("GBM", "CAT", "XGB", "RF", "XT")}
            | {"LR": {}},
            num_bag_folds=folds,
            num_cpus=1,
            num_gpus=0,
            ag_args_ensemble={"fold_fitting_strategy": "sequential_local"},
        )
        rows = pd.DataFrame(cell.hidden[0], columns=names)
        if classes is None:
            predictions = predictor.predict(rows, as_pandas=False)
        else:
            # A class that is too rare for AutoGluon has no column.
            chances = predictor.predict_proba(rows)
            predictions = chances.reindex(columns=classes, fill_value=0.0).to_numpy()
        return Found(predictions, len(predictor.model_names()), _weights(predictor))


def _weights(predictor: TabularPredictor) -> dict[str, float]:
    """Weights of the bagged models in AutoGluon's final model."""
    best = predictor.model_best
    if not best.startswith("WeightedEnsemble"):
        return {best: 1.0}
    (fitted,) = predictor._trainer.load_model(best).models  # a bag of a single greedy ensemble
    fitted = predictor._trainer.load_model(best).load_child(fitted)
    return dict(zip(fitted.base_model_names, map(float, fitted.weights_), strict=True))


SEARCHES: dict[str, Callable[[Cell, float], Found]] = {
    "auto": auto,
    "naive lightgbm": naive_lightgbm,
    "flaml": flaml,
    "autogluon": autogluon,
}


@contextmanager
def cpu_clock() -> Iterator[None]:
    """Let the clocks of the process, and alarms, count its seconds of CPU from now on.

    A budget of wall clock would be smaller for whichever search shares the machine with another
    process. Threads and processes that are not of Python itself do not look at these clocks.
    """
    clocks = {name: getattr(time, name) for name in ("time", "monotonic", "perf_counter")}
    alarm = signal.alarm
    start = time.process_time()

    def counting_cpu(clock: Callable[[], float]) -> Callable[[], float]:
        began = clock()
        return lambda: began + time.process_time() - start

    for name, clock in clocks.items():
        setattr(time, name, counting_cpu(clock))
    # FLAML ends some fits by an alarm.
    signal.signal(signal.SIGPROF, lambda *_: signal.raise_signal(signal.SIGALRM))
    signal.alarm = lambda seconds: int(signal.setitimer(signal.ITIMER_PROF, seconds)[0])
    try:
        yield
    finally:
        signal.alarm(0)
        signal.alarm = alarm
        for name, clock in clocks.items():
            setattr(time, name, clock)


def measured(cell: Cell, search: str, budget: float) -> dict[str, object]:
    """Return the target loss of a search and what it cost, or the reason of its failure."""
    for attempt in range(ATTEMPTS):
        found, reason = None, ""
        start, cpu = time.perf_counter(), cpu_seconds()
        try:
            with cpu_clock(), threadpool_limits(1), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = SEARCHES[search](cell, budget * 2**attempt)
        except Exception as error:  # whatever it is, it belongs to the result
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
        loss = math.nan if found is None else float(cell.losses(found.predictions).mean())
        if math.isfinite(loss):
            break
        reason = reason or "predictions that are not finite"
    estimate = ("", "", "") if found is None else found.estimate
    return {
        "loss_name": "absolute" if cell.is_regression else "log",
        "loss": loss if math.isfinite(loss) else "",
        **dict(zip(("estimate", "low", "high"), estimate, strict=True)),
        "seconds": f"{seconds:.1f}",
        "cpu_seconds": f"{cpu:.1f}",
        "tried": "" if found is None else found.tried,
        "members": "" if found is None else written(found.members),
        "attempts": attempt + 1,
        "version": VERSIONS[search],
        "reason": reason,
    }


def written(members: Mapping[str, float]) -> str:
    """Write weights, the largest first.

    >>> written({"linear": 0.25, "kernel": 0.75})
    'kernel 0.75; linear 0.25'
    """
    ordered = sorted(members.items(), key=lambda each: -each[1])
    return "; ".join(f"{name} {weight:.2f}" for name, weight in ordered)


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _commit() -> str:
    described = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    folder = Path(__file__).parent
    done = subprocess.run(described, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


VERSIONS = {
    "auto": _commit(),
    "naive lightgbm": version("lightgbm"),
    "flaml": version("flaml"),
    "autogluon": version("autogluon.tabular"),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first-seed", type=int, default=95)
    parser.add_argument("--seeds", type=int, default=96)
    parser.add_argument("--targets", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--labels", type=int, nargs="+", default=[0])
    parser.add_argument("--searches", nargs="+", default=list(SEARCHES), choices=SEARCHES)
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--stop-after", type=float, default=math.inf)
    args = parser.parse_args()
    file, start = RowFile(args.out, KEY, FOUND), time.monotonic()
    seeds = range(args.first_seed, args.seeds)
    cells = cells_in_turn(args.datasets, args.targets, seeds)
    for labels, (name, target, seed) in product(args.labels, cells):
        cell = Cell(problem(name, target, seed), seed, labels)
        for search in args.searches:
            key = (name, cell.problem.target, seed, labels, search, f"{args.seconds:g}")
            if key in file:
                continue
            if time.monotonic() - start > args.stop_after:
                return
            with deferred():
                row = dict(zip(KEY, key, strict=True)) | measured(cell, search, args.seconds)
                file.add(row)
            print(*row.values(), flush=True)


if __name__ == "__main__":
    main()
