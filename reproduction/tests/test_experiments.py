"""The paper's experiments on tiny budgets: every method, every setting, nothing lost."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reproduction import experiments, figures
from reproduction.choosing import METHOD_NAMES
from reproduction.experiments import Case, Patients, Toy
from reproduction.page import write_page
from reproduction.record import RUNS, Run, append_run, noted_in, read_runs
from reproduction.regret.reproduce import reproduce_regret
from reproduction.reproduce import reproduce
from reproduction.runs import run_all
from reproduction.settings import NO_GUARD, SETTINGS
from reproduction.toy import toy_problem
from sklearn.base import clone
from sklearn.metrics import log_loss

from shiftune.errors import DataWarning, MissingPackageError, ProblemError, StorageError
from shiftune.problem import ShiftProblem, Site
from shiftune.risk import estimate

# The paper is repeated, not used: `make test-slow`.
pytestmark = pytest.mark.slow

pytest.importorskip("matplotlib")

SMALL = Toy(budget=6, cs=(1.0, 5.0), n=120, weighed_seeds=4)
TASKS = {"parkinson": "regression", "gvhd": "classification"}
SEEDED = {"parkinson": {}, "gvhd": {"random_state": 0}}


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
        # The score is the mean of 120 losses (theta - y)^2 / 2 with y ~ N(best, 1.49): within five
        # standard errors of the true risk.
        gap = theta - toy_problem(2.0, n=120, random_state=0).best_theta
        error = np.sqrt((1.49**2 / 2 + 1.49 * gap**2) / 120)
        assert abs(scored.score - scored.true_risk) < 5 * error
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
        for name, learner in experiments.LEARNERS.items():
            scored = Patients(name, budget=4).run(method, SETTINGS[setting], Case(0))
            model, train, test = learner(), *experiments._halves(patients(TASKS[name]), 0)
            fitted = clone(model.model).set_params(**scored.choice.params, **SEEDED[name])
            fitted.fit(train.X, train.labels)
            if name == "parkinson":
                expected = np.abs(fitted.predict(test.X) - test.labels).mean()
            else:
                chances = fitted.predict_proba(test.X)[:, 1]
                expected = log_loss(test.labels, chances, labels=[-1, 1])
            assert scored.score == pytest.approx(expected)
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
        with pytest.raises(MissingPackageError, match=r"pip install '\.\[lightgbm\]'"):
            Patients("gvhd", budget=2).run("naive", SETTINGS["guarded"], Case(0))


def test_without_a_guard_the_estimator_is_the_published_one():
    """Sources without any weight are skipped and counted; all others are used."""
    rng = np.random.default_rng(0)
    losses = [rng.exponential(size=20) for _ in range(3)]
    weights = [np.ones(20), np.zeros(20), np.full(20, 1e-9)]
    for method in ("unbiased", "variance_reduced"):
        risk = estimate(losses, weights, method, guard=NO_GUARD, names=["B", "C", "D"])
        expected = estimate(losses[::2], weights[::2], method, guard=False)
        assert risk.value == pytest.approx(expected.value, rel=1e-12)
        assert [bool(why) for why in risk.left_out] == [False, True, False]
    assert risk.sources.loc["D", "share"] > 0.999  # the collapse


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_only_the_oracle_sees_the_labels_of_the_target(method, monkeypatch):
    """Other hidden labels, the same choice, on the toy problem and for the patients."""
    choices = []
    for shift in (0.0, 5.0):

        def moved(task, shift=shift):
            problem = patients(task)
            y = problem.oracle.labels + shift if task == "regression" else problem.oracle.labels
            oracle = Site(problem.oracle.name, problem.oracle.X, y if shift == 0 else y[::-1])
            return replace(problem, oracle=oracle)

        experiments._loaded.cache_clear()
        monkeypatch.setattr(
            experiments, "LOADERS", {"parkinson": lambda folder, m=moved: m("regression")}
        )
        real = toy_problem(2.0, n=120)
        oracle = Site("target", real.problem.oracle.X, real.problem.oracle.labels + shift)
        other = replace(real, problem=replace(real.problem, oracle=oracle))
        monkeypatch.setattr(experiments, "toy_problem", lambda *a, other=other, **k: other)
        for setting in SETTINGS.values():
            scored = (
                Patients("parkinson", budget=3).run(method, setting, Case(0)),
                SMALL.run(method, setting, Case(0, 2.0)),
            )
            choices.append((shift, setting.name, [s.choice.params for s in scored]))
    experiments._loaded.cache_clear()
    before = [found for shift, _, found in choices if shift == 0]
    after = [found for shift, _, found in choices if shift != 0]
    assert (before == after) == (method != "oracle")


class TestRuns:
    ASKED = (range(2), ("naive", "variance_reduced"), ("as-published", "guarded"))

    @pytest.mark.slow
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
        with pytest.raises(StorageError, match="budget: 6, now 7"):
            run_all(
                Toy(budget=7, n=120), range(1), ("naive",), ("guarded",), tmp_path, progress=False
            )
        noted = noted_in(tmp_path)
        assert noted["options"]["budget"] == 6
        assert "numpy" in noted["made"][0]["versions"]

    def test_other_code_is_pointed_out(self, tmp_path):
        run_all(SMALL, range(1), ("naive",), ("guarded",), tmp_path, progress=False)
        path = tmp_path / "options.json"
        noted = json.loads(path.read_text())
        noted["made"][0]["code"] = "00000000"
        path.write_text(json.dumps(noted))
        with pytest.warns(DataWarning, match="made with other code"):
            run_all(SMALL, range(1), ("naive",), ("guarded",), tmp_path, progress=False)

    def test_a_run_that_fails_does_not_cost_the_others(self, tmp_path, monkeypatch):
        run = Toy.run

        def sometimes(self, method, setting, case):
            if case.c == 5.0:
                raise ValueError("no luck")
            return run(self, method, setting, case)

        monkeypatch.setattr(Toy, "run", sometimes)
        runs = run_all(SMALL, range(2), ("naive",), ("guarded",), tmp_path, progress=False)
        failed = runs[runs["c"] == 5.0]
        assert failed["score"].isna().all()
        assert failed["failure"].str.contains("no luck").all()
        assert runs[runs["c"] == 1.0]["score"].notna().all()
        monkeypatch.setattr(Toy, "run", lambda *_: 1 / 0)
        with pytest.raises(ProblemError, match="all 4 runs failed; the first reason: ZeroDiv"):
            reproduce(SMALL, range(2), tmp_path / "none", methods=["naive"], settings=["guarded"])

    def test_reading_leaves_the_file_alone(self, tmp_path):
        """A page can be made while runs are under way."""
        run_all(SMALL, range(1), ("naive",), ("guarded",), tmp_path, progress=False)
        path = tmp_path / "runs.csv"
        torn = path.read_text()[:-10]
        path.write_text(torn)
        assert len(read_runs(path)) == 1
        assert path.read_text() == torn

    @pytest.mark.parametrize("text", ["", "experiment,sett"])
    def test_a_header_torn_by_a_kill(self, tmp_path, text):
        (tmp_path / "runs.csv").write_text(text)
        runs = run_all(SMALL, range(1), ("naive",), ("guarded",), tmp_path, progress=False)
        assert len(runs) == 2

    def test_what_is_written_is_what_is_read(self, tmp_path):
        runs = run_all(SMALL, range(1), METHOD_NAMES, ("guarded",), tmp_path, progress=False)
        assert runs["failure"].eq("").all()
        assert json.loads(runs["params"].iloc[0]).keys() == {"theta"}
        assert runs["seed"].dtype.kind == "i"
        again = Run(**runs.iloc[0].to_dict())
        append_run(tmp_path / "other.csv", again)
        pd.testing.assert_frame_equal(read_runs(tmp_path / "other.csv"), runs.iloc[:1])

    def test_a_file_of_something_else(self, tmp_path):
        (tmp_path / "runs.csv").write_text("a,b\n1,2\n")
        with pytest.raises(StorageError, match="damaged or no file of runs"):
            read_runs(tmp_path / "runs.csv")

    @pytest.mark.parametrize("line", ["garbage", "toy,guarded,naive,x,y,,,,,,,,,,", "\0\0,,,"])
    def test_a_damaged_line(self, tmp_path, line):
        run_all(SMALL, range(1), ("naive",), ("guarded",), tmp_path, progress=False)
        with (tmp_path / "runs.csv").open("a") as file:
            file.write(line + "\n")
        with pytest.raises(StorageError, match="damaged"):
            read_runs(tmp_path / "runs.csv")

    def test_runs_of_another_experiment_are_not_mixed(self, tmp_path, loaded):
        run_all(SMALL, range(1), ("naive",), ("guarded",), tmp_path, progress=False)
        (tmp_path / "options.json").unlink()
        with pytest.raises(StorageError, match="has runs of"):
            run_all(Patients("gvhd", 3), range(1), ("naive",), ("guarded",), tmp_path)
        (tmp_path / "options.json").write_text("{}")
        with pytest.raises(StorageError, match="damaged or missing"):
            run_all(SMALL, range(1), ("naive",), ("guarded",), tmp_path)

    def test_runs_that_are_there_twice_count_once(self, tmp_path):
        runs = run_all(SMALL, range(1), ("naive",), ("guarded",), tmp_path, progress=False)
        path = tmp_path / "runs.csv"
        path.write_text(path.read_text() + path.read_text().split("\n")[1] + "\n")
        pd.testing.assert_frame_equal(read_runs(path), runs)

    def test_the_table_is_of_all_runs_in_the_folder(self, tmp_path):
        both = {"settings": ["guarded"], "progress": False}
        reproduce(SMALL, range(2), tmp_path, methods=["naive", "oracle"], **both)
        whole = (tmp_path / "table.md").read_text()
        few = reproduce(SMALL, range(1), tmp_path, methods=["naive", "naive"], **both)
        assert len(few) == 2
        assert (tmp_path / "table.md").read_text() == whole


@pytest.mark.slow
def test_reproduce_and_page(tmp_path, loaded):
    """From runs to a page in which every figure is drawn and every number there."""
    results = tmp_path / "results"
    few = {"methods": ["naive", "unbiased", "variance_reduced"], "progress": False}
    toy = reproduce(SMALL, range(2), results / "toy", **few)
    assert {path.suffix for path in (results / "toy").iterdir()} >= {".png", ".svg", ".csv", ".md"}
    for name in ("parkinson", "gvhd"):
        reproduce(Patients(name, budget=2), range(2), results / name, **few)
    reproduce_regret(range(2), results / "regret", ns=(100, 300), Bs=(2, 6), progress=False)
    page = tmp_path / "docs" / "paper.md"
    write_page(results, page)
    text = page.read_text()
    means = toy[(toy["setting"] == "guarded") & (toy["method"] == "naive")].groupby("c")["score"]
    assert f"{means.mean()[5.0]:#.4g}" in text
    for name in ("toy-guarded", "toy-ratio", "parkinson", "gvhd", "regret"):
        assert f"(paper/{name}.svg)" in text
        assert (page.parent / "paper" / f"{name}.svg").exists()
    assert "seeds 0 to 1" in text
    assert "64.27" in text


def test_regret_goes_on_and_refuses_other_sizes(tmp_path):
    options = {"ns": (100, 300), "Bs": (2,), "progress": False}
    first = reproduce_regret(range(1), tmp_path, **options)
    both = reproduce_regret(range(2), tmp_path, **options)
    assert len(both) == 2 * len(first)
    pd.testing.assert_frame_equal(both[both["seed"] == 0].reset_index(drop=True), first)
    with pytest.raises(ProblemError, match="ns"):
        reproduce_regret(range(1), tmp_path, ns=(100, 200), Bs=(2,))


def test_page_of_one_setting_with_some_methods(tmp_path):
    methods = ["naive", "variance_reduced"]
    reproduce(
        SMALL, range(2), tmp_path / "toy", methods=methods, settings=["guarded"], progress=False
    )
    write_page(tmp_path, tmp_path / "page.md")
    assert "Variance reduced against naive (2 seeds)" in (tmp_path / "page.md").read_text()


def test_page_without_results(tmp_path):
    with pytest.raises(StorageError, match="run python -m reproduction toy first"):
        write_page(tmp_path, tmp_path / "paper.md")


def test_figures_are_closed(tmp_path):
    from matplotlib import pyplot as plt

    runs = run_all(SMALL, range(2), METHOD_NAMES, ("guarded",), tmp_path, progress=False)
    figures.save(figures.over_c(runs, "guarded"), tmp_path / "f")
    assert not plt.get_fignums()


def test_the_committed_page_is_that_of_the_committed_results(tmp_path):
    """Every number on the page can be computed again from the kept runs, byte for byte."""
    root = Path(__file__).parents[2]
    results = root / "reproduction" / "results"
    if not results.exists():
        pytest.skip("the results are not in the source distribution")
    write_page(results, tmp_path / "paper.md")
    assert (tmp_path / "paper.md").read_text() == (root / "docs" / "paper.md").read_text()


@pytest.mark.parametrize("at", [1, 3])
def test_an_interrupted_run_is_no_failed_run(tmp_path, monkeypatch, at):
    """Also where what an interrupt raises is caught and forgotten, as destructors do."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    experiment, calls = Toy(budget=3, cs=(1.0, 5.0), n=100), []

    def interrupted(self, *args, run=Toy.run):
        calls.append(args)
        if len(calls) == at:
            with suppress(BaseException):
                signal.raise_signal(signal.SIGINT)
        return run(self, *args)

    asked = (experiment, range(2), ("naive",), ("guarded",))
    with monkeypatch.context() as patched:
        patched.setattr(Toy, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_all(*asked, tmp_path / "stopped")
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler
    kept = read_runs(tmp_path / "stopped" / RUNS)
    assert len(kept) == at - 1
    found = run_all(*asked, tmp_path / "stopped")
    whole = run_all(*asked, tmp_path / "whole")
    clocks = ["seconds", "cpu_seconds"]
    pd.testing.assert_frame_equal(found.drop(columns=clocks), whole.drop(columns=clocks))
    assert not found["failure"].any()
