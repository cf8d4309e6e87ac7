"""The demonstration shows all its parts and leaves a report."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import shiftune.report
from shiftune.cli import _demo as demo
from shiftune.cli import app


@pytest.mark.parametrize(
    "methods", [("adjusted",), pytest.param(demo.METHODS, marks=pytest.mark.slow)]
)
def test_the_demonstration(tmp_path, monkeypatch, methods):
    def save_report(result, path, *, settings=None, updates=()):
        assert result.options["risk"] == "'adjusted'"
        path.parent.mkdir()
        path.write_text("the report")
        return path

    monkeypatch.setattr(shiftune.report, "save_report", save_report)
    monkeypatch.setattr(demo, "METHODS", methods)
    monkeypatch.setattr(demo, "MOST_TREES", 25)
    monkeypatch.setattr(demo, "TRUTH_ROWS", 2_000)
    monkeypatch.setattr(demo.demo_problem, "__defaults__", (200, 0))  # patients of a hospital
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    done = CliRunner().invoke(app, ["demo", "--trials", "1"])
    assert done.exit_code == 0, done.output
    assert "No source by itself overlaps with A" in done.output
    lines = [line.split() for line in done.output.splitlines() if line.strip()]
    rows = {line[0]: line for line in lines if line[-1] in ("yes", "no")}
    assert list(rows) == list(methods)
    # The same model was fitted for all; only the split and the estimate differ.
    assert all(0.4 < float(row[-2]) < 0.9 for row in rows.values())
    report = tmp_path / "shiftune-demo" / "report.html"
    assert report.read_text() == "the report"
    report.write_text("mine")
    done = CliRunner().invoke(app, ["demo", "--trials", "1"])
    assert done.exit_code == 2
    assert "report.html exists; give another place with --out, or" in " ".join(done.output.split())
    assert report.read_text() == "mine"


@pytest.mark.parametrize("installed", [True, False])
def test_the_model_is_one_that_is_there(monkeypatch, installed):
    monkeypatch.setattr(demo, "find_spec", lambda name: object() if installed else None)
    model, space = demo.demo_model(demo.demo_problem(20))
    assert type(model[-1]).__name__.startswith("Boosted" if installed else "HistGradient")
    trees = "model__n_estimators" if installed else "model__max_iter"
    assert space[trees].high == demo.MOST_TREES  # type: ignore[attr-defined]
