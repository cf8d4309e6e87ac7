"""The first trial of every model has the parameters that it was given."""

from __future__ import annotations

import numpy as np
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import GridSampler, TPESampler
from reproduction.toy import toy_problem
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from shiftune.search import ShiftSearch
from shiftune.search._families import Family

PROBLEM = toy_problem(1.0, n=60).problem


def searched(model, space, **options):
    settings = {"n_trials": 3, "progress": False, "final": "best"}
    return ShiftSearch(model, space, **settings | options).fit(PROBLEM)


@pytest.mark.parametrize("sampler", ["gp_lcb", "random", "tpe", TPESampler(seed=1)])
def test_inside_the_space_it_is_a_trial_like_others(sampler):
    search = searched(Ridge(alpha=2.0), {"alpha": (0.1, 10.0, "log")}, sampler=sampler)
    assert search.trials_["param_alpha"][0] == 2.0
    assert search.study_.trials[0].params == {"alpha": 2.0}
    assert search.default_risk().value == search.trials_["risk"][0]


@pytest.mark.parametrize(
    "space", [{"alpha": (1e4, 2e4)}, lambda trial: {"alpha": trial.suggest_float("a", 1e4, 2e4)}]
)
def test_outside_the_space_it_is_tried_and_can_win(space):
    search = searched(Ridge(alpha=0.5), space, n_trials=7)
    assert search.best_index_ == 0
    assert search.best_params_ == ({} if callable(space) else {"alpha": 0.5})
    assert search.best_estimator_.alpha == 0.5
    (column,) = [name for name in search.trials_ if name.startswith("param_")]
    assert search.trials_.loc[1:, column].min() >= 1e4
    assert search.best_score_ == -search.result_.risk.value


def test_nothing_handed_over_is_estimated_to_be_worse():
    search = searched(Ridge(alpha=0.5), {"alpha": (1e4, 2e4)})
    assert search.result_.risks[search.best_index_].value <= search.trials_["risk"][0]


def test_a_grid_is_tried_as_well():
    sampler = GridSampler({"alpha": [0.1, 10.0]}, seed=0)
    search = searched(Ridge(), {"alpha": [0.1, 10.0]}, sampler=sampler)
    assert sorted(search.trials_["param_alpha"].dropna()) == [0.1, 10.0]
    assert search.cv_results_["params"][0] == {"alpha": 1.0}


def test_a_continued_search_has_one(tmp_path):
    journal = tmp_path / "journal"
    searched(Ridge(), {"alpha": (1e4, 2e4)}, n_trials=1, storage=journal)
    search = searched(Ridge(), {"alpha": (1e4, 2e4)}, storage=journal)
    assert search.trials_["param_alpha"].isna().tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("model", "distribution", "inside"),
    [
        (Ridge(alpha=1.0), FloatDistribution(0, 1), True),
        (Ridge(alpha=1.5), FloatDistribution(0, 1), False),
        (Ridge(alpha=1), IntDistribution(0, 3), True),
        (Ridge(alpha=np.ones(2)), FloatDistribution(0, 1), False),
        (DecisionTreeRegressor(), IntDistribution(1, 4), False),  # None
        (DecisionTreeRegressor(max_depth=True), IntDistribution(0, 4), False),
        (DecisionTreeRegressor(), CategoricalDistribution([None, 3]), True),
    ],
)
def test_what_lies_inside(model, distribution, inside):
    name = "alpha" if isinstance(model, Ridge) else "max_depth"
    found = Family("", model, {name: distribution}).first_params()
    assert (found != {}) == inside
