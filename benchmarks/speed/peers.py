"""Other packages on the same rows and folds, in an environment of their own.

    python -m benchmarks.speed peers --peers ENV/bin/python

`pip install skada optuna-integration "flaml[automl]" lightgbm` makes such an environment; a package
that it lacks is left out. This file runs there with the path of the data, imports nothing of
shiftune, and prints JSON: CPU seconds, and the log loss at the target, whose labels are hidden from
all searches.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable


def seconds(task: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = task()
    return time.process_time() - start, found


def log_loss(y: np.ndarray, p: np.ndarray) -> float:
    own = np.clip(np.where(y == 1, p, 1 - p), 1e-15, 1)
    return float(-np.log(own).mean())


def optuna_search(data: Any, folds: list[Any]) -> dict[str, Any]:
    """OptunaSearchCV with TPE: as many trials on the same folds."""
    import optuna
    from lightgbm import LGBMClassifier
    from optuna.distributions import FloatDistribution, IntDistribution
    from optuna_integration import OptunaSearchCV

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = {
        "num_leaves": IntDistribution(4, 64, log=True),
        "learning_rate": FloatDistribution(0.02, 0.3, log=True),
    }
    model = LGBMClassifier(n_jobs=1, verbose=-1, random_state=0)
    trials = int(data["trials"])
    given = {"cv": folds, "scoring": "neg_log_loss", "n_trials": trials, "random_state": 0}
    search = OptunaSearchCV(model, space, refit=False, timeout=None, **given)
    spent, _ = seconds(lambda: search.fit(data["X"], data["y"]))
    best = model.set_params(**search.best_params_).fit(data["X"], data["y"])
    loss = log_loss(data["y_target"], best.predict_proba(data["X_target"])[:, 1])
    return {"seconds": spent, "loss": loss, "version": version("optuna-integration")}


def flaml(data: Any, folds: list[Any]) -> dict[str, Any]:
    """FLAML with as many CPU seconds: its clock is the wall's, so it is stopped by ours."""
    from flaml import AutoML
    from sklearn.model_selection import PredefinedSplit

    automl, budget = AutoML(), float(data["seconds"])
    # Sites as folds, so that it validates on unseen ones too.
    groups = np.unique(data["site"], return_inverse=True)[1] % 4
    start = time.process_time()
    automl.fit(
        data["X"],
        data["y"],
        task="classification",
        metric="log_loss",
        estimator_list=["lgbm"],
        eval_method="cv",
        split_type=PredefinedSplit(groups),
        time_budget=float(data["wall"]),
        n_jobs=1,
        verbose=0,
        seed=0,
    )
    spent = time.process_time() - start
    loss = log_loss(data["y_target"], automl.predict_proba(data["X_target"])[:, 1])
    return {"seconds": spent, "budget": budget, "loss": loss, "version": version("flaml")}


def skada(data: Any, folds: list[Any]) -> dict[str, Any]:
    """Scorers of skada for one fitted model: all source and target rows at once."""
    from skada import make_da_pipeline, metrics
    from sklearn.linear_model import LogisticRegression

    X = np.vstack([data["X"], data["X_target"]])
    hidden = np.full(len(data["X_target"]), -1)
    y = np.concatenate([data["y"], hidden])
    site = np.unique(data["site"], return_inverse=True)[1] + 1
    domain = np.concatenate([site, np.full(len(hidden), -(site.max() + 1))])
    weighted = LogisticRegression(max_iter=1000).set_fit_request(sample_weight=True)
    weighted.set_score_request(sample_weight=True)  # the scorer with weights asks for it
    model = make_da_pipeline(weighted).fit(X, y, sample_domain=domain)
    found: dict[str, Any] = {"version": version("skada")}
    for name in (
        "ImportanceWeightedScorer",
        "PredictionEntropyScorer",
        "SoftNeighborhoodDensity",
        "CircularValidation",
    ):
        scorer = getattr(metrics, name)()
        found[name] = seconds(lambda s=scorer: s(model, X, y, sample_domain=domain))[0]
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    data = np.load(sys.argv[1], allow_pickle=False)
    data = {name: data[name] for name in data.files}
    folds = [(data[f"train{i}"], data[f"test{i}"]) for i in range(int(data["folds"]))]
    found = {}
    for peer in (optuna_search, flaml, skada):
        try:
            found[peer.__name__] = peer(data, folds)
        except Exception as error:  # a peer that is missing, or changed, costs its own figures
            found[peer.__name__] = {"failed": f"{type(error).__name__}: {error}"}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
