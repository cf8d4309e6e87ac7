from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from shiftune import ShiftProblem
from shiftune._names import Level
from shiftune.datasets import GaussianSites
from shiftune.ratio import (
    ClassifierRatio,
    Guard,
    diagnose,
    effective_rows,
    uncovered_shares,
)
from shiftune.ratio._overlap import overlap, overlapping, overlapping_in_part, sorted_by_verdict


class TestEffectiveRows:
    def test_closed_forms(self):
        assert effective_rows(np.ones(50)) == pytest.approx(50)
        assert effective_rows(np.array([1.0] + [0.0] * 49)) == pytest.approx(1)
        assert effective_rows(np.zeros(5)) == 0
        assert effective_rows(np.full(8, 1e-200)) == pytest.approx(8)  # squares would vanish

    def test_gaussian(self):
        """E w^2 = exp(delta^2), so ESS / n tends to exp(-delta^2)."""
        sites = GaussianSites([[0.0], [0.7]])
        w = sites.ratio(1)(sites.draw(1, 200_000, np.random.default_rng(0)))
        assert effective_rows(w) / 200_000 == pytest.approx(np.exp(-0.49), rel=0.02)


class TestGuard:
    @pytest.mark.parametrize(
        ("n", "mean", "ess", "word"),
        [
            (300, 1.0, 100, ""),
            (300, 0.9, 11, ""),
            (300, 1e-9, 1, "no target-like rows"),
            (300, 0.3, 30, "few target-like rows"),
            (300, 4.0, 100, "failed"),
            (300, 1.0, 3, "few effective rows: 3.0"),
            (300, np.nan, 3, "mean weight"),
            (1, 1.0, 1, "too few rows"),
            (4, 1.0, 4, ""),  # small, but its rows count alike
            (300, 0.61, 100, ""),
            (300, 0.59, 100, "few target-like rows: mean weight 0.59"),
            (300, 1.66, 100, ""),
            (300, 1.68, 100, "failed"),
            (300, 1.0, 10.1, ""),
            (300, 1.0, 9.9, "few effective rows: 9.9"),
            (20, 1.0, 4.9, "few effective rows: 4.9"),
            (20, 1.0, 5.1, ""),
        ],
    )
    def test_objections(self, n, mean, ess, word):
        objection = Guard().objection(n, mean, ess)
        assert (word in str(objection)) if word else objection is None


class TestUncovered:
    def test_same_distribution_leaves_about_one_percent(self):
        rng = np.random.default_rng(0)
        for d in (1, 5, 20):
            (share,) = uncovered_shares(rng.normal(size=(2000, d)), [rng.normal(size=(2000, d))])
            assert share < 0.04

    def test_half_of_the_target_out_of_reach(self):
        rng = np.random.default_rng(0)
        target = np.vstack([rng.normal(size=(500, 2)), rng.normal(20, 1, (500, 2))])
        (share,) = uncovered_shares(target, [rng.normal(size=(800, 2))])
        assert share == pytest.approx(0.5, abs=0.03)

    def test_a_category_the_source_does_not_have(self):
        target = pd.DataFrame({"c": ["u"] * 50 + ["v"] * 50})
        (share,) = uncovered_shares(target, [pd.DataFrame({"c": ["u"] * 80})])
        assert share == pytest.approx(0.5)


class TestDiagnose:
    @pytest.fixture
    def problem(self):
        rng = np.random.default_rng(1)
        sites = GaussianSites([[0.0, 0.0], [0.2, 0.0], [30.0, 0.0], [1.5, 0.0]])
        names = ["near", "far", "partly"]
        return ShiftProblem.from_sites(
            {n: (sites.draw(j, 600, rng), rng.normal(size=600)) for j, n in enumerate(names, 1)},
            sites.draw(0, 600, rng),
        )

    @pytest.mark.parametrize("ratio", ["ulsif", "logistic"])
    def test_verdicts(self, problem, ratio):
        table = problem.diagnose(ratio)
        assert list(table.index) == ["near", "far", "partly"]
        assert table.loc["near", "verdict"] == "overlaps well"
        assert table["level"].to_dict()["far"] == Level.PROBLEM
        assert table.loc["far", "verdict"].startswith("doubtful: ")
        assert table.loc["far", "uncovered"] == 1.0
        assert table.loc["near", "ess_share"] > table.loc["partly", "ess_share"]
        assert 0.8 < table.loc["near", "mean_weight"] < 1.2
        assert table["verdict"].str.len().max() <= 50  # pandas cuts what is longer

    def test_same_as_the_method(self, problem):
        pd.testing.assert_frame_equal(problem.diagnose("logistic"), diagnose(problem, "logistic"))

    def test_the_users_ratio_is_left_as_it_is(self, problem):
        mine = ClassifierRatio()
        problem.diagnose(mine)
        assert not hasattr(mine, "n_sources_")


class TestOrder:
    @pytest.fixture
    def table(self):
        """A source of 3 rows, one that covers half of the target, and one that covers it all."""
        rng = np.random.default_rng(0)
        target = np.vstack([rng.normal(size=(300, 2)), rng.normal(20, 1, (300, 2))])
        half, whole = rng.normal(size=(300, 2)), np.vstack([target, target])[::7]
        weights = [np.ones(len(X)) for X in (half[:3], half, whole)]
        return overlap(weights, target, [half[:3], half, whole], ["tiny", "half", "whole"])

    def test_few_rows_do_not_lead(self, table):
        assert sorted_by_verdict(table).index.to_list() == ["whole", "half", "tiny"]
        assert table.loc["tiny", "verdict"] == "too few rows to tell"

    def test_half_of_the_target_is_no_overlap(self, table):
        assert overlapping(table).to_dict() == {"tiny": False, "half": False, "whole": True}
        assert overlapping_in_part(table).to_dict() == {"tiny": False, "half": True, "whole": False}
