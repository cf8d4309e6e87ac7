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
        problem = ShiftProblem.from_arrays(X, y, site, X[:50], group=group)
    search = ShiftSearch(Ridge(), {"alpha": FloatDistribution(0.1, 10)}, n_trials=2)
    return search.fit(problem)


def test_every_estimate_counts_groups(fitted):
    result = fitted.result_
    groups = result.context.data.groups
    assert [len(np.unique(own)) for own in groups] == [3] * 4
    risks = [*result.risks.values(), result.choice.risk, result.default.risk]
    for risk in risks:
        assert risk.units.tolist() == [3.0] * 4
        assert risk.block_counts.tolist() == [3] * 4


def test_labels_update_it(fitted):
    X = np.random.default_rng(1).normal(size=(10, 2))
    updated = fitted.update(X, X[:, 0])
    assert updated.risk_.units.tolist() == [3.0] * 4 + [10.0]
    assert np.isfinite(updated.gain_.interval()).all()
