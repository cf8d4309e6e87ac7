"""A result in words.

The answer in brief, with which page, notebook, terminal and model card begin; then how it was
estimated, what labels change, and the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from shiftune._names import SITE_LOSSES, Level
from shiftune._provenance import versions_in_words
from shiftune._wording import (
    count,
    figures,
    listed,
    loss_in_words,
    metric_in_words,
    number,
    percent,
    short_names,
    with_interval,
    written_like,
)
from shiftune.checks import Check, judgement
from shiftune.checks._of_result import SKILL
from shiftune.search._result import SearchResult, default_rival
from shiftune.search._trial import finished_trials

if TYPE_CHECKING:
    from shiftune.search._updating import Updated

# ---------------------------------------------------------------- in brief

# Metrics beside the loss, by how much they say to most readers.
_TELLING = ("auc", "o_e", "rmse", "r2", "balanced_accuracy", "accuracy")
_MOST_METRICS = 2
_MOST_STEPS = 4
_MOST_CLASSES = 4
_CONSTANT = "constant learned at the sources"

_MEANINGS = {
    "log_loss": "of predicted probabilities; lower is better",
    "brier": "of predicted probabilities; lower is better",
    "zero_one": "share of wrong classes; lower is better",
    "squared": "mean squared error; lower is better",
    "auc": "how well cases are ranked: 0.5 is chance, 1 is perfect",
    "o_e": "cases observed to cases expected: 1 is perfect",
    "calibration_slope": "1 is perfect; below 1, predictions are too extreme",
    "r2": "0 is no better than the mean, 1 is perfect",
    "bias": "prediction less label: 0 is perfect",
}
# Of losses that are 1 less a metric.
_MEANINGS_AS_LOSS: dict[str, str] = dict.fromkeys(SITE_LOSSES, "0 is perfect; lower is better")
_MEANINGS_AS_LOSS |= {"auc": "0 is perfect, 0.5 is chance; lower is better"}


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One figure at the target, as text."""

    name: str  # such as "AUC"
    value: str  # "0.69"
    interval: str  # "0.54 to 0.80"
    meaning: str  # how to read it
    beside: str  # what to compare it with


@dataclass(frozen=True, slots=True)
class Compared:
    """Another choice beside the final model, as text; empty where a figure is unknown."""

    name: str
    expected: str  # its loss at the target
    worse_by: str  # its loss less that of the final model, with the interval


@dataclass(frozen=True, slots=True)
class Brief:
    """What a reader wants to know first, as text."""

    title: str  # such as "readmitted at A"
    question: str  # what is predicted, for which rows, learned from what
    trust: str  # the verdict
    reason: str  # empty where no check found anything
    figures: tuple[KeyFigure, ...]  # the loss first
    compared: tuple[Compared, ...]  # the final model first
    next_steps: tuple[tuple[str, str], ...]  # what it is about, and what to do


def brief(result: SearchResult, checks: Sequence[Check]) -> Brief:
    """Return the answer of a search in brief."""
    verdict = judgement(checks)
    return Brief(
        title=f"{result.problem.label or 'Predictions'} at {result.target}",
        question=_question(result),
        trust=str(verdict.trust),
        reason=verdict.reason,
        figures=(_loss(result, checks), *_metrics(result, checks)),
        compared=_compared(result, checks),
        next_steps=_next_steps(result, checks),
    )


def _question(result: SearchResult) -> str:
    problem, few = result.problem, result.problem.labelled_target
    what = problem.label or "the label"
    classes = [number(each) for each in problem.classes]
    kind = "a quantity" if problem.task == "regression" else f"{len(classes)} classes"
    if 0 < len(classes) <= _MOST_CLASSES:
        kind = " or ".join(classes)
    rows = sum(len(site) for site in problem.sources)
    labels = f"{count(len(few), 'label')} of {result.target}" if few else ""
    return (
        f"Predicts {what} ({kind}) for {count(len(problem.target), 'row')} of {result.target}, "
        f"learned from {count(len(problem.sources), 'labelled site')} with {count(rows, 'row')} "
        f"and {count(len(problem.columns), 'column')}{f', and from {labels}' if labels else ''}."
    )


def _loss(result: SearchResult, checks: Sequence[Check]) -> KeyFigure:
    ends = result.risk.interval()
    value, low, high = figures(result.risk.value, *ends)
    name = result.loss.name
    constant = _constant(checks)
    return KeyFigure(
        loss_in_words(name),
        value,
        _interval(low, high),
        _MEANINGS_AS_LOSS.get(name) or _MEANINGS.get(name, "lower is better"),
        f"{_CONSTANT} {written_like(constant['constant'], ends)}" if constant else "",
    )


def _interval(low: str, high: str) -> str:
    """Write the ends of an interval, with their unit once: 0.7 to 3.8 billion."""
    if {"inf", "-inf", "nan"} & {low, high}:
        return "unknown"
    first, _, unit = low.partition(" ")
    return f"{first if high.endswith(f' {unit}') else low} to {high}"


def _metrics(result: SearchResult, checks: Sequence[Check]) -> list[KeyFigure]:
    table = result.metrics.table
    own = result.loss.name
    names = [str(name) for name in table.index if name != own or own in SITE_LOSSES]
    if result.settings.metrics is None:
        known = table[table["estimate"].notna()]
        names = [name for name in _TELLING if name in known.index]
    rows: dict[Any, Any] = table.to_dict("index")
    return [_metric(name, rows[name], result, checks) for name in names[:_MOST_METRICS]]


def _metric(
    name: str, row: Mapping[str, Any], result: SearchResult, checks: Sequence[Check]
) -> KeyFigure:
    if row["estimate"] != row["estimate"]:
        return KeyFigure(metric_in_words(name), "?", "", row["note"], "")
    ends = row["estimate"], row["low"], row["high"]
    value, low, high = figures(*map(float, ends))
    lowest, highest = (
        f"{written_like(float(row[end]), (ends[1], ends[2]))} ({row[f'{end}_site']})"
        for end in ("lowest", "highest")
    )
    beside = f"sites {lowest} to {highest}"
    meaning = _MEANINGS.get(name, f"{row['better']} is better")
    if name in ("rmse", "mae"):
        meaning = f"typical error, in units of {result.problem.label or 'the label'}"
    constant = _constant(checks)
    if name == "rmse" and result.loss.name == "squared" and constant is not None:
        root = written_like(float(np.sqrt(constant["constant"])), (ends[1], ends[2]))
        beside = f"{_CONSTANT} {root}; {beside}"
    return KeyFigure(metric_in_words(name), value, _interval(low, high), meaning, beside)


def _constant(checks: Sequence[Check]) -> dict[str, float] | None:
    """Return the figures of the constant, if it was compared."""
    found = [check.figures for check in checks if check.name == SKILL and check.figures]
    return found[0] if found else None


def _compared(result: SearchResult, checks: Sequence[Check]) -> tuple[Compared, ...]:
    ends = result.risk.interval()
    # Without the effect of the target's labels, as the others are.
    own = result.choice.risk
    name = (
        "this model" if result.updated is None else f"this model without {result.target}'s labels"
    )
    rows = [Compared(name, with_interval(own.value, own.interval()), "")]
    if constant := _constant(checks):
        gain = with_interval(constant["gain"], (constant["gain_low"], constant["gain_high"]))
        rows.append(Compared(_CONSTANT, written_like(constant["constant"], ends), gain))
    if rival := default_rival(result):
        expected = with_interval(rival.risk.value, rival.risk.interval())
        gap = with_interval(rival.gap.value, rival.gap.interval())
        rows.append(Compared("default parameters", expected, gap))
    return tuple(rows)


def _next_steps(result: SearchResult, checks: Sequence[Check]) -> tuple[tuple[str, str], ...]:
    serious = sorted(
        (check for check in checks if check.level is not Level.OK and check.advice),
        key=lambda check: check.level is not Level.PROBLEM,
    )
    steps = [(check.name, check.advice) for check in serious]
    worth = result.worth_of_labels
    labels = []
    if worth is not None:
        few = worth.iloc[[0, min(2, len(worth) - 1)]]  # about 30 labels
        labels = [("labels", f"{_worth_in_words(few, result.target)}.")]
    return (*steps[: _MOST_STEPS - len(labels)], *labels)


# ---------------------------------------------------------------- how it was estimated


def how_estimated(result: SearchResult) -> str:
    """Describe where the estimated risk comes from."""
    risk, problem, target = result.risk, result.problem, result.target
    estimator, data = result.settings.risk, result.context.data
    if estimator.uses_target_labels:
        return f"The estimate uses the labels of {target} itself, as experiments can."
    sentences = []
    if result.updated is not None:
        sentences.append(
            "All losses come from models that never saw the site, with an effect of the site from "
            f"as many labels as {target} has."
        )
    elif data.out_of_site:
        but = ", a few labels aside" if problem.labelled_target else ""
        sentences.append(
            "Every labelled row is predicted by a model that never saw its site, as the final "
            f"model has never seen {target}{but}."
        )
    elif estimator.out_of_site:
        sentences.append(
            f"There is one source, so its rows are predicted by models of its other rows: {target} "
            "may be harder than that."
        )
    if not estimator.corrects:
        sentences.append(
            "The estimate is the mean over source rows that the model was not trained on, without "
            f"any correction for differences between the sources and {target}."
        )
    elif not estimator.needs_ratio:
        sentences.append(
            f"The sites' losses are adjusted for how their rows differ from those of {target}."
        )
    else:
        sentences.append(
            f"Each labelled row is weighted by how typical it is of {target}; sites close to it "
            "have larger shares."
        )
    few = problem.labelled_target
    if few is not None and few.name in risk.names:
        j = risk.names.index(few.name)
        rows, have = count(int(risk.n[j]), "labelled row"), "has" if risk.n[j] == 1 else "have"
        share = percent(risk.lam[j] * risk.n[j])
        sentences.append(f"The {rows} of {target} itself {have} {share} of the weight.")
    if risk.between is not None:
        sentences.append(
            "The interval includes site-to-site variation."
            if len(problem.sources) > 1
            else "One source shows nothing about site-to-site variation: the interval's width is "
            "an assumption."
        )
    return " ".join(sentences)


def assumptions(result: SearchResult) -> str:
    """Describe what has to hold for the interval to be right."""
    estimator, target = result.settings.risk, result.target
    if estimator.uses_target_labels:
        return "The intervals include chance in the evaluated rows only."
    if not estimator.corrects:
        return (
            "The intervals include chance in the evaluated rows, but not the difference between "
            f"the sources and {target}."
        )
    if result.risk.between is not None:
        text = (
            f"{target} may differ from the sites in its cases, and in the outcomes of similar "
            "cases as far as the sites differ from each other. If it is unlike all of them, its "
            f"true risk can lie outside the interval, and only labels from {target} can show it."
        )
    else:
        text = (
            "The sites may differ in their cases, but similar cases must have the same outcomes "
            "everywhere. If they do not, no weighting repairs it, and only labels from "
            f"{target} can show it."
        )
    if result.context.data.weights is not None:
        text += (
            " The intervals take the weights as given and do not include errors of the density "
            "ratios."
        )
    return text


def how_to_repeat(result: SearchResult, settings: Mapping[str, str] | None) -> dict[str, str]:
    """Return what a reader needs to repeat a search, with versions."""
    own = result.options | {"data fingerprint": result.problem.fingerprint()}
    given = own if settings is None else settings
    return {**given, "versions": given.get("versions") or versions_in_words()}


# ---------------------------------------------------------------- what labels change

# A figure that would keep this share is hardly lower.
_HARDLY_LOWER = 0.95


def _worth_in_words(worth: pd.DataFrame, target: str) -> str:
    """Describe what labels are expected to change, from `SearchResult.worth_of_labels`."""
    counts = " / ".join(str(m) for m in worth.index[1:])
    lower = [
        f"{name} by about {_percent_lower(worth[column])}"
        for name, column in (
            ("the loss there", "risk"),
            ("the width of its 95 % interval", "half_width"),
        )
        if worth[column].iloc[1:].min() < _HARDLY_LOWER * worth[column].iloc[0]
    ]
    if not lower:
        return (
            f"Labels of up to {worth.index[-1]} rows of {target} would hardly lower the loss there "
            "or narrow its interval"
        )
    return (
        f"Labels of {counts} random rows of {target} are expected to lower {', and '.join(lower)}"
    )


def _percent_lower(figures: pd.Series) -> str:
    now, *then = (float(each) for each in figures)
    return f"{' / '.join(f'{100 * (1 - each / now):.0f}' for each in then)} %"


def update_in_words(updated: Updated, target: str, loss: str) -> str:
    """Describe what the labels of the target have changed."""
    labels = count(updated.labels_, "label")
    change = lower_by(updated.gain_.value, updated.gain_.interval())
    if not updated.used_:
        return f"{labels} of {target} are not used: with them the estimated {loss} is {change}."
    return (
        f"Predictions have an effect of {target}'s own added, learned from {labels}, which half of "
        f"the model was trained on. Compared with no labels, the {loss} is {change}, judged with "
        "models that have not seen the site."
    )


def lower_by(gain: float, interval: tuple[float, float]) -> str:
    """Write how far a loss is lower, or higher where the gain is below 0."""
    if gain < 0:
        return f"higher by {with_interval(-gain, (-interval[1], -interval[0]))}"
    return f"lower by {with_interval(gain, interval)}"


def estimate_in_words(record: Mapping[str, Any]) -> str:
    """Write an estimate with its interval; "?" where the ends are unknown."""
    if record["low"] is None or record["high"] is None:
        return f"{number(record['value'], 4)} (? to ?)"
    value, low, high = figures(record["value"], record["low"], record["high"])
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
    """Return the telling metrics with labels, each with its name."""
    if record["unlike"] > 0.5:  # metrics are those of sources with labels, which it is unlike
        return []
    known = {each["metric"]: each for each in record["metrics"] if each["estimate"] is not None}
    names = [name for name in _TELLING if name in known] or list(known)
    return [
        (metric_in_words(name), estimate_in_words(known[name] | {"value": known[name]["estimate"]}))
        for name in names[:_MOST_METRICS]
    ]


def effect_in_words(record: Mapping[str, Any], target: str) -> str:
    """Describe how the effect moves the target's predictions."""
    shift = record["shift"]
    if not record["used"]:
        return f"not used: with {count(record['labels'], 'label')} the estimated loss is higher"
    if shift[0]["class"] is None:
        by = shift[0]["mean"]
        way = "raised" if by > 0 else "lowered"
        return f"predictions of {target} are {way} by {number(abs(by))} on average"
    if len(shift) == 1:
        name, by = shift[0]["class"], shift[0]["mean"]
        return f"the predicted odds of {name!r} at {target} are {_odds(by)} what they were"
    shown = sorted(shift, key=lambda each: -abs(each["mean"]))[:_MOST_CLASSES]
    odds = listed((f"of {each['class']!r} {_odds(each['mean'])}" for each in shown), quoted=False)
    return f"the predicted odds at {target} are {odds} what they were"


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
    which = "present" if record["current"] else f"earlier, {count(record['of_trials'], 'trial')}"
    return which if record["used"] else f"{which}, labels not used"


# ---------------------------------------------------------------- parameters

# Of the width of a range, on its scale.
_NEAR_AN_END = 0.01


@dataclass(frozen=True, slots=True)
class Parameter:
    """One line of the table of parameters, as text."""

    name: str
    short_name: str
    chosen: str
    default: str
    searched: str
    as_good: str


def parameters(result: SearchResult) -> list[Parameter]:
    """Describe every parameter that any trial has; texts are empty where there is no value."""
    chosen = result.best_params
    default: dict[str, Any] = {}
    for family in result.families.values():
        default |= family.defaults()
    tied = [t.params for t in finished_trials(result.study) if t.number in result.tied]
    short = short_names(result.distributions)
    return [
        Parameter(
            name,
            short[name],
            number(chosen[name]) if name in chosen else "",
            number(default[name]) if name in default else "",
            _searched(distribution, chosen.get(name)),
            _span([params[name] for params in tied if name in params]),
        )
        for name, distribution in result.distributions.items()
    ]


def in_words(params: Mapping[str, Any]) -> str:
    """Return parameters in one line, by short names."""
    short = short_names(params)
    words = [f"{short[name]} {number(value)}" for name, value in params.items()]
    return ", ".join(words) or "default parameters"


def _searched(distribution: BaseDistribution, chosen: Any) -> str:
    """Describe the searched range, and whether the chosen value lies at its end."""
    if isinstance(distribution, CategoricalDistribution):
        return ", ".join(str(choice) for choice in distribution.choices)
    if isinstance(distribution, FloatDistribution | IntDistribution):
        log = ", log scale" if distribution.log else ""
        end = "; chosen at its end" if _at_an_end(distribution, chosen) else ""
        return f"{_range(distribution.low, distribution.high)}{log}{end}"
    return str(distribution)


def _at_an_end(distribution: FloatDistribution | IntDistribution, chosen: Any) -> bool:
    if chosen is None or distribution.single():
        return False
    ends = np.array([distribution.low, chosen, distribution.high], dtype=float)
    low, value, high = np.log(ends) if distribution.log else ends
    return bool(min(value - low, high - value) <= _NEAR_AN_END * (high - low))


def _span(values: Sequence[Any]) -> str:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(values) or not numbers:
        return ", ".join(dict.fromkeys(str(v) for v in values))
    return _range(min(numbers), max(numbers))


def _range(low: Any, high: Any) -> str:
    first, last = number(low), number(high)
    return first if first == last else f"{first} to {last}"


# ---------------------------------------------------------------- many sites

# Sites of a table or figure; of more, the lowest and highest.
MOST_SITES = 24


def outermost(table: pd.DataFrame, column: str, most: int) -> pd.DataFrame:
    """Return all rows or, of more, those with the lowest and highest values of a column."""
    if len(table) <= most:
        return table
    ordered = table[column].sort_values(kind="stable").index
    kept = [*ordered[: most // 2], *ordered[len(ordered) - most // 2 :]]
    return table.loc[kept]
