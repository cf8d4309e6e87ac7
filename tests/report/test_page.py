"""The report shows what the search found, is one file, and nothing in it can break out."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.base import clone

from shiftune import ShiftProblem
from shiftune._wording import with_interval
from shiftune.checks import verdict_of
from shiftune.errors import ProblemError
from shiftune.report import save_report
from shiftune.report._page import page
from shiftune.report._summary import template
from shiftune.search import ShiftSearch
from shiftune.search._trial import Outcome

pytest.importorskip("matplotlib")


class Outline(HTMLParser):
    """Elements with their attributes, and the text a reader sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.elements, self.seen, self.inside = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside != "style":
            self.seen.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.seen).split())


@pytest.fixture(scope="session")
def outline(hostile_search):
    return Outline(page(hostile_search.result_))


class TestOneFile:
    def test_nothing_is_fetched(self, outline):
        for _tag, attributes in outline.elements:
            assert not {"href", "srcset", "data"} & set(attributes)
            assert attributes.get("src") is None
        assert [tag for tag, _ in outline.elements].count("link") == 0

    def test_it_is_small(self, outline):
        assert len(outline.source) < 400_000

    def test_no_script_may_run(self, outline):
        (policy,) = [a["content"] for tag, a in outline.elements if "http-equiv" in a]
        assert policy == "default-src 'none'; style-src 'unsafe-inline'"

    def test_charts_are_described(self, outline):
        labels = [a["aria-label"] for tag, a in outline.elements if a.get("role") == "img"]
        assert len(labels) == [tag for tag, _ in outline.elements].count("svg") == 12
        assert (
            "Forest plot: every source's estimate of the risk at <script>alert(1)</script>."
            in labels
        )

    def test_the_same_result_gives_the_same_charts(self, hostile_search):
        first, again = (
            re.sub(r"written|<footer>.*", "", page(hostile_search.result_)) for _ in "ab"
        )
        assert first == again

    def test_names_within_charts_are_there_once(self, outline):
        names = [a["id"] for _, a in outline.elements if "id" in a]
        assert len(names) == len(set(names)) > 12


class TestHostileNames:
    def test_no_element_comes_from_a_name(self, outline):
        tags = [tag for tag, _ in outline.elements]
        assert not {"a", "img", "script"} & set(tags)
        events = {name for _, a in outline.elements for name in a if name.startswith("on")}
        assert events == set()

    def test_the_names_are_there_as_they_are_written(self, outline, hostile_search):
        for site in (*hostile_search.problem_.names, hostile_search.problem_.target.name):
            assert site in outline.text

    def test_names_on_axes_are_as_they_are_written(self, outline):
        assert "</script><img…" in outline.text  # cut in its middle
        assert "2024" in outline.text

    def test_checks_and_settings(self, hostile_search, checks):
        found = Outline(page(hostile_search.result_, checks, {"<b>command": "<script>alert(1)"}))
        assert "script" not in [tag for tag, _ in found.elements]
        assert "<b>command <script>alert(1)" in found.text
        assert "Overlap All is well." in found.text
        levels = [a["class"] for tag, a in found.elements if "level" in a.get("class", "")]
        assert levels == ["level problem", "level ok"]


class TestContent:
    def test_the_answer(self, outline, hostile_search):
        value, (low, high) = hostile_search.risk_.value, hostile_search.risk_.interval()
        shown = re.search(r"squared error at \S+ (\S+) (\S+) to (\S+) \(95 %", outline.text)
        for text, number in zip(shown.groups(), (value, low, high), strict=True):
            assert float(text) == pytest.approx(number, abs=0.06 * (high - low))
        assert f"trial {hostile_search.best_index_}" in outline.text
        assert outline.text.startswith("cost at <script>alert(1)</script> cost at")
        assert "RMSE" in outline.text
        assert "typical error, in units of cost" in outline.text

    def test_verdict_and_next_steps_come_first(self, hostile_search):
        result = hostile_search.result_
        text = Outline(page(result, result.checks)).text
        verdict = verdict_of(result.checks)
        order = [
            f"Verdict: {verdict.trust}",
            "constant learned at the sources",
            "What to do next",
            "Compared with",
        ]
        places = [
            text.index(words)
            for words in [*order, "All figures", "The sites", "Checks", "The search"]
        ]
        assert places == sorted(places)
        assert "promise" not in text

    def test_the_default_in_words(self, outline, hostile_search):
        target = hostile_search.problem_.target.name
        assert "Every labelled row is predicted by a model that never saw its site" in outline.text
        assert f"adjusted for how their rows differ from those of {target}" in outline.text
        assert "The interval includes site-to-site variation" in outline.text
        assert "weighted by how typical" not in outline.text.partition("The sites")[0]
        assert "left out" not in outline.text
        assert "doubtful: few target-like rows" in outline.text
        own = hostile_search.risk_.sources.to_dict("index")["2024"]
        shown = with_interval(own["estimate"], (own["low"], own["high"]))
        assert f"2024 {shown} 25 % {own['n']} " in outline.text

    def test_what_labels_would_buy(self, outline, weighted_search):
        assert "Labels of 30 random rows" in outline.text
        assert "are expected to lower" in outline.text
        assert "expected to lower" not in Outline(page(weighted_search.result_)).text

    def test_many_sites_are_folded(self, hostile_search, monkeypatch):
        whole = page(hostile_search.result_)
        assert "<summary>All" not in whole
        monkeypatch.setitem(template("report.html.j2").globals, "most_sites", 2)
        folded = page(hostile_search.result_)
        sites = len(hostile_search.problem_.sources)
        assert f"<summary>All {sites} sites</summary>" in folded
        rows = '<th scope="row">'
        assert folded.count(rows) == whole.count(rows) + 2

    def test_labels_of_the_target(self, hostile_search):
        sites = {site.name: (site.X, site.y) for site in hostile_search.problem_.sources}
        X = hostile_search.problem_.target.X
        few = (X[:20], np.arange(20.0))
        problem = ShiftProblem.from_sites(sites, X, labelled_target=few, task="regression")
        search = clone(hostile_search).set_params(n_trials=1).fit(problem)
        text = Outline(page(search.result_)).text
        assert "for 80 rows of target" in text
        assert "and from 20 labels of target" in text
        assert "collect some labels" not in text

    def test_updates(self, outline, hostile_search):
        """Records as `shiftune update` keeps them."""
        assert "Updates with labels" not in outline.text
        target = hostile_search.problem_.target.name
        one = {"value": 5.0, "low": 3.0, "high": 7.0}
        record = {
            "number": 1,
            "labels": 10,
            "used": True,
            "unlike": 0.1,
            "before": one,
            "after": one | {"value": 4.0},
            "gain": {"value": 1.0, "low": None, "high": None},
            "figures": [{"title": "RMSE", "value": 2.0, "low": 1.0, "high": 3.0}],
            "says": {"effect": "predictions are raised by <b>1.25", "change": ""},
            "first_estimate": one | {"says": "5.0: the labels agree with it"},
            "of_trials": 2,
            "current": False,
        }
        text = Outline(page(hostile_search.result_, updates=[record])).text
        assert "1 10 5.0 (3.0 to 7.0) 4.0 (3.0 to 7.0) 1 (? to ?) earlier, 2 trials" in text
        assert f"With labels: RMSE 2.0 (1.0 to 3.0). Effect of {target}" in text
        assert f"Effect of {target}: predictions are raised by <b>1.25." in text
        assert "First estimate 5.0: the labels agree with it." in text

    def test_density_ratios_in_words(self, weighted_search):
        text = Outline(page(weighted_search.result_)).text
        assert "Each labelled row is weighted by how typical it is" in text
        assert "never saw that site" not in text
        assert "do not include errors of the density ratios" in text
        assert "left out: few target-like rows" in text
        assert "Grey sites were left out" in text

    def test_versions_are_there_once(self, outline, hostile_search):
        assert outline.text.count("scikit-learn") == 1
        given = Outline(page(hostile_search.result_, settings={"versions": "as they were"})).text
        assert "versions as they were" in given
        assert "scikit-learn" not in given

    def test_failed_trials(self, outline, hostile_search):
        failed = (hostile_search.trials_["state"] == "FAIL").sum()
        assert failed > 0
        assert f"of 18 asked for; {failed} failed" in outline.text

    def test_exact_parameters(self, outline, hostile_search):
        assert repr(hostile_search.best_params_["ridge__alpha"]) in outline.text

    def test_without_settings_it_says_what_the_search_knows(self, outline, hostile_search):
        assert hostile_search.problem_.fingerprint() in outline.text
        assert "random_state 0" in outline.text

    def test_a_naive_search(self, hostile_search):
        naive = ShiftSearch(
            hostile_search.estimator,
            {"ridge__alpha": hostile_search.space["ridge__alpha"]},
            risk="naive",
            n_trials=2,
            progress=False,
        ).fit(hostile_search.problem_)
        text = Outline(page(naive.result_)).text
        assert "without any correction" in text
        assert "never saw its site" not in text
        assert naive.result_.context.data.weights is None
        assert len(naive.result_.overlap.table) == 4
        assert "Columns that matter" not in text  # it has none


class TestColumnsThatMatter:
    def test_all_with_intervals_and_a_picture(self, outline, hostile_search):
        table = hostile_search.importance()
        for name, row in table.iterrows():
            ends = with_interval(row["importance"], (row["low"], row["high"]))
            assert f"{name} {ends}" in outline.text

    def test_how_to_have_it(self, hostile_search):
        without = replace(hostile_search.result_)
        vars(without)["column_importance"] = None
        assert "shiftune tune --importance 60" in Outline(page(without)).text


class TestComparison:
    def test_a_default_that_cannot_be_fitted(self, hostile_search):
        failed = replace(hostile_search.result_)
        vars(failed)["default"] = Outcome(None, "ValueError: <b>", 0.0)
        text = Outline(page(failed)).text
        assert "with default parameters could not be fitted: ValueError: <b>." in text


class TestSaving:
    @pytest.fixture
    def quick(self, monkeypatch):
        monkeypatch.setattr("shiftune.report._page.page", lambda *given: "<p>\ud800é</p>")

    def test_the_file(self, hostile_search, tmp_path, quick):
        path = save_report(hostile_search.result_, tmp_path / "new" / "report.html")
        assert path == tmp_path / "new" / "report.html"
        assert path.read_text(encoding="utf-8") == "<p>?é</p>"
        assert list(path.parent.iterdir()) == [path]
        assert hostile_search.report(path) == path  # replaced

    def test_a_folder(self, hostile_search, tmp_path, quick):
        with pytest.raises(ProblemError, match="is a folder"):
            save_report(hostile_search.result_, tmp_path)

    def test_no_way_to_write(self, hostile_search, tmp_path, quick):
        (tmp_path / "file").write_text("mine")
        with pytest.raises(ProblemError, match="cannot be written"):
            save_report(hostile_search.result_, tmp_path / "file" / "report.html")
        assert (tmp_path / "file").read_text() == "mine"

    def test_not_fitted(self, hostile_search, tmp_path):
        unfitted = ShiftSearch(hostile_search.estimator, hostile_search.space)
        with pytest.raises(ProblemError, match="call fit first"):
            unfitted.report(tmp_path / "report.html")

    @pytest.mark.parametrize("package", ["matplotlib"])
    def test_what_to_install(self, hostile_search, tmp_path, monkeypatch, package):
        ours = ("shiftune.report.figures", "shiftune.report._charts")  # imported without it
        for name in [n for n in sys.modules if n.split(".")[0] == package or n in ours]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ProblemError, match=re.escape("pip install '.[report]'")):
            save_report(hostile_search.result_, tmp_path / "report.html")
        assert list(tmp_path.iterdir()) == []
