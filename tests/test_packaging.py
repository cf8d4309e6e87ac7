"""What a user gets: type information, a light import, versions that agree with each other."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import shiftune

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BOUND = re.compile(r"([\w-]+)>=([\d.]+)")


def test_type_information_is_shipped():
    assert (Path(shiftune.__file__).parent / "py.typed").is_file()


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "shiftune", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"shiftune {PROJECT['version']}\n"


def test_the_import_is_light():
    code = "import shiftune, sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        "optuna",
        "sklearn",
        "matplotlib",
        "lightgbm",
        "typer",
        "rich",
        "distributed",
    }
    assert heavy.isdisjoint(re.findall(r'"([^"]+)"', done.stdout))


def test_versions_agree():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {PROJECT['version']}\n" in citation
    assert PROJECT["version"] == shiftune.__version__


@pytest.mark.parametrize("requirement", PROJECT["dependencies"])
def test_the_lowest_versions_are_those_that_are_tested(requirement):
    name, lowest = BOUND.fullmatch(requirement).groups()
    oldest = dict(
        line.split("==")
        for line in (ROOT / "constraints-oldest.txt").read_text().splitlines()
        if "==" in line
    )
    assert re.fullmatch(rf"{re.escape(lowest)}(\.0)*", oldest[name])


def test_extras_that_others_name_are_there():
    extras = PROJECT["optional-dependencies"]
    named = re.findall(r"shiftune\[([\w,]+)\]", str(extras))
    assert {extra for group in named for extra in group.split(",")} <= set(extras)
