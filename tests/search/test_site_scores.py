"""Scores of a search at sites that its models had not seen."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from shiftune import ShiftProblem, ShiftSearch, spaces
from shiftune.errors import ProblemError
from shiftune.search._updating import site_scores


def sites(k=6, n=40, level=3.0):
    """Sites whose labels lie some way above or below y = x."""
    rng = np.random.default_rng(0)
    X = {f"S{j}": rng.normal(size=(n, 1)) for j in range(k)}
    return {
        name: (x, x[:, 0] + rng.normal(0, level) + rng.normal(0, 0.1, n)) for name, x in X.items()
    }, rng.normal(size=(30, 1))


@pytest.fixture(scope="module")
def search():
    return ShiftSearch(Ridge(), spaces.ridge(), n_trials=1).fit(ShiftProblem.from_sites(*sites()))


def test_they_are_of_sites_never_seen(search):
    """A site's own level, which no model knows, is in its scores."""
    scores = search.result_.site_scores
    assert len(scores.sites) == 6
    assert np.mean([np.median(own) for own in scores.sites]) > 1
    ends = search.predict_interval(np.zeros((2, 1)), 0.8)
    np.testing.assert_allclose(ends.mean(axis=1), search.predict(np.zeros((2, 1))))
    with pytest.raises(ProblemError, match="at least 9 sites"):
        search.predict_interval(np.zeros((2, 1)), 0.9)
    with pytest.raises(ProblemError, match="predict_interval"):
        search.predict_set(np.zeros((2, 1)))


def test_labels_of_the_site_shorten_them(search):
    X = search.problem_.target.X[:10]
    updated = search.update(X, X[:, 0] + 2)
    before, after = search.result_.site_scores, site_scores(search.result_, updated)
    assert after.quantile(0.8) < before.quantile(0.8) / 3


def test_sets_of_classes():
    problem, target = sites()
    classes = {name: (x, np.where(y > 0, "b", "a")) for name, (x, y) in problem.items()}
    search = ShiftSearch(LogisticRegression(), spaces.logistic(), n_trials=1)
    found = search.fit(ShiftProblem.from_sites(classes, target)).predict_set(target, 0.8)
    assert found.shape == (30, 2)
    assert found.any(axis=1).all()


@pytest.mark.filterwarnings("ignore:there is only one source")
@pytest.mark.parametrize(("options", "k"), [({"risk": "naive"}, 3), ({}, 1)])
def test_where_all_sites_were_seen(options, k):
    search = ShiftSearch(Ridge(), spaces.ridge(), n_trials=1, **options)
    search.fit(ShiftProblem.from_sites(*sites(k=k)))
    with pytest.raises(ProblemError, match="no row was predicted by a model that has not seen"):
        search.predict_interval(np.zeros((1, 1)), 0.5)
