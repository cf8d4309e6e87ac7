"""The model card and the answer in brief: the same figures, names that are only names."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from shiftune._names import Level
from shiftune._wording import figures, written_like
from shiftune.checks import Check
from shiftune.errors import ProblemError
from shiftune.metrics._new_site import MetricTables
from shiftune.report._model_card import model_card
from shiftune.report._words import brief

FINE = Check("overlap", Level.OK, "Fine.", "Nothing to do.", {})
CAREFUL = Check("few", Level.CAUTION, "Few | sites. So it is.", "Add <b>.", {})
BAD = Check("skill", Level.PROBLEM, "Bad.", "Stop.", {})


@pytest.fixture(scope="module")
def result(hostile_search):
    return hostile_search.result_


class TestBrief:
    def test_figures_and_what_they_are_compared_with(self, result):
        first = brief(result, result.checks)
        value, low, high = figures(result.risk.value, *result.risk.interval())
        loss, rmse, r2 = first.figures
        assert (loss.value, loss.interval) == (value, f"{low} to {high}")
        assert (rmse.name, r2.name) == ("RMSE", "R2")
        names = [row.name for row in first.compared]
        assert names == ["this model", "constant learned at the sources", "default parameters"]
        assert first.title == f"cost at {result.target}"

    def test_the_constant_stands_beside_the_model(self, result):
        first = brief(result, result.checks)
        known = next(c.figures for c in result.checks if c.name == "better than a constant")
        assert known["model"] == result.risk.value  # the same figure in both places
        constant = written_like(known["constant"], result.risk.interval())
        assert first.figures[0].beside == f"constant learned at the sources {constant}"
        assert first.compared[1].expected == constant

    def test_a_metric_as_loss_is_read_the_other_way_round(self, result):
        end = {"estimate": 0.7, "low": 0.6, "high": 0.8, "better": "higher", "note": ""}
        end |= {"lowest": 0.6, "lowest_site": "B", "highest": 0.8, "highest_site": "C"}
        table = pd.DataFrame([end], index=pd.Index(["auc"], name="metric"))
        loss = replace(result.loss, name="auc")
        asked = replace(result, settings=replace(result.settings, metrics=["auc"], loss=loss))
        vars(asked)["metrics"] = MetricTables(table, table)
        vars(asked)["default"] = result.default
        loss, auc = brief(asked, [FINE]).figures
        assert (loss.name, loss.meaning) == (
            "1 - AUC",
            "0 is perfect, 0.5 is chance; lower is better",
        )
        assert (auc.name, auc.meaning) == (
            "AUC",
            "how well cases are ranked: 0.5 is chance, 1 is perfect",
        )

    def test_the_most_serious_step_is_first(self, result):
        first = brief(result, [FINE, CAREFUL, BAD])
        assert first.trust == "do not use"
        assert [about for about, _ in first.next_steps] == ["skill", "few", "labels"]
        assert first.reason == "Bad."

    def test_metrics_that_were_asked_for_and_are_unknown(self, result):
        row = {"estimate": np.nan, "low": np.nan, "high": np.nan, "note": "one site", "better": ""}
        end = {"estimate": 2.0, "low": 1.0, "high": np.inf, "better": "lower", "note": ""}
        end |= {"lowest": 1.0, "lowest_site": "B", "highest": 3.0, "highest_site": "C"}
        table = pd.DataFrame([row, end], index=pd.Index(["mae", "rmse"], name="metric"))
        asked = replace(result, settings=replace(result.settings, metrics=["mae", "rmse"]))
        vars(asked)["metrics"] = MetricTables(table, table)
        _, unknown, open_end = brief(asked, [FINE]).figures
        assert (unknown.value, unknown.meaning) == ("?", "one site")
        assert (open_end.value, open_end.interval) == ("2", "unknown")


class TestModelCard:
    def test_sections(self, result):
        card = model_card(result, [FINE, CAREFUL], {"command": "tune <x>"})
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
        assert "Checks that found nothing: overlap." in card
        assert "- command: tune \\<x\\>" in card
        assert not re.search(r"(?<!\\)<", card)

    def test_many_sites_are_summed(self, hostile_search, monkeypatch):
        monkeypatch.setattr("shiftune.report._model_card.MOST_SITES", 1)
        largest, *others = sorted(map(len, hostile_search.problem_.sources), reverse=True)
        card = model_card(hostile_search.result_, [FINE], {"command": "tune"})
        shown = [line for line in card.splitlines() if line.endswith("| labels |")]
        assert f"| {largest} rows |" in shown[-2]
        assert shown[-1] == f"| {len(others)} smaller sites | {sum(others)} rows | labels |"

    def test_saved(self, hostile_search, tmp_path):
        path = hostile_search.model_card(tmp_path / "new" / "card.md")
        text = path.read_text(encoding="utf-8")
        assert hostile_search.problem_.fingerprint() in text
        with pytest.raises(ProblemError, match="is a folder"):
            hostile_search.model_card(tmp_path)
