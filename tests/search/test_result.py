"""The result of a search is computed once, and later changes to the search do not reach it."""

from __future__ import annotations

from collections import Counter

import pytest
from optuna.distributions import FloatDistribution
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import shiftune.checks._of_result
import shiftune.search._result
import shiftune.search._search
from shiftune import ShiftProblem, ShiftSearch
from shiftune.risk._result import RiskEstimate
from shiftune.search._result import model_name

SPACE = {"alpha": FloatDistribution(0.01, 1e4, log=True)}


@pytest.fixture
def problem(rng):
    sites = {}
    for name, mean in {"B": 0.0, "C": 0.3, "D": -0.3}.items():
        X = rng.normal(mean, 1, (90, 2))
        sites[name] = (X, X[:, 0] + rng.normal(0, 0.5, 90))
    return ShiftProblem.from_sites(sites, rng.normal(0.2, 1, (80, 2)))


def search_for(problem, **options):
    return ShiftSearch(Ridge(), SPACE, n_trials=6, progress=False, **options).fit(problem)


@pytest.fixture
def calls(monkeypatch):
    """Calls of what a result is made of, counted by name."""
    counted = Counter()

    def count(owner, name):
        original = getattr(owner, name)
        function = getattr(original, "__func__", original)

        def counting(*args, **kwargs):
            counted[name] += 1
            return function(*args, **kwargs)

        bound = isinstance(vars(owner).get(name), classmethod)
        monkeypatch.setattr(owner, name, classmethod(counting) if bound else counting)

    count(shiftune.search._search, "check_settings")
    count(RiskEstimate, "from_record")
    count(shiftune.search._result, "overlap")
    count(shiftune.search._result, "column_shifts")
    count(shiftune.search._result, "label_worth")
    for check in ("overlap_check", "agreement_check", "influence_check"):
        count(shiftune.checks._of_result, check)
    return counted


@pytest.mark.parametrize("risk", ["adjusted", "variance_reduced"])
def test_everything_is_computed_once(problem, calls, tmp_path, risk):
    pytest.importorskip("matplotlib")
    search = search_for(problem, risk=risk)
    search.checks()
    search.report(tmp_path / "report.html")
    search.report(tmp_path / "again.html")
    search._repr_html_()
    search.default_risk()
    assert calls.pop("from_record") == (search.trials_["state"] == "COMPLETE").sum()
    assert set(calls) >= {
        "check_settings",
        "overlap",
        "overlap_check",
        "influence_check",
    }
    assert set(calls.values()) == {1}


@pytest.mark.parametrize("risk", ["adjusted", "variance_reduced"])
def test_later_parameters_do_not_change_a_result(problem, risk):
    search = search_for(problem, risk=risk)
    other = search_for(problem, risk=risk).set_params(
        risk="naive", random_state=7, estimator__alpha=1e6, shares=(0.5, 0.3, 0.2)
    )
    assert other.default_risk().value == search.default_risk().value
    assert other.result_.overlap.table.equals(search.result_.overlap.table)
    assert other.result_.options["random_state"] == "0"
    if risk == "adjusted":
        assert other.label_worth().equals(search.label_worth())


def test_a_pipeline_has_the_name_of_its_last_step():
    assert model_name(make_pipeline(StandardScaler(), Ridge())) == "Ridge"


class TestComparison:
    @pytest.fixture
    def result(self, problem):
        return search_for(problem).result_

    def test_default_parameters(self, result):
        named = {each["name"]: each for each in result.summary()["comparisons"]}
        default = named["default parameters"]
        assert default["gap"]["value"] == pytest.approx(default["value"] - result.risk.value)

    def test_ties_begin_with_the_chosen(self, result):
        marked = result.trials.index[result.trials["tied_with_best"].astype(bool)]
        assert result.tied[0] == result.chosen
        assert set(result.tied) == set(marked)
