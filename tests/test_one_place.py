"""An option of a search is declared in one place, a metric in two; all else follows from them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import shiftune

OPTION = {
    "_options.py": {
        "    random_state : int\n": """
    patience : int
        Trials in a row without a gain.

        Only Python knows this.
""",
        "    random_state: int = option(": """
    patience: int = option(7, Role.SEARCH, at_least(1), Shell("--patience", int, "N"))
""",
    }
}
METRIC = {
    "_names.py": {'    "specificity",\n': '    "surprise",\n'},
    "metrics/_by_name.py": {
        "            specificity(),\n": """
            of_rows("surprise", lambda y, p: np.abs(y - p), "probabilities", two_classes=True),
"""
    },
}
COMMON = """
import numpy as np, pandas as pd, pytest
from pathlib import Path
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner
from shiftune import ShiftProblem, ShiftSearch
from shiftune.cli import app
from shiftune.errors import ProblemError

rng = np.random.default_rng(0)
table = pd.DataFrame({"site": np.repeat(["A", "B", "C"], 60), "x": rng.normal(size=180)})
table["ill"] = (table["x"] + rng.normal(size=180) > 0).astype(int)
table.to_csv("table.csv", index=False)
problem = ShiftProblem.from_frame(table, site="site", label="ill", target="A")

def run(*more, code=0):
    usual = ["tune", "table.csv", "--site", "site", "--target", "A", "--label", "ill"]
    done = CliRunner().invoke(app, [*usual, "--model", "logistic", "--trials", "1", *more])
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())

def search(**options):
    space = {"C": (0.1, 10.0)}
    return ShiftSearch(LogisticRegression(), space, n_trials=1, progress=False, **options)

def refused(message, **options):
    with pytest.raises(ProblemError, match=message):
        search(**options).fit(problem)
"""
OF_OPTION = """
assert "Trials in a row without a gain." in run("--help")
assert "Only Python knows" not in run("--help")
assert "Only Python knows this." in ShiftSearch.__doc__
assert search(patience=3).get_params()["patience"] == 3
refused("patience must be a whole number > 0, got 0", patience=0)
assert "--patience must be a whole number > 0, got 0" in run("--patience", "0", code=2)
search(storage="study.journal").fit(problem)
refused("other patience", storage="study.journal", patience=8)
found = search(patience=3).fit(problem).summary()["provenance"]
assert "3" in str(found["settings"]["patience"])
run("--patience", "5", "--out", "run")
assert "patience = 5" in Path("run/settings.toml").read_text()
assert "patience: 5, now 6" in run("--patience", "6", "--out", "run", code=2)
Path("mine.toml").write_text("patince = 6")
assert "did you mean 'patience'?" in run("--settings", "mine.toml", code=2)
Path("mine.toml").write_text("patience = 5")
assert "already has 1 trial" in run("--settings", "mine.toml", "--out", "run")
"""
OF_METRIC = """
assert "surprise" in run("--help")
run("--metric", "surprise", "--out", "run")
assert 'metric = ["surprise"]' in Path("run/settings.toml").read_text()
assert "surprise" in Path("run/best.json").read_text()
refused("did you mean 'surprise'", metrics=["suprise"])
assert list(search(metrics=["surprise"]).fit(problem).metrics_.index) == ["surprise"]
"""


@pytest.mark.parametrize(("added", "script"), [(OPTION, OF_OPTION), (METRIC, OF_METRIC)])
def test_all_else_follows(tmp_path, added, script):
    package = tmp_path / "with_one_more" / "shiftune"
    shutil.copytree(Path(shiftune.__file__).parent, package)
    for file, lines in added.items():
        text = (package / file).read_text()
        for before, line in lines.items():
            assert text.count(before) == 1
            text = text.replace(before, line.removeprefix("\n") + before)
        (package / file).write_text(text)
    # The copy is not the package whose lines are counted.
    usual = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    environment = usual | {"PYTHONPATH": str(package.parent), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", COMMON + script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
