"""A notebook shows scikit-learn's diagram before the fit and the answer after it."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from sklearn import config_context

from shiftune._wording import figures
from shiftune.search import ShiftSearch


def tags(html: str) -> set[str]:
    found: set[str] = set()
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: found.add(tag)
    parser.feed(html)
    return found


def test_fitted(hostile_search):
    html = hostile_search._repr_mimebundle_()["text/html"]
    assert html == hostile_search._repr_html_()
    drawn = {"svg", "g", "path", "use", "defs", "text", "clippath", "rect"}
    assert tags(html) - drawn == {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    value, low, high = figures(hostile_search.risk_.value, *hostile_search.risk_.interval())
    assert html.index(f"Verdict: {hostile_search.verdict_.trust}<") < html.index(f">{value}<")
    assert f">{low} to {high}<" in html
    assert "left out" not in html
    assert len(html) < 20_000


def test_sites_that_were_left_out(weighted_search):
    assert "left out: few target-like rows" in weighted_search._repr_html_()


def test_not_fitted(hostile_search):
    unfitted = ShiftSearch(hostile_search.estimator, hostile_search.space)
    assert "sk-top-container" in unfitted._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize("fitted", [True, False])
def test_users_who_want_text(hostile_search, fitted):
    unfitted = ShiftSearch(hostile_search.estimator, hostile_search.space)
    with config_context(display="text"):
        search = hostile_search if fitted else unfitted
        assert list(search._repr_mimebundle_()) == ["text/plain"]
        assert search._repr_html_() is None
