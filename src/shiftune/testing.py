"""Conformance checks for density ratios and risk estimators, yours and this package's.

They raise an AssertionError that names the promise::

    check_density_ratio(MyRatio())
    check_risk_estimator(my_risk)
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from shiftune.datasets import GaussianSites
from shiftune.errors import SettingsError
from shiftune.ratio import DensityRatio
from shiftune.risk import RiskEstimate, RiskEstimator, risk_named

__all__ = ["check_density_ratio", "check_risk_estimator"]

_Arrays = list[NDArray[np.float64]]
_Rows = Sequence[slice | NDArray[np.intp]]

# Risk estimators are checked on x ~ N(m, 1) with m = 0 at the target and these at the sources,
# y ~ N(0.7 x + 0.3, 1) everywhere, and a model that always predicts 1. Half its squared error is
# (0.49 (1 - m)^2 + 1.49) / 2 on average: _TRUE_RISK at the target, some 0.06 less over the sources.
_SHIFTS = (0.4, 0.6, -0.3)
_TRUE_RISK = (0.49 + 1.49) / 2
_NAMES = ("B", "C", "D")
_ALL = (slice(None),) * 3


def check_density_ratio(ratio: DensityRatio) -> None:
    """Raise an AssertionError if a density ratio breaks a promise of the interface.

    The promises: weights of the right shapes, finite and not negative; not inverted, and with a
    mean near 1 on a moderate shift; the same for the same seed; independent of the order of the
    sources, the unit of a column, the kind of table and constant columns; inputs unchanged;
    clonable and picklable.
    """
    sites = GaussianSites([[0.0, 0.0], [0.5, 0.0], [-0.6, 0.3]])
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
        assert agreement > 0.5, f"the ratio is not inverted, got rank correlation {agreement:.2f}"

    for before, after in zip(kept, (target, one, two), strict=True):
        assert np.array_equal(before, after), "the user's arrays are not changed"
    again = clone(ratio).fit(target, [one, two]).weights(fresh)
    _same(weights, again, "the same seed gives the same weights", exact=True)
    swapped = clone(ratio).fit(target, [two, one]).weights(fresh[::-1])[::-1]
    _same(weights, swapped, "the order of the sources does not matter")
    units = np.array([1000.0, 0.01])
    scaled = clone(ratio).fit(target * units, [one * units, two * units])
    rescaled = scaled.weights([X * units for X in fresh])
    _same(weights, rescaled, "the unit of a column does not matter")
    moved = clone(ratio).fit(target + 5.0, [one + 5.0, two + 5.0]).weights([X + 5 for X in fresh])
    _same(weights, moved, "the origin of a column does not matter")
    wide = [np.column_stack([X, np.full(len(X), 7.0)]) for X in (target, one, two, *fresh)]
    constant = clone(ratio).fit(wide[0], wide[1:3]).weights(wide[3:])
    _same(weights, constant, "a constant column changes nothing")
    frames = [pd.DataFrame(X, columns=["a", "b"]) for X in (target, one, two, *fresh)]
    framed = clone(ratio).fit(frames[0], frames[1:3]).weights(frames[3:])
    _same(weights, framed, "data frames and arrays give the same weights")
    loaded = pickle.loads(pickle.dumps(fitted))
    _same(weights, loaded.weights(fresh), "pickling changes nothing", exact=True)


def check_risk_estimator(
    risk: str | RiskEstimator | Callable[..., RiskEstimate], *, corrects: bool | None = None
) -> None:
    """Raise an AssertionError if a risk estimator breaks a promise of the interface.

    The promises: a finite value, a variance and influence values that fit together, names and
    rows as given; the same result for the same input, which is not changed; independent of the
    order of the sources, and nearly of that of the rows; in the unit of the losses; a risk of 0
    for a model without errors; estimates that can be compared and stored. Over 200 draws of a
    moderate covariate shift with known ratios, its standard error matches the spread of its
    values, and their mean is the true target risk up to four Monte Carlo errors.

    Parameters
    ----------
    risk : str, RiskEstimator or function of (losses, weights, names=...)
        As `ShiftSearch` takes it. It is fitted on the rows of a target and three sources, and
        receives k arrays of losses, k arrays of weights and k names.
    corrects : bool, optional
        Whether the mean over the draws must be the true target risk; default: as the estimator
        declares it (`RiskEstimator.corrects`).

    Examples
    --------
    >>> from shiftune.risk import estimate
    >>> check_risk_estimator("variance_reduced")
    >>> check_risk_estimator(lambda L, w, names: estimate(L, method="naive", names=names))
    Traceback (most recent call last):
        ...
    AssertionError: the mean of 200 estimates is the true target risk, 0.990, up to ...
    """
    estimator = risk_named(risk)
    draw = _shifted((1200, 800, 600), np.random.default_rng(0))
    try:
        estimate = draw.estimated(estimator)
    except SettingsError as error:
        raise AssertionError(str(error)) from error
    _check_numbers(estimate, [len(loss) for loss in draw.losses])
    _check_purity(estimator)
    _check_orders(estimator, draw)
    _check_units(estimator, draw)
    squared = replace(draw, losses=[loss**2 for loss in draw.losses])
    _check_results(estimate, squared.estimated(estimator))
    _check_truth(estimator, corrects=estimator.corrects if corrects is None else corrects)


@dataclass(frozen=True, slots=True)
class _Draw:
    """Rows of the target and of the sources; losses and known density ratios at the latter."""

    X_target: NDArray[np.float64]
    X: _Arrays
    losses: _Arrays
    weights: _Arrays
    names: tuple[str, ...] = _NAMES

    def estimated(self, risk: RiskEstimator) -> RiskEstimate:
        fitted: RiskEstimator = clone(risk).fit(self.X_target, self.X)
        weights = self.weights if risk.needs_ratio else None
        return fitted.estimate(self.losses, weights, names=self.names)

    def reordered(self, sites: Sequence[int], rows: _Rows = _ALL) -> _Draw:
        """The same with the sources, and the rows of each, in another order."""
        X, losses, weights = (
            [values[j][rows[j]] for j in sites] for values in (self.X, self.losses, self.weights)
        )
        return _Draw(self.X_target, X, losses, weights, tuple(self.names[j] for j in sites))


def _shifted(n: Sequence[int], rng: np.random.Generator) -> _Draw:
    """Draw rows, losses and known weights of the three sources."""
    sites = GaussianSites([[0.0], *([m] for m in _SHIFTS)])
    X = [sites.draw(j, size, rng) for j, size in enumerate(n, start=1)]
    y = [0.7 * x[:, 0] + 0.3 + rng.standard_normal(len(x)) for x in X]
    losses = [(1 - v) ** 2 / 2 for v in y]
    weights = [sites.ratio(j)(x) for j, x in enumerate(X, start=1)]
    return _Draw(sites.draw(0, 5 * max(n), rng), X, losses, weights)


def _check_numbers(risk: RiskEstimate, n: list[int]) -> None:
    assert np.isfinite(risk.value), f"the value is finite, got {risk.value}"
    assert np.isfinite(risk.variance), f"the variance is finite, got {risk.variance}"
    assert risk.variance >= 0, f"the variance is not negative, got {risk.variance:.3g}"
    assert risk.names == _NAMES, f"the names are those given, got {risk.names}"
    assert risk.n.tolist() == n, f"n counts the rows of every source, got {risk.n}"
    assert len(risk.influence) == sum(n), "one influence value per row"
    squares = float(np.sum(risk.influence**2))
    # Room for n - 1 in place of n. The variance at a new site has more parts than the rows' own.
    assert np.isclose(risk.variance, squares, rtol=0.01) or (
        risk.new_site is not None and risk.variance > squares
    ), (
        f"the variance is the sum of the squared influence values, got {risk.variance:.3g} and "
        f"{squares:.3g}"
    )
    for name, psi in zip(_NAMES, np.split(risk.influence, np.cumsum(n)[:-1]), strict=True):
        # Not exactly: cross-fitting has another lambda for every fold. Values that were not
        # centred add up to some 10 standard errors here.
        assert abs(psi.sum()) <= 0.5 * risk.stderr, (
            f"the influence values of a source add up to 0, got {psi.sum():.3g} for {name!r}"
        )


def _check_purity(risk: RiskEstimator) -> None:
    rng = np.random.default_rng(1)
    draw = _shifted((120, 80, 60), rng)
    arrays = [*draw.X, *draw.losses, *draw.weights]
    kept = [values.copy() for values in arrays]
    first = draw.estimated(risk)
    for before, after in zip(kept, arrays, strict=True):
        assert np.array_equal(before, after), "rows, losses and weights are not changed"
    _shifted((50, 50, 50), rng).estimated(risk)
    for values in arrays:
        values.flags.writeable = False
    try:
        again = draw.estimated(risk)
    except ValueError as error:
        raise AssertionError(f"losses and weights may be read-only, got: {error}") from error
    assert (first.value, first.variance) == (again.value, again.variance), (
        "the same losses and weights give the same estimate, bit for bit"
    )
    assert np.array_equal(first.influence, again.influence), (
        "the same losses and weights give the same influence values, bit for bit"
    )


def _check_orders(risk: RiskEstimator, draw: _Draw) -> None:
    before = draw.estimated(risk)
    for order in ([2, 0, 1], [1, 0, 2]):
        turned = draw.reordered(order).estimated(risk)
        assert np.isclose(turned.value, before.value, rtol=1e-9), (
            f"the order of the sources does not matter, got {before.value} and {turned.value}"
        )
    rng = np.random.default_rng(2)
    values = []
    for _ in range(20):
        rows = [rng.permutation(len(x)) for x in draw.X]
        values.append(draw.reordered(range(len(rows)), rows).estimated(risk).value)
    # Not exactly: the folds of a cross-fitted estimator are made of row numbers, which moves ours
    # by 0.1 standard errors here. Weighting rows by their position moves it by some 0.7.
    moved = float(np.sqrt(np.mean((np.array(values) - before.value) ** 2)))
    assert moved <= 0.3 * before.stderr, (
        f"the order of the rows hardly matters, but it moves {before.value:.4g} by {moved:.2g}, "
        f"with a standard error of {before.stderr:.2g}"
    )


def _check_units(risk: RiskEstimator, draw: _Draw) -> None:
    before_scaling = draw.estimated(risk)
    for unit in (7.0, 1e-3):
        scaled = replace(draw, losses=[unit * loss for loss in draw.losses]).estimated(risk)
        for what, before, after in (
            ("risk", before_scaling.value, scaled.value),
            ("standard error", before_scaling.stderr, scaled.stderr),
        ):
            assert np.isclose(after, unit * before, rtol=1e-6), (
                f"losses times {unit:g} give the {what} times {unit:g}, got {before:.4g} and "
                f"{after:.4g}"
            )
    perfect = replace(draw, losses=[np.zeros(len(loss)) for loss in draw.losses]).estimated(risk)
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


def _check_truth(risk: RiskEstimator, *, corrects: bool) -> None:
    # 1000 rows per source: plug-in lambdas are biased by O(1/n), which is then below the Monte
    # Carlo error, and the bias of no correction is 40 of these.
    rng = np.random.default_rng(3)
    draws = [_shifted((1000, 1000, 1000), rng).estimated(risk) for _ in range(200)]
    values = np.array([estimate.value for estimate in draws])
    # That of the rows: sites do not differ here, but a variance at a new site allows for it.
    estimated = float(np.sqrt(np.mean([estimate.row_variance for estimate in draws])))
    spread = float(values.std(ddof=1))
    # The spread of 200 values is known to 5 to 10 %.
    assert 0.7 * spread < estimated < 1.5 * spread, (
        f"the standard error is the spread of the values, {spread:.3g} over 200 draws, got "
        f"{estimated:.3g}"
    )
    error = spread / np.sqrt(len(values))
    assert not corrects or abs(values.mean() - _TRUE_RISK) <= 4 * error, (
        f"the mean of 200 estimates is the true target risk, {_TRUE_RISK:.3f}, up to four Monte "
        f"Carlo errors of {error:.2g}, got {values.mean():.3f}; the weights are p_T(x) / p_j(x)"
    )


def _same(a: list[np.ndarray], b: list[np.ndarray], promise: str, *, exact: bool = False) -> None:
    close = np.array_equal if exact else lambda x, y: np.allclose(x, y, rtol=1e-5, atol=1e-7)
    assert all(close(x, y) for x, y in zip(a, b, strict=True)), promise
