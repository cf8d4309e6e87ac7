"""Metrics of a fitted search."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from optuna.distributions import FloatDistribution
from sklearn.linear_model import LogisticRegression, Ridge

from shiftune import ShiftProblem, ShiftSearch
from shiftune.errors import SettingsError

SPACE = {"C": FloatDistribution(0.01, 10, log=True)}


def draw(rng, shift, n=80):
    X = rng.normal(shift, 1, (n, 2))
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-2 * X[:, 0])), "yes", "no")
    return X, y


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(0)
    return {name: draw(rng, shift) for name, shift in zip("BCDE", (0, 0.3, -0.3, 0.1), strict=True)}


def search_for(sites, labelled=None, **options):
    rng = np.random.default_rng(1)
    problem = ShiftProblem.from_sites(sites, draw(rng, 0.2)[0], labelled_target=labelled)
    return ShiftSearch(LogisticRegression(), SPACE, n_trials=3, progress=False, **options).fit(
        problem
    )


@pytest.fixture(scope="module")
def search(sites):
    return search_for(sites, metrics=["auc", "o_e", "neg_log_loss"])


def test_metrics_are_those_asked_for(search):
    assert list(search.metrics_.index) == ["auc", "o_e", "neg_log_loss"]
    auc = search.metrics_.loc["auc"]
    assert 0 < auc["low"] < auc["estimate"] < auc["high"] < 1
    assert set(search.site_metrics_.loc["auc"].index) == set("BCDE")


def test_metrics_are_of_models_that_have_not_seen_the_site(search):
    predictions, data = search.result_.choice.predictions, search.result_.context.data
    rows = data.validation_rows(["C"])
    p, y = predictions[rows, 1].astype(float), data.y_validation[1] == "yes"
    assert data.out_of_site
    ratio = y.sum() / p.sum()
    assert search.site_metrics_.loc[("o_e", "C"), "value"] == pytest.approx(ratio, rel=1e-4)


def test_they_are_computed_once_and_cannot_be_changed(search):
    table = search.metrics_
    table["estimate"] = 0.0
    assert search.metrics_["estimate"].abs().max() > 0
    assert search.result_.metrics is search.result_.metrics
    assert pickle.loads(pickle.dumps(search)).metrics_.equals(search.metrics_)


def test_default_metrics_of_one_trial_without_unseen_sites(sites):
    search = search_for(sites, risk="naive")
    assert search.metrics_.index[0] == "auc"
    assert search.metrics_["note"].str.contains("have seen the sites").all()
    assert search.metrics_["estimate"].notna().all()


def test_labels_of_the_target(sites):
    """Labelled rows are no site; the sources are updated by as many labels of their own."""
    search = search_for(sites, draw(np.random.default_rng(2), 0.2, 20))
    assert set(search.site_metrics_.loc["auc"].index) == set("BCDE")
    pd.testing.assert_frame_equal(search.metrics_, search.result_.updated.metrics_)


def test_wrong_metrics_are_refused_before_any_trial(sites):
    with pytest.raises(SettingsError, match="is for regression"):
        search_for(sites, metrics="rmse")


def test_quantities(sites):
    numbers = {name: (X, X[:, 0] + 0.1 * X[:, 1] ** 2) for name, (X, _) in sites.items()}
    problem = ShiftProblem.from_sites(numbers, sites["B"][0])
    space = {"alpha": FloatDistribution(0.01, 10, log=True)}
    search = ShiftSearch(Ridge(), space, n_trials=2, progress=False).fit(problem)
    assert list(search.metrics_.index) == ["rmse", "mae", "r2", "bias"]
    assert search.metrics_.loc["r2", "high"] < 1


def test_curves_and_thresholds(search):
    pytest.importorskip("matplotlib")
    assert list(search.calibration_curve()) == ["observed", "low", "high"]
    assert search.threshold_for(sensitivity=0.8).threshold < 1
    (axes,) = search.plot_calibration().axes
    assert len(axes.lines) == 4 + 2  # the sources, the target, the diagonal
    (legend,) = search.plot_decision_curve().legends
    named = [text.get_text() for text in legend.get_texts()]
    assert named == ["interval for a new site", "predictions", "act on all"]
