"""Charts of the page: text that is text, in the colours of the page, whoever sets Matplotlib."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pandas as pd
import pytest

pytest.importorskip("matplotlib")
import matplotlib

from shiftune.report import figures
from shiftune.report._charts import Chart

SVG = "{http://www.w3.org/2000/svg}"
ODD = [
    "a$b$c \\frac^_{}",
    "東京都立大学附属病院東京都立大学",
    "emoji 😀",
    "tab\tand\nline",
    "مستشفى",
    "<b>&amp;",
    "\x00\x1b[31m\ud800",
]


def drawn(figure, narrow: bool = False) -> ET.Element:
    chart = Chart("id", 'a "chart" of <b>', figure)
    text = chart.narrow if narrow else chart.wide
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return ET.fromstring(text.replace("<svg", f"<svg {names}", 1))


def words(root: ET.Element) -> list[str]:
    return [each.text for each in root.iter(f"{SVG}text")]


def importance(names=("age", "sex")):
    columns = {"importance": 0.2, "low": -0.1, "high": 0.5}
    return figures.importance(pd.DataFrame(columns, index=pd.Index(names, dtype=object)))


def test_one_image_with_a_description():
    root = drawn(importance())
    assert root.get("role") == "img"
    assert root.get("aria-label") == 'a "chart" of <b>'
    assert (root.get("width"), root.get("height")) == ("820", "122")
    narrow = drawn(importance(), narrow=True)
    assert (narrow.get("width"), narrow.get("height")) == ("350", "122")
    assert {"age", "sex", "rise of the loss without the column (95 % interval)"} <= set(
        words(root)
    ) & set(words(narrow))


def test_odd_names_are_text():
    """Warnings are errors: the glyphs are the browser's."""
    table = pd.DataFrame(0.5, index=ODD[:-1], columns=ODD[:-1])
    for figure in (importance(ODD), figures.shifts(table)):
        seen = words(drawn(figure))
        assert {"a$b$c \\frac^_{}"[:16], "emoji 😀", "tab and line", "مستشفى", "<b>&amp;"} <= set(
            seen
        )
        assert any(name.startswith("東京") and "…" in name for name in seen)
    assert "\n" not in "".join(seen)


def test_colours_are_those_of_the_page():
    text = Chart("id", "", importance(["#24292f"])).wide
    assert ">#24292f</text>" in text  # a name
    assert set(re.findall(r"(?:fill|stroke): ([^;\"]+)", text)) == {
        "var(--text, currentColor)",
        "var(--soft, currentColor)",
        "var(--line, #8884)",
        "#3b82d0",
        "#858b93",
        "none",
    }


def test_the_same_bytes_and_names_of_its_own():
    charts = [Chart(name, "", importance()) for name in "aab"]
    same, again, other = (chart.wide for chart in charts)
    assert charts[0].narrow != same == charts[0].wide == again
    names = [set(re.findall(r'id="([^"]+)"', text)) for text in (same, other)]
    assert names[0]
    assert not names[0] & names[1]


def test_settings_of_the_user_have_no_part():
    plain = Chart("id", "", importance()).wide
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "text.usetex": True}):
        before = dict(matplotlib.rcParams)
        assert Chart("id", "", importance()).wide == plain
        assert dict(matplotlib.rcParams) == before
