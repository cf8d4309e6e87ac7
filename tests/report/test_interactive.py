"""Interactive figures draw the same tables as the Matplotlib ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from shiftune.errors import ProblemError
from shiftune.report.tables import sources_with_intervals
from shiftune.risk import estimate
from shiftune.search import ShiftSearch

pytest.importorskip("plotly")
from shiftune.report import interactive


def decoded(values) -> list[float]:
    return np.asarray(values, dtype=float).tolist()


class TestForest:
    def test_intervals_and_sources_off_the_scale(self, rng):
        losses = [rng.exponential(size=300) for _ in range(3)]
        wild = np.where(np.arange(300) < 4, 250.0, 5.0)
        risk = estimate(losses, [np.ones(300), np.ones(300), wild], names=["B", "C", "wild"])
        table = sources_with_intervals(risk)
        assert table["left_out"].astype(bool).to_list() == [False, False, True]
        heard, out, together = interactive.forest(risk).data
        assert decoded(heard.x) == table["estimate"][["C", "B"]].to_list()
        ends = np.asarray(heard.x) + np.asarray(heard.error_x.array)
        np.testing.assert_allclose(ends, table["high"][["C", "B"]])
        assert list(out.marker.symbol) == ["arrow-right"]
        assert (min(together.x), max(together.x)) == risk.interval()

    def test_what_a_fallback_listens_to_is_not_grey(self):
        with pytest.warns(UserWarning, match="falls back"):
            risk = estimate([np.arange(40.0)] * 2, [np.full(40, 0.1)] * 2, names=["B", "C"])
        assert all(risk.left_out)
        assert [trace.name for trace in interactive.forest(risk).data] == ["counts", "together"]


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
        by_name = {trace.name: trace for trace in interactive.history(trials, chosen=2).data}
        assert decoded(by_name["worse"].x) == [0]
        assert decoded(by_name["cannot be told apart"].error_y.arrayminus) == pytest.approx([0.3])
        assert decoded(by_name["best so far"].y) == [2, 1]
        assert decoded(by_name["chosen"].x) == [2]
        assert decoded(by_name["failed"].x) == [1]
        told = by_name["cannot be told apart"].customdata[0]
        assert "depth 5" in told
        assert "mode &lt;img src=x&gt;" in told
        with pytest.raises(ProblemError, match="completed, got 1"):
            interactive.history(trials, chosen=1)


class TestOfASearch:
    def test_weights(self, weighted_search):
        box, grey, means = interactive.weights(weighted_search).data
        weights = dict(zip(weighted_search.problem_.names, weighted_search.weights_, strict=True))
        heard = [w for name, w in reversed(weights.items()) if name != "2024"]
        np.testing.assert_allclose(box.median, [np.median(w) for w in heard])
        assert len(grey.median) == 1
        assert len(means.x) == len(weights)

    def test_weights_of_a_search_that_used_none(self, hostile_search):
        assert hostile_search.weights_ is None
        *_, means = interactive.weights(hostile_search).data
        looked_at = hostile_search.problem_.diagnose()["mean_weight"][::-1]
        np.testing.assert_allclose(means.x, np.maximum(looked_at, 1e-3))

    @pytest.mark.parametrize("sites", [4, 30])
    def test_shifts_of_many_sites_go_down_the_page(self, sites):
        table = pd.DataFrame(
            np.linspace(1, 0, 12)[:, None] * np.ones(sites),
            index=[f"column {c}" for c in range(12)],
            columns=[f"site {j}" for j in range(sites)],
        )
        figure = interactive.sites.draw_shifts(table)
        (cells,) = figure.data
        down, across = (10, 4) if sites == 4 else (30, 10)
        assert np.shape(cells.z) == (down, across)
        assert cells.text[down - 1][0] == "1"  # the top left cell
        assert figure.layout.yaxis.ticktext[-1] == ("column 0" if sites == 4 else "site 0")

    def test_shifts_of_the_search(self, hostile_search):
        assert np.shape(interactive.shifts(hostile_search).data[0].z) == (3, 4)

    def test_importances(self, hostile_search):
        (bars,) = interactive.importances(hostile_search).data
        assert sum(bars.x) == pytest.approx(1)
        assert len(bars.x) == 2

    def test_slices(self, hostile_search):
        trials = hostile_search.trials_
        figure = interactive.parameter_slice(hostile_search, "ridge__alpha")
        drawn = np.concatenate([np.asarray(t.x, dtype=float) for t in figure.data[:-1]])
        done = trials[trials["state"] == "COMPLETE"]
        np.testing.assert_allclose(np.sort(drawn), np.sort(done["param_ridge__alpha"]))
        assert decoded(figure.data[-1].x) == [hostile_search.best_params_["ridge__alpha"]]
        choices = interactive.parameter_slice(hostile_search, "ridge__solver")
        assert choices.layout.xaxis.ticktext[:2] == ("svd", "cholesky")
        with pytest.raises(ProblemError, match="no trial has a parameter 'nix'"):
            interactive.parameter_slice(hostile_search, "nix")

    def test_too_few_trials_for_importances(self, hostile_search):
        naive = ShiftSearch(
            hostile_search.estimator,
            {"ridge__alpha": hostile_search.space["ridge__alpha"]},
            risk="naive",
            n_trials=1,
            progress=False,
        ).fit(hostile_search.problem_)
        with pytest.raises(ProblemError, match="at least 10"):
            interactive.importances(naive)
