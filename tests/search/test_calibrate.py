"""Recalibration in a search: applied wherever predictions are made or judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB

from shiftune import PooledFit, ShiftProblem, ShiftSearch
from shiftune.errors import ProblemError, SearchWarning
from shiftune.predictor.calibration import RecalibratedClassifier, without_calibration
from shiftune.predictor.choice import Recalibration
from shiftune.report.explanations import calibration_in_words
from shiftune.report.model_card import model_card
from shiftune.report.page import page
from shiftune.risk.result import Estimate

SPACE = {"var_smoothing": (1e-9, 1e-6, "log")}


def draw(rng, n=150):
    """Rows whose only column is there six times: naive Bayes is far too sure."""
    x = rng.normal(rng.normal(0, 0.3), 1, n)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-x)), "yes", "no")
    return np.repeat(x[:, None], 6, axis=1), y


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(0)
    return {name: draw(rng) for name in "BCDEFG"}, draw(rng)


@pytest.fixture(scope="module")
def search(sites):
    return search_for(sites, "auto")


def search_for(sites, calibrate, estimator=None, space=None, labelled=None, **options):
    sources, (X, _) = sites
    problem = ShiftProblem.from_sites(sources, X, labelled_target=labelled)
    model = estimator or GaussianNB()
    found = ShiftSearch(model, space or SPACE, n_trials=2, calibrate=calibrate, **options)
    return found.fit(problem)


def test_what_predicts_goes_through_the_map(search, sites):
    found, (X, y) = search.calibration_, sites[1]
    assert isinstance(search.predictor_, RecalibratedClassifier)
    plain = without_calibration(search.predictor_).predict_proba(X)
    np.testing.assert_allclose(search.predict_proba(X), found.map(plain))
    assert (
        search.predict(X).tolist()
        == np.where(search.predict_proba(X)[:, 1] > 0.5, "yes", "no").tolist()
    )
    assert not isinstance(search.best_estimator_, RecalibratedClassifier)
    chances = search.predict_proba(X)
    truth = -np.log(chances[np.arange(len(y)), (y == "yes").astype(int)]).mean()
    assert search.risk_.interval()[0] < truth < search.risk_.interval()[1]


def test_risk_and_metrics_are_of_recalibrated_answers(search, sites):
    plain = search_for(sites, "none")
    assert plain.calibration_ is None
    found = search.calibration_
    assert found.gain.value == pytest.approx(plain.risk_.value - search.risk_.value, rel=1e-6)
    slopes = [each.metrics_.loc["calibration_slope", "estimate"] for each in (plain, search)]
    assert slopes[0] < 0.4 < 0.8 < slopes[1] < 1.3
    curve = search.calibration_curve()
    assert len(curve) > 0


def test_labels_update_recalibrated_answers(search, sites):
    X, y = sites[1]
    updated = search.update(X[:40], y[:40])
    assert isinstance(updated.predictor_.predictor_, RecalibratedClassifier)
    assert updated.before_.value < 0.75


def test_labels_of_the_problem(sites):
    X, y = sites[1]
    found = search_for(sites, "platt", labelled=(X[:20], y[:20]))
    assert found.calibration_.kind == "platt"
    assert isinstance(found.predictor_.predictor_, RecalibratedClassifier)


def test_the_gain_is_reported(search):
    result = search.result_
    for text in (page(result), model_card(result, ())):
        assert "Recalibrated (platt) by a map" in " ".join(text.split())


def test_auto_takes_none_where_nothing_is_gained(sites):
    rng = np.random.default_rng(3)
    sources, target = sites
    noise = {name: (X, rng.permutation(y)) for name, (X, y) in sources.items()}
    model, space = LogisticRegression(), {"C": (1e-4, 1e-3, "log")}
    found = search_for((noise, target), "auto", model, space)
    assert found.calibration_.kind == "none"
    words = calibration_in_words(found.calibration_, "log loss")
    assert "Not recalibrated: no map lowers the log loss" in words
    assert "more than a standard error" in words


def test_the_figure_that_decided_is_shown():
    gains = {"platt": Estimate(0.035, 0.034**2, 9.0), "isotonic": Estimate(0.02, 0.04**2, 9.0)}
    found = Recalibration("auto", "platt", Estimate(0.0003, 0.017**2, 9.0), gains)
    words = calibration_in_words(found, "log loss")
    assert "lower by 0.000 (-0.038 to 0.039), judged at sites that had no say in the map" in words
    assert "Platt was taken" in words
    assert "by 0.04, more than the standard error of 0.03" in words


def test_a_map_that_costs_is_noted(search):
    costs = Recalibration("isotonic", "isotonic", Estimate(-0.1, 1e-4, 9.0))
    result = replace(search.result_, choice=replace(search.result_.choice, calibration=costs))
    assert "calibrate='isotonic' costs: with it, the loss is higher by 0.100" in result.notes[-1]


def test_what_cannot_be_recalibrated_is_refused_before_the_search(sites):
    sources, (X, _) = sites
    quantities = {name: (x, x[:, 0]) for name, (x, _) in sources.items()}
    with pytest.raises(ProblemError, match="predicts quantities"):
        search_for((quantities, (X, None)), "auto", Ridge(), {"alpha": (0.1, 1.0)})
    with pytest.raises(ProblemError, match="of predicted classes"):
        search_for(sites, "platt", loss="zero_one")
    with pytest.raises(ProblemError, match="a map does not change ranks"):
        search_for(sites, "auto", loss="auc")
    with pytest.raises(ProblemError, match="at a threshold"):
        search_for(sites, "auto", loss="f1")
    with pytest.raises(ProblemError, match="one model per trial"):
        search_for(sites, "isotonic", plan=PooledFit())
    with pytest.raises(ProblemError, match="did you mean 'platt'"):
        search_for(sites, "plat")


def test_a_plan_without_unseen_sites_is_noted(sites):
    class OnePlan:
        def losses(self, model, data, loss):
            return PooledFit().losses(model, data, loss)

    with pytest.warns(SearchWarning, match="calibrate='platt' has no effect"):
        search_for(sites, "platt", plan=OnePlan())
