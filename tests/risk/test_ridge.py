"""Ridge regression in chunks, and by its dual form."""

from __future__ import annotations

import numpy as np
import pytest

from shiftune.risk._ridge import RidgeSystem, directions
from shiftune.rows import _moments
from shiftune.rows._moments import MomentRows


def as_they_are(Z):
    """Return rows without squares and products, neither centred nor scaled."""
    return MomentRows.unscaled(Z, np.empty((len(Z), 0), dtype=bool))


ALPHA = 3.0


def centred(n, p, seed=0):
    Z = np.random.default_rng(seed).normal(size=(n, p))
    return Z - Z.mean(axis=0)


@pytest.mark.parametrize(("n", "p"), [(40, 6), (12, 30)])  # the second by its dual form
def test_it_is_the_textbook_formula(n, p):
    Z, rng = centred(n, p), np.random.default_rng(1)
    ridge = RidgeSystem.of(as_they_are(Z), ALPHA)
    assert ridge.dual == (p > n)
    assert ridge.inverse.shape == (min(n, p), min(n, p))
    S = np.linalg.inv(Z.T @ Z + ALPHA * np.eye(p))
    r, v = rng.normal(size=n), rng.normal(size=(p, 3))
    np.testing.assert_allclose(ridge.slope(r), S @ Z.T @ r, rtol=1e-9)
    np.testing.assert_allclose(ridge.solve(v), S @ v, rtol=1e-9)
    other = np.linalg.inv(Z.T @ Z + 0.5 * np.eye(p))
    np.testing.assert_allclose(ridge.with_penalty(0.5).solve(v), other @ v, rtol=1e-9)


@pytest.mark.parametrize(("n", "own", "p"), [(40, 9, 6), (12, 5, 30), (12, 60, 30)])
def test_directions_add_up_to_the_variance(n, own, p):
    Z, target = centred(n, p), np.random.default_rng(2).normal(size=(own, p))
    ridge = RidgeSystem.of(as_they_are(Z), ALPHA)
    found = directions(as_they_are(target), target.mean(axis=0), ridge, 0.1, 1000)
    expected = np.cov(target.T, bias=True) / own + 0.1 * Z.T @ Z
    np.testing.assert_allclose(found.T @ found, expected, atol=1e-9)
    largest = directions(as_they_are(target), target.mean(axis=0), ridge, 0.1, 3)
    assert largest.shape == (3, p)
    np.testing.assert_allclose(
        np.sort((largest**2).sum(axis=1)), np.linalg.eigvalsh(expected)[-3:], rtol=1e-9
    )


def test_rows_are_read_in_chunks(monkeypatch):
    Z = centred(50, 4)
    whole = RidgeSystem.of(as_they_are(Z), ALPHA)
    monkeypatch.setattr(_moments, "NUMBERS_AT_ONCE", 28)
    rows = as_they_are(Z)
    assert [len(chunk) for _, chunk in rows.chunks()] == [7] * 7 + [1]
    chunked = RidgeSystem.of(rows, ALPHA)
    np.testing.assert_allclose(chunked.inverse, whole.inverse, rtol=1e-12)
