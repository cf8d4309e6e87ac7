"""What a search asks of a risk estimator, whoever wrote it."""

from __future__ import annotations

import numpy as np
import pytest
from optuna.distributions import FloatDistribution
from reproduction.toy import toy_problem
from sklearn.base import clone
from sklearn.linear_model import Ridge

from shiftune import ShiftSearch
from shiftune.errors import SettingsError
from shiftune.risk import ESTIMATORS, RegressionAdjusted, RiskEstimator, estimate, risk_named

SPACE = {"alpha": FloatDistribution(0.01, 100, log=True)}


class Doubled(RiskEstimator):
    """Twice the mean loss; asks for no density ratio and for out-of-site predictions."""

    needs_ratio = False
    out_of_site = True

    def fit(self, X_target, X_sources, sample_weight=None):
        self.rows_ = [len(X_target), *(len(X) for X in X_sources)]
        return self

    def estimate(self, losses, weights=None, *, names=None):
        assert weights is None
        assert self.rows_[1:] == [len(loss) for loss in losses]
        naive = estimate(losses, method="naive", names=names)
        return naive.with_shares(np.full(len(losses), 2.0))


def test_a_search_asks_the_estimator_only():
    toy = toy_problem(1.0, n=100).problem
    search = ShiftSearch(Ridge(), SPACE, risk=Doubled(), n_trials=3, progress=False)
    settings = search.fit(toy).result_.settings
    assert settings.ratio is None
    assert settings.shares is None
    assert settings.final == "ensemble"
    assert search.result_.ratio is None
    data = search.result_.context.data
    assert data.out_of_site
    assert len(data.folds) == sum(len(site) for site in toy.sources)
    for number, trial in search.trials_.iterrows():
        losses = np.concatenate(
            data.losses(search._opened.predictions.get(number), search.result_.loss)
        )
        assert trial["criterion"] == trial["risk"] == pytest.approx(2 * losses.mean())
        assert search.study_.trials[number].value == trial["risk"]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_by_name(name):
    estimator = risk_named(name)
    assert estimator is ESTIMATORS[name]
    assert type(clone(estimator)) is type(estimator)
    assert estimator.out_of_site == (name == "adjusted")
    assert estimator.needs_ratio == (name not in ("adjusted", "naive", "oracle"))
    assert estimator.uses_target_labels == (name == "oracle")


def test_estimators_and_functions():
    adjusted = RegressionAdjusted(prior_r2=0.2)
    assert risk_named(adjusted) is adjusted
    wrapped = risk_named(estimate)
    assert clone(wrapped) is wrapped
    with pytest.raises(SettingsError, match="must return a RiskEstimate, got float"):
        risk_named(lambda losses, weights, names: 1.0).estimate([[1.0]], [[1.0]])
    with pytest.raises(SettingsError, match="no risk estimator 'magic'; choose from"):
        risk_named("magic")
