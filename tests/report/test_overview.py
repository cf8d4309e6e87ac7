"""The overview shows every target of a search once, and links to their reports."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from tests.report.conftest import IMAGE, SCRIPT
from tests.report.test_page import Outline

from shiftune import ShiftProblem, ShiftSearch
from shiftune._wording import MOST_SITES
from shiftune.errors import StorageError
from shiftune.report import save_overview
from shiftune.report._page import overview

pytest.importorskip("matplotlib")

TARGETS = [SCRIPT, IMAGE, "a&b c/d"]


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    sites = [*TARGETS, "P", "Q", "R", "S"]
    df = pd.DataFrame(rng.normal(size=(280, 2)), columns=["x", "z"])
    df["shop"] = np.repeat(sites, 40)
    df["sales"] = df["x"] + rng.normal(size=280)
    df.loc[df["shop"].isin(TARGETS), "sales"] = np.nan
    problem = ShiftProblem.from_frame(df, site="shop", label="sales", target="unlabelled")
    search = ShiftSearch(Ridge(), {"alpha": [0.1, 1.0]}, n_trials=2, progress=False)
    return search.fit(problem).result_


@pytest.fixture(scope="module")
def outline(result):
    return Outline(overview(result, result.target_table(sources=True), {"a&b c/d": 'a%b/r "x'}))


def test_a_line_for_every_target(outline, result):
    assert "sales at 3 sites" in outline.text
    assert "for 3 sites without labels, learned from 4 labelled sites with 160 rows" in outline.text
    for site, row in result.targets.iterrows():
        assert site in outline.text
        assert row["reason"] in outline.text
    for verdict, n in result.targets["verdict"].value_counts().items():
        assert f"{verdict} {n} of 3 sites" in outline.text


def test_names_and_links_are_only_that(outline):
    tags = [tag for tag, _ in outline.elements]
    assert not {"img", "script"} & set(tags)
    links = [attributes["href"] for tag, attributes in outline.elements if tag == "a"]
    assert links == ["a%25b/r%20%22x"]
    (policy,) = (a["content"] for _, a in outline.elements if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")


def test_what_came_true_at_the_sources(outline, result):
    table = result.target_table(sources=True)
    sources = table[table["verdict"].isna()]
    held = sources["truth"].between(sources["low"], sources["high"]).sum()
    assert f"contains what came true at {held} of 4" in outline.text
    assert "came true" not in Outline(overview(result)).text


def test_many_targets_are_folded(result):
    rows = pd.concat([result.targets.iloc[[0]]] * 60)
    rows.index = pd.Index([f"shop {i:02}" for i in range(60)], name="site")
    found = Outline(overview(result, rows.assign(truth=np.nan)))
    assert "All 60 sites" in found.text
    assert found.text.count("shop 00") == 2
    assert found.text.count(f"shop {MOST_SITES}") == 1
    assert "60 targets" in found.text


def test_it_is_written_as_other_files_are(result, tmp_path):
    where = save_overview(result, tmp_path / "new" / "index.html")
    assert where.read_text().startswith("<!DOCTYPE html>")
    with pytest.raises(StorageError, match="is a folder"):
        save_overview(result, tmp_path)
