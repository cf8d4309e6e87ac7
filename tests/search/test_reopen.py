"""A search that is read again from its storage."""

from __future__ import annotations

import pytest
from optuna.distributions import FloatDistribution
from reproduction.toy import toy_problem
from sklearn.linear_model import Ridge

from shiftune import ShiftSearch
from shiftune.errors import ProblemError

SPACE = {"alpha": FloatDistribution(0.01, 100, log=True)}


def test_it_is_the_search_as_it_was_and_fits_no_model(tmp_path):
    problem = toy_problem(1.0, n=200).problem
    journal = tmp_path / "study.journal"
    done = ShiftSearch(Ridge(), SPACE, n_trials=3, storage=journal).fit(problem)
    before = journal.read_bytes()
    again = ShiftSearch(Ridge(), SPACE, n_trials=9, storage=journal).reopen(problem)
    assert journal.read_bytes() == before
    assert again.risk_.value == done.risk_.value
    assert again.best_params_ == done.best_params_
    assert again.result_.choice.weights == done.result_.choice.weights
    assert "predictor" not in vars(again.result_)  # fitted when it is asked for
    predicted = again.predict(problem.target.X)
    assert predicted == pytest.approx(done.predict(problem.target.X))


def test_a_storage_without_trials(tmp_path):
    search = ShiftSearch(Ridge(), SPACE, storage=tmp_path / "study.journal")
    with pytest.raises(ProblemError, match="no trial was finished"):
        search.reopen(toy_problem(1.0, n=200).problem)
