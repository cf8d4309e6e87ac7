"""The figures say what the numbers say, and nothing in them covers anything."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from shiftune.errors import OverlapWarning, ProblemError
from shiftune.report import forest, history
from shiftune.risk import estimate

pytest.importorskip("matplotlib")
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


@pytest.fixture
def axes():
    figure = Figure(figsize=(8, 4), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()


@pytest.fixture
def risk(rng):
    """Two sources that speak, one of them with few effective rows, and two that are left out."""
    sizes = {"B": 300, "few": 12, "wild": 300, "far": 300}
    losses = [rng.exponential(size=n) for n in sizes.values()]
    weights = [
        np.ones(300),
        rng.exponential(size=12),
        np.where(np.arange(300) < 4, 50.0, 1.0) * 5,
        np.full(300, 1e-9),
    ]
    return estimate(losses, weights, names=list(sizes))


@pytest.fixture
def trials(rng):
    """20 trials with risks that fall; one failed, the last ten tie."""
    value = np.linspace(3, 1, 20)
    table = pd.DataFrame(
        {
            "state": "COMPLETE",
            "risk": value,
            "low": value - 0.3,
            "high": value + 0.3,
            "tied_with_best": np.arange(20) >= 10,
        }
    )
    table.loc[4, ["risk", "low", "high"]] = np.nan
    table.loc[4, "state"] = "FAIL"
    return table.rename_axis("trial")


def intervals(ax):
    """Ends of the horizontal lines, the highest first."""
    lines = [line.get_xydata() for line in ax.lines if len(line.get_xydata()) == 2]
    flat = [xy for xy in lines if xy[0, 1] == xy[1, 1] and xy[0, 1] >= 1]
    return [xy[:, 0] for xy in sorted(flat, key=lambda xy: -xy[0, 1])]


class TestForest:
    @pytest.mark.parametrize("level", [0.5, 0.95])
    def test_every_source_has_its_own_degrees_of_freedom(self, axes, risk, level):
        found = intervals(forest(risk, axes, level))
        assert len(found) == 4
        for ends, (_, row) in zip(found, risk.sources.iterrows(), strict=True):
            dof = max(row["ess"] - 1, 1)
            expected = student(dof, row["estimate"], row["stderr"]).interval(level)
            np.testing.assert_allclose(ends, expected)

    def test_one_effective_row_has_one_degree_of_freedom(self, axes):
        risk = estimate([[1.0, 2.0, 4.0]], [[1.0, 1e-9, 1e-9]], "unbiased", guard=False)
        (ends,) = intervals(forest(risk, axes))
        half = student(1).ppf(0.975) * risk.sources["stderr"].iloc[0]
        np.testing.assert_allclose(ends, risk.estimates[0] + half * np.array([-1, 1]))

    def test_sources_that_are_left_out_do_not_set_the_scale(self, axes, risk):
        ax = forest(risk, axes)
        left, right = ax.get_xlim()
        wild = risk.sources.loc["wild"]
        assert wild["left_out"]
        assert wild["estimate"] > right
        assert [line.get_marker() for line in ax.lines].count(">") == 1
        for ends in intervals(ax)[:2]:
            assert left < ends[0] < ends[1] < right

    def test_reasons_stand_beside_the_axes(self, axes, risk):
        ax = forest(risk, axes)
        ax.figure.canvas.draw()
        reasons = [text for text in ax.texts if text.get_text().startswith("left out")]
        assert len(reasons) == 2
        for reason in reasons:
            box = reason.get_window_extent()
            assert box.x0 >= ax.get_window_extent().x1
            assert box.x1 <= ax.figure.bbox.x1

    def test_nobody_speaks(self, axes):
        with pytest.warns(OverlapWarning):
            risk = estimate([np.arange(9.0), np.arange(5.0)], [np.zeros(9), np.zeros(5)])
        ax = forest(risk, axes)
        left, right = ax.get_xlim()
        assert all(left < mean < right for mean in risk.estimates)

    def test_no_errors(self, axes):
        ax = forest(estimate([np.zeros(9)], method="naive"), axes)
        assert ax.get_xlim() == (-0.05, 0.05)

    def test_level(self, axes, risk):
        with pytest.raises(ProblemError, match="level"):
            forest(risk, axes, 95)


class TestHistory:
    def labels(self, ax):
        return [text.get_text() for text in ax.get_legend().get_texts()]

    def test_chosen(self, axes, trials):
        ax = history(trials, axes, chosen=12)
        (ring,) = [line for line in ax.lines if line.get_label() == "chosen"]
        assert ring.get_xydata().tolist() == [[12, trials["risk"][12]]]

    def test_none_chosen(self, axes, trials):
        assert "chosen" not in self.labels(history(trials, axes))

    @pytest.mark.parametrize("chosen", [4, 99])
    def test_only_a_completed_trial_can_be_chosen(self, axes, trials, chosen):
        with pytest.raises(ProblemError, match=f"completed, got {chosen}"):
            history(trials, axes, chosen=chosen)

    def test_the_legend_covers_nothing(self, axes, trials):
        ax = history(trials, axes, chosen=19)
        ax.set_title("a title")
        ax.figure.canvas.draw()
        legend = ax.get_legend().get_window_extent()
        assert len(self.labels(ax)) == 5
        assert legend.x0 >= ax.get_window_extent().x1
        assert legend.x1 <= ax.figure.bbox.x1
        assert not legend.overlaps(ax.title.get_window_extent())
