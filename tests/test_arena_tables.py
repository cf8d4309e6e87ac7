"""The arena's tables, on results so small that every figure can be checked by hand."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

ARENA = Path(__file__).parents[1] / "benchmarks" / "arena"
MODULES = ("regret", "tables", "criteria", "pictures", "page", "results", "row_file")


@pytest.fixture(scope="module")
def arena():
    """The modules, which import each other as the scripts of one folder do."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ARENA), *sys.path])
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    for name in set(MODULES) - before:
        sys.modules.pop(name, None)


def scores(rows, **same):
    """Rows of (dataset, target, seed, estimator, loss), in pools with best 1 and median 2."""
    frame = pd.DataFrame(rows, columns=["dataset", "target", "seed", "estimator", "loss"])
    group = frame["estimator"].map({"naive": "published", "VR as published": "published"})
    given = {
        "kind": "real",
        "family": "trees",
        "group": group.fillna("adjusted"),
        "fits": 0,
        "value": frame["loss"],
        "best": 1.0,
        "median": 2.0,
        "rank": 0.5,
        "low": np.nan,
        "high": np.nan,
    }
    return frame.assign(**(given | same))


# Regrets: naive 0.5 and 1 on a (two targets), 1 on b; adjusted 0 and 0.5 on a, 1.5 on b.
SMALL = [
    ("a", "1", 0, "naive", 1.5),
    ("a", "2", 0, "naive", 2.0),
    ("b", "1", 0, "naive", 2.0),
    ("a", "1", 0, "adjusted", 1.0),
    ("a", "2", 0, "adjusted", 1.5),
    ("b", "1", 0, "adjusted", 2.5),
]


def test_regret_is_the_share_of_the_median_s_excess_at_most_three(arena):
    frame = pd.DataFrame(
        {
            "loss": [1.0, 1.5, 2.0, 9.0, 1.0],
            "best": [1.0, 1.0, 1.0, 1.0, 1.0],
            "median": [2.0, 2.0, 2.0, 2.0, 1.0],
        }
    )
    assert arena.regret.regret(frame).tolist() == [0, 0.5, 1, 3, 0]


def test_regret_where_the_median_is_the_best_is_none(arena):
    frame = pd.DataFrame({"loss": [5.0], "best": [1.0], "median": [1.0]})
    assert arena.regret.regret(frame).tolist() == [0]


def test_cells_are_averaged_per_data_set_first(arena):
    table = arena.tables.overall(scores(SMALL))
    # adjusted: a 0.25, b 1.5; naive: a 0.75, b 1. Over all cells it would be 2 / 2.5.
    assert table.loc["adjusted", "regret"] == pytest.approx((0.25 + 1.5) / 2)
    assert table.loc["adjusted", "relative"] == pytest.approx((0.25 + 1.5) / (0.75 + 1))
    assert table.loc["adjusted", ["datasets", "cells"]].tolist() == [2, 3]


def test_two_data_sets_give_the_interval_of_their_own_ratios(arena):
    """Each is drawn twice in a quarter of the draws, so the ends are the ratios of a and of b."""
    found = arena.tables.overall(scores(SMALL)).loc["adjusted"]
    assert found["low"] == pytest.approx(0.25 / 0.75)
    assert found["high"] == pytest.approx(1.5)


def test_the_bootstrap_draws_the_same_data_sets_for_both(arena):
    """A constant ratio has no spread, however far the data sets lie apart."""
    wide = pd.Series([0.01, 3.0, 0.2, 1.0])
    found = arena.regret.ratio_of_means(0.7 * wide, wide)
    np.testing.assert_allclose(found, [0.7] * 3)


def test_bootstrap_interval_agrees_with_the_normal_one(arena):
    values = pd.Series(np.random.default_rng(1).normal(2, 1, 400))
    found = arena.regret.mean(values)
    half = 1.645 * values.std() / 20
    assert found.low == pytest.approx(values.mean() - half, abs=0.015)
    assert found.high == pytest.approx(values.mean() + half, abs=0.015)


def test_no_regret_at_all_is_as_good_as_the_other(arena):
    none = pd.Series([0.0, 0.0])
    assert arena.regret.ratio_of_means(none, none) == (1, 1, 1)
    assert arena.regret.ratio_of_means(none + 1, none).value == np.inf


def test_an_estimator_is_compared_on_the_cells_that_it_has(arena):
    rows = [row for row in SMALL if row[:2] != ("a", "2") or row[3] == "naive"]
    found = arena.tables.overall(scores(rows)).loc["adjusted"]
    assert found["relative"] == pytest.approx((0 + 1.5) / (0.5 + 1))


def test_risk_error_is_relative_to_the_true_loss(arena):
    frame = scores(SMALL)
    frame["value"] = frame["loss"] * [1, 1, 1, 0.9, 1.2, 2.0]
    assert arena.tables.overall(frame).loc["adjusted", "risk_error"] == pytest.approx(0.2)


def test_the_worst_data_set_is_the_one_with_the_largest_excess_over_naive(arena):
    found = arena.tables.overall(scores(SMALL)).loc["adjusted"]
    assert found["worst"] == "b"
    assert found["worst_loss"] == pytest.approx(0.5)
    assert found["worst_percent"] == pytest.approx(100 * 0.5 / 2)
    frame = scores(SMALL)
    losses = arena.regret.by_cell(frame, frame["loss"])
    excess = arena.tables.excess(losses, "adjusted")
    assert excess.loc["a", "percent"] == pytest.approx(100 * (1.25 - 1.75) / 1.75)


def test_coverage_counts_intervals_with_the_true_loss_in_them(arena):
    frame = scores(SMALL)
    own = frame["estimator"] == "adjusted"
    frame.loc[own, "low"] = [1.0, 1.6, 2.0]  # the first is just covered, the second is not
    frame.loc[own, "high"] = [1.2, 1.9, 3.0]
    found = arena.tables.coverage(frame)
    assert found.index.tolist() == ["adjusted"]
    assert found.loc["adjusted"].tolist() == pytest.approx([(0.5 + 1) / 2, 0.5, 1])
    table = arena.tables.overall(frame)
    assert table.loc["adjusted", "coverage"] == pytest.approx(0.75)
    assert table.loc["adjusted", "half_width"] == pytest.approx(0.1)  # of 0.1, 0.1 and 0.2
    assert np.isnan(table.loc["naive", "coverage"])


def test_single_seeds_are_compared_by_themselves(arena):
    rows = [("a", "1", 0, "naive", 2.0), ("a", "1", 1, "naive", 1.5)]
    rows += [("a", "1", 0, "adjusted", 1.5), ("a", "1", 1, "adjusted", 2.0)]
    found = arena.tables.per_seed(scores(rows))
    assert found.loc["adjusted"].tolist() == [0.5, 2.0]


def test_regret_per_data_set_counts_targets_and_seeds(arena):
    rows = [*SMALL, ("b", "1", 1, "naive", 3.0), ("b", "1", 1, "adjusted", 1.5)]
    found = arena.tables.per_dataset(scores(rows), ["naive", "adjusted"])
    assert found.loc["a"].tolist() == [2, 1, 2, 0.75, 0.25]
    assert found.loc["b"].tolist() == [1, 2, 2, 1.5, 1.0]


def test_the_left_out_data_set_has_no_say_in_the_choice(arena):
    regrets = {"one": [0.0, 1.0, 1.0], "two": [2.0, 0.4, 0.2], "naive": [1.0, 1.0, 2.0]}
    rows = [
        (dataset, "1", 0, name, 1 + value)
        for name, values in regrets.items()
        for dataset, value in zip("abc", values, strict=True)
    ]
    found = arena.tables.leave_one_out(scores(rows), ["one", "two"])
    # Without a: one 1, two 0.3. Without b: 0.5 and 1.1. Without c: 0.5 and 1.2.
    assert found["chosen"].tolist() == ["two", "one", "one"]
    assert found["regret"].tolist() == [2.0, 1.0, 1.0]
    assert found["naive"].tolist() == [1.0, 1.0, 2.0]


def test_candidates_that_miss_a_cell_are_not_chosen(arena):
    rows = [("abc"[i % 3], "1", 0, name, 2.0) for name in ("naive", "one") for i in range(3)]
    rows += [("a", "1", 0, "easy", 1.0), ("b", "1", 0, "easy", 1.0)]
    found = arena.tables.leave_one_out(scores(rows), ["easy", "one"])
    assert set(found["chosen"]) == {"one"}


def test_gap_to_the_oracle(arena):
    rows = [("toy c=5", t, 0, "VR as published", 3.0) for t in ("1", "2")]
    rows += [("toy c=5", "1", 0, "adjusted", 1.0), ("toy c=5", "2", 0, "adjusted", 2.0)]
    frame = scores(rows, kind="generated", family="constant")
    found = arena.tables.gap_closed(frame, "adjusted").loc[("toy c=5", "constant")]
    assert found["closed"] == pytest.approx(1 - 0.5 / 2)
    assert found[["low", "high"]].tolist() == pytest.approx([0.5, 1.0])  # those of the two cells
    assert found["above"] == pytest.approx(-1.5)
    losses = arena.tables.true_losses(frame, ["VR as published", "adjusted"])
    assert losses["toy c=5", "constant"].tolist() == [1.0, 3.0, 1.5]


def labelled(rows):
    """Rows of (dataset, draw, labels, estimator, loss)."""
    frame = pd.DataFrame(rows, columns=["dataset", "draw", "labels", "estimator", "loss"])
    return frame.assign(kind="real", target="1", family="trees", seed=0, best=1.0, median=2.0)


def test_few_labels_are_compared_at_the_same_number_of_labels(arena):
    rows = [("a", draw, m, "naive", 2.0) for draw in (0, 1) for m in (10, 30)]
    rows += [("a", 0, 10, "adjusted", 1.0), ("a", 1, 10, "adjusted", 2.0)]
    rows += [("a", 0, 30, "adjusted", 1.2), ("a", 1, 30, "adjusted", 1.2)]
    found = arena.tables.few_labels(labelled(rows))["value"]
    assert found[10, "adjusted"] == pytest.approx(0.5)
    assert found[30, "adjusted"] == pytest.approx(0.2)


def test_training_weights_are_compared_with_none_by_the_same_chooser(arena):
    rows = [
        (dataset, weights, chooser, loss, best)
        for dataset, weights, chooser, loss, best in [
            ("a", "none", "naive", 1.0, 0.5),
            ("a", "importance", "naive", 2.0, 0.5),
            ("b", "none", "naive", 10.0, 8.0),
            ("b", "importance", "naive", 5.0, 4.0),
            ("a", "none", "adjusted", 1.0, 0.5),
            ("a", "importance", "adjusted", 1.5, 0.5),
        ]
    ]
    frame = pd.DataFrame(rows, columns=["dataset", "weights", "chosen_by", "loss", "best"])
    found = arena.tables.training_weights(frame.assign(target="1", family="trees", seed=0))
    assert found.loc["importance", "naive", "a"].tolist() == [2, 1]
    assert found.loc["importance", "naive", "b"].tolist() == [0.5, 0.5]
    assert found.loc["importance", "adjusted", "a"].tolist() == [1.5, 1]
    whole = arena.tables.over_training_weights(found)
    assert whole.loc["importance", "naive", "chosen"].tolist() == pytest.approx([1, 0.5, 2])


def test_ratios_are_compared_with_the_naive_of_the_scores(arena):
    rows = [("a", "1", 0, "balanced, cut off, ulsif", 1.5), ("b", "1", 0, "balanced, ulsif", 3.0)]
    found = arena.tables.by_ratio(scores(rows), scores(SMALL))["value"]
    assert found["balanced, cut off", "ulsif"] == pytest.approx(0.5 / 0.5)
    assert found["balanced", "ulsif"] == pytest.approx(2 / 1)


def whole_results(adjusted):
    """Scores on three real and two generated problems; all of naive's regrets are 1."""
    rows = []
    for dataset in ("a", "b", "c", "toy c=5", "hospitals"):
        for target in ("1", "2"):
            rows += [
                (dataset, target, 0, "naive", 2.0),
                (dataset, target, 0, "VR as published", 3.0),
                (dataset, target, 0, "adjusted", adjusted),
                (dataset, target, 0, "adjusted, one model", adjusted),
            ]
    frame = scores(rows)
    generated = frame["dataset"].isin(["toy c=5", "hospitals"])
    frame["kind"] = np.where(generated, "generated", "real")
    return frame.assign(low=frame["loss"] - 0.1, high=frame["loss"] + 0.1)


@pytest.mark.parametrize(
    ("adjusted", "not_met"),
    [
        (1.4, ()),
        (1.85, ("0.8 of naive", "the goal")),
        (2.05, ("0.8 of naive", "the goal", "2 % of", "0.45", "at least half", "no extra fits")),
    ],
)
def test_criteria_say_what_is_met(arena, adjusted, not_met):
    found = list(arena.criteria.criteria(whole_results(adjusted), None, "adjusted"))
    failed = [one.demand for one in found if one.met is False]
    assert len(failed) == len(not_met)
    for wanted in not_met:
        assert any(wanted in demand for demand in failed), wanted
    assert [one.met for one in found].count(None) == 1  # coverage on real tables


def test_the_headline_is_of_seeds_that_decided_nothing(arena):
    later = whole_results(1.9).assign(seed=arena.criteria.FIRST_FRESH)
    found = arena.criteria.criteria(pd.concat([whole_results(1.1), later]), None, "adjusted")
    headline = next(one for one in found if "0.8 of naive" in one.demand)
    assert not headline.met
    assert headline.measured.startswith("0.90 (seeds 4, held out); all seeds 0.50")


def test_intervals_that_miss_are_not_met(arena):
    frame = whole_results(1.4)
    frame["high"] = frame["loss"] - 0.05
    found = arena.criteria.criteria(frame, None, "adjusted")
    assert [one.measured for one in found if one.met is False] == ["0.00 (0.00 to 0.00)"]


def test_the_report_has_the_figures_and_says_what_is_missing(arena, tmp_path):
    whole_results(1.4).to_csv(tmp_path / "scores.csv", index=False)
    rows = [("a", 0, m, name, 1.5) for m in (10, 30, 100) for name in ("naive", "adjusted")]
    labelled(rows).to_csv(tmp_path / "labels.csv", index=False)
    arena.page.write_report(tmp_path, tmp_path / "out" / "arena.md")
    text = (tmp_path / "out" / "arena.md").read_text()
    assert "0.40 (0.40 to 0.40)" in text
    assert "There is no training.csv" in text
    assert "There is no labels.csv" not in text
    drawn = {path.stem for path in (tmp_path / "out" / "arena").iterdir() if path.suffix == ".svg"}
    assert len(list((tmp_path / "out" / "arena").iterdir())) == len(drawn)
    assert drawn == {"regret", "datasets", "labels", "coverage"}
    for name in drawn:
        assert f"](arena/{name}.svg)" in text


def test_results_that_cannot_be_compared_are_refused(arena, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"scores\.csv"):
        arena.page.write_report(tmp_path, tmp_path / "arena.md")
    frame = scores(SMALL)
    frame.drop(columns="median").to_csv(tmp_path / "scores.csv", index=False)
    with pytest.raises(ValueError, match="lacks the columns median"):
        arena.page.write_report(tmp_path, tmp_path / "arena.md")
    pd.concat([frame, frame.tail(1)]).to_csv(tmp_path / "scores.csv", index=False)
    with pytest.raises(ValueError, match="1 rows twice, the first: dataset b"):
        arena.page.write_report(tmp_path, tmp_path / "arena.md")
    frame.to_csv(tmp_path / "scores.csv", index=False)
    with pytest.raises(ValueError, match=r"no rows of .'better'"):
        arena.page.write_report(tmp_path, tmp_path / "arena.md", default="better")


def test_rows_that_a_file_has_are_known(arena, tmp_path):
    path = tmp_path / "out" / "rows.csv"
    make = arena.row_file.RowFile
    file = make(path, ["dataset", "seed"], ["loss"])
    assert ("wine, red", 3) not in file
    file.add({"dataset": "wine, red", "seed": 3, "loss": 0.5})
    again = make(path, ["dataset", "seed"], ["loss"])
    assert ("wine, red", 3) in again
    assert ("wine, red", 4) not in again
    again.add({"loss": "", "seed": 4, "dataset": "x"})
    assert path.read_text().splitlines() == ["dataset,seed,loss", '"wine, red",3,0.5', "x,4,"]
