from __future__ import annotations

import shutil
from functools import cache

import numpy as np
import pandas as pd
import pytest
import typer.main
import typer.testing
from typer.testing import CliRunner

import shiftune.report
from shiftune._provenance import made_with
from shiftune.cli import _tune, app
from shiftune.cli._folder import ResultFolder, read_json, write_json


@pytest.fixture(autouse=True)
def _once_per_process(monkeypatch):
    """Typer's view of the application, and versions with a hash of the code, never change."""
    monkeypatch.setattr(typer.testing, "_get_command", typer_command)
    monkeypatch.setattr(_tune, "made_with", versions_and_code)


typer_command, versions_and_code = cache(typer.main.get_command), cache(made_with)


@pytest.fixture
def visits() -> pd.DataFrame:
    return visits_table()


def visits_table() -> pd.DataFrame:
    """Three wards with a quantity and classes to predict; ward A has no labels."""
    rng = np.random.default_rng(5)
    n = 240
    ward = np.repeat(["A", "B", "C"], n // 3)
    age = rng.normal(np.repeat([50, 55, 46], n // 3), 8).round(1)
    smoker = rng.random(n) < 0.3
    df = pd.DataFrame({"ward": ward, "age": age, "smoker": smoker, "bmi": rng.normal(25, 3, n)})
    df["cost"] = (3 * age + 20 * smoker + rng.normal(0, 5, n)).round(2)
    df["ill"] = np.where(rng.random(n) < 1 / (1 + np.exp(-(age - 50) / 8)), "yes", "no")
    return df


@pytest.fixture(scope="session")
def finished_runs(tmp_path_factory):
    """Tune for ward C, once for the cost and once for the classes, in folders of these names."""

    def call(df):
        path = tmp_path_factory.mktemp("finished")
        with pytest.MonkeyPatch.context() as patched:
            patched.chdir(path)
            patched.setattr(ResultFolder, "can_report", staticmethod(lambda: False))
            for label, model, other in (("cost", "ridge", "ill"), ("ill", "logistic", "cost")):
                shown = df.drop(columns=other)
                shown[label] = shown[label].where(shown["ward"] != "C")
                shown.to_csv(f"{label}.csv", index=False)
                args = ["--site", "ward", "--target", "C", "--label", label, "--model", model]
                args += ["--trials", "2", "--out", label]
                done = CliRunner().invoke(app, ["tune", f"{label}.csv", *args])
                assert done.exit_code == 0, done.output
        return path

    return call


def save_report(result, path, *, settings=None, updates=()):
    assert result.risk
    lines = [f"{name}: {text}" for name, text in settings.items()]
    lines += [f"update {each['number']}, current: {each['current']}" for each in updates]
    path.write_text("\n".join(lines))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder, and a report that notes what it was given."""
    monkeypatch.setattr(shiftune.report, "save_report", save_report)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture(scope="session")
def finished_visits(tmp_path_factory):
    """Table of the costs, and its result after two trials."""
    path = tmp_path_factory.mktemp("visits")
    visits_table().drop(columns="ill").to_csv(path / "visits.csv", index=False)
    args = "tune visits.csv --site ward --target A --label cost --model ridge --trials 2 --out run"
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(path)
        patched.setattr(shiftune.report, "save_report", save_report)
        done = CliRunner().invoke(app, args.split())
    assert done.exit_code == 0, done.output
    return path


@pytest.fixture
def tuned(finished_visits, folder):
    """A working folder with visits.csv, and in run/ what `tune("visits.csv", "--out", "run")` left.

    Copied, as if it had been made there.
    """
    shutil.copytree(finished_visits, folder, dirs_exist_ok=True)
    settings = folder / "run" / "settings.json"
    write_json(settings, read_json(settings) | {"files": {"data": str(folder / "visits.csv")}})
    for name in ("settings.toml", "report.html", "model-card.md"):
        path = folder / "run" / name
        path.write_text(path.read_text().replace(str(finished_visits), str(folder)))
    return folder


@pytest.fixture
def run(folder):
    """Run a command in this process."""

    def call(*args, code=0):
        done = CliRunner().invoke(app, [str(arg) for arg in args])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == code, done.output
        assert "Traceback" not in done.output
        return done

    return call


@pytest.fixture
def tune(run):
    """Tune a ridge regression of the cost for ward A."""

    def call(path, *args, code=0, label="cost", model="ridge", target="A", trials=2):
        ends = ["--site", "ward", "--target", target, "--label", label, "--model", model]
        return run("tune", path, *ends, "--trials", trials, *args, code=code)

    return call
