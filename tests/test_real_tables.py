"""Real multi-site tables, where they are at hand.

The tables are not part of the project. They are looked for in the folder that the environment
variable SHIFTUNE_DATA names, then in `shared/data` beside the checkout.
"""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from shiftune import ShiftProblem
from shiftune.errors import DataWarning, OverlapWarning
from shiftune.evaluate import loss_named
from shiftune.problem import pooled
from shiftune.ratio import ClassifierRatio, diagnose, site_weights
from shiftune.risk import METHODS, Guard, estimate

BESIDE = Path(__file__).parents[2] / "shared" / "data"
DATA = Path(os.environ.get("SHIFTUNE_DATA", BESIDE))
TABLES = ["heart_hospitals", "student_school", "vowel_speakers", "uk_cars", "dropout_course"]


@pytest.mark.skipif(not (DATA / "sites").is_dir(), reason="no real tables (set SHIFTUNE_DATA)")
@pytest.mark.parametrize("name", TABLES)
def test_the_whole_way_on_a_real_table(name):
    with np.load(DATA / "sites" / f"{name}.npz", allow_pickle=False) as table:
        X, y, site = table["X"], table["y"], table["site"]
    told = json.loads((DATA / "sites" / f"{name}.json").read_text())["task"]
    target = np.unique(site)[0]
    inside = site == target
    problem = ShiftProblem.from_arrays(
        X[~inside],
        y[~inside],
        site[~inside],
        X[inside],
        oracle_labels=y[inside],
        task="regression" if told == "regression" else "classification",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        verdicts = diagnose(problem, "logistic")
        failed = ~verdicts["mean_weight"].between(Guard().min_mean_weight, Guard().max_mean_weight)
        assert (verdicts.loc[failed, "level"] != "ok").all()
        assert verdicts["verdict"].str.len().min() > 0
        split = problem.split()
        ratio = ClassifierRatio().fit(problem.target.X, [s.X for s in split.density])
        weights = site_weights(ratio, split.validation)
        classify = problem.task == "classification"
        kind = HistGradientBoostingClassifier if classify else HistGradientBoostingRegressor
        model = kind(max_iter=20).fit(*pooled(split.train))
        loss = loss_named("log_loss" if classify else "squared")
        answer = model.predict_proba if classify else model.predict
        classes = model.classes_ if classify else None
        losses = [loss(s.labels, answer(s.X), classes) for s in split.validation]
        truth = loss(problem.oracle.labels, answer(problem.oracle.X), classes).mean()
        for method in METHODS:
            if method in ("lambda", "oracle"):
                continue
            risk = estimate(losses, weights, method, names=split.names)
            low, high = risk.interval()
            assert 0 < risk.value < 20 * truth
            assert low < risk.value < high
            assert risk.lam @ risk.n == pytest.approx(1)


def test_hidden_labels_stay_hidden():
    """The oracle's labels change nothing that is estimated."""
    rng = np.random.default_rng(0)
    X, y, site = rng.normal(size=(90, 2)), rng.normal(size=90), np.repeat(["a", "b", "c"], 30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        one, other = (
            ShiftProblem.from_arrays(X, y, site, X[:20], oracle_labels=labels)
            for labels in (np.zeros(20), rng.normal(size=20))
        )
    assert one.fingerprint() == other.fingerprint()
    assert one.diagnose("logistic").equals(other.diagnose("logistic"))
