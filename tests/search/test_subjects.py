"""A search whose rows belong to groups."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from optuna.distributions import FloatDistribution
from sklearn.linear_model import Ridge

from shiftune import ShiftProblem, ShiftSearch
from shiftune.errors import DataWarning


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    group = np.arange(160) // 4
    X, site = rng.normal(size=(160, 2)), np.array(list("BCDE"))[group // 10]
    y = X[:, 0] + rng.normal(size=40)[group] + 0.1 * rng.normal(size=160)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        problem = ShiftProblem.from_arrays(X, y, site, X[:50], subject=group)
    search = ShiftSearch(Ridge(), {"alpha": FloatDistribution(0.1, 10)}, n_trials=2)
    return search.fit(problem)


def test_every_estimate_counts_groups(fitted):
    result = fitted.result_
    groups = result.context.data.groups
    assert [len(np.unique(own)) for own in groups] == [10] * 4
    risks = [*result.risks.values(), result.choice.risk, result.default.risk]
    for risk in risks:
        assert risk.units.tolist() == [10.0] * 4
        assert risk.block_counts.tolist() == [10] * 4


def test_labels_update_it(fitted):
    X = np.random.default_rng(1).normal(size=(10, 2))
    updated = fitted.update(X, X[:, 0])
    assert updated.risk_.units.tolist() == [10.0] * 5
    assert np.isfinite(updated.gain_.interval()).all()
    with pytest.warns(
        DataWarning, match="10 labels of 'target' are of 2 subjects, and show little"
    ):
        of_two = fitted.update(X, X[:, 0], subject=["u"] * 5 + ["v"] * 5)
    assert of_two.risk_.units[-1] == 2
    without_ids = fitted.update(X, X[:, 0], subject=["u", "u", *[None] * 8])
    assert without_ids.risk_.units[-1] == pytest.approx(10**2 / (2**2 + 8))  # effective subjects
    share, share_of_two = (each.lam[-1] * each.n[-1] for each in (updated.risk_, of_two.risk_))
    assert share_of_two < share


def test_the_worth_of_labels_is_that_of_random_rows(fitted):
    """Random rows are of many groups; the narrower interval does not suffer from the sources'."""
    updater = fitted.result_.updater
    losses = updater.effects.source_losses(0)
    of_rows = np.average([own.var() for own in losses])
    assert of_rows < np.average(updater.estimate(losses).divergences)
    assert fitted.label_worth(10)["half_width"].is_monotonic_decreasing
