"""The answer in brief: what page, notebook, terminal and model card begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from shiftune.checks import Check, judgement
from shiftune.checks.skill import NAME as SKILL
from shiftune.level import Level
from shiftune.names import SITE_LOSSES
from shiftune.report.explanations import worth_in_words
from shiftune.search.comparison import default_rival, naive_rival, plain_promise
from shiftune.wording import (
    count,
    figures,
    from_to,
    loss_in_words,
    metric_in_words,
    number,
    with_interval,
    written_like,
)

if TYPE_CHECKING:
    from shiftune.search.result import SearchResult

# Metrics beside the loss, by how much they say to most readers.
TELLING = ("auc", "o_e", "rmse", "r2", "balanced_accuracy", "accuracy")
MOST_METRICS = 2
MOST_STEPS = 4
MOST_CLASSES = 4
CONSTANT = "constant learned at the sources"

MEANINGS = {
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
MEANINGS_AS_LOSS: dict[str, str] = dict.fromkeys(SITE_LOSSES, "0 is perfect; lower is better")
MEANINGS_AS_LOSS |= {"auc": "0 is perfect, 0.5 is chance; lower is better"}


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One figure at the target, as text.

    Attributes
    ----------
    name, value, interval : str
        Such as "AUC", "0.69", "0.54 to 0.80".
    meaning : str
        How to read it.
    beside : str
        What to compare it with.
    """

    name: str
    value: str
    interval: str
    meaning: str
    beside: str


@dataclass(frozen=True, slots=True)
class Compared:
    """Another choice beside what is handed over, as text; empty where a figure is unknown.

    Attributes
    ----------
    name : str
    expected : str
        Its loss at the target.
    promised : str
        What plain cross-validation would have promised for it.
    worse_by : str
        Its loss less that of what is handed over, with the interval.
    """

    name: str
    expected: str
    promised: str
    worse_by: str


@dataclass(frozen=True, slots=True)
class Brief:
    """What a reader wants to know first, as text.

    Attributes
    ----------
    title : str
        Such as "readmitted at A".
    question : str
        What is predicted, for which rows, learned from what.
    trust, reason : str
        The verdict; `reason` is empty where no check found anything.
    figures : tuple of KeyFigure
        The loss first.
    compared : tuple of Compared
        What is handed over first.
    next_steps : tuple of pairs of str
        What it is about, and what to do.
    """

    title: str
    question: str
    trust: str
    reason: str
    figures: tuple[KeyFigure, ...]
    compared: tuple[Compared, ...]
    next_steps: tuple[tuple[str, str], ...]

    def record(self) -> dict[str, Any]:
        """Return it as dicts and lists, for JSON."""
        return asdict(self)


def brief(result: SearchResult, checks: Sequence[Check]) -> Brief:
    """Return the answer of a search in brief."""
    verdict = judgement(checks)
    compared = _compared(result, checks)
    return Brief(
        title=f"{result.problem.label or 'Predictions'} at {result.target}",
        question=_question(result),
        trust=str(verdict.trust),
        reason=verdict.reason,
        figures=(_loss(result, compared[0].promised, checks), *_metrics(result, checks)),
        compared=compared,
        next_steps=_next_steps(result, checks),
    )


def _question(result: SearchResult) -> str:
    problem, few = result.problem, result.problem.labelled_target
    what = problem.label or "the label"
    classes = [number(each) for each in problem.classes]
    kind = "a quantity" if problem.task == "regression" else f"{len(classes)} classes"
    if 0 < len(classes) <= MOST_CLASSES:
        kind = " or ".join(classes)
    rows = sum(len(site) for site in problem.sources)
    labels = f"{count(len(few), 'label')} of {result.target}" if few else ""
    return (
        f"Predicts {what} ({kind}) for {count(len(problem.target), 'row')} of {result.target}, "
        f"learned from {count(len(problem.sources), 'labelled site')} with {count(rows, 'row')} "
        f"and {count(len(problem.columns), 'column')}{f', and from {labels}' if labels else ''}."
    )


def _loss(result: SearchResult, promised: str, checks: Sequence[Check]) -> KeyFigure:
    ends = result.risk.interval()
    value, low, high = figures(result.risk.value, *ends)
    name = result.loss.name
    beside = []
    if constant := _constant(checks):
        plain = f"{CONSTANT} {written_like(constant['constant'], ends)}"
        alone = f"at unseen sites alone {written_like(constant['model'], ends)}, "
        beside.append(alone + plain if _unseen_alone(result) else plain)
    if promised:
        beside.append(f"plain cross-validation promises {promised}")
    return KeyFigure(
        loss_in_words(name),
        value,
        _interval(low, high),
        MEANINGS_AS_LOSS.get(name) or MEANINGS.get(name, "lower is better"),
        "; ".join(beside),
    )


def _unseen_alone(result: SearchResult) -> bool:
    """Whether the constant is compared at unseen sites, and the risk is of known ones as well."""
    answers = result.choice.answers
    return answers is not None and answers.unseen is not answers.known


def _interval(low: str, high: str) -> str:
    return "unknown" if {"inf", "-inf", "nan"} & {low, high} else from_to(low, high)


def _metrics(result: SearchResult, checks: Sequence[Check]) -> list[KeyFigure]:
    table = result.metrics.table
    own = result.loss.name
    names = [str(name) for name in table.index if name != own or own in SITE_LOSSES]
    if result.given_metrics is None:
        known = table[table["estimate"].notna()]
        names = [name for name in TELLING if name in known.index]
    rows: dict[Any, Any] = table.to_dict("index")
    return [_metric(name, rows[name], result, checks) for name in names[:MOST_METRICS]]


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
    meaning = MEANINGS.get(name, f"{row['better']} is better")
    if name in ("rmse", "mae"):
        meaning = f"typical error, in units of {result.problem.label or 'the label'}"
    constant = _constant(checks)
    if name == "rmse" and result.loss.name == "squared" and constant is not None:
        root = written_like(float(np.sqrt(constant["constant"])), (ends[1], ends[2]))
        beside = f"{CONSTANT} {root}; {beside}"
    return KeyFigure(metric_in_words(name), value, _interval(low, high), meaning, beside)


def _constant(checks: Sequence[Check]) -> dict[str, float] | None:
    """Return the figures of the constant, if it was compared."""
    found = [check.figures for check in checks if check.name == SKILL and check.figures]
    return found[0] if found else None


def _compared(result: SearchResult, checks: Sequence[Check]) -> tuple[Compared, ...]:
    ends = result.risk.interval()
    corrects = result.settings.risk.corrects

    def promised(mean_loss: float) -> str:
        return written_like(mean_loss, ends) if corrects and mean_loss == mean_loss else ""

    # Without the effect of the target's labels, as the others are.
    own = result.choice.risk
    rows = [
        Compared(
            "this model",
            with_interval(own.value, own.interval()),
            promised(plain_promise(result)),
            "",
        )
    ]
    if constant := _constant(checks):
        gain = with_interval(constant["gain"], (constant["gain_low"], constant["gain_high"]))
        expected = written_like(constant["constant"], ends)
        if _unseen_alone(result):
            model = written_like(constant["model"], ends)
            expected += f", and this model {model}, at unseen sites alone"
        rows.append(Compared(CONSTANT, expected, "", gain))
    others = [("default parameters", default_rival(result))]
    naive = naive_rival(result)
    if naive is not None and (naive.trial != result.chosen or len(result.choice.weights) > 1):
        others.append((f"choice of plain cross-validation (trial {naive.trial})", naive))
    for name, rival in others:
        if rival is not None:
            expected = with_interval(rival.risk.value, rival.risk.interval())
            gap = with_interval(rival.gap.value, rival.gap.interval())
            rows.append(Compared(name, expected, promised(rival.mean_loss), gap))
    return tuple(rows)


def _next_steps(result: SearchResult, checks: Sequence[Check]) -> tuple[tuple[str, str], ...]:
    serious = sorted(
        (check for check in checks if check.level is not Level.OK and check.advice),
        key=lambda check: check.level is not Level.PROBLEM,
    )
    steps = [(check.name, check.advice) for check in serious]
    worth = result.worth_of_labels
    labels = [] if worth is None else [("labels", _worth(worth, result.target))]
    return (*steps[: MOST_STEPS - len(labels)], *labels)


def _worth(worth: pd.DataFrame, target: str) -> str:
    """Describe what about 30 labels would change."""
    few = worth.iloc[[0, min(2, len(worth) - 1)]]
    return f"{worth_in_words(few, target)}."
