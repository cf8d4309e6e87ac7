"""The README's example prints what the README shows; its table has the measured figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_example(capsys):
    code = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL)
    exec(compile(code.group(1), "README.md", "exec"), {})
    printed = capsys.readouterr().out

    # Figures to two digits: the last ones depend on the versions of the libraries.
    def rounded(text: str) -> list[str]:
        return re.sub(r"\d+\.\d+", lambda m: f"{float(m.group()):.2f}", text).split()

    assert rounded(printed) == rounded(code.group(2))


def test_the_table_is_computed_from_raw_files():
    claims = pytest.importorskip("benchmarks.claims")
    shown = [line for line in README.splitlines() if line.startswith("| ")]
    assert shown == [claims.HEAD, "| --- " * 6 + "|", *claims.rows()]


def test_its_length():
    assert len(README.splitlines()) <= 165


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(([^):#]+)[)#]", README))))
def test_links_lead_to_files(path):
    assert (ROOT / path).exists()
