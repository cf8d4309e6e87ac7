"""Checks of the parts that others may write, the same that ours pass.

from shiftune.testing import check_density_ratio, check_risk_estimator
check_density_ratio(MyRatio())
check_risk_estimator(my_risk)
"""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn.base import clone

from shiftune.datasets import gaussian_sites
from shiftune.risk import RiskEstimate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from shiftune.ratio import DensityRatio

    Arrays = list[NDArray[np.float64]]

# What risk estimators are judged on: x ~ N(m, 1) with m = 0 at the target and these at the sources,
# y ~ N(0.7 x + 0.3, 1) everywhere, and a model that always predicts 1. Half its squared error is
# (0.49 (1 - m)^2 + 1.49) / 2 on average: TRUE_RISK at the target, some 0.06 less over the sources.
SHIFTS = (0.4, 0.6, -0.3)
TRUE_RISK = (0.49 + 1.49) / 2
NAMES = ("B", "C", "D")


def check_density_ratio(ratio: DensityRatio) -> None:
    """Raise an AssertionError if a density ratio breaks a promise of the interface.

    The promises: weights of the right shapes, finite and not negative; right way up and with a
    mean near 1 on a moderate shift; the same again under the same seed; the same whatever the
    order of the sources, the unit of a column, the kind of table; nothing of the user's changed;
    constant columns harmless; clonable and picklable.
    """
    sites = gaussian_sites([[0.0, 0.0], [0.5, 0.0], [-0.6, 0.3]])
    rng = np.random.default_rng(0)
    target, one, two = (sites.draw(site, 400, rng) for site in range(3))
    fresh = [sites.draw(site, 300, rng) for site in (1, 2)]
    kept = target.copy(), one.copy(), two.copy()
    fitted = clone(ratio).fit(target, [one, two])
    weights = fitted.weights(fresh)

    for w, X, source in zip(weights, fresh, (1, 2), strict=True):
        assert w.shape == (len(X),), "one weight per row"
        assert np.isfinite(w).all(), "weights are finite"
        assert (w >= 0).all(), "weights are not negative"
        assert 0.6 < w.mean() < 1.6, f"the mean weight is near 1, got {w.mean():.2f}"
        truth = sites.ratio(source)(X)
        agreement = np.corrcoef(np.argsort(np.argsort(w)), np.argsort(np.argsort(truth)))[0, 1]
        assert agreement > 0.5, f"the ratio is the right way up, rank correlation {agreement:.2f}"
        assert np.array_equal(fitted.weights_at(X, source=source - 1), w), "weights_at agrees"

    for before, after in zip(kept, (target, one, two), strict=True):
        assert np.array_equal(before, after), "the user's arrays are not changed"
    again = clone(ratio).fit(target, [one, two]).weights(fresh)
    _same(weights, again, "the same seed gives the same weights", exact=True)
    swapped = clone(ratio).fit(target, [two, one]).weights(fresh[::-1])[::-1]
    _same(weights, swapped, "the order of the sources does not matter")
    units = np.array([1000.0, 0.01])
    scaled = clone(ratio).fit(target * units, [one * units, two * units])
    _same(weights, scaled.weights([X * units for X in fresh]), "the unit of a column is free")
    moved = clone(ratio).fit(target + 5.0, [one + 5.0, two + 5.0])
    _same(weights, moved.weights([X + 5.0 for X in fresh]), "the origin of a column is free")
    wide = [np.column_stack([X, np.full(len(X), 7.0)]) for X in (target, one, two, *fresh)]
    constant = clone(ratio).fit(wide[0], wide[1:3]).weights(wide[3:])
    _same(weights, constant, "a constant column tells nothing")
    frames = [pd.DataFrame(X, columns=["a", "b"]) for X in (target, one, two, *fresh)]
    framed = clone(ratio).fit(frames[0], frames[1:3]).weights(frames[3:])
    _same(weights, framed, "data frames and arrays give the same")
    loaded = pickle.loads(pickle.dumps(fitted))
    _same(weights, loaded.weights(fresh), "pickling changes nothing", exact=True)


def check_risk_estimator(risk: Callable[..., RiskEstimate], *, corrects: bool = True) -> None:
    """Raise an AssertionError if a risk estimator breaks a promise of the interface.

    The promises: a finite value, a variance and influence values that fit together, names and
    rows as given; the same again for the same input, which is not changed; the same whatever the
    order of the sources, and about the same whatever that of the rows; in the unit of the losses;
    no risk for a model without errors; estimates that can be compared and stored. Over 200 draws
    of a moderate covariate shift with known ratios, its standard error is that of its values, and
    their mean is the true target risk up to four Monte Carlo errors.

    Parameters
    ----------
    risk : function of (losses, weights, names=...)
        As `ShiftSearch` takes it: k arrays of losses, k arrays of weights, k names.
    corrects : bool
        Whether the estimator claims to estimate the risk at the target. False leaves out the
        comparison with the true risk.

    Examples
    --------
    >>> from shiftune.risk import estimate
    >>> check_risk_estimator(estimate)
    >>> check_risk_estimator(lambda L, w, names: estimate(L, method="naive", names=names))
    Traceback (most recent call last):
        ...
    AssertionError: the mean of 200 estimates is the true target risk, 0.990, up to ...
    """
    losses, weights = _shifted((1200, 800, 600), np.random.default_rng(0))
    found = risk(losses, weights, names=NAMES)
    assert isinstance(found, RiskEstimate), f"a RiskEstimate, got {type(found).__name__}"
    _check_numbers(found, [len(loss) for loss in losses])
    _check_purity(risk)
    _check_orders(risk, losses, weights)
    _check_units(risk, losses, weights)
    _check_results(found, risk([loss**2 for loss in losses], weights, names=NAMES))
    _check_truth(risk, corrects=corrects)


def _shifted(n: Sequence[int], rng: np.random.Generator) -> tuple[Arrays, Arrays]:
    """Draw losses and known weights of the three sources."""
    sites = gaussian_sites([[0.0], *([m] for m in SHIFTS)])
    X = [sites.draw(j, size, rng) for j, size in enumerate(n, start=1)]
    y = [0.7 * x[:, 0] + 0.3 + rng.standard_normal(len(x)) for x in X]
    return [(1 - v) ** 2 / 2 for v in y], [sites.ratio(j)(x) for j, x in enumerate(X, start=1)]


def _check_numbers(found: RiskEstimate, n: list[int]) -> None:
    assert np.isfinite(found.value), f"the value is finite, got {found.value}"
    assert np.isfinite(found.variance), f"the variance is finite, got {found.variance}"
    assert found.variance >= 0, f"the variance is not negative, got {found.variance:.3g}"
    assert found.names == NAMES, f"the names are those given, got {found.names}"
    assert found.n.tolist() == n, f"n counts the rows of every source, got {found.n}"
    assert len(found.influence) == sum(n), "one influence value per row"
    squares = float(np.sum(found.influence**2))
    # Room for n - 1 in place of n.
    assert np.isclose(found.variance, squares, rtol=0.01), (
        f"the variance is the sum of the squared influence values, got {found.variance:.3g} and "
        f"{squares:.3g}"
    )
    for name, psi in zip(NAMES, np.split(found.influence, np.cumsum(n)[:-1]), strict=True):
        # Not exactly: cross-fitting has another lambda for every fold. Values that were not
        # centred add up to some 10 standard errors here.
        assert abs(psi.sum()) <= 0.5 * found.stderr, (
            f"the influence values of a source add up to 0, got {psi.sum():.3g} for {name!r}"
        )


def _check_purity(risk: Callable[..., RiskEstimate]) -> None:
    rng = np.random.default_rng(1)
    losses, weights = _shifted((120, 80, 60), rng)
    kept = [values.copy() for values in losses + weights]
    first = risk(losses, weights, names=NAMES)
    for before, after in zip(kept, losses + weights, strict=True):
        assert np.array_equal(before, after), "losses and weights are not changed"
    risk(*_shifted((50, 50, 50), rng), names=NAMES)
    for values in losses + weights:
        values.flags.writeable = False
    try:
        again = risk(losses, weights, names=NAMES)
    except ValueError as error:
        raise AssertionError(f"losses and weights may be read-only, got: {error}") from error
    assert (first.value, first.variance) == (again.value, again.variance), (
        "the same losses and weights give the same estimate, bit for bit"
    )
    assert np.array_equal(first.influence, again.influence), (
        "the same losses and weights give the same influence values, bit for bit"
    )


def _check_orders(risk: Callable[..., RiskEstimate], losses: Arrays, weights: Arrays) -> None:
    found = risk(losses, weights, names=NAMES)
    for order in ([2, 0, 1], [1, 0, 2]):
        turned = risk(
            [losses[j] for j in order],
            [weights[j] for j in order],
            names=tuple(NAMES[j] for j in order),
        )
        assert np.isclose(turned.value, found.value, rtol=1e-9), (
            f"the order of the sources does not matter, got {found.value} and {turned.value}"
        )
    rng, values = np.random.default_rng(2), []
    for _ in range(20):
        orders = [rng.permutation(len(loss)) for loss in losses]
        mixed = risk(
            [loss[order] for loss, order in zip(losses, orders, strict=True)],
            [w[order] for w, order in zip(weights, orders, strict=True)],
            names=NAMES,
        )
        values.append(mixed.value)
    # Not exactly: the folds of a cross-fitted estimator are made of row numbers, which moves ours
    # by 0.1 standard errors here. Rows that count by their place move it by some 0.7.
    moved = float(np.sqrt(np.mean((np.array(values) - found.value) ** 2)))
    assert moved <= 0.3 * found.stderr, (
        f"the order of the rows hardly matters, but it moves {found.value:.4g} by {moved:.2g}, "
        f"with a standard error of {found.stderr:.2g}"
    )


def _check_units(risk: Callable[..., RiskEstimate], losses: Arrays, weights: Arrays) -> None:
    found = risk(losses, weights, names=NAMES)
    for unit in (7.0, 1e-3):
        scaled = risk([unit * loss for loss in losses], weights, names=NAMES)
        assert np.isclose(scaled.value, unit * found.value, rtol=1e-6), (
            f"losses times {unit:g} give the risk times {unit:g}, got {found.value:.4g} and "
            f"{scaled.value:.4g}"
        )
        assert np.isclose(scaled.stderr, unit * found.stderr, rtol=1e-6), (
            f"losses times {unit:g} give the standard error times {unit:g}, got "
            f"{found.stderr:.4g} and {scaled.stderr:.4g}"
        )
    perfect = risk([np.zeros(len(loss)) for loss in losses], weights, names=NAMES)
    assert (perfect.value, perfect.variance) == (0, 0), (
        f"a model without errors has no risk, got {perfect.value} with variance {perfect.variance}"
    )


def _check_results(one: RiskEstimate, other: RiskEstimate) -> None:
    difference = other.minus(one)
    assert difference.value == other.value - one.value, "minus gives the difference"
    assert 0 < difference.variance < np.inf, (
        f"the variance of a difference is positive, got {difference.variance}"
    )
    assert one.minus(one).variance == 0, "an estimate does not differ from itself"
    for kept in (one, one.condensed()):
        back = RiskEstimate.from_record(json.loads(json.dumps(kept.to_record())))
        assert (back.value, back.variance) == (one.value, one.variance), (
            f"a stored estimate comes back as it was, got {back.value} for {one.value}"
        )


def _check_truth(risk: Callable[..., RiskEstimate], *, corrects: bool) -> None:
    # 1000 rows per source: plug-in lambdas are biased by O(1/n), which is then below the Monte
    # Carlo error, and the bias of no correction is 40 of these.
    rng = np.random.default_rng(3)
    draws = [risk(*_shifted((1000, 1000, 1000), rng), names=NAMES) for _ in range(200)]
    values = np.array([found.value for found in draws])
    said = float(np.sqrt(np.mean([found.variance for found in draws])))
    spread = float(values.std(ddof=1))
    # The spread of 200 values is known to 5 to 10 %.
    assert 0.7 * spread < said < 1.5 * spread, (
        f"the standard error is that of the values, {spread:.3g} over 200 draws, got {said:.3g}"
    )
    error = spread / np.sqrt(len(values))
    assert not corrects or abs(values.mean() - TRUE_RISK) <= 4 * error, (
        f"the mean of 200 estimates is the true target risk, {TRUE_RISK:.3f}, up to four Monte "
        f"Carlo errors of {error:.2g}, got {values.mean():.3f}; the weights are p_T(x) / p_j(x)"
    )


def _same(a: list[np.ndarray], b: list[np.ndarray], promise: str, *, exact: bool = False) -> None:
    close = np.array_equal if exact else lambda x, y: np.allclose(x, y, rtol=1e-5, atol=1e-7)
    assert all(close(x, y) for x, y in zip(a, b, strict=True)), promise
