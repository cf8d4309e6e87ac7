"""The estimate without a source is the one computed anew without it."""

from __future__ import annotations

import numpy as np
import pytest

from shiftune.errors import ProblemError
from shiftune.risk import RegressionAdjusted, estimate, without_source
from shiftune.risk._heterogeneity import values_without


@pytest.fixture
def sample(rng):
    losses = [rng.exponential(1 + j, 60 + 20 * j) for j in range(3)]
    return losses, [rng.exponential(size=len(loss)) for loss in losses]


@pytest.mark.parametrize("method", ["naive", "unbiased", "variance_reduced"])
def test_the_same_as_computed_anew(method, sample):
    losses, weights = sample
    risk = estimate(losses, weights, method, guard=False, names=["B", "C", "D"])
    again = estimate(losses[::2], weights[::2], method, guard=False, names=["B", "D"])
    without = without_source(risk, "C")
    assert without.value == pytest.approx(again.value)
    assert without.variance == pytest.approx(again.variance)
    assert without.dof == pytest.approx(again.dof)
    assert (without.lam * without.n)[[0, 2]] == pytest.approx(again.lam * again.n)


def test_differences_stay_paired(sample):
    """Two models without a source can be compared as before."""
    losses, weights = sample
    one, other = (estimate([a + c for a in losses], weights, "unbiased") for c in (0.0, 0.1))
    shifted = without_source(other, "2").minus(without_source(one, "2"))
    anew = [estimate([a + c for a in losses[::2]], weights[::2], "unbiased") for c in (0.0, 0.1)]
    assert shifted.value == pytest.approx(anew[1].value - anew[0].value)
    assert shifted.variance == pytest.approx(anew[1].minus(anew[0]).variance)


def test_adjusted_estimates_without_a_source_can_be_compared(rng):
    """Warnings are errors, so a division by the share 0 of the source would be one."""
    rows = [rng.normal(size=(80, 2)) for _ in range(4)]
    adjusted = RegressionAdjusted().fit(rng.normal(size=(80, 2)), rows)
    one, other = (
        without_source(adjusted.estimate([rng.exponential(1 + c, 80) for _ in rows]), "2")
        for c in (0, 0.5)
    )
    assert 0 < other.minus(one).stderr < np.inf


def test_all_values_at_once(sample):
    risk = estimate(*sample, names=["B", "C", "D"])
    one_by_one = [without_source(risk, name).value for name in risk.names]
    np.testing.assert_allclose(values_without(risk, risk.estimates), one_by_one, rtol=1e-12)


def test_one_source_alone(sample):
    losses, _ = sample
    weights = [np.ones(60), np.full(80, 1e-9), np.full(100, 1e-9)]
    risk = estimate(losses, weights, names=["B", "C", "D"])
    assert np.isnan(values_without(risk, risk.estimates)).tolist() == [True, False, False]
    with pytest.raises(ProblemError, match="rests on 'B' alone"):
        without_source(risk, "B")
    with pytest.raises(ProblemError, match="there is no source 'X'"):
        without_source(risk, "X")


def test_labelled_rows_of_the_target_keep_their_share(rng):
    rows = [rng.normal(size=(50, 1)) for _ in range(4)]
    losses = [rng.exponential(size=50) for _ in range(3)]
    own = rng.exponential(size=20)
    risk = (
        RegressionAdjusted()
        .fit(rows[0], rows[1:])
        .estimate([*losses, own], names=["B", "C", "D", "A"])
    )
    less = without_source(risk, "C")
    shares, before = less.lam * less.n, risk.lam * risk.n
    assert shares[1] == 0
    assert shares[3] == before[3]
    assert shares.sum() == pytest.approx(1)
    assert less.value == pytest.approx(shares @ risk.estimates)
    one_by_one = [without_source(risk, name).value for name in risk.names]
    np.testing.assert_allclose(values_without(risk, risk.estimates), one_by_one, rtol=1e-12)
