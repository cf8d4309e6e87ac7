"""The README's example runs, and prints what the README says."""

from __future__ import annotations

import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_example(capsys):
    code = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL)
    exec(compile(code.group(1), "README.md", "exec"), {})
    printed = capsys.readouterr().out

    # Figures to three digits: the last ones depend on the versions of the libraries.
    def rounded(text: str) -> list[str]:
        return re.sub(r"\d+\.\d+", lambda m: f"{float(m.group()):.2f}", text).split()

    assert rounded(printed) == rounded(code.group(2))
