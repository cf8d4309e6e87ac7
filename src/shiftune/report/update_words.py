"""Updates by labels of the target in words, from the records that `shiftune update` keeps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from shiftune.report.brief import MOST_METRICS, TELLING
from shiftune.wording import count, figures_or_unknown, listed, metric_in_words, number

# Classes whose odds are shown.
MOST_CLASSES = 4


def estimate_in_words(record: Mapping[str, Any]) -> str:
    """Write an estimate with its interval.

    >>> estimate_in_words({"value": 0.24671, "low": 0.20742, "high": 0.28600})
    '0.247 (0.207 to 0.286)'
    """
    value, low, high = figures_or_unknown(record["value"], record["low"], record["high"])
    return f"{value} ({low} to {high})"


def update_facts(record: Mapping[str, Any] | None, target: str) -> list[tuple[str, str]]:
    """Return gain and effect of labels, each with its name; nothing if none were used."""
    if record is None:
        return []
    return [
        (f"Gain from {count(record['labels'], 'label')}", estimate_in_words(record["gain"])),
        (f"Effect of {target}", effect_in_words(record, target)),
    ]


def metric_facts(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the telling metrics with labels, each with its name.

    >>> auc = {"metric": "auc", "estimate": 0.7012, "low": 0.6, "high": 0.79}
    >>> metric_facts({"metrics": [auc, {"metric": "o_e", "estimate": None}]})
    [('AUC', '0.70 (0.60 to 0.79)')]
    """
    known = {each["metric"]: each for each in record["metrics"] if each["estimate"] is not None}
    names = [name for name in TELLING if name in known] or list(known)
    return [
        (metric_in_words(name), estimate_in_words(known[name] | {"value": known[name]["estimate"]}))
        for name in names[:MOST_METRICS]
    ]


def effect_in_words(record: Mapping[str, Any], target: str) -> str:
    """Describe how the effect moves the target's predictions.

    >>> shift = [{"class": None, "scale": "value", "mean": -1.25}]
    >>> effect_in_words({"labels": 10, "shift": shift}, "A")
    'predictions of A are lowered by 1.25 on average'
    """
    shift = record["shift"]
    if not any(each["mean"] for each in shift):
        return (
            f"none: that of {count(record['labels'], 'label')} would not have helped the sources "
            "reliably, so the predictions stay as they are"
        )
    if shift[0]["class"] is None:
        by = shift[0]["mean"]
        way = "raised" if by > 0 else "lowered"
        return f"predictions of {target} are {way} by {number(abs(by))} on average"
    if len(shift) == 2:
        name, by = shift[1]["class"], shift[1]["mean"]
        return f"the odds of {name!r} at {target} are {_odds(by)} what the models expect"
    shown = sorted(shift, key=lambda each: -abs(each["mean"]))[:MOST_CLASSES]
    odds = listed((f"of {each['class']!r} {_odds(each['mean'])}" for each in shown), quoted=False)
    return f"the odds at {target} are {odds} what the models expect"


def _odds(by: float) -> str:
    return f"{number(math.exp(by))} times (log odds {by:+.2f})"


def first_in_words(record: Mapping[str, Any]) -> str:
    """Describe whether the labels agree with the estimate that was made without them."""
    first = record["first_estimate"]
    own = first["mean_loss"]
    text = f"{estimate_in_words(first)}; mean at the labelled rows {estimate_in_words(own)}: "
    if first["agrees"] is None:
        one = "a single label" if record["labels"] == 1 else "labels of a single group"
        return f"{text}{one} cannot confirm it"
    if first["agrees"]:
        return text + "the labels agree with it"
    lower = own["value"] < first["value"]
    return text + f"the labels contradict it, it was too {'high' if lower else 'low'}"


def model_in_words(record: Mapping[str, Any]) -> str:
    """Describe which model was updated: the present one, or one of fewer trials."""
    return "present" if record["current"] else f"earlier, {count(record['of_trials'], 'trial')}"
