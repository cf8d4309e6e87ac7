"""The best trial, judged at sites that were held out of its choice."""

from __future__ import annotations

import numpy as np
import pytest
from tests.predictor.labelled import labelled

from shiftune.evaluate import loss_named
from shiftune.predictor._selection import best_alone
from shiftune.risk import RegressionAdjusted, estimate

K, N, TRIALS = 6, 30, 12
SQUARED = loss_named("squared")


def searched(rng: np.random.Generator, spread: float = 0.0):
    """Trials that are equally good: constants that differ between sites by chance alone."""
    data = labelled([rng.normal(size=N) for _ in range(K)])
    rows = [rng.normal(size=(N, 1)) for _ in range(K)]
    estimator = RegressionAdjusted().fit(rng.normal(size=(N, 1)), rows)
    predictions = {i: np.repeat(rng.normal(0, spread, K), N) for i in range(TRIALS)}
    return predictions, data, lambda losses: estimator.estimate(losses, names=data.names)


def best_of(predictions, data, risk_of):
    """Number and risk of the trial with the lowest criterion."""
    risks = {i: risk_of(data.losses(each, SQUARED)) for i, each in predictions.items()}
    return min(risks.items(), key=lambda pair: pair[1].criterion)


def test_the_lowest_of_many_is_too_low_and_the_nested_estimate_is_not():
    # E loss of every trial: Var(y) + spread^2 = 1.25. The lowest of 12 estimates is below it.
    rng = np.random.default_rng(0)
    lowest, nested = [], []
    for _ in range(80):
        predictions, data, risk_of = searched(rng, 0.5)
        best, risk = best_of(predictions, data, risk_of)
        lowest.append(risk.value)
        choice = best_alone(best, risk, predictions, data, SQUARED, risk_of)
        nested.append(choice.risk.value)
    error = np.std(nested) / np.sqrt(len(nested))
    assert np.mean(lowest) < 1.25 - 3 * error
    assert np.mean(nested) == pytest.approx(1.25, abs=3 * error)


def test_every_site_has_the_trial_that_the_others_choose():
    predictions, data, risk_of = searched(np.random.default_rng(5), 0.5)
    best, risk = best_of(predictions, data, risk_of)
    choice = best_alone(best, risk, predictions, data, SQUARED, risk_of)
    shares = risk.lam * risk.n
    means = {i: np.array([own.mean() for own in data.losses(each, SQUARED)])
             for i, each in predictions.items()}  # fmt: skip
    chosen = set()
    for j in range(K):
        others = np.arange(K) != j
        number = min(means, key=lambda i: shares[others] @ means[i][others])
        rows = slice(j * N, (j + 1) * N)
        np.testing.assert_array_equal(choice.predictions[rows], predictions[number][rows])
        chosen.add(number)
    assert len(chosen) > 1
    assert choice.weights == {best: 1.0}
    of_nested = risk_of(data.losses(choice.predictions, SQUARED))
    assert choice.risk.value == of_nested.value > risk.value


def test_a_trial_that_every_site_would_choose_keeps_its_estimate():
    predictions, data, risk_of = searched(np.random.default_rng(1), 0.5)
    clear = {i: each + 9.0 for i, each in predictions.items()} | {4: np.zeros(K * N)}
    best, risk = best_of(clear, data, risk_of)
    assert best == 4
    choice = best_alone(best, risk, clear, data, SQUARED, risk_of)
    assert choice.risk is risk
    assert choice.weights == {4: 1.0}
    assert choice.predictions is clear[4]


def test_an_estimate_that_is_not_for_a_new_site_stays_as_it_is():
    predictions, data, _ = searched(np.random.default_rng(2), 0.5)

    def risk_of(losses):
        return estimate(losses, method="naive", names=data.names)

    best, risk = best_of(predictions, data, risk_of)
    assert best_alone(best, risk, predictions, data, SQUARED, risk_of).risk is risk


def test_a_trial_without_predictions_keeps_its_estimate():
    predictions, data, risk_of = searched(np.random.default_rng(2), 0.5)
    best, risk = best_of(predictions, data, risk_of)
    choice = best_alone(best, risk, {}, data, SQUARED, risk_of)
    assert choice.risk is risk
    assert choice.predictions is None
