"""Options in a TOML file, for `--settings`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shiftune.cli._options import DiagnoseOptions, TuneOptions, read_settings, settings_text
from shiftune.errors import SettingsError

OPTIONS = TuneOptions(
    data=Path("/data/visits.csv"),
    target_file=Path("/data/A.csv"),
    site="ward",
    target=['A "north" \x7f'],
    label="größe",
    model=["linear", "kernel"],
    identifiers=["case nr"],
    space={"alpha": {"low": 0.1, "high": 1e-05, "log": True}, "kind of": ["a", "b"]},
    drop_unlabelled=True,
    safe_csv=False,
    trials=7,
    jobs=2,
)


@pytest.fixture
def written(tmp_path):
    """Write a settings file."""

    def call(text):
        path = tmp_path / "settings.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return call


def test_a_file_repeats_a_run(written):
    found = read_settings(written(settings_text(OPTIONS)), TuneOptions)
    found |= {name: Path(found[name]) for name in ("data", "target_file")}
    again = TuneOptions(**found)
    assert again == replace(OPTIONS, **{"model": sorted(OPTIONS.model)})


def test_names_values_and_paths(written, tmp_path):
    path = written(
        'model = "ridge"\ntarget-file = "A.csv"\nid = ["nr"]\nspace = "s.toml"\nseed = 3'
    )
    assert read_settings(path, TuneOptions) == {
        "model": ["ridge"],
        "target_file": str(tmp_path / "A.csv"),
        "identifiers": ["nr"],
        "space": str(tmp_path / "s.toml"),
        "seed": 3,
    }
    assert read_settings(written("target_file = '/A.csv'"), TuneOptions) == {
        "target_file": "/A.csv"
    }


def test_commands_share_a_file(written):
    path = written('label = "ill"\ntrials = 3')
    assert read_settings(path, DiagnoseOptions) == {"label": "ill"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trails = 3", "unknown option 'trails'; did you mean 'trials'?"),
        ("identifiers = ['a']", "unknown option 'identifiers'"),
        ("[label]\nname = 'a'", "label is a table; give one value"),
        ("label = ['a', 'b']", "label is a list; give one value"),
        ("label = ", "is not valid TOML"),
    ],
)
def test_mistakes(written, text, message):
    with pytest.raises(SettingsError, match=message.replace("?", r"\?")):
        read_settings(written(text), TuneOptions)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SettingsError, match="cannot be read"):
        read_settings(tmp_path / "gone.toml", TuneOptions)


def test_the_command_line_wins(visits, folder, run):
    visits.to_csv("visits.csv", index=False)
    (folder / "settings").mkdir()
    path = folder / "settings" / "mine.toml"
    path.write_text('data = "../visits.csv"\nsite = "ward"\ntarget = "B"\nlabel = "cost"')
    assert "Target   B: 80 rows" in run("diagnose", "--settings", path).output
    done = run("diagnose", "--settings", path, "--target", "C")
    assert "Target   C: 80 rows" in done.output
    path.write_text("traget = 'B'")
    assert "did you mean 'target'?" in run("tune", "--settings", path, code=2).output
    path.write_text("trials = 'many'\nlabel = 'ill'")
    assert "--trials" in run("tune", "visits.csv", "--settings", path, code=2).output


@pytest.mark.slow
def test_the_file_of_a_folder_repeats_it(visits, folder, run, tune):
    visits.to_csv("visits.csv", index=False)
    (folder / "space.toml").write_text("alpha = { low = 0.5, high = 2.0 }")
    tune("visits.csv", "--drop", "ill", "--space", "space.toml", "--out", "one")
    (folder / "elsewhere").mkdir()
    settings = (folder / "one" / "settings.toml").rename(folder / "elsewhere" / "settings.toml")
    run("tune", "--settings", settings, "--out", "two")
    one, two = (folder / name / "predictions.csv" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
