"""Documentation and package use the field's words (docs/glossary.md), not retired ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "reproduction/*.md", "src/**/*.py", "src/**/*.j2")
    for path in ROOT.glob(pattern)
    if path.name not in {"faults.md", "paper.md"}  # written by programs
)
# A retired wording, and what takes its place.
RETIRED = {
    r"\bhand(s|ed|ing)? over\b|\bhanded-over\b": "final model, ensemble",
    r"\bhad? no say\b": "sites held out of the selection",
    r"\bplay(s|ed|ing)? the (target|new site)\b": "is treated as the target",
    r"\b(takes?|took|taking) turns\b": "trial budget",
    r"\btickets?\b|\bbeats\b(?! a)": "claims, heartbeats",
    r"\bnews\b": "reported",
    r"\bdecided? nothing\b": "held-out seeds",
    r"\bjudg(e|es|ed|ing)\b(?!\.(md|py))": "evaluate, estimate",
    r"\b(is|are) no (feature|number|mean|date|news|external|error|evidence|map)\b": "is not a",
    r"\bdealt to\b": "assigned to",
    r"\bsays? (nothing|anything)\b": "uninformative",
    r"\btoo sure\b": "overconfident",
    r"\ban answer(ed|s)?\b|\banswered by\b|\bthe answers\b": "predictions",
    r"\bof more( \w+)?,": "larger tables are sampled",
    r"\ba map\b|\bthe map\b": "calibration",
    r"\bone more site\b": "a new site",
    r"\banybody\b": "anyone",
}
# Benchmarks and tests have judges of their own; these wordings are retired there, too.
EVERYWHERE = [
    wording for wording in RETIRED if re.search("hand|no say|play|nothing|answer|more s", wording)
]
OTHERS = [
    str(path.relative_to(ROOT))
    for pattern in ("benchmarks/**/*.py", "benchmarks/**/*.md", "tests/**/*.py", "examples/*.py")
    for path in sorted(ROOT.glob(pattern))
    if path != Path(__file__)
]
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)


def retired_in(page, wordings):
    """Return the retired wordings of a page, each with its line and what takes its place."""
    text = CODE.sub(lambda code: "\n" * code[0].count("\n"), (ROOT / page).read_text())
    hits = [(w, hit) for w in wordings for hit in re.finditer(w, text, re.IGNORECASE)]
    return [
        f"{page}, line {text[: hit.start()].count(chr(10)) + 1}: {hit[0]!r}; write: {RETIRED[w]}"
        for w, hit in hits
    ]


@pytest.mark.parametrize("page", PAGES)
def test_retired_words_do_not_come_back(page):
    assert retired_in(page, RETIRED) == []


def test_benchmarks_and_tests_have_none_either():
    assert [line for page in OTHERS for line in retired_in(page, EVERYWHERE)] == []


def test_the_glossary_is_sorted_and_has_a_line_for_each_term():
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    terms = [line.split("|")[1].strip() for line in lines if line.startswith("| ")][2:]
    assert terms == sorted(set(terms), key=str.lower)
    for term in (
        "out-of-site prediction",
        "site effect",
        "calibration",
        "extrapolation",
        "verdict",
    ):
        assert term in terms
