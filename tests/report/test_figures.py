"""The figures show the numbers, and names from the user's data are escaped."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from shiftune.errors import ProblemError
from shiftune.risk import estimate
from shiftune.search import ShiftSearch

pytest.importorskip("plotly")
from shiftune.report import figures


def decoded(values) -> list[float]:
    return np.asarray(values, dtype=float).tolist()


def test_a_logarithmic_axis_has_numbers_in_full():
    assert figures.log_axis(20, 150)["ticktext"] == ["20", "50", "100"]
    decades = ["0.001", "0.01", "0.1", "1", "10", "100", "1000"]
    assert figures.log_axis(1e-3, 1e3)["ticktext"] == decades


def test_the_lowest_and_highest_of_many_rows():
    table = pd.DataFrame({"x": [3, 1, 2, 4]}, index=list("abcd"))
    assert figures.outermost(table, "x", 2).index.to_list() == ["b", "d"]
    assert figures.outermost(table, "x", 4) is table


def test_distances_fit_into_small_cells():
    assert [figures._two_digits(0.043), figures._two_digits(0.999)] == [".04", "1"]


class TestForest:
    def test_intervals_and_sources_off_the_scale(self, rng):
        losses = [rng.exponential(size=300) for _ in range(3)]
        wild = np.where(np.arange(300) < 4, 250.0, 5.0)
        risk = estimate(losses, [np.ones(300), np.ones(300), wild], names=["B", "C", "wild"])
        table = risk.sources_with_intervals()
        assert table["left_out"].astype(bool).to_list() == [False, False, True]
        used, out, together = figures.forest(risk).data
        assert decoded(used.x) == table["estimate"][["C", "B"]].to_list()
        ends = np.asarray(used.x) + np.asarray(used.error_x.array)
        np.testing.assert_allclose(ends, table["high"][["C", "B"]])
        assert list(out.marker.symbol) == ["arrow-right"]
        assert (min(together.x), max(together.x)) == risk.interval()

    def test_sources_that_a_fallback_uses_are_not_grey(self):
        with pytest.warns(UserWarning, match="falls back"):
            risk = estimate([np.arange(40.0)] * 2, [np.full(40, 0.1)] * 2, names=["B", "C"])
        assert all(risk.left_out)
        assert [trace.name for trace in figures.forest(risk).data] == ["used", "all sources"]

    def test_every_source_has_its_own_degrees_of_freedom(self, rng):
        losses = [rng.exponential(size=n) for n in (300, 12)]
        risk = estimate(losses, [np.ones(300), rng.exponential(size=12)], names=["B", "few"])
        for level in (0.5, 0.95):
            (used, _) = figures.forest(risk, level).data
            ends = np.asarray(used.x) + np.asarray(used.error_x.array)
            expected = [
                student(max(row["ess"] - 1, 1), row["estimate"], row["stderr"]).interval(level)[1]
                for _, row in risk.sources[::-1].iterrows()
            ]
            np.testing.assert_allclose(ends, expected)

    def test_one_effective_row_has_one_degree_of_freedom(self):
        risk = estimate([[1.0, 2.0, 4.0]], [[1.0, 1e-9, 1e-9]], "unbiased", guard=False)
        low, high = risk.sources_with_intervals()[["low", "high"]].iloc[0]
        half = student(1).ppf(0.975) * risk.sources["stderr"].iloc[0]
        np.testing.assert_allclose([low, high], risk.estimates[0] + half * np.array([-1, 1]))

    def test_no_errors(self):
        figure = figures.forest(estimate([np.zeros(9)], method="naive"))
        assert figure.layout.xaxis.range == (-0.05, 0.05)

    def test_level(self):
        with pytest.raises(ProblemError, match="level"):
            figures.forest(estimate([np.arange(9.0)], method="naive"), 95)


class TestHistory:
    def test_trials_failures_and_the_chosen(self):
        trials = pd.DataFrame(
            {
                "state": ["COMPLETE", "FAIL", "COMPLETE"],
                "risk": [2.0, np.nan, 1.0],
                "low": [1.5, np.nan, 0.7],
                "high": [2.5, np.nan, 1.3],
                "param_depth": [3.0, 4.0, 5.0],
                "param_mode": ["a", "b", "<img src=x>"],
                "tied_with_best": [False, False, True],
            }
        ).rename_axis("trial")
        by_name = {trace.name: trace for trace in figures.history(trials, chosen=2).data}
        assert decoded(by_name["worse"].x) == [0]
        assert decoded(by_name["tied with the best"].error_y.arrayminus) == pytest.approx([0.3])
        assert decoded(by_name["best so far"].y) == [2, 1]
        assert decoded(by_name["chosen"].x) == [2]
        assert decoded(by_name["failed"].x) == [1]
        text = by_name["tied with the best"].customdata[0]
        assert "depth 5" in text
        assert "mode &lt;img src=x&gt;" in text
        with pytest.raises(ProblemError, match="a completed trial, got 1"):
            figures.history(trials, chosen=1)


class TestOfASearch:
    def test_history_and_sources(self, hostile_search):
        by_name = {trace.name: trace for trace in hostile_search.plot_history().data}
        result = hostile_search.result_
        best = result.risks[result.chosen]
        assert decoded(by_name["chosen"].y) == [best.value]
        assert len(hostile_search.plot_sources().data[0].x) == 4

    def test_not_fitted(self, hostile_search):
        unfitted = ShiftSearch(hostile_search.estimator, hostile_search.space)
        with pytest.raises(ProblemError, match="call fit first"):
            unfitted.plot_history()

    def test_weights(self, weighted_search):
        box, grey, means = weighted_search.plot_weights().data
        weights = dict(zip(weighted_search.problem_.names, weighted_search.weights_, strict=True))
        heard = [w for name, w in reversed(weights.items()) if name != "2024"]
        np.testing.assert_allclose(box.median, [np.median(w) for w in heard])
        assert len(grey.median) == 1
        assert len(means.x) == len(weights)

    def test_weights_of_a_search_that_used_none(self, hostile_search):
        assert hostile_search.weights_ is None
        *_, means = hostile_search.plot_weights().data
        looked_at = hostile_search.problem_.diagnose()["mean_weight"][::-1]
        np.testing.assert_allclose(means.x, np.maximum(looked_at, 1e-3))

    @pytest.mark.parametrize("sites", [4, 30])
    def test_shifts_of_many_sites_go_down_the_page(self, sites):
        table = pd.DataFrame(
            np.linspace(1, 0, 12)[:, None] * np.ones(sites),
            index=[f"column {c}" for c in range(12)],
            columns=[f"site {j}" for j in range(sites)],
        )
        figure = figures.shifts(table)
        (cells,) = figure.data
        down, across = (10, 4) if sites == 4 else (24, 10)
        assert np.shape(cells.z) == (down, across)
        assert cells.text[down - 1][0] == "1"  # the top left cell
        assert figure.layout.yaxis.ticktext[-1] == ("column 0" if sites == 4 else "site 0")

    def test_shifts_of_the_search(self, hostile_search):
        assert np.shape(hostile_search.plot_shifts().data[0].z) == (3, 4)

    def test_importances(self, hostile_search):
        (bars,) = hostile_search.plot_importances().data
        assert sum(bars.x) == pytest.approx(1)
        assert len(bars.x) == 2

    def test_slices(self, hostile_search):
        trials = hostile_search.trials_
        figure = hostile_search.plot_parameter("ridge__alpha")
        drawn = np.concatenate([np.asarray(t.x, dtype=float) for t in figure.data[:-1]])
        done = trials[trials["state"] == "COMPLETE"]
        np.testing.assert_allclose(np.sort(drawn), np.sort(done["param_ridge__alpha"].dropna()))
        assert decoded(figure.data[-1].x) == [hostile_search.best_params_["ridge__alpha"]]
        choices = hostile_search.plot_parameter("ridge__solver")
        assert choices.layout.xaxis.ticktext[:2] == ("svd", "cholesky")
        with pytest.raises(ProblemError, match="no trial has a parameter 'nix'"):
            hostile_search.plot_parameter("nix")

    def test_too_few_trials_for_importances(self, hostile_search):
        naive = ShiftSearch(
            hostile_search.estimator,
            {"ridge__alpha": hostile_search.space["ridge__alpha"]},
            risk="naive",
            n_trials=1,
            progress=False,
        ).fit(hostile_search.problem_)
        with pytest.raises(ProblemError, match="at least 10"):
            naive.plot_importances()
