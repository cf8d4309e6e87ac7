"""The figures show the numbers."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from shiftune.errors import ProblemError
from shiftune.risk import estimate
from shiftune.search import ShiftSearch

pytest.importorskip("matplotlib")
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from shiftune.report import figures


def ticks(axis) -> list[str]:
    return [text.get_text() for text in axis.get_ticklabels()]


def legend(figure) -> list[str]:
    return [text.get_text() for each in figure.legends for text in each.get_texts()]


def intervals(container) -> np.ndarray:
    """Return the ends of error bars, one row each."""
    (bars,) = container.lines[2]
    across = container.has_xerr
    return np.array([segment[:, 0 if across else 1] for segment in bars.get_segments()])


def test_it_needs_no_pyplot_and_shows_in_a_notebook():
    figure: Any = figures.importance(
        pd.DataFrame({"importance": 0.2, "low": 0.1, "high": 0.3}, index=["age"])
    )
    assert figure._repr_png_()[:4] == b"\x89PNG"
    assert isinstance(figure, Figure)
    assert type(pickle.loads(pickle.dumps(figure))) is type(figure)
    code = "import sys, shiftune.report.figures; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ((0.0005, 400.0), ["0.001", "0.01", "0.1", "1", "10", "100"]),
        ((1.1, 90.0), ["2", "5", "10", "20", "50"]),
        ((1.1, 2.9), ["1.5", "2"]),
    ],
)
def test_a_logarithmic_axis_has_numbers_in_full(ends, shown):
    axes = Figure().subplots()
    axes.set_xlim(ends)
    figures._log_scale(axes, "x")
    assert ticks(axes.xaxis) == shown


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ((0.0, 0.4), ["0", "0.1", "0.2", "0.3", "0.4"]),
        ((0.0, 4e9), ["0", "1", "2", "3", "4 billion"]),
        ((10_000.0, 20_000.0), ["10,000", "12,000", "14,000", "16,000", "18,000", "20,000"]),
    ],
)
def test_numbers_of_an_axis_are_those_of_the_page(ends, shown):
    """With their unit once: a phone has no room for more."""
    curve = pd.DataFrame({"net_benefit": ends, "low": ends, "high": ends, "all": ends}, index=ends)
    (axes,) = figures.decision(curve).axes
    axes.set_xlim(ends)
    assert [text for text in ticks(axes.xaxis) if text] == shown


def test_the_lowest_and_highest_of_many_rows():
    table = pd.DataFrame({"x": [3, 1, 2, 4]}, index=list("abcd"))
    assert figures._outermost(table, "x", 2).index.to_list() == ["b", "d"]
    assert figures._outermost(table, "x", 4) is table


def test_distances_fit_into_small_cells():
    (axes,) = figures.shifts(pd.DataFrame({"B": [0.043, 0.999]}, index=["x", "y"])).axes
    assert sorted(text.get_text() for text in axes.texts) == [".04", "1"]


class TestForest:
    def test_intervals_and_sources_off_the_scale(self, rng):
        losses = [rng.exponential(size=300) for _ in range(3)]
        wild = np.where(np.arange(300) < 4, 250.0, 5.0)
        risk = estimate(losses, [np.ones(300), np.ones(300), wild], names=["B", "C", "wild"])
        table = risk.sources
        assert table["left_out"].astype(bool).to_list() == [False, False, True]
        figure = figures.forest(risk)
        (axes,) = figure.axes
        used, _ = axes.containers
        np.testing.assert_allclose(intervals(used), table.loc[["C", "B"], ["low", "high"]])
        points = [each for each in axes.collections if isinstance(each, PathCollection)]
        squares, *_, arrow = (each for each in points if len(each.get_offsets()))
        np.testing.assert_allclose(squares.get_offsets()[:, 0], table["estimate"][["C", "B"]])
        assert arrow.get_offsets()[0, 0] < table["estimate"]["wild"]
        (diamond,) = axes.patches
        across = diamond.get_path().vertices[:, 0]
        assert (across.min(), across.max()) == risk.interval()
        assert ticks(axes.yaxis) == ["all sources", "wild", "C", "B"]
        assert legend(figure) == ["used", "left out"]

    def test_sources_that_a_fallback_uses_are_not_grey(self):
        with pytest.warns(UserWarning, match="falls back"):
            risk = estimate([np.arange(40.0)] * 2, [np.full(40, 0.1)] * 2, names=["B", "C"])
        assert all(risk.left_out)
        assert legend(figures.forest(risk)) == []

    def test_every_source_has_its_own_degrees_of_freedom(self, rng):
        losses = [rng.exponential(size=n) for n in (300, 12)]
        risk = estimate(losses, [np.ones(300), rng.exponential(size=12)], names=["B", "few"])
        (used, *_) = figures.forest(risk).axes[0].containers
        expected = [
            student(max(row["ess"] - 1, 1), row["estimate"], row["stderr"]).interval(0.95)[1]
            for _, row in risk.sources[::-1].iterrows()
        ]
        np.testing.assert_allclose(intervals(used)[:, 1], expected)

    def test_one_effective_row_has_one_degree_of_freedom(self):
        risk = estimate([[1.0, 2.0, 4.0]], [[1.0, 1e-9, 1e-9]], "unbiased", guard=False)
        low, high = risk.sources[["low", "high"]].iloc[0]
        half = student(1).ppf(0.975) * risk.sources["stderr"].iloc[0]
        np.testing.assert_allclose([low, high], risk.estimates[0] + half * np.array([-1, 1]))

    def test_no_errors(self):
        figure = figures.forest(estimate([np.zeros(9)], method="naive"))
        assert figure.axes[0].get_xlim() == (-0.05, 0.05)


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
        figure = figures.history(trials, chosen=2)
        (axes,) = figure.axes
        worse, tied = axes.containers
        np.testing.assert_allclose(intervals(worse), [[1.5, 2.5]])
        np.testing.assert_allclose(intervals(tied), [[0.7, 1.3]])
        drawn = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
        assert drawn["best so far"] == [[0, 2], [2, 1]]
        assert drawn["chosen"] == [[2, 1]]
        assert [x for x, _ in drawn["failed"]] == [1]
        assert set(legend(figure)) == {
            "worse",
            "tied with the best",
            "best so far",
            "chosen",
            "failed",
        }
        with pytest.raises(ProblemError, match="a completed trial, got 1"):
            figures.history(trials, chosen=1)


class TestOfASearch:
    def test_history_and_sources(self, hostile_search):
        (axes,) = hostile_search.plot_history().axes
        (chosen,) = [line for line in axes.lines if line.get_label() == "chosen"]
        result = hostile_search.result_
        assert chosen.get_ydata() == [result.risks[result.chosen].value]
        (axes,) = hostile_search.plot_sources().axes
        assert len(ticks(axes.yaxis)) == 1 + 4
        assert "2024" in ticks(axes.yaxis)

    def test_not_fitted(self, hostile_search):
        unfitted = ShiftSearch(hostile_search.estimator, hostile_search.space)
        with pytest.raises(ProblemError, match="call fit first"):
            unfitted.plot_history()

    def test_weights(self, weighted_search):
        (axes,) = weighted_search.plot_weights().axes
        weights = dict(
            zip(
                weighted_search.problem_.names,
                weighted_search.result_.context.data.weights,
                strict=True,
            )
        )
        *_, medians = axes.collections
        found = [segment[0, 0] for segment in medians.get_segments()]
        np.testing.assert_allclose(
            found, [max(np.median(w), 1e-3) for w in list(weights.values())[::-1]]
        )
        doubtful = np.array(
            [box.get_edgecolor() != axes.patches[-1].get_edgecolor() for box in axes.patches]
        )
        assert np.array(list(weights)[::-1])[doubtful].tolist() == ["2024"]
        assert "effective" in [text.get_text() for text in axes.texts]

    def test_weights_of_a_search_that_used_none(self, hostile_search):
        assert hostile_search.result_.context.data.weights is None
        (axes,) = hostile_search.plot_weights().axes
        looked_at = hostile_search.problem_.diagnose()["mean_weight"][::-1]
        np.testing.assert_allclose(axes.lines[-1].get_xdata(), np.maximum(looked_at, 1e-3))

    @pytest.mark.parametrize("sites", [4, 30])
    def test_shifts_of_many_sites_go_down_the_page(self, sites):
        table = pd.DataFrame(
            np.linspace(1, 0, 12)[:, None] * np.ones(sites),
            index=[f"column {c}" for c in range(12)],
            columns=[f"site {j}" for j in range(sites)],
        )
        (axes,) = figures.shifts(table).axes
        down, across = (10, 4) if sites == 4 else (24, 10)
        assert axes.collections[0].get_array().shape == (down, across)
        assert len(axes.texts) == down * across
        assert axes.texts[-across].get_text() == "1"  # the top left cell
        assert ticks(axes.yaxis)[-1] == ("column 0" if sites == 4 else "site 0")

    def test_shifts_of_the_search(self, hostile_search):
        (axes,) = hostile_search.plot_shifts().axes
        assert axes.collections[0].get_array().shape == (3, 4)

    def test_importance(self, hostile_search):
        (axes,) = hostile_search.plot_importance().axes
        table = hostile_search.importance()
        (points,) = (line for line in axes.lines if line.get_marker() == "o")
        assert points.get_xdata()[::-1] == pytest.approx(table["importance"])
        assert len(points.get_xdata()) == 3


class TestTargets:
    def table(self, n):
        rng = np.random.default_rng(0)
        risk = rng.gamma(5, 0.3, n)
        verdict = rng.choice(["trust", "with care", "do not use"], n)
        names = [f"shop {i}" for i in range(n)]
        columns = {"risk": risk, "low": risk / 2, "high": 2 * risk, "verdict": verdict}
        return pd.DataFrame(columns, index=pd.Index(names, name="site"))

    @pytest.mark.parametrize("n", [3, 24, 25, 1000])
    def test_every_target_is_on_one_axis(self, n):
        table = self.table(n)
        figure: Any = figures.targets(table, [1.0, 2.0])
        (axes,) = figure.axes
        marks: dict[Any, Any] = {line.get_label(): line.get_xdata() for line in axes.lines}
        assert sorted(marks.pop("a source")) == [1.0, 2.0]
        for verdict, risks in marks.items():
            assert sorted(risks) == sorted(table.loc[table["verdict"] == verdict, "risk"])
        assert sum(map(len, marks.values())) == n
        names = [text.get_text() for text in axes.get_yticklabels()]
        best = [*table.sort_values("risk", ascending=False).index]
        assert names == (["sources", *best] if n <= 24 else [])
        figure._repr_png_()
        assert figure.get_figheight() < 8

    def test_a_hopeless_target_does_not_hide_the_others(self):
        table = self.table(4)
        table.iloc[0, 1:3] = 0.0, 24_181.0
        table.iloc[1, 1:3] = np.nan, np.inf
        (axes,) = figures.targets(table, [1.0]).axes
        assert axes.get_xlim()[1] < 4 * max(1.0, table["risk"].max())
