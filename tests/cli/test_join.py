"""`shiftune tune --join`: several processes, one folder; the docs' commands run as they are."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from shiftune.cli import _tune
from shiftune.search._journal import search_lock
from shiftune.search._storage import trials_in

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "join.md"


@pytest.fixture(autouse=True)
def _locks():
    pytest.importorskip("fcntl", reason="locks of the kernel")


def test_the_last_one_writes_the_results(visits, folder, tune, monkeypatch):
    visits.drop(columns="ill").to_csv("visits.csv", index=False)
    command = ("visits.csv", "--out", "run", "--join")
    first = tune(*command, trials=2)
    assert "In run: " in first.output
    assert len(trials_in(folder / "run" / "study.journal")) == 2
    hidden = [path.name for path in (folder / "run").iterdir() if path.name.startswith(".")]
    assert hidden == []
    monkeypatch.setattr(_tune, "write_result", None)  # the results are there
    assert "In run: " in tune(*command, trials=2).output


@pytest.mark.slow
def test_results_that_another_process_has_written(visits, folder, tune, monkeypatch):
    visits.drop(columns="ill").to_csv("visits.csv", index=False)
    tune("visits.csv", "--out", "run", "--join", trials=2)
    best = (folder / "run" / "best.json").rename(folder / "best.json")

    def finished(self, problem):
        """Meanwhile another process writes the results."""
        best.rename(folder / "run" / "best.json")

    monkeypatch.setattr("shiftune.search.ShiftSearch.add_trials", finished)
    monkeypatch.setattr(_tune, "write_result", None)
    assert "In run: " in tune("visits.csv", "--out", "run", "--join", trials=2).output


@pytest.mark.slow
def test_others_go_on_when_the_time_is_over(visits, folder, tune):
    visits.drop(columns="ill").to_csv("visits.csv", index=False)
    command = ("visits.csv", "--out", "run", "--join", "--timeout", "0.001")
    assert "In run: " in tune(*command, trials=50).output
    with search_lock(folder / "run" / "study.journal", join=True):  # by another process
        output = tune(*command, trials=50).output
    assert "time limit reached; other processes will write" in output
    assert "In run: " not in output


def run_together(commands, folder):
    """Run commands at the same time, each in a shell of its own; return exit codes and outputs."""
    shell = "shiftune() { " + shlex.quote(sys.executable) + ' -m shiftune "$@"; }\n'
    started = [
        subprocess.Popen(
            ["bash", "-c", shell + command],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command in commands
    ]
    outputs = [process.communicate()[0] for process in started]
    return [(process.returncode, output) for process, output in zip(started, outputs, strict=True)]


def block(kind):
    """Return the one block of a kind on the page."""
    (text,) = re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return text


@pytest.mark.slow
def test_the_slurm_script_of_the_docs(visits, tmp_path, monkeypatch):
    visits.drop(columns="cost").to_csv(tmp_path / "visits.csv", index=False)
    command = block("bash").replace("--trials 200", "--trials 6")
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    for code, output in run_together([command] * 3, tmp_path):
        assert code == 0, output
        assert "In run: " in output
    assert json.loads((tmp_path / "run" / "best.json").read_text())["trials"]["finished"] == 6
    assert len(trials_in(tmp_path / "run" / "study.journal")) == 6
    assert len(json.loads((tmp_path / "run" / "settings.json").read_text())["runs"]) == 3


def test_the_kubernetes_job_of_the_docs_has_the_same_command():
    yaml = pytest.importorskip("yaml")
    (container,) = yaml.safe_load(block("yaml"))["spec"]["template"]["spec"]["containers"]
    script = shlex.split(block("bash").replace("\\\n", ""), comments=True)
    jobs = script.index("--jobs")
    assert container["command"] == script[:jobs] + script[jobs + 2 :]


@pytest.mark.slow
def test_settings_that_differ_are_refused(visits, tmp_path):
    """Of two that begin at the same time, the first decides."""
    visits.drop(columns="cost").to_csv(tmp_path / "visits.csv", index=False)
    options = "--site ward --target A --label ill --model logistic --trials 4 --join --out run"
    commands = [f"shiftune tune visits.csv {options} --seed {seed}" for seed in (0, 1)]
    (_, shown), (code, why) = sorted(run_together(commands, tmp_path))
    assert "In run: " in shown
    assert code == 2, why
    assert "holds results of other settings (seed" in why
    assert len(trials_in(tmp_path / "run" / "study.journal")) == 4
