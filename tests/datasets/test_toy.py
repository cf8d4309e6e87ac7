from __future__ import annotations

import numpy as np
import pytest
from reproduction.toy import toy_problem

from shiftune.risk import estimate


def test_true_risk_is_the_mean_loss_at_the_target():
    toy = toy_problem(3.0, n=200_000, random_state=1)
    for theta in (-1.0, 0.5, 2.0):
        risk = estimate([toy.losses(theta, toy.problem.oracle.y)], method="oracle")
        assert abs(risk.value - toy.true_risk(theta)) < 4 * risk.stderr


def test_known_ratios_have_mean_one():
    toy = toy_problem(1.0, n=100_000, random_state=2)
    X = [site.X for site in toy.problem.sources]
    for w in toy.ratio.fit(toy.problem.target.X, X).weights(X):
        assert w.mean() == pytest.approx(1, abs=4 * w.std() / np.sqrt(len(w)))


def test_means_are_within_c():
    for c in (1.0, 5.0):
        means = np.array(
            [toy_problem(c, n=3, random_state=s).sites.means[:, 0] for s in range(200)]
        )
        assert np.abs(means[:, 0]).max() <= 1
        assert 0.9 * c < np.abs(means[:, 1:]).max() <= c
