"""Check that what is handed over is better than a constant."""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr

from shiftune.checks.check import NOTHING_TO_DO, Check
from shiftune.evaluate.answers import Answers
from shiftune.evaluate.constant import constant_answers
from shiftune.level import Level
from shiftune.risk.result import RiskEstimate
from shiftune.search.result import SearchResult
from shiftune.wording import figures, loss_in_words, percent

# Chance of being no better, from which on it is mentioned, or a problem.
SOME_CHANCE, LIKELY = 0.2, 0.75

NAME = "better than a constant"


def skill_check(result: SearchResult) -> Check:
    """Compare what is handed over with a constant, at sites that neither has seen.

    The constant is the best one for the sources' labels: class frequencies, the mean, a quantile.
    A problem: the chance that its risk at the target is lower is 3 in 4 (from the paired
    difference). A caution: it exceeds 1 in 5, or there are no answers to compare. Where a trial has
    one model, which knows all sites, so does the constant.
    """
    answers = result.choice.answers
    if answers is None:
        return Check(
            NAME,
            Level.CAUTION,
            "Whether the model is better than a constant is unknown: its plan of fits keeps no "
            "answers.",
            "Compare the model with a constant yourself.",
            {},
            "skill is unknown",
        )
    known = answers.unseen is answers.known
    constant = constant_answers(result.context.data, result.loss, known=known)
    with_model = _risk(result, answers.unseen)
    without = _risk(result, constant.astype(answers.unseen.dtype))
    gain = without.minus(with_model)
    chance = float(stdtr(gain.dof, -gain.value / gain.stderr)) if gain.stderr else 0.5
    low, high = gain.interval()
    numbers = {
        "constant": without.value,
        "model": with_model.value,
        "gain": gain.value,
        "gain_low": low,
        "gain_high": high,
        "chance_of_none": chance,
    }
    model, plain = figures(with_model.value, without.value)
    loss = loss_in_words(result.loss.name)
    share = f"{percent(answers.unseen_share)} of the expected {loss}"
    where = (
        "on other rows of the sites it knows"
        if known
        else f"at sites that it has not seen ({share})"
    )
    certain = "may be" if SOME_CHANCE < chance < LIKELY else "is"
    better = "better" if gain.value > 0 else "no better"
    finding = (
        f"The model {certain} {better} than a constant {where}: {loss} {model} with the model, "
        f"{plain} with the same answer for every row; the chance that it is no better is "
        f"{percent(chance)}."
    )
    if chance >= LIKELY:
        advice = (
            "Predict the constant, look for columns that explain more, or label a few target rows, "
            "which show what the site's own level is."
        )
        headline = "the model is no better than a constant"
        return Check(NAME, Level.PROBLEM, finding, advice, numbers, headline)
    if chance > SOME_CHANCE:
        advice = (
            "Add rows or sites, or label a few target rows: the model may be better at some sites "
            "only."
        )
        headline = "it is not certain that the model is better than a constant"
        return Check(NAME, Level.CAUTION, finding, advice, numbers, headline)
    return Check(NAME, Level.OK, finding, NOTHING_TO_DO, numbers)


def _risk(result: SearchResult, predicted: np.ndarray) -> RiskEstimate:
    """Estimate the risk of answers to the validation rows."""
    losses = result.context.data.losses(Answers(predicted, predicted), result.loss)
    return result.context.estimate(losses)
