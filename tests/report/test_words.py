"""Sentences and texts of reports."""

from __future__ import annotations

import pandas as pd
from optuna.distributions import FloatDistribution

from shiftune.report import _words as words


def test_worth_of_labels():
    worth = pd.DataFrame(
        {"risk": [0.5, 0.4, 0.38], "half_width": [0.2, 0.15, 0.1]}, index=[0, 10, 30]
    )
    assert words._worth_in_words(worth, "A") == (
        "Labels of 10 / 30 random rows of A are expected to lower the loss there by about "
        "20 / 24 %, and the width of its 95 % interval by about 25 / 50 %"
    )


def test_labels_that_would_change_nothing():
    worth = pd.DataFrame({"risk": [0.5, 0.49], "half_width": [0.2, 0.2]}, index=[0, 10])
    assert "Labels of up to 10 rows of A would hardly" in words._worth_in_words(worth, "A")


def test_gains_and_losses():
    assert words.lower_by(0.24671, (0.20742, 0.28600)) == "lower by 0.247 (0.207 to 0.286)"
    assert words.lower_by(-0.02, (-0.05, 0.01)) == "higher by 0.020 (-0.010 to 0.050)"


def test_an_interval_has_its_unit_once():
    assert words._interval("0.7 billion", "3.8 billion") == "0.7 to 3.8 billion"
    assert words._interval("0.54", "0.70") == "0.54 to 0.70"
    assert words._interval("-inf", "inf") == "unknown"


def test_estimates_of_records():
    record = {"value": 0.24671, "low": 0.20742, "high": 0.28600}
    assert words.estimate_in_words(record) == "0.247 (0.207 to 0.286)"
    unknown = {"value": 0.24671, "low": None, "high": None}
    assert words.estimate_in_words(unknown) == "0.2467 (? to ?)"


def test_metrics_of_records():
    auc = {"metric": "auc", "estimate": 0.7012, "low": 0.6, "high": 0.79}
    record = {"unlike": 0.1, "metrics": [auc, {"metric": "o_e", "estimate": None}]}
    assert words.metric_facts(record) == [("AUC", "0.70 (0.60 to 0.79)")]
    assert words.metric_facts(record | {"unlike": 0.9}) == []


def test_effects_of_records():
    shift = [{"class": None, "scale": "value", "mean": -1.25}]
    text = "predictions of A are lowered by 1.25 on average"
    assert words.effect_in_words({"labels": 10, "used": True, "shift": shift}, "A") == text
    kept = words.effect_in_words({"labels": 10, "used": False, "shift": shift}, "A")
    assert kept == "not used: with 10 labels the estimated loss is higher"
    states = [{"current": True, "used": used, "of_trials": 3} for used in (True, False)]
    assert list(map(words.model_in_words, states)) == ["present", "present, labels not used"]


def test_parameters_in_one_line():
    params = {"model__alpha": 0.5, "model__l1_ratio": 1.0}
    assert words.in_words(params) == "alpha 0.5, l1_ratio 1"
    assert words.in_words({}) == "default parameters"


def test_a_value_at_the_end_of_its_range():
    searched = words._searched(FloatDistribution(1e-4, 1e3, log=True), 990.0)
    assert searched == "0.0001 to 1000, log scale; chosen at its end"
    assert words._range(0.01, 0.3) == "0.01 to 0.3"
    assert words._range(5, 5) == "5"
