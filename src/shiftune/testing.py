"""Checks that every density ratio must pass, ours and those that others write.

from shiftune.testing import check_density_ratio
check_density_ratio(MyRatio())
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn.base import clone

from shiftune.datasets import gaussian_sites

if TYPE_CHECKING:
    from shiftune.ratio import DensityRatio


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


def _same(a: list[np.ndarray], b: list[np.ndarray], promise: str, *, exact: bool = False) -> None:
    close = np.array_equal if exact else lambda x, y: np.allclose(x, y, rtol=1e-5, atol=1e-7)
    assert all(close(x, y) for x, y in zip(a, b, strict=True)), promise
