"""The paper's experiments on tiny budgets: every method, every setting, nothing lost."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from shiftune.errors import ProblemError
from shiftune.paper import experiments, figures
from shiftune.paper.choosing import METHOD_NAMES
from shiftune.paper.experiments import Case, Patients, Toy
from shiftune.paper.page import write_page
from shiftune.paper.reproduce import reproduce, reproduce_regret
from shiftune.paper.runs import read_runs, run_all
from shiftune.paper.settings import SETTINGS, PublishedRisk
from shiftune.problem import ShiftProblem
from shiftune.risk import estimate

pytest.importorskip("matplotlib")

SMALL = Toy(budget=6, cs=(1.0, 5.0), n=120)


def patients(task: str, k: int = 4) -> ShiftProblem:
    """Generated patients in the place of the real ones, target first."""
    rng = np.random.default_rng(0)
    X = [rng.normal(mu, 1, (60, 3)) for mu in np.linspace(0, 1, k + 1)]
    y = [x[:, 0] + 0.3 * rng.standard_normal(60) for x in X]
    if task == "classification":
        y = [np.where(v > 0.4, 1, -1) for v in y]
    return ShiftProblem.from_sites(
        list(zip(X[1:], y[1:], strict=True)), X[0], oracle_labels=y[0], task=task
    )


@pytest.fixture
def loaded(monkeypatch):
    experiments._loaded.cache_clear()
    monkeypatch.setattr(
        experiments,
        "LOADERS",
        {
            "parkinson": lambda folder: patients("regression"),
            "gvhd": lambda folder: patients("classification"),
        },
    )
    yield
    experiments._loaded.cache_clear()


class TestToy:
    @pytest.mark.parametrize("setting", SETTINGS)
    @pytest.mark.parametrize("method", METHOD_NAMES)
    def test_every_method_in_every_setting(self, method, setting):
        scored = SMALL.run(method, SETTINGS[setting], Case(0, 2.0))
        theta = scored.choice.params["theta"]
        assert -8 <= theta <= 8
        assert scored.true_risk >= 0.745 - 1e-9
        # The score is the true risk but for the 120 rows it is taken on.
        assert abs(scored.score - scored.true_risk) < 1.0 + abs(theta)
        assert (scored.choice.risk is None) == (method in ("li", "distbo"))

    def test_all_methods_see_the_same_data(self):
        one, two = (SMALL.run(m, SETTINGS["guarded"], Case(3, 5.0)) for m in ("naive", "oracle"))
        assert one.choice.params != two.choice.params
        assert two.score <= one.score  # the oracle minimised just this

    def test_as_published_uses_all_rows_for_everything(self):
        risk = SMALL.run("unbiased", SETTINGS["as-published"], Case(0, 1.0)).choice.risk
        assert risk.n.tolist() == [120, 120]
        risk = SMALL.run("unbiased", SETTINGS["as-described"], Case(0, 1.0)).choice.risk
        assert risk.n.tolist() == [36, 36]

    def test_guarded_sources_are_left_out_and_published_ones_are_not(self):
        cases = [Case(seed, 5.0) for seed in range(4)]
        left = {
            name: [
                sum(map(bool, SMALL.run("variance_reduced", s, c).choice.risk.left_out))
                for c in cases
            ]
            for name, s in SETTINGS.items()
        }
        assert sum(left["guarded"]) > 0
        assert sum(left["as-published"]) == sum(left["as-described"]) == 0


class TestPatients:
    @pytest.mark.parametrize("setting", SETTINGS)
    @pytest.mark.parametrize("method", METHOD_NAMES)
    def test_every_method_in_every_setting(self, loaded, method, setting):
        for name in ("parkinson", "gvhd"):
            scored = Patients(name, budget=5).run(method, SETTINGS[setting], Case(0))
            assert 0 < scored.score < 3
            assert np.isnan(scored.true_risk)

    def test_the_oracle_that_sees_the_test_rows_is_scored_as_it_was_tuned(self, loaded):
        seen = Patients("parkinson", budget=5).run("oracle", SETTINGS["as-published"], Case(1))
        assert seen.score == pytest.approx(seen.choice.risk.value)
        honest = Patients("parkinson", budget=5).run("oracle", SETTINGS["guarded"], Case(1))
        assert honest.score != pytest.approx(honest.choice.risk.value)

    def test_no_test_row_is_trained_on(self, loaded):
        problem = patients("regression")
        train, test = experiments._halves(problem, 0)
        assert len(train) == 42
        assert len(test) == 18
        assert not set(train.rows) & set(test.rows)

    def test_without_lightgbm(self, loaded, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "lightgbm", None)
        with pytest.raises(ProblemError, match=r"pip install 'shiftune\[paper\]'"):
            Patients("gvhd", budget=2).run("naive", SETTINGS["guarded"], Case(0))


def test_published_risk_skips_sources_without_any_weight():
    """And is the published estimator on the others, whatever their overlap."""
    rng = np.random.default_rng(0)
    losses = [rng.exponential(size=20) for _ in range(3)]
    weights = [np.ones(20), np.zeros(20), np.full(20, 1e-9)]
    risk = PublishedRisk("variance_reduced")(losses, weights, names=["B", "C", "D"])
    assert risk.names == ("B", "D")
    expected = estimate([losses[0], losses[2]], [weights[0], weights[2]], guard=False)
    assert risk.value == expected.value
    assert risk.sources.loc["D", "share"] > 0.999  # the collapse


class TestRuns:
    ASKED = (range(2), ("naive", "variance_reduced"), ("as-published", "guarded"))

    def test_one_row_per_run_and_the_same_again_with_two_processes(self, tmp_path):
        runs = run_all(SMALL, *self.ASKED, tmp_path / "one", progress=False)
        assert len(runs) == 2 * 2 * 2 * 2
        again = run_all(SMALL, *self.ASKED, tmp_path / "two", n_jobs=2, progress=False)
        times = ["seconds", "cpu_seconds"]
        pd.testing.assert_frame_equal(runs.drop(columns=times), again.drop(columns=times))

    def test_what_is_there_is_not_run_again(self, tmp_path, monkeypatch):
        first = run_all(SMALL, range(1), ("naive",), ("guarded",), tmp_path, progress=False)
        calls = []
        run = Toy.run
        monkeypatch.setattr(Toy, "run", lambda self, *task: calls.append(task) or run(self, *task))
        both = run_all(SMALL, range(2), ("naive",), ("guarded",), tmp_path, progress=False)
        assert [task[2].seed for task in calls] == [1, 1]
        pd.testing.assert_frame_equal(both[both["seed"] == 0].reset_index(drop=True), first)
        fewer = run_all(SMALL, range(1), ("naive",), ("guarded",), tmp_path, progress=False)
        assert len(fewer) == 2
        assert len(read_runs(tmp_path / "runs.csv")) == 4

    def test_a_line_torn_by_a_kill_is_run_again(self, tmp_path):
        runs = run_all(SMALL, *self.ASKED, tmp_path, progress=False)
        path = tmp_path / "runs.csv"
        path.write_text(path.read_text()[:-25])
        again = run_all(SMALL, *self.ASKED, tmp_path, progress=False)
        times = ["seconds", "cpu_seconds"]
        pd.testing.assert_frame_equal(runs.drop(columns=times), again.drop(columns=times))

    def test_other_options_are_refused(self, tmp_path):
        run_all(SMALL, range(1), ("naive",), ("guarded",), tmp_path, progress=False)
        with pytest.raises(ProblemError, match="budget 6 instead of 7"):
            run_all(
                Toy(budget=7, n=120), range(1), ("naive",), ("guarded",), tmp_path, progress=False
            )
        noted = json.loads((tmp_path / "options.json").read_text())
        assert noted["options"]["budget"] == 6
        assert "numpy" in noted["versions"]

    def test_a_file_of_something_else(self, tmp_path):
        (tmp_path / "runs.csv").write_text("a,b\n1,2\n")
        with pytest.raises(ProblemError, match="is no file of runs"):
            read_runs(tmp_path / "runs.csv")


def test_reproduce_and_page(tmp_path, loaded):
    """From runs to a page in which every figure is drawn and every number there."""
    results = tmp_path / "results"
    toy = reproduce(SMALL, range(3), results / "toy", progress=False)
    assert {path.suffix for path in (results / "toy").iterdir()} >= {".png", ".svg", ".csv", ".md"}
    for name in ("parkinson", "gvhd"):
        reproduce(Patients(name, budget=3), range(2), results / name, progress=False)
    reproduce_regret(4, results / "regret", ns=(100, 300), Bs=(2, 6), progress=False)
    page = tmp_path / "docs" / "paper.md"
    write_page(results, page)
    text = page.read_text()
    means = toy[(toy["setting"] == "guarded") & (toy["method"] == "naive")].groupby("c")["score"]
    assert f"{means.mean()[5.0]:#.4g}" in text
    for name in ("toy-guarded", "toy-ratio", "parkinson", "gvhd", "regret"):
        assert f"(paper/{name}.svg)" in text
        assert (page.parent / "paper" / f"{name}.svg").exists()
    assert "seeds 0 to 2" in text
    assert "64.27" in text


def test_page_without_results(tmp_path):
    with pytest.raises(ProblemError, match="run shiftune reproduce first"):
        write_page(tmp_path, tmp_path / "paper.md")


def test_figures_are_closed(tmp_path):
    from matplotlib import pyplot as plt

    runs = run_all(SMALL, range(2), METHOD_NAMES, ("guarded",), tmp_path, progress=False)
    figures.save(figures.over_c(runs, "guarded"), tmp_path / "f")
    assert not plt.get_fignums()
