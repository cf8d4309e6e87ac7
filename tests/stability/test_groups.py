"""The test of p(y|x) with rows that belong together."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.label_stability import (
    CrossFitted,
    compared,
    cross_fitted,
    gain_from_sites,
    label_stability,
)

from shiftune.errors import DataError
from shiftune.problem import Site

SITES, GROUPS, VISITS = 3, 25, 6


def visits(rng):
    """Labels of sites with the same p(y|x), known exactly; visits of a patient are alike."""
    n = SITES * GROUPS * VISITS
    group = np.arange(n) // VISITS
    x = rng.normal(size=(SITES * GROUPS, 1))[group]
    y = x + rng.normal(size=(SITES * GROUPS, 1))[group] + rng.normal(0, 0.5, (n, 1))
    fold = np.arange(SITES * GROUPS)[group] % 5
    fits = CrossFitted(x, np.full((n, SITES), 1 / SITES), fold, group)
    return x, y, np.repeat(np.arange(SITES), GROUPS * VISITS), fits


def by_row(fits):
    return CrossFitted(fits.label, fits.site, fits.fold, np.arange(len(fits.fold)))


@pytest.mark.slow
def test_groups_do_not_make_it_find_too_much():
    # 300 tables: a level of 5 % has a Monte Carlo error of 1.3 %.
    rng, found, shifts = np.random.default_rng(0), [], []
    for _ in range(300):
        x, y, site, fits = visits(rng)
        rows, groups = compared(x, y, site, by_row(fits)), compared(x, y, site, fits)
        found.append([rows.p_together < 0.05, groups.p_together < 0.05])
        shifts.append((groups.shift[0, 0], groups.stderr[0, 0]))
    of_rows, of_groups = np.mean(found, axis=0)
    assert of_groups < 0.09
    assert of_rows > 0.3
    shift, stderr = np.array(shifts).T
    assert np.sqrt(np.mean(stderr**2)) == pytest.approx(shift.std(), rel=0.12)


def test_the_gain_has_an_error_by_group():
    x, y, site, fits = visits(np.random.default_rng(1))
    (gain, of_rows), (same, of_groups) = (
        gain_from_sites(x, y, site, each) for each in (by_row(fits), fits)
    )
    assert gain == same
    assert of_groups > 1.5 * of_rows


def test_a_group_is_in_one_fold():
    rng = np.random.default_rng(2)
    site, group = np.repeat([0, 1], 60), np.arange(120) // 4
    fits = cross_fitted(rng.normal(size=(120, 2)), rng.normal(size=(120, 1)), site, rng, group)
    assert all(len(set(fits.fold[group == g])) == 1 for g in range(30))
    counts = [np.bincount(fits.fold[site == j], minlength=5).tolist() for j in (0, 1)]
    assert counts == [[12] * 5] * 2


def test_sites_with_few_groups_are_not_tested():
    x = np.arange(40.0)[:, None]
    sites = [Site(name, x, x[:, 0], None, np.arange(40) // 5) for name in "BC"]
    with pytest.raises(DataError, match="as many groups if rows belong together, got 0"):
        label_stability(sites)
