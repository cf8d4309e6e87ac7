"""`shiftune tune` and `report`: what the folder gets, and how a run goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from optuna.distributions import FloatDistribution
from rich.console import Console

from shiftune import ShiftProblem, ShiftSearch, load_model
from shiftune.cli._folder import ResultFolder
from shiftune.cli._screen import show_overlap
from shiftune.models import MODELS, expand_auto, ready_model, spaces
from shiftune.models._space import read_entries, space_from_entries


def read(path):
    return json.loads(path.read_text())


def test_a_run_leaves_everything(visits, folder, tune):
    visits.drop(columns="ill").assign(nr=range(240)).to_csv("visits.csv", index=False)
    output = tune("visits.csv", "--out", "run", trials=3).output
    out = folder / "run"
    assert {path.name for path in out.iterdir()} == {
        "study.journal",
        "study.journal.predictions",
        "trials.csv",
        "best.json",
        "model.skops",
        "predictions.csv",
        "settings.json",
        "settings.toml",
        "report.html",
        "model-card.md",
    }
    best = read(out / "best.json")
    assert (best["models"], best["model"]) == (["ridge"], "ridge")
    assert best["risk"]["low"] < best["risk"]["value"] < best["risk"]["high"]
    assert best["risk"]["method"] == "adjusted"
    assert "one model per trial" not in output
    trials = pd.read_csv(out / "trials.csv")
    assert len(trials) == best["trials"]["finished"] == 3
    assert trials["param_alpha"][0] == 1.0  # the default
    alpha = trials["param_alpha"][best["trials"]["best"]]
    assert best["params"] == ({} if np.isnan(alpha) else pytest.approx({"alpha": alpha}))
    assert trials["criterion"].idxmin() == best["trials"]["best"]
    assert "cost at A" in output
    assert "promise" not in output
    named = " ".join(output.split()).rpartition("In run: ")[2].split(", ")
    assert set(named) == {path.name for path in out.iterdir()}
    settings = read(out / "settings.json")
    assert settings["options"]["seed"] == 0
    assert settings["runs"][0]["versions"]["python"].startswith("3.")
    report = (out / "report.html").read_text()
    assert settings["data"] in report
    assert "visits.csv" in report
    assert "'nr': left out: whole numbers in the order of the rows" in report


def test_the_same_search_in_python(visits, folder, tune):
    """The command line finds what ShiftSearch finds with the same pipeline and seed."""
    visits.drop(columns="ill").to_csv("visits.csv", index=False)
    tune("visits.csv", "--out", "run", "--seed", 3)
    table = pd.read_csv("visits.csv")
    table.loc[table["ward"] == "A", "cost"] = np.nan
    problem = ShiftProblem.from_frame(table, site="ward", label="cost", target="A")
    kinds = {"age": "number", "smoker": "category", "bmi": "number"}
    model = ready_model("ridge", "regression", kinds)
    search = ShiftSearch({"ridge": model}, n_trials=2, random_state=3).fit(problem)
    best = read(folder / "run" / "best.json")
    assert best["risk"]["value"] == pytest.approx(search.risk_.value)
    assert best["params"] == pytest.approx(search.best_params_)


def test_several_models(visits, folder, tune, run):
    """They share the trials; their order on the command line does not matter."""
    visits.drop(columns="ill").to_csv("visits.csv", index=False)
    usual = ["tune", "visits.csv", "--site", "ward", "--target", "A", "--label", "cost"]
    both = ["--model", "ridge", "--model", "linear"]
    output = run(*usual, *both, "--trials", 3).output
    out = folder / "visits-A-linear-ridge"
    assert "Tuning linear and ridge: 3 trials" in output
    best = read(out / "best.json")
    assert best["models"] == ["linear", "ridge"]
    assert f"{best['model']}, " in output
    trials = pd.read_csv(out / "trials.csv")
    assert trials["model"].tolist() == ["linear", "ridge", "linear"]
    assert {"param_linear.alpha", "param_linear.degree"} <= set(trials)
    assert "3 of them done" in run(*usual, *both[2:], *both[:2], "--trials", 4).output
    run("report", out)
    assert read(out / "best.json")["trials"]["finished"] == 4
    output = run(*usual, "--model", "ridge", "--out", out, code=2).output
    assert "model: 'linear' and 'ridge', now 'ridge'" in output
    (folder / "space.toml").write_text("alpha = [1.0]")
    assert "--space is for one model" in run(*usual, "--space", "space.toml", code=2).output


def test_auto_is_the_default(visits, folder, run):
    visits.drop(columns="ill").to_csv("visits.csv", index=False)
    usual = ["tune", "visits.csv", "--site", "ward", "--target", "A", "--label", "cost"]
    output = " ".join(run(*usual, "--trials", 1).output.split())
    assert "had no trial: 1 trial for 3 models" in output
    best = read(folder / "visits-A-auto" / "best.json")
    assert best["models"] == expand_auto(["auto"])
    assert (best["model"], best["params"]) == ("linear", {"alpha": 10.0, "degree": 2})
    load_model(folder / "visits-A-auto" / best["model_file"])
    output = run(*usual, "--model", "auto", "--trials", 1).output
    assert "already has 1 trial" in output


def test_predictions_are_those_of_the_stored_model_on_the_file(visits, folder, tune):
    visits["postcode"] = np.where(visits["ill"] == "yes", "01067", "80331")
    visits.drop(columns="cost").sample(frac=1, random_state=0).to_csv("v.csv", index=False)
    tune("v.csv", "--out", "run", label="ill", model="logistic")
    found = pd.read_csv(folder / "run" / "predictions.csv")
    raw = pd.read_csv("v.csv")
    assert found["row"].to_list() == np.flatnonzero(raw["ward"] == "A").tolist()
    model = load_model(folder / "run" / "model.skops")
    rows = raw.iloc[found["row"]]
    assert found["prediction"].to_list() == model.predict(rows).tolist()
    assert found["probability_yes"].to_numpy() == pytest.approx(model.predict_proba(rows)[:, 1])


def test_what_is_shown_to_others_has_names_of_files_only(visits, folder, tune):
    """Paths have names of users and projects; the settings keep them."""
    (folder / "secret-project").mkdir()
    path = folder / "secret-project" / "visits.csv"
    visits.drop(columns="ill").to_csv(path, index=False)
    tune(str(path), "--out", "secret-project/run")
    for name in ("model-card.md", "report.html", "best.json"):
        text = (folder / "secret-project" / "run" / name).read_text()
        assert "secret-project" not in text
        assert str(folder) not in text
    assert str(path) in (folder / "secret-project" / "run" / "settings.toml").read_text()


def test_labels_of_the_target_are_never_used(visits, tuned, tune):
    output = tune("visits.csv", "--out", "run").output
    assert "80 labels of the target set aside" in output
    visits.loc[visits["ward"] == "A", "cost"] = np.nan
    visits.drop(columns="ill").to_csv("without.csv", index=False)
    assert "set aside" not in tune("without.csv", "--out", "without").output
    results = [tuned / "run", tuned / "without"]
    one, other = ((path / "predictions.csv").read_text() for path in results)
    assert one == other
    one, other = ({**read(path / "best.json"), "checksum": ""} for path in results)
    first, *notes = one.pop("notes")
    assert first.startswith("80 labels of the target set aside")
    assert notes == other.pop("notes")
    assert one == other


def test_a_run_goes_on(tuned, tune):
    first = pd.read_csv("run/trials.csv")
    before = {path: path.stat().st_mtime_ns for path in (tuned / "run").iterdir()}
    assert "already has 2 trials" in tune("visits.csv", "--out", "run", trials=2).output
    assert before == {path: path.stat().st_mtime_ns for path in (tuned / "run").iterdir()}
    tune("visits.csv", "--out", "run", trials=4)
    more = pd.read_csv("run/trials.csv")
    assert len(more) == 4
    pd.testing.assert_series_equal(more["param_alpha"][:2], first["param_alpha"])
    assert read(tuned / "run" / "best.json")["trials"]["finished"] == 4
    assert len(read(tuned / "run" / "settings.json")["runs"]) == 2
    tune("visits.csv", "--out", "once", trials=4)
    once = pd.read_csv("once/trials.csv")
    np.testing.assert_allclose(once["param_alpha"], more["param_alpha"])


def test_the_report_again(tuned, run):
    report = tuned / "run" / "report.html"
    first = report.read_text()
    report.unlink()
    journal = (tuned / "run" / "study.journal").read_text()
    assert "report.html" in run("report", "run").output
    assert report.read_text() == first
    assert pd.read_csv("run/trials.csv").shape[0] == 2
    done = "datetime_complete"
    assert (tuned / "run" / "study.journal").read_text().count(done) == journal.count(done) == 2
    (tuned / "visits.csv").rename("moved.csv")
    assert "--data" in run("report", "run", code=2).output
    run("report", "run", "--data", "moved.csv")


def test_json_for_scripts(visits, folder, tune, run):
    visits.drop(columns="ill").assign(nr=range(240)).to_csv("visits.csv", index=False)
    found = json.loads(tune("visits.csv", "--out", "run", "--json").stdout)
    assert found["folder"] == "run"
    assert found["risk"] == read(folder / "run" / "best.json")["risk"]
    used = {column["column"]: column["used"] for column in found["columns"]}
    assert used == {"age": True, "smoker": True, "bmi": True, "nr": False}
    done = run("diagnose", "visits.csv", "--site", "ward", "--target", "A", "--json")
    sources = json.loads(done.stdout)["sources"]
    assert [source["site"] for source in sources] == ["B", "C"]
    assert all(0 < source["ess_share"] <= 1 for source in sources)
    assert json.loads(run("models", "--json").stdout)["ridge"]["space"]["alpha"]["log"] is True
    shown = run("models").output
    assert all(name in shown for name in (*MODELS, "search range", "alpha"))


def test_diagnose_shows_a_site_out_of_reach(visits, folder, run):
    visits.loc[visits["ward"] == "C", "age"] += 200
    visits.to_parquet("visits.parquet")
    args = ["--site", "ward", "--target", "A", "--label", "cost"]
    output = " ".join(run("diagnose", "visits.parquet", *args, "--drop", "ill").output.split())
    assert "overlaps well" in output
    assert "doubtful: few target-like rows" in output
    assert output.index("overlaps well") < output.index("doubtful: few")
    assert "1 of 2 sources overlaps with A" in output


@pytest.mark.parametrize("width", ["80", "100", "120"])
def test_diagnose_of_17_sources_fits_a_screen(rng, folder, run, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    names = np.array(["A", *(f"hospital {i}" for i in range(17))])
    table = pd.DataFrame({"site": np.repeat(names, 41), "x": rng.normal(size=18 * 41)})
    table["x"] += 9 * (table["site"] == "hospital 16")
    table["y"] = rng.integers(0, 2, len(table))
    table.to_csv("t.csv", index=False)
    usual = ["--site", "site", "--target", "A", "--label", "y"]
    lines = run("diagnose", "t.csv", *usual).output.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= int(width)
    rows = [line.split() for line in lines if line.startswith("hospital")]
    assert len(rows) == 17
    assert {row[2] for row in rows} == {"41"}  # all rows, not the half that is evaluated
    assert sum(" doubtful: " in line for line in lines) == 1


def test_verdicts_that_are_not_shown_take_no_room_from_names(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    name = "AMERICA WEST AIRLINES"
    fine = {"n": 61, "mean_weight": 1.0, "ess": 60.0, "ess_share": 0.97, "uncovered": 0.1}
    sites = pd.Index([name, *map(str, range(30))], name="site")
    table = pd.DataFrame([fine] * 31, sites).assign(
        level=["ok"] * 25 + ["problem"] * 6,
        reason="overlaps_well",
        verdict=["overlaps well"] * 25 + ["doubtful: few target-like rows"] * 6,
    )
    show_overlap(Console(), table, "A")
    assert name in capsys.readouterr().out


def test_a_space_file(visits, folder, tune, run):
    visits.drop(columns="ill").to_csv("visits.csv", index=False)
    (folder / "s.toml").write_text('alpha = { low = 1, high = 2 }\nsolver = ["svd", "cholesky"]')
    tune("visits.csv", "--out", "run", "--space", "s.toml", trials=3)
    trials = pd.read_csv("run/trials.csv")
    tried = trials[1:]  # the first trial has the default solver, which is not in the space
    assert tried["param_alpha"].between(1, 2).all()
    assert set(tried["param_solver"]) <= {"svd", "cholesky"}
    assert tried["param_alpha"].apply(float.is_integer).sum() < 2  # 1 to 2, not 1 or 2
    run("report", "run")  # from the folder alone
    (folder / "s.toml").write_text("alpha = { low = 1, high = 3 }")
    output = tune("visits.csv", "--out", "run", "--space", "s.toml", code=2).output
    assert "other space" in output


@pytest.mark.parametrize("name", MODELS)
def test_printed_spaces_can_be_read(name, folder, run):
    known = MODELS[name]
    pytest.importorskip(known.module)
    (folder / "space.toml").write_text(run("models", name).output)
    bare = ready_model(name, known.tasks[0], {"x": "number"}).bare
    space = getattr(spaces, name)()
    entries = read_entries(folder / "space.toml")
    assert space_from_entries(entries, bare, space) == space


def test_the_report_knows_the_risk_that_was_asked_for(visits, folder, tune):
    visits.drop(columns="ill").to_csv("visits.csv", index=False)
    tune("visits.csv", "--out", "run", "--risk", "naive", "--loss", "absolute")
    best = read(folder / "run" / "best.json")
    assert (best["risk"]["method"], best["loss"]) == ("naive", "absolute")


def test_rmse_is_tuned_by_its_square(visits, folder, tune):
    visits.drop(columns="ill").to_csv("visits.csv", index=False)
    assert (
        "'rmse' is not a mean over rows"
        in tune("visits.csv", "--out", "run", "--loss", "rmse").output
    )
    assert read(folder / "run" / "best.json")["loss"] == "squared"
    assert "already has 2 trials" in tune("visits.csv", "--out", "run", "--loss", "mse").output


def test_ctrl_c_before_the_first_result(visits, folder, tune, monkeypatch):
    visits.drop(columns="ill").to_csv("visits.csv", index=False)

    def stop(context, params):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("shiftune.search._loop.run_piece", stop)
        assert "rerun the command" in tune("visits.csv", "--out", "run", code=130).output
    assert not (folder / "run" / "best.json").exists()
    tune("visits.csv", "--out", "run")
    assert read(folder / "run" / "best.json")["trials"]["finished"] == 2


def test_help_is_complete(run):
    output = run("--help").output
    for name in ("tune", "diagnose", "models", "report", "demo"):
        assert name in output
    output = run("tune", "--help").output
    for name in (
        "--model linear --model lightgbm",
        "variance_reduced",
        "log_loss",
        "--drop-unlabelled",
    ):
        assert name in output
    flags = [line for line in output.splitlines() if "<bool>" in line]
    assert all("--help" in line for line in flags)  # which is Typer's own


def test_one_trial(visits, folder, tune):
    visits.drop(columns="ill").to_csv("visits.csv", index=False)
    output = tune("visits.csv", "--out", "run", trials=1).output
    assert "Tuning ridge: 1 trial, loss" in output
    assert "best of 1 trial, number 0" in output
    assert "95 % interval" in output
    assert "already has 1 trial;" in tune("visits.csv", "--out", "run", trials=1).output


HEAVY = {"numpy", "pandas", "scipy", "sklearn", "optuna", "joblib", "lightgbm", "matplotlib"}


def loaded_by(code, **env):
    """Run code in a process of its own; return its output, and the modules that it has loaded."""
    whole = f"import sys\n{code}\nprint('loaded:', *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", whole],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=True,
    )
    printed, _, loaded = done.stdout.rpartition("loaded:")
    return printed.split(), set(loaded.split())


def test_help_and_misspelt_names_load_nothing_heavy():
    printed, loaded = loaded_by("""
from shiftune.cli import app
for args in (["--help"], ["tune", "--help"], ["tune", "v.csv", "--site", "s", "--model", "rigde"]):
    try:
        app(args)
    except SystemExit as end:
        print("ended", end.code)
""")
    assert [printed[i + 1] for i, word in enumerate(printed) if word == "ended"] == ["0", "0", "2"]
    assert "typer" in loaded
    assert not loaded & HEAVY


@pytest.mark.parametrize("page", [["--help"], ["tune", "--help"]])
def test_the_example_of_the_help_works(visits, folder, run, monkeypatch, page):
    """It fits into a line of 80 columns; its label is 0 or 1."""
    monkeypatch.setenv("COLUMNS", "80")
    visits.drop(columns="cost").assign(ill=(visits["ill"] == "yes").astype(int)).to_csv(
        "data.csv", index=False
    )
    output = run(*page).output
    (line,) = [line.strip(" │") for line in output.splitlines() if "shiftune tune data" in line]
    run(*line.split()[1:], "--trials", 1)


def test_shell_completion_knows_the_models_and_loads_nothing_heavy():
    printed, loaded = loaded_by(
        """
from shiftune.cli import app
try:
    app(prog_name="shiftune")
except SystemExit:
    pass
""",
        _SHIFTUNE_COMPLETE="complete_bash",
        COMP_WORDS="shiftune tune v.csv --model ri",
        COMP_CWORD="4",
    )
    assert printed == ["ridge"]
    assert "typer" in loaded
    assert not loaded & HEAVY


def test_ready_space_of_the_model_is_tuned(visits, folder, tune):
    visits.drop(columns="ill").to_csv("visits.csv", index=False)
    tune("visits.csv", "--out", "run", model="elastic_net")
    space = spaces.elastic_net()
    assert isinstance(space["alpha"], FloatDistribution)
    assert set(read(folder / "run" / "best.json")["params"]) == set(space)


@pytest.mark.slow
def test_no_more_neighbours_than_the_smallest_training_set_has(visits, folder, tune):
    """A model without the large ward learns from 20 rows, with the paper's estimators from half."""
    small = visits["ward"].eq("C").to_numpy().nonzero()[0][20:]
    visits.drop(columns="ill").drop(index=small).to_csv("visits.csv", index=False)
    tune("visits.csv", "--out", "run", model="knn", trials=12)
    trials = pd.read_csv("run/trials.csv")
    assert set(trials["state"]) == {"COMPLETE"}
    assert trials["param_n_neighbors"].max() <= 10


def test_without_the_packages_of_the_report(visits, folder, tune, monkeypatch):
    """Everything else is there, and a sentence says what is missing."""
    monkeypatch.setattr(ResultFolder, "can_report", staticmethod(lambda: False))
    visits.drop(columns="ill").to_csv("visits.csv", index=False)
    output = tune("visits.csv", "--out", "run").output
    assert "no report, because packages are missing" in output
    assert (folder / "run" / "best.json").exists()
    assert not (folder / "run" / "report.html").exists()


def test_a_report_of_a_changed_table(visits, tuned, run):
    changed = visits.drop(columns="ill").assign(cost=lambda d: d["cost"] + 1)
    changed.to_csv("visits.csv", index=False)
    assert "--data" in run("report", "run", code=2).output


@pytest.mark.slow
def test_another_final_model_of_the_same_trials(visits, folder, tune, run):
    visits.drop(columns="ill").to_csv("visits.csv", index=False)
    out, options = folder / "run", {"trials": 6, "model": "knn"}
    tune("visits.csv", "--out", "run", **options)
    mean, trials = read(out / "best.json"), (out / "trials.csv").read_bytes()
    journal = (out / "study.journal").read_bytes()
    assert mean["final"] == "ensemble"
    assert len(mean["members"]) > 1
    asked = ("--final", "best", "--metric", "coverage@0.3", "--metric", "mae", "--importance", "60")
    shown = tune("visits.csv", "--out", "run", *asked, **options).output
    assert "coverage at 0.3" in shown
    best = read(out / "best.json")
    assert (best["final"], len(best["members"])) == ("best", 1)
    names = [each["column"] for each in best["column_importance"]]
    assert sorted(names) == sorted(each["name"] for each in best["columns"] if each["used"])
    assert f"Matter most {names[0]}" in " ".join(shown.split())
    assert [row["name"] for row in best["metrics"]] == ["coverage@0.3", "mae"]
    assert {row["site"] for row in best["site_metrics"]} == {row["name"] for row in best["sites"]}
    assert type(load_model(out / "model.skops").predictor).__name__ == "Pipeline"
    output = tune("visits.csv", "--out", "run", *asked, **options).output
    assert "already has 6" in output
    run("report", "run")
    assert read(out / "best.json") == best
    tune("visits.csv", "--out", "run", **options)
    assert read(out / "best.json") == mean
    assert (out / "trials.csv").read_bytes() == trials
    assert (out / "study.journal").read_bytes() == journal
