"""An option is one field of `TuneOptions`; saved settings follow from the fields."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from shiftune._options import Role
from shiftune._provenance import RESULT_FORMAT
from shiftune.cli._options import TuneOptions, named, taking
from shiftune.errors import StorageError

FILES = {"data": Path("v.csv")}
BASE = TuneOptions(**FILES, site="ward", target=["A"], label="cost", model=["ridge"])
# A value other than the default for every field that is saved.
OTHERS = {
    "site": "clinic",
    "target": ["A", "B"],
    "label": "ill",
    "model": ["knn", "svm"],
    "task": "regression",
    "subject": "patient",
    "sample_weight": "w",
    "keep": ["a", "b"],
    "drop": ["c"],
    "identifiers": ["d"],
    "date_format": "%d/%m/%Y",
    "most_rows": 5000,
    "missing": ["age=999"],
    "drop_unlabelled": True,
    "use_target_labels": True,
    "space": {"alpha": {"low": 1, "high": 2}},
    "loss": "absolute",
    "risk": "naive",
    "ratio": "ulsif",
    "final": "best",
    "importance": 60.0,
    "metric": ["auc", "brier"],
    "safe_csv": False,
    "seed": 3,
}


def test_every_field_is_saved_and_read_back():
    unsaved = {n for role in (Role.RUN, Role.TRIALS, Role.FILE) for n in named(TuneOptions, role)}
    assert unsaved == {
        "data", "target_file", "trials", "timeout", "trial_timeout", "out", "jobs", "join",
        "as_json",
    }  # fmt: skip
    assert OTHERS.keys() == {each.name for each in fields(TuneOptions)} - unsaved
    for name, value in OTHERS.items():
        options = replace(BASE, **{name: value})
        saved = json.loads(json.dumps(options.saved()))
        assert saved[name] == value
        again = TuneOptions.from_saved(saved, FILES, "run")
        assert replace(again, **{"trials": BASE.trials}) == options


@dataclass(frozen=True, kw_only=True)
class WithOneMore(TuneOptions):
    rounds: Annotated[int, typer.Option(help="Number of rounds."), Role.DATA] = 1


def test_a_new_option_is_one_field():
    found = []
    app = typer.Typer()
    app.command()(taking(WithOneMore)(found.append))
    usual = ["v.csv", "--site", "ward", "--target", "A", "--label", "cost", "--model", "ridge"]
    done = CliRunner().invoke(app, [*usual, "--rounds", "4"])
    assert done.exit_code == 0, done.output
    (options,) = found
    assert (options.rounds, options.keep, options.out) == (4, [], None)
    assert "Number of rounds." in CliRunner().invoke(app, ["--help"]).output
    assert "rounds" in named(WithOneMore, Role.DATA)
    assert options.saved()["rounds"] == 4
    assert WithOneMore.from_saved(options.saved(), FILES, "run").rounds == 4
    # A folder that was written before the option existed has its default.
    assert WithOneMore.from_saved(BASE.saved(), FILES, "run").rounds == 1


@pytest.mark.parametrize("change", [{"magic": 1}, {"label": ...}])
def test_settings_that_are_not_ours(change):
    saved = {k: v for k, v in (BASE.saved() | change).items() if v is not ...}
    with pytest.raises(StorageError, match=r"run is damaged or was written by another version"):
        TuneOptions.from_saved(saved, FILES, "run")


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (
            RESULT_FORMAT + 1,
            "was written by a newer shiftune (format 10; this version reads 9): upgrade",
        ),
        (0, "is damaged or was written by an older shiftune"),
        (None, "is damaged or was written by an older shiftune"),
    ],
)
def test_a_folder_of_another_format(tuned, tune, run, number, message):
    for name in ("settings.json", "best.json"):
        path = tuned / "run" / name
        good = path.read_text()
        path.write_text(json.dumps(json.loads(good) | {"format": number}))
        before = path.read_bytes()
        for done in (tune("visits.csv", "--out", "run", code=2), run("report", "run", code=2)):
            assert f"{name} {message}" in " ".join(done.output.split())
        assert path.read_bytes() == before
        path.write_text(good)
    assert "already has 2 trials" in tune("visits.csv", "--out", "run").output


def test_a_time_limit(visits, tune, folder, run):
    """The first trial is always run; the verdict says it; the same command continues."""
    visits.to_csv("visits.csv", index=False)
    printed = tune("visits.csv", "--out", "run", "--timeout", 1e-9, trials=5).output
    assert "--timeout: 1 of 5 trials; rerun the command to continue" in printed
    best = json.loads((folder / "run" / "best.json").read_text())
    assert (best["trials"]["finished"], best["trials"]["asked"]) == (1, 5)
    assert "only 1 of 5 trials finished" in best["verdict"]["reason"]
    run("report", "run")
    assert json.loads((folder / "run" / "best.json").read_text()) == best
    tune("visits.csv", "--out", "run")
    assert json.loads((folder / "run" / "best.json").read_text())["trials"]["finished"] == 2


def test_a_date_format(visits, tune, folder, run):
    visits["seen"] = [f"{1 + i % 12:02}/{1 + i % 9:02}/2024" for i in range(len(visits))]
    visits.to_csv("visits.csv", index=False)
    args = ["--site", "ward", "--target", "A", "--label", "cost", "--json"]
    columns = json.loads(run("diagnose", "visits.csv", *args).stdout)["columns"]
    (remark,) = (each["remark"] for each in columns if each["column"] == "seen")
    assert "month/day/year; day/month/year would fit as well" in remark
    format_given = ["--date-format", "%d/%m/%Y"]
    columns = json.loads(run("diagnose", "visits.csv", *args, *format_given).stdout)["columns"]
    (remark,) = (each["remark"] for each in columns if each["column"] == "seen")
    assert "dates (day/month/year)" in remark


def test_several_files(visits, tune, tuned, run):
    (tuned / "data").mkdir()
    for ward, rows in visits.drop(columns="ill").groupby("ward"):
        rows.to_csv(tuned / "data" / f"{ward}.csv", index=False)
    tune("data/*.csv")
    found, expected = (
        json.loads((tuned / name / "best.json").read_text()) for name in ("data-A-ridge", "run")
    )
    assert found["risk"] == expected["risk"]
    run("report", "data-A-ridge")
