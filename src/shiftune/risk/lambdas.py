"""Weights lambda of the sources in the unbiased class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftune.errors import DataError, SettingsError
from shiftune.risk.theory import optimal_lambda, unbiased_lambda

if TYPE_CHECKING:
    from shiftune.risk.sample import Sample

Floats = NDArray[np.float64]

Divergence = Literal["plug_in", "cross_fitted"]

CROSS_FIT_FOLDS = 5


def given(sample: Sample, lam: ArrayLike | None) -> Floats:
    """Check the user's lambda and give every row that of its source, shape (n,)."""
    if lam is None:
        raise SettingsError("method='lambda' needs lam=, one number per source")
    values = np.asarray(lam, dtype=float)
    if values.shape != sample.n.shape or not np.all(np.isfinite(values)) or np.any(values < 0):
        raise SettingsError(
            f"lam must hold {len(sample.n)} finite numbers >= 0, one per source, got {lam!r}"
        )
    total = float(values @ sample.n)
    if not np.isclose(total, 1.0, rtol=1e-6):
        raise SettingsError(
            f"lam must satisfy sum_j lam_j n_j = 1 to be unbiased, got {total:.6g}; divide by it"
        )
    return sample.rows(values)


def unbiased(sample: Sample) -> Floats:
    """lambda_j = 1/n for every row, shape (n,)."""
    return sample.rows(unbiased_lambda(sample.n))


def variance_reduced(sample: Sample, divergence: Divergence, *, prior_rows: float) -> Floats:
    r"""Return the optimal lambda of every row, shape (n,).

    The divergences come from

    - ``plug_in``: the rows themselves, as published. A small loss then makes a small divergence
      and a large lambda, so the estimate is low in small samples;
    - ``cross_fitted``: for a row of fold f (row number modulo 5), from the other folds.

    With `prior_rows` > 0 they are mixed with a prior: see `shrink_divergences`. With 0 they are as
    published.
    """
    if divergence == "plug_in":
        return sample.rows(optimal_lambda(sample.n, _divergences(sample, prior_rows)))
    if divergence == "cross_fitted":
        return _cross_fitted(sample, prior_rows)
    raise SettingsError(f"divergence must be 'plug_in' or 'cross_fitted', got {divergence!r}")


def _cross_fitted(sample: Sample, prior_rows: float) -> Floats:
    if sample.n.min() < 2:
        j = int(np.argmin(sample.n))
        raise DataError(
            f"source {sample.names[j]!r} has 1 row; cross-fitting needs at least 2 in every source"
        )
    folds = min(CROSS_FIT_FOLDS, int(sample.n.min()))
    # Row number modulo the number of folds: also even where a site's rows are sorted by label.
    fold = np.concatenate([np.arange(n) % folds for n in sample.n])
    lam = np.empty(len(sample.L))
    for f in range(folds):
        inside = fold == f
        others = sample.where(~inside)
        optimal = optimal_lambda(sample.n, _divergences(others, prior_rows))
        # Within a fold the sources keep their shares, lambda_j n_j, whatever its size.
        size = sample.sums(inside.astype(float))
        lam[inside] = sample.rows(optimal * sample.n / (size * folds))[inside]
    return lam


def _divergences(sample: Sample, prior_rows: float) -> Floats:
    z = sample.w * sample.L
    div = sample.means((z - sample.rows(sample.means(z))) ** 2)
    if prior_rows == 0:
        return div
    square = sample.means(sample.w**2)
    return shrink_divergences(sample.n, div, square, sample.means(sample.w), prior_rows)


def shrink_divergences(
    n: NDArray[np.intp], div: Floats, square: Floats, mean_weights: Floats, prior_rows: float
) -> Floats:
    r"""Mix the divergences with a prior, as if it had been seen on `prior_rows` rows.

    .. math:: \mathrm{Div}_j \leftarrow \frac{n_j \mathrm{Div}_j / \bar w_j^2
              + m\, r\, \mathrm{mean}_j(w^2) / \bar w_j^2}{n_j + m}

    The prior takes the same noise r per unit of squared weight in every source (the mean of
    :math:`\mathrm{Div}_l / \mathrm{mean}_l(w^2)` over all rows). Both are taken of weights with
    mean 1: a source whose weights are all too low would otherwise seem precise. A divergence of
    0 (one row; a model without a single error there) is replaced by the prior.

    Parameters
    ----------
    n, div, square, mean_weights : arrays of shape (k,)
        Rows, divergences, mean squared weights and mean weights of the sources.
    prior_rows : float
        m.
    """
    known = div > 0
    if not known.any():
        return square
    noise = np.average(div[known] / square[known], weights=n[known])
    mixed = (n * div + prior_rows * noise * square) / (n + prior_rows)
    return np.asarray(np.where(known, mixed, noise * square) / mean_weights**2)
