"""Write examples/tutorial.ipynb from docs/tutorial.md: `python docs/notebook.py`.

Text becomes cells of Markdown, Python becomes cells of code, and what a block prints is its stored
output. tests/test_notebook.py compares the two, and runs the cells.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
NOTEBOOK = ROOT / "examples" / "tutorial.ipynb"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```\n(?P<output>.*?)```\n)?", re.DOTALL)
PAGE_LINK = re.compile(r"\]\((?!http|#)([^)]+)\)")


def notebook(page: str) -> dict[str, object]:
    """Return a page as a notebook, in nbformat 4.5."""
    cells: list[dict[str, object]] = []
    end = 0
    for block in BLOCK.finditer(page):
        cells.append(_text(page[end : block.start()]))
        cells.append(_code(block["code"], block["output"]))
        end = block.end()
    cells.append(_text(page[end:]))
    named = [{"id": f"cell-{i}", **cell} for i, cell in enumerate(cells) if cell["source"]]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": named,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _text(text: str) -> dict[str, object]:
    linked = PAGE_LINK.sub(r"](../docs/\1)", text.strip())
    return {"cell_type": "markdown", "metadata": {}, "source": linked.splitlines(keepends=True)}


def _code(code: str, output: str | None) -> dict[str, object]:
    printed = {"name": "stdout", "output_type": "stream", "text": []}
    if output:
        printed["text"] = output.splitlines(keepends=True)
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [printed] if output else [],
        "source": code.strip().splitlines(keepends=True),
    }


if __name__ == "__main__":
    NOTEBOOK.write_text(json.dumps(notebook(PAGE.read_text()), indent=1, ensure_ascii=False) + "\n")
