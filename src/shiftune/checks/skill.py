"""Check that what is handed over is better than a constant."""

from __future__ import annotations

import numpy as np

from shiftune.checks.check import NOTHING_TO_DO, Check
from shiftune.evaluate.answers import Answers
from shiftune.evaluate.constant import constant_answers
from shiftune.level import Level
from shiftune.risk.result import RiskEstimate
from shiftune.search.result import SearchResult
from shiftune.wording import figures, loss_in_words, with_interval

# Chance of being no better, from which on it is mentioned.
CHANCE = 0.2

NAME = "better than a constant"


def skill_check(result: SearchResult) -> Check:
    """Compare what is handed over with a constant, at sites that neither has seen.

    The constant is the best one for the loss: class frequencies, the mean, a quantile. A problem:
    the estimated risk of the constant at the target is lower. A caution: the chance that it is
    lower exceeds 1 in 5 (from the paired difference), or there are no answers to compare.
    """
    answers = result.choice.answers
    if answers is None:
        return Check(
            NAME,
            Level.CAUTION,
            "Whether the model is better than a constant is unknown: its plan of fits keeps no "
            "answers.",
            "Compare it with a constant yourself.",
            {},
        )
    data = result.context.data
    constant = constant_answers(data, result.loss).astype(answers.unseen.dtype)
    with_model = _risk(result, Answers(answers.unseen, answers.unseen))
    without = _risk(result, Answers(constant, constant))
    gain = without.minus(with_model)
    low, high = gain.interval()
    numbers = {
        "constant": without.value,
        "model": with_model.value,
        "gain": gain.value,
        "gain_low": low,
        "gain_high": high,
    }
    loss = loss_in_words(result.loss.name)
    model, plain = figures(with_model.value, without.value)
    if gain.value <= 0:
        finding = (
            "At sites that it has not seen, the model is no better than a constant: "
            f"{loss} {model} with the model, {plain} with the same answer for every row."
        )
        advice = (
            "Predict the constant, or look for columns that explain more, or for labels of the "
            "target: a few of them show what the site's own level is."
        )
        return Check(NAME, Level.PROBLEM, finding, advice, numbers)
    apart = f"difference {with_interval(gain.value, (low, high))}"
    if gain.interval(1 - 2 * CHANCE)[0] <= 0:
        finding = (
            "It is not certain that the model is better than a constant at a site that it has not "
            f"seen: {loss} {model} instead of {plain} ({apart})."
        )
        advice = (
            "The difference may be chance, or hold at some sites only. More rows, more sites, or "
            "a few labels of the target would tell."
        )
        return Check(NAME, Level.CAUTION, finding, advice, numbers)
    finding = (
        "At sites that it has not seen, the model is better than a constant: "
        f"{loss} {model} instead of {plain} ({apart})."
    )
    return Check(NAME, Level.OK, finding, NOTHING_TO_DO, numbers)


def _risk(result: SearchResult, answers: Answers) -> RiskEstimate:
    data = result.context.data
    y = np.concatenate(data.y_validation)
    return result.context.estimate(data.by_site(answers.losses(y, result.loss, data.classes)))
