"""Trials that are stopped after a poor first model."""

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial
from sklearn.base import BaseEstimator, RegressorMixin

from shiftune import ShiftProblem, ShiftSearch
from shiftune.evaluate import LeaveSourcesOut
from shiftune.search import race
from shiftune.search.gp import VARIANCE_KEY
from shiftune.search.records import BAR, MEAN_LOSS, MODEL


def trial(mean_loss, value=None, family="", state=TrialState.COMPLETE):
    marks = {MEAN_LOSS: mean_loss} | ({MODEL: family} if family else {})
    return create_trial(state=state, value=value or mean_loss + 1.0, user_attrs=marks)


def test_the_bar_is_the_third_best_of_the_family():
    own = [trial(mean, family="trees") for mean in (5.0, 1.0, 4.0, 2.0)]
    others = [trial(0.1, family="linear"), trial(0.2, family="trees", state=TrialState.PRUNED)]
    assert race.bar([*own, *others], "trees") == 4.0
    assert race.bar([*own[:2], *others], "trees") is None
    assert race.bar(own, "") is None


def test_what_a_stopped_trial_is_expected_to_be_worth():
    known = [trial(1.0, 1.5), trial(2.0, 3.0), trial(3.0, 4.5)]  # 0.5, 1 and 1.5 more
    found = race.expected(known, "", 10.0)
    assert found.value == pytest.approx(11.0)
    assert found.variance == pytest.approx(0.25 + (race.MOST_SLOPE * 8.0) ** 2)


class Level(RegressorMixin, BaseEstimator):
    """Predicts a constant, and counts its fits."""

    fits = 0

    def __init__(self, level=0.0):
        self.level = level

    def fit(self, X, y):
        type(self).fits += 1
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.full(len(X), self.level)


RACE = LeaveSourcesOut(races=True)
LEVEL = {"level": FloatDistribution(-50.0, 50.0)}


@pytest.fixture(scope="module")
def raced():
    rng = np.random.default_rng(0)
    sites = {f"S{j}": (rng.normal(size=(40, 1)), rng.normal(3, 1, 40)) for j in range(5)}
    problem = ShiftProblem.from_sites(sites, rng.normal(size=(40, 1)))
    Level.fits = 0
    search = ShiftSearch(Level(), LEVEL, n_trials=16, plan=RACE, progress=False).fit(problem)
    return search, problem, Level.fits


def test_poor_trials_have_one_fit(raced):
    search, _, fits = raced
    states = search.trials_["state"].value_counts()
    assert states["COMPLETE"] >= race.PLACE
    assert states["PRUNED"] >= 3
    refits = fits - (5 * states["COMPLETE"] + states["PRUNED"])
    assert 1 <= refits <= 8  # what is handed over
    stopped = search.trials_[search.trials_["state"] == "PRUNED"]
    assert stopped["risk"].isna().all()
    assert stopped["mean_loss"].notna().all()
    assert (stopped["failure"] == "").all()
    assert stopped["stopped"].str.contains("first model .* third lowest").all()
    assert stopped["tied_with_best"].isna().all()  # nothing was compared
    complete = search.trials_.drop(stopped.index)
    assert (complete["stopped"] == "").all()
    assert complete["tied_with_best"].notna().all()
    assert search.result_.chosen not in stopped.index


def test_stopped_trials_inform_the_sampler(raced):
    search, _, _ = raced
    complete = [t for t in search.study_.trials if t.state is TrialState.COMPLETE]
    for each in search.study_.trials:
        if each.state is TrialState.PRUNED:
            assert each.intermediate_values[0] > min(t.value for t in complete)
            assert each.user_attrs[VARIANCE_KEY] >= 0
    # The best possible level is found all the same.
    best = min(complete, key=lambda t: t.value)
    every = ShiftSearch(Level(), LEVEL, n_trials=16, progress=False).fit(raced[1])
    assert best.value == pytest.approx(every.trials_["risk"].min(), rel=0.05)
    assert set(every.trials_["state"]) == {"COMPLETE"}


def test_a_trial_that_is_run_again_keeps_its_bar(raced):
    """The driver died while it was under way; more is recorded by now than when it began."""
    _, problem, _ = raced
    options = {"progress": False, "plan": RACE, "storage": optuna.storages.InMemoryStorage()}
    first = ShiftSearch(Level(), LEVEL, n_trials=4, **options).fit(problem)
    first.study_.ask().set_user_attr(BAR, -1.0)
    again = ShiftSearch(Level(), LEVEL, n_trials=5, **options).fit(problem)
    assert again.trials_["state"].iloc[-1] == "PRUNED"


def test_resuming_changes_nothing(raced, tmp_path):
    search, problem, _ = raced
    options = {
        "n_trials": 16,
        "progress": False,
        "plan": RACE,
        "storage": tmp_path / "trials.jsonl",
    }
    ShiftSearch(Level(), LEVEL, **options | {"n_trials": 9}).fit(problem)
    resumed = ShiftSearch(Level(), LEVEL, **options).fit(problem)
    columns = ["state", "risk", "mean_loss", "param_level"]
    assert resumed.trials_[columns].equals(search.trials_[columns])
    assert resumed.risk_.value == search.risk_.value


def test_the_report_counts_them(raced, tmp_path):
    search, _, _ = raced
    stopped = (search.trials_["state"] == "PRUNED").sum()
    page = search.report(tmp_path / "report.html").read_text()
    assert f"{stopped} stopped after a poor first model" in page
