"""Gain in predicting labels from knowing the site."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV
from threadpoolctl import threadpool_limits

from shiftune.stability.cross_fitting import FOLDS, CrossFitted, principal_components

Floats = NDArray[np.float64]

PENALTIES = (1.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 10_000.0)
# A level and slopes for every site; columns in all, so that the fit takes a second at most.
MOST_SLOPES = 4
MOST_COLUMNS = 300


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def gain_from_sites(
    Z: Floats, Y: Floats, site: NDArray[np.intp], fits: CrossFitted
) -> tuple[float, float]:
    r"""Share of the squared error that goes away when the site is known, and its standard error.

    .. math:: g = 1 - \frac{\sum_i (y_i - \hat f(x_i) - \hat b_{s_i}(x_i))^2}
                           {\sum_i (y_i - \hat f(x_i))^2},

    where :math:`\hat b_s` is a level for every site, then slopes along the leading principal
    components, each by ridge regression on the other folds with a penalty of its own. Negative
    where knowing the site does not help. A lower bound: it includes neither more complex
    differences between sites nor differences that cannot be learned from so few rows.
    """
    residual = Y - fits.label
    k = fits.site.shape[1]
    slopes = principal_components(Z, int(np.clip(MOST_COLUMNS // k - 1, 0, MOST_SLOPES)))
    levels = np.eye(k)[site]
    steps = [levels]
    if slopes.shape[1]:
        steps.append(np.hstack([levels * slope[:, None] for slope in slopes.T]))
    left = np.empty_like(residual)
    for f in range(FOLDS):
        rest = fits.fold != f
        remaining = residual.copy()
        for columns in steps:
            model = RidgeCV(PENALTIES, fit_intercept=False).fit(columns[rest], remaining[rest])
            remaining -= model.predict(columns).reshape(remaining.shape)
        left[~rest] = remaining[~rest]
    before, after = np.sum(residual**2, axis=1), np.sum(left**2, axis=1)
    if before.sum() == 0:
        return 0.0, 0.0
    saved = before - after
    by_group = fits.summed((saved - saved.mean())[:, None])
    stderr = np.sqrt(np.sum(by_group**2)) / len(saved) / before.mean()
    return float(saved.mean() / before.mean()), float(stderr)
