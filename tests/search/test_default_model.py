"""The model with its default parameters, evaluated on the same rows as every trial."""

from __future__ import annotations

import warnings

import pytest
from optuna.distributions import FloatDistribution
from reproduction.toy import toy_problem
from sklearn.linear_model import Ridge

from shiftune.errors import OverlapWarning, ProblemError, SearchWarning
from shiftune.search import ShiftSearch

SPACE = {"alpha": FloatDistribution(1.0, 1.0 + 1e-9)}


@pytest.mark.parametrize("risk", ["adjusted", "variance_reduced"])
def test_it_is_what_a_trial_with_the_same_parameters_would_be(risk):
    toy = toy_problem(1.0, n=300).problem
    search = ShiftSearch(Ridge(alpha=1.0), SPACE, risk=risk, n_trials=1, progress=False).fit(toy)
    weights = search.result_.context.data.weights or []
    given = search.default_risk()
    assert given.value == pytest.approx(search.risk_.value)
    difference = given.minus(search.risk_)
    assert difference.value == pytest.approx(0, abs=1e-6)
    assert difference.stderr < 1e-6
    assert [w.tolist() for w in search.result_.context.data.weights or []] == [
        w.tolist() for w in weights
    ]


def test_a_fallback_is_not_announced_again(rng):
    X, y = rng.normal(size=(120, 1)), rng.normal(size=120)
    search = ShiftSearch(Ridge(), SPACE, risk="variance_reduced", n_trials=1, progress=False)
    with pytest.warns(OverlapWarning):
        search.fit(X, y, groups=["B", "C"] * 60, X_target=X + 50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert search.default_risk().fallback


def test_a_model_that_only_works_when_tuned():
    toy = toy_problem(1.0, n=100).problem
    with pytest.warns(SearchWarning, match="1 of 2 trials failed"):
        search = ShiftSearch(Ridge(alpha=-1.0), SPACE, n_trials=2, progress=False).fit(toy)
    assert search.trials_["state"].tolist() == ["FAIL", "COMPLETE"]
    with pytest.raises(ProblemError, match=r"default parameters cannot be evaluated: .*alpha"):
        search.default_risk()


def test_a_class_is_no_model():
    with pytest.raises(ProblemError, match="must be a scikit-learn model"):
        ShiftSearch(Ridge, SPACE).fit(toy_problem(1.0, n=100).problem)
