"""The best trial, judged at sites that had no say in its choice."""

from __future__ import annotations

import numpy as np
import pytest

from shiftune.evaluate import Answers, StudyData, loss_named
from shiftune.predictor._selection import best_alone
from shiftune.risk import RegressionAdjusted, estimate

K, N, TRIALS = 6, 30, 12
SQUARED = loss_named("squared")


def study(rng: np.random.Generator) -> tuple[StudyData, RegressionAdjusted]:
    X = [rng.normal(size=(N, 1)) for _ in range(K)]
    names = tuple(f"s{j}" for j in range(K))
    y = tuple(rng.normal(size=N) for _ in range(K))
    data = StudyData(
        np.concatenate(X), np.concatenate(y), np.repeat(names, N), None, np.concatenate(X), y, None,
        names,
    )  # fmt: skip
    return data, RegressionAdjusted().fit(rng.normal(size=(N, 1)), X)


def searched(rng: np.random.Generator, spread: float = 0.0):
    """Trials that are equally good: constants that differ between sites by chance alone."""
    data, estimator = study(rng)
    answers = {}
    for number in range(TRIALS):
        answer = np.repeat(rng.normal(0, spread, K), N)
        answers[number] = Answers(answer, answer, 0.5)
    y = np.concatenate(data.y_validation)

    def risk_of(losses):
        return estimator.estimate(losses, names=data.names)

    risks = {i: risk_of(data.by_site(a.losses(y, SQUARED))) for i, a in answers.items()}
    best = min(risks, key=lambda i: risks[i].value)
    return best, risks, answers, data, SQUARED, risk_of, lambda risk, losses: risk.value


def test_the_lowest_of_many_is_too_low_and_the_nested_estimate_is_not():
    # E loss of every trial: Var(y) + spread^2 = 1.25. The lowest of 12 estimates is below it.
    rng = np.random.default_rng(0)
    lowest, nested = [], []
    for _ in range(80):
        found = searched(rng, 0.5)
        lowest.append(found[1][found[0]].value)
        nested.append(best_alone(*found).risk.value)
    error = np.std(nested) / np.sqrt(len(nested))
    assert np.mean(lowest) < 1.25 - 3 * error
    assert np.mean(nested) == pytest.approx(1.25, abs=3 * error)


def test_a_trial_that_every_site_would_choose_keeps_its_estimate():
    rng = np.random.default_rng(1)
    best, risks, answers, *rest = searched(rng, 0.5)
    clear = {best: Answers(np.zeros(K * N), np.zeros(K * N), 0.5)} | {
        i: Answers(a.known + 9, a.unseen + 9, 0.5) for i, a in answers.items() if i != best
    }
    data, loss, risk_of, by = rest
    y = np.concatenate(data.y_validation)
    risks = {i: risk_of(data.by_site(a.losses(y, loss))) for i, a in clear.items()}
    choice = best_alone(best, risks, clear, data, loss, risk_of, by)
    assert choice.risk is risks[best]
    assert choice.weights == {best: 1.0}


def test_an_estimate_that_is_not_for_a_new_site_stays_as_it_is():
    best, _, answers, data, loss, _, by = searched(np.random.default_rng(2), 0.5)
    y = np.concatenate(data.y_validation)

    def risk_of(losses):
        return estimate(losses, method="naive", names=data.names)

    risks = {i: risk_of(data.by_site(a.losses(y, loss))) for i, a in answers.items()}
    assert best_alone(best, risks, answers, data, loss, risk_of, by).risk is risks[best]
