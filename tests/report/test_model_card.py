"""The model card: sections, names that are only names, lists that end."""

from __future__ import annotations

import re

import pytest

from shiftune._names import Level
from shiftune.checks import Check
from shiftune.errors import ProblemError
from shiftune.report._page import _in_markdown, model_card
from shiftune.report._summary import template

FINE = Check("overlap", Level.OK, "Fine.", "Nothing to do.", {})
CAREFUL = Check("few", Level.CAUTION, "Few | sites. So it is.", "Add <b>.", {})


def test_sections(hostile_search):
    card = model_card(hostile_search.result_, [FINE, CAREFUL], {"command": "tune <x>"})
    assert re.findall(r"^#+ (.*)$", card, re.MULTILINE) == [
        "cost at \\<script\\>alert(1)\\</script\\>",
        "Intended use",
        "Data",
        "Figures at \\<script\\>alert(1)\\</script\\>",
        "Limits",
        "Model",
        "How to reproduce",
    ]
    assert "**Verdict: with care**: Few \\| sites." in card
    assert "- **caution, few.** Few \\| sites. So it is. Add \\<b\\>." in card
    assert "Checks without concern: overlap." in card
    assert "- command: tune \\<x\\>" in card
    assert re.search(r"; each site .*; plain cross-validation ", card)
    assert not re.search(r"(?<!\\)<", card)


def test_updates(hostile_search):
    """A card beside an updated model says that later labels are not in its figures."""
    after = {"value": 4.0, "low": 3.0, "high": 7.0}
    first = {"number": 1, "labels": 10, "used": True, "current": True, "after": after}
    card = model_card(hostile_search.result_, [FINE], None, [first, first | {"number": 2}])
    assert "Later labels have updated the model; this card is about the model without" in card
    assert "Update 2, with 10 labels: expected squared error 4.0 (3.0 to 7.0) (present)." in card
    assert "Update 1" not in card


def test_tables_are_whole(hostile_search):
    """No empty line inside a table, and as many cells in every row as in its head."""
    card = model_card(hostile_search.result_, [FINE])
    for block in card.split("\n\n"):
        if block.startswith("|"):
            cells = {len(re.findall(r"(?<!\\)\|", line)) for line in block.strip().splitlines()}
            assert len(cells) == 1
    assert "\n\n\n" not in card


def test_many_sites_are_summed(hostile_search, monkeypatch):
    of_card = template("model-card.md.j2", finalize=_in_markdown)
    monkeypatch.setitem(of_card.globals, "most_sites", 1)
    card = model_card(hostile_search.result_, [FINE])
    rows = [len(site) for site in hostile_search.problem_.sources]
    assert f"| {len(rows) - 1} more sites | {sum(rows[1:])} | | |" in card


def test_saved(hostile_search, tmp_path):
    path = hostile_search.model_card(tmp_path / "new" / "card.md")
    text = path.read_text(encoding="utf-8")
    assert hostile_search.problem_.fingerprint() in text
    with pytest.raises(ProblemError, match="is a folder"):
        hostile_search.model_card(tmp_path)
