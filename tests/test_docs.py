"""The Python in docs/ runs, one namespace per page; test_readme.py runs that of the README.

A block under a line that names a script of examples/ is taken from there: it must be part of the
script, which test_examples.py runs. A page that says so at its top is taken from there as a whole.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))
BLOCK = re.compile(r"(?P<before>[^\n]*\n\n?)```python\n(?P<code>.*?)```", re.DOTALL)
ELSEWHERE = re.compile(r"From `examples/(\w+\.py)`:\n")
WHOLE_PAGE = re.compile(r"code on this page is that of `examples/(\w+\.py)`")


def blocks(page):
    """Yield (the script that the block is taken from, or None; its code)."""
    text = (ROOT / page).read_text()
    whole = WHOLE_PAGE.search(text)
    for found in BLOCK.finditer(text):
        taken = whole or ELSEWHERE.search(found["before"])
        yield (taken[1] if taken else None), found["code"]


def test_the_rule_is_understood():
    assert {script for script, _ in blocks("docs/tutorial.md")} == {"flights.py"}
    scripts = [script for script, _ in blocks("docs/how-to/own-loss.md")]
    assert scripts == [None, "own_loss.py", "own_loss.py", None]


SLOW = {"docs/how-to/several-models.md"}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] * (page in SLOW))
        for page in PAGES
        if list(blocks(page))
    ],
)
def test_its_code_runs(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for script, code in blocks(page):
        if script is None:
            exec(compile(code, page, "exec"), namespace)
            continue
        lines = (ROOT / "examples" / script).read_text()
        indented = [textwrap.indent(code, " " * n) for n in (0, 4, 8)]
        assert any(text in lines for text in indented), f"{script} has no\n{code}"
