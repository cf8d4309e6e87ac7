"""Several targets on the command line: one study, a folder of each, and what predicts where."""

from __future__ import annotations

import json
import shutil
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import save_report
from typer.testing import CliRunner

import shiftune.report
from shiftune import ShiftProblem, ShiftSearch, load_model
from shiftune.cli import _tune, app
from shiftune.cli._folder import ResultFolder, folder_names, read_json, write_json
from shiftune.models import ready_model

N = 40
# Of these A, E and F have no labels.
SITES = list("ABCDEFG")
TARGETS = ["A", "E", "F"]


def wards() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = N * len(SITES)
    df = pd.DataFrame({"case": [f"{k:05}" for k in rng.permutation(9999)[:n]]})
    df["ward"] = np.repeat(SITES, N)
    df["age"] = rng.normal(50, 8, n).round(1) + np.repeat(rng.normal(0, 4, 7), N).round(1)
    df["sex"] = rng.choice(["f", "m"], n)
    level = np.repeat(rng.normal(0, 10, 7), N)
    df["cost"] = (3 * df["age"] + level + rng.normal(0, 5, n)).round(2)
    return df.sample(frac=1, random_state=1).reset_index(drop=True)


def hidden(df: pd.DataFrame) -> pd.DataFrame:
    return df.assign(cost=df["cost"].where(~df["ward"].isin(TARGETS)))


def flat(done):
    return " ".join(done.output.split())


USUAL = ["tune", "wards.csv", "--site", "ward", "--label", "cost", "--model", "ridge"]
USUAL += ["--out", "run"]


def save_overview(result, path, *, table=None, pages=None):
    assert result.risk
    path.write_text(json.dumps({"sites": list(table.index), "pages": pages}))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("wards")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(path)
        patched.setattr(shiftune.report, "save_report", save_report)
        patched.setattr(_tune, "save_overview", save_overview)
        hidden(wards()).to_csv("wards.csv", index=False)
        done = CliRunner().invoke(app, [*USUAL, "--target", "unlabelled", "--trials", "3"])
        assert done.exit_code == 0, done.output
    (path / "shown.txt").write_text(done.output)
    return path


@pytest.fixture
def tuned(finished, folder, monkeypatch):
    """A working folder with wards.csv and the result of three targets in run/."""
    monkeypatch.setattr(_tune, "save_overview", save_overview)
    shutil.copytree(finished, folder, dirs_exist_ok=True)
    settings = folder / "run" / "settings.json"
    write_json(settings, read_json(settings) | {"files": {"data": str(folder / "wards.csv")}})
    return folder


def names_in(path):
    return {each.name for each in path.iterdir()}


def labels_of(df: pd.DataFrame, *sites: str, n: int = 8) -> pd.DataFrame:
    rows = pd.concat([df[df["ward"] == site].head(n) for site in sites])
    return rows[["case", "ward", "cost"]]


def search_in_python() -> ShiftSearch:
    problem = ShiftProblem.from_frame(
        hidden(wards()), site="ward", label="cost", target="unlabelled", drop=["case"]
    )
    model = ready_model("ridge", "regression", {"age": "number", "sex": "category"})
    return ShiftSearch({"ridge": model}, n_trials=3, progress=False).fit(problem)


def test_the_folder_has_one_study_and_what_one_target_has_of_each(tuned):
    run = tuned / "run"
    study = {"study.journal", "study.journal.predictions", "settings.json", "settings.toml"}
    files = {"best.json", "trials.csv", "predictions.csv", "model.skops", "report.html"}
    assert names_in(run) == study | files | {"targets.csv", "sites"}
    assert names_in(run / "sites") == set(TARGETS)
    for site in TARGETS:
        assert names_in(run / "sites" / site) == files | {"model-card.md"}
    overview = json.loads((run / "report.html").read_text())
    assert overview["pages"] == {site: f"sites/{site}/report.html" for site in TARGETS}
    assert set(overview["sites"]) == set(SITES)


def test_the_same_search_in_python(tuned):
    search = search_in_python()
    found = pd.read_csv(tuned / "run" / "targets.csv", index_col="site")
    expected = search.target_table(sources=True)
    assert list(found.index) == list(expected.index)
    columns = ["rows", "risk", "low", "high", "gain_30", "truth"]
    pd.testing.assert_frame_equal(found[columns], expected[columns])
    best = read_json(tuned / "run" / "sites" / "E" / "best.json")
    assert (best["target"], best["target_rows"]) == ("E", N)
    assert best["risk"]["value"] == pytest.approx(search.at("E").risk_.value)


def test_predictions_of_all_are_those_of_each(tuned):
    run, df = tuned / "run", wards()
    whole = pd.read_csv(run / "predictions.csv", dtype={"case": str})
    assert list(whole) == ["ward", "case", "row", "prediction"]
    assert whole["row"].to_list() == np.flatnonzero(df["ward"].isin(TARGETS)).tolist()
    assert whole["ward"].to_list() == df["ward"][whole["row"]].to_list()
    for site in TARGETS:
        own = pd.read_csv(run / "sites" / site / "predictions.csv", dtype={"case": str})
        rows = whole[whole["ward"] == site].reset_index(drop=True)
        pd.testing.assert_frame_equal(own, rows)
        model = load_model(run / "sites" / site / "model.skops")
        assert own["prediction"].to_list() == model.predict(df.iloc[own["row"]]).tolist()


def test_the_screen_has_a_line_per_target(tuned):
    text = (tuned / "shown.txt").read_text()
    shown = text[text.index("expected squared error") :].splitlines()
    lines = {line.split()[0]: line for line in shown if line.strip()}
    for site, row in pd.read_csv("run/targets.csv", index_col="site").iterrows():
        assert (site in lines) == (site in TARGETS)
        if site in TARGETS:
            assert row["verdict"] in lines[site]
    assert "within the interval at" in text
    assert "shiftune label-plan run --budget 200" in text


def test_a_run_goes_on(tuned, run):
    before = {path: path.stat().st_mtime_ns for path in (tuned / "run").rglob("*")}
    every = ["--target", "F", "--target", "A", "--target", "E"]  # in any order
    assert "already has 3 trials" in run(*USUAL, *every, "--trials", 3).output
    assert before == {path: path.stat().st_mtime_ns for path in (tuned / "run").rglob("*")}
    run(*USUAL, "--target", "unlabelled", "--trials", 4)
    for path in (tuned / "run", tuned / "run/sites/A"):
        assert read_json(path / "best.json")["trials"]["finished"] == 4
    one = ["--target", "A", "--drop-unlabelled"]
    assert "target: 'A', 'E' and 'F', now 'A'" in flat(run(*USUAL, *one, code=2))
    assert "is the folder of a site" in run(*USUAL[:-1], "run/sites/A", *every, code=2).output


@pytest.mark.parametrize("lost", ["best.json", "sites/E/best.json", "sites/A", "targets.csv"])
def test_what_was_lost_is_written_again(tuned, run, lost):
    before = (tuned / "run" / "targets.csv").read_text()
    path = tuned / "run" / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    run(*USUAL, "--target", "unlabelled", "--trials", 3)
    assert path.exists()
    assert (tuned / "run" / "targets.csv").read_text() == before
    assert "already has 3 trials" in run(*USUAL, "--target", "unlabelled", "--trials", 3).output


def test_a_stop_between_two_sites(tuned, run, monkeypatch):
    written = []

    def stop(folder, job, site):
        if written:
            raise KeyboardInterrupt
        written.append(site)
        write(folder, job, site)

    write = _tune.write_site
    monkeypatch.setattr(_tune, "write_site", stop)
    run(*USUAL, "--target", "unlabelled", "--trials", 4, code=130)
    assert not (tuned / "run" / "best.json").exists()
    assert "is not finished" in run("predict", "run", "wards.csv", code=2).output
    monkeypatch.undo()
    monkeypatch.chdir(tuned)
    run(*USUAL, "--target", "unlabelled", "--trials", 4)
    for site in TARGETS:
        assert read_json(tuned / "run/sites" / site / "best.json")["trials"]["finished"] == 4


def test_the_report_of_all_and_of_one(tuned, run):
    for path in ("run/report.html", "run/sites/E/report.html", "run/sites/E/model-card.md"):
        (tuned / path).unlink()
    run("report", "run/sites/E")
    assert (tuned / "run/sites/E/model-card.md").exists()
    assert not (tuned / "run/report.html").exists()
    run("report", "run")
    assert (tuned / "run/report.html").exists()


def test_the_most_urgent_have_folders(tuned, run, monkeypatch):
    monkeypatch.setattr(_tune, "MOST_FOLDERS", 1)
    output = flat(run(*USUAL[:-1], "few", "--target", "unlabelled", "--trials", 1))
    assert "the 1 most urgent sites have a folder" in output
    (first,) = names_in(tuned / "few/sites")
    found = pd.read_csv("few/targets.csv", index_col="site")
    assert first == found.index[0]
    later = found.index[1]
    labels_of(wards(), later).to_csv("labels.csv", index=False)
    run("update", "few", "labels.csv")
    assert "update.json" in names_in(tuned / "few/sites" / later / "updates/1")
    found = run("predict", "few", "wards.csv").stdout
    assert len(found.splitlines()) == 1 + N * len(SITES)


@pytest.mark.parametrize(
    "sites",
    [["a/b", "a_b", "..", ".", "", " ", "CON", "con.txt", "x" * 300, "é", "e\u0301", "-rf", "~"]],
)
def test_folders_of_odd_names_are_different_and_safe(sites, tmp_path):
    names = folder_names([*sites, "A", "a", folder_names(sites)["a/b"]])
    assert len({name.casefold() for name in names.values()}) == len(names)
    for name in names.values():
        assert name.partition(".")[0].casefold() not in ("con", "")
        assert name[0] not in "-~."
        (tmp_path / name).mkdir()
        assert (tmp_path / name).parent == tmp_path
    assert folder_names(["A", "ward 7", "St. Jost"])["A"] == "A"


def test_odd_names_end_to_end(folder, run, monkeypatch):
    monkeypatch.setattr(_tune, "save_overview", save_overview)
    odd = {"A": "a/b", "E": "..", "F": "[bold]CON"}
    df = hidden(wards()).replace({"ward": odd})
    df.to_csv("wards.csv", index=False)
    run(*USUAL, "--target", "unlabelled", "--trials", 1)
    assert len(names_in(folder / "run/sites")) == 3
    labels = wards().replace({"ward": odd})
    labels_of(labels, "a/b", "..").to_csv("labels.csv", index=False)
    output = flat(run("update", "run", "labels.csv"))
    assert "a/b" in output
    assert "[bold]CON" in flat(run("diagnose", *USUAL[1:6], "--target", "unlabelled"))
    run("predict", "run", "wards.csv", "--out", "p.csv")
    assert pd.read_csv("p.csv")["ward"].to_list() == df["ward"].to_list()


# ---------------------------------------------------------------- diagnose


def test_diagnose_has_a_line_per_target(tuned, run):
    usual = ["diagnose", "wards.csv", "--site", "ward", "--label", "cost"]
    output = run(*usual, "--target", "unlabelled").output
    shown = [line.split()[0] for line in output.splitlines() if line[:1] in TARGETS]
    assert sorted(shown) == TARGETS
    found = json.loads(run(*usual, "--target", "unlabelled", "--json").stdout)
    assert [each["target"] for each in found["targets"]] == TARGETS
    one = json.loads(run(*usual, "--target", "E", "--drop", "case", "--json").stdout)
    assert one["target"] == "E"


# ---------------------------------------------------------------- labels


def test_a_plan_of_labels_is_filled_in_and_read_back(tuned, run):
    output = flat(run("label-plan", "run", "--budget", 30))
    plan = pd.read_csv("run-labels.csv", dtype={"case": str})
    expected = search_in_python().label_plan(30)["labels"]
    counts = plan["ward"].value_counts()
    assert counts.to_dict() == expected[expected > 0].to_dict()
    for site, n in counts.items():
        assert f"{n} rows of {site}" in output
    df = wards()
    assert plan["case"].to_list() == df["case"][plan["row"]].to_list()
    plan.assign(cost=df["cost"][plan["row"]].to_numpy()).to_csv("run-labels.csv", index=False)
    output = flat(run("update", "run", "run-labels.csv"))
    for site, n in counts.items():
        record = read_json(tuned / "run/sites" / site / "updates/1/update.json")
        assert (record["target"], record["labels"]) == (site, n)
        assert f"{site} 1 {n}" in output
    assert all(f"{site} 1 {n} " in flat(run("update", "run")) for site, n in counts.items())
    records = json.loads(run("update", "run", "--json").stdout)["updates"]
    assert {each["target"]: each["labels"] for each in records} == counts.to_dict()
    run("label-plan", "run", "--n", 20, "--out", "more.csv")
    assert not set(pd.read_csv("more.csv")["row"]) & set(plan["row"])
    run("label-plan", "run/sites/A", "--n", 5, "--out", "a.csv")
    assert set(pd.read_csv("a.csv", dtype={"case": str})["case"]) <= set(
        df["case"][df["ward"] == "A"]
    )


def test_an_update_is_that_of_python(tuned, run):
    df = wards()
    labels = labels_of(df, "E", "A")
    labels.to_csv("labels.csv", index=False)
    found = json.loads(run("update", "run", "labels.csv", "--json").stdout)["updates"]
    rows = df.loc[labels.index]
    search = search_in_python()
    for each in found:
        own = rows[rows["ward"] == each["target"]]
        expected = search.at(each["target"]).update(own, own["cost"])
        assert each["after"]["value"] == pytest.approx(expected.risk_.value)
    assert not (tuned / "run/sites/F/updates").exists()
    again = run("update", "run", "labels.csv").output
    assert again.count("has all labels of labels.csv already") == 1


def test_labels_for_the_folder_of_a_site(tuned, run):
    labels_of(wards(), "E").to_csv("e.csv", index=False)
    assert "site 'E', not of 'A'" in flat(run("update", "run/sites/A", "e.csv", code=2))
    run("update", "run/sites/E", "e.csv")
    assert (tuned / "run/sites/E/updates/1/update.json").exists()
    labels_of(wards(), "B").to_csv("b.csv", index=False)
    assert "is of site 'B'" in flat(run("update", "run", "b.csv", code=2))


@pytest.mark.parametrize("path", ["run/sites/E/../A", "link", "link/../A"])
def test_the_folder_of_a_site_by_another_path(tuned, run, path):
    (tuned / "link").symlink_to("run/sites/A", target_is_directory=True)
    run("label-plan", path, "--n", 5, "--out", "a.csv")
    assert len(pd.read_csv("a.csv")) == 5
    df = wards()
    labels_of(df, "A").to_csv("labels.csv", index=False)
    run("update", path, "labels.csv")
    assert (tuned / "run/sites/A/updates/1/update.json").exists()


def test_labels_beside_another_site_are_refused(tuned, run):
    labels = labels_of(wards(), "E", "A")
    labels.assign(ward=labels["ward"].to_numpy()[::-1]).to_csv("labels.csv", index=False)
    output = flat(run("update", "run", "labels.csv", code=2))
    assert "16 labelled rows of labels.csv contradict the table" in output
    assert not list((tuned / "run").rglob("update.json"))


# ---------------------------------------------------------------- predict


def test_every_row_is_predicted_by_the_model_of_its_site(tuned, run):
    df = wards()
    labels_of(df, "E").to_csv("e.csv", index=False)
    run("update", "run", "e.csv")
    new = df.drop(columns="cost").sample(frac=1, random_state=3)
    new[new["ward"].isin([*TARGETS, "B"])].to_csv("new.csv", index=False)
    done = run("predict", "run", "new.csv", "--out", "p.csv", "--interval", 0.75)
    assert "as those of a new site: B" in flat(done)
    found = pd.read_csv("p.csv", dtype={"case": str})
    table = pd.read_csv("new.csv", dtype={"case": str})
    assert found[["ward", "case"]].equals(table[["ward", "case"]])
    assert found["row"].to_list() == list(range(len(table)))
    for site, rows in table.groupby("ward"):
        path = {"E": "run/sites/E/updates/1", "A": "run/sites/A", "F": "run/sites/F", "B": "run"}
        model = load_model(tuned / path[site] / "model.skops")
        assert found["prediction"][rows.index].to_list() == model.predict(rows).tolist()
        low = model.predict_interval(rows, 0.75)[:, 0]
        np.testing.assert_allclose(found["low"][rows.index], low)
    own = table[table["ward"] == "E"]
    own.drop(columns="ward").to_csv("own.csv", index=False)
    run("predict", "run/sites/E", "own.csv", "--out", "own-p.csv")
    assert pd.read_csv("own-p.csv")["prediction"].to_list() == (
        found["prediction"][own.index].to_list()
    )


def test_names_of_sites_that_a_spreadsheet_rewrote(folder, run, monkeypatch):
    monkeypatch.setattr(_tune, "save_overview", save_overview)
    codes = {"ward": {site: f"{k:03}" for k, site in enumerate(SITES, start=20)}}
    df = wards().replace(codes)
    hidden(wards()).replace(codes).to_csv("wards.csv", index=False)
    run(*USUAL, "--target", "unlabelled", "--trials", 1)
    labels_of(df, "020", "024").to_csv("labels.csv", index=False)
    run("update", "run", "labels.csv")
    new = df[df["ward"].isin(["020", "021", "024"])].drop(columns="cost")
    new.to_csv("new.csv", index=False)
    assert "is read as" not in flat(run("predict", "run", "new.csv", "--out", "p.csv"))
    expected = pd.read_csv("p.csv", dtype=str)
    other = new.tail(1).assign(ward="Z")  # beside which 20.0 stays a text
    for decimals, more in ("", []), (".0", [other]):
        names = new["ward"].str[1:] + decimals
        pd.concat([new.assign(ward=names), *more]).to_csv("rewritten.csv", index=False)
        done = flat(run("predict", "run", "rewritten.csv", "--out", "q.csv", "--overwrite"))
        assert all(f"'{name}' is read as '0{name[:2]}'" in done for name in names.unique())
        found = pd.read_csv("q.csv", dtype=str).head(len(new))
        pd.testing.assert_series_equal(found["prediction"], expected["prediction"])
        assert found["ward"].to_list() == names.to_list()


def test_a_new_site_is_predicted_and_has_an_estimate(tuned, run):
    df = wards()
    new = df[df["ward"].isin(["A", "B"])].replace({"ward": {"B": "Z"}}).drop(columns="cost")
    new.to_csv("new.csv", index=False)
    done = run("predict", "run", "new.csv")
    rows = new[new["ward"] == "Z"].reset_index(drop=True)
    expected = search_in_python().at(rows.drop(columns=["case", "ward"]), name="Z")
    assert f"Z is new; squared error expected there: {expected.risk_.value:.0f}"[:45] in flat(done)
    assert expected.verdict_.trust in flat(done)
    found = pd.read_csv(StringIO(done.stdout))
    whole = load_model(tuned / "run/model.skops").predict(new)
    assert found["prediction"].to_list() == whole.tolist()
    (tuned / "wards.csv").rename(tuned / "moved.csv")
    done = run("predict", "run", "new.csv")
    assert "there is no estimate for new sites: " in flat(done)


def test_a_table_without_its_sites_is_refused(tuned, run):
    df = wards().drop(columns="cost")
    df.drop(columns="ward").to_csv("new.csv", index=False)
    output = flat(run("predict", "run", "new.csv", code=2))
    assert "has no column 'ward'" in output
    assert "such as run/sites/A" in output
    df.assign(ward=df["ward"].where(df["ward"] != "A")).to_csv("new.csv", index=False)
    assert "40 rows of the table have no site" in flat(run("predict", "run", "new.csv", code=2))


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--target", "A", "--target", "X"], "there is no site 'X'"),
        (["--target", "A", "--target", "e"], "did you mean 'E'"),
        ([f"--target={site}" for site in SITES], "no sources"),
        (["--target", "A", "--target", "E", "--risk", "naive"], "one --target at a time"),
        (["--target", "A", "--target", "E", "--use-target-labels"], "not those of several"),
        (["--target", "A", "--target", "E", "--target-file", "wards.csv"], "rows of one target"),
        ([], "--target is missing"),
    ],
)
def test_mistakes_run_nothing(folder, run, more, words):
    wards().to_csv("wards.csv", index=False)
    assert words in flat(run(*USUAL, "--trials", 1, *more, code=2))
    assert not (folder / "run").exists()


def test_labelled_sites_alone_have_no_unlabelled_ones(folder, run):
    wards().to_csv("wards.csv", index=False)
    output = flat(run(*USUAL, "--target", "unlabelled", code=2))
    assert "none is unlabelled" in output
    output = flat(run(*USUAL, "--target", "A", "--target", "E", "--trials", 1))
    assert "80 labels of the target set aside" in output
    assert ResultFolder(folder / "run").sites().keys() == {"A", "E"}
