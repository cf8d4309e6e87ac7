"""Values, squares and products: never all in memory, whatever the number of rows."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from shiftune.rows import _moments
from shiftune.rows._moments import Moments, linearised


@pytest.fixture
def mixed(rng) -> list[pd.DataFrame]:
    def table(n):
        x = rng.normal(size=n)
        return pd.DataFrame(
            {
                "x": np.where(rng.random(n) < 0.1, np.nan, x),
                "z": x**3,
                "c": rng.choice(list("ab"), n),
            }
        )

    return [table(n) for n in (40, 30, 50)]


def test_products_with_vectors_need_no_products_of_columns(mixed):
    plain = Moments().fit(np.eye(3), [np.random.default_rng(0).normal(size=(80, 3))])
    assert plain.sources.dense().shape == (80, 9)  # 3 values, 3 squares, 3 products
    rows = Moments().fit(mixed[0], mixed[1:]).sources
    Z, rng = rows.dense(), np.random.default_rng(0)
    v, r = rng.normal(size=rows.width), rng.normal(size=len(rows))
    np.testing.assert_allclose(rows.times(v), Z @ v, rtol=1e-10)
    np.testing.assert_allclose(rows.sums(r), Z.T @ r, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(Z.std(axis=0), 1)


def test_many_columns_have_squares_but_no_products(rng):
    X = rng.normal(size=(60, _moments.MOST_MULTIPLIED + 1))
    rows = Moments().fit(X, [X + 0.1]).sources
    assert rows.width == 2 * X.shape[1]
    Z, v = rows.dense(), rng.normal(size=rows.width)
    np.testing.assert_allclose(rows.times(v), Z @ v, rtol=1e-10)
    np.testing.assert_allclose(rows.sums(Z[:, 0]), Z.T @ Z[:, 0], rtol=1e-10, atol=1e-10)


def test_chunks_do_not_change_the_numbers(mixed, monkeypatch):
    whole = Moments().fit(mixed[0], mixed[1:])
    monkeypatch.setattr(_moments, "NUMBERS_AT_ONCE", 60)
    chunked = Moments().fit(mixed[0], mixed[1:])
    assert len(list(chunked.sources.chunks())) > 5
    for one, other in ((whole.target, chunked.target), (whole.sources, chunked.sources)):
        np.testing.assert_allclose(one.dense(), other.dense(), rtol=1e-12, atol=1e-14)
    assert whole.beyond == chunked.beyond


def test_single_precision_stays_single(rng):
    X = rng.normal(size=(3000, 12)).astype(np.float32)
    tracemalloc.start()
    rows = Moments().fit(X[:100], [X]).sources
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert rows.numbers.dtype == np.float32
    # All numbers would take 15 times as much as the rows.
    assert held < 1.5 * X.nbytes
    assert len(pickle.dumps(rows)) < 1.1 * X.nbytes
    precise = Moments().fit(X[:100].astype(float), [X.astype(float)]).sources
    np.testing.assert_allclose(rows.dense(), precise.dense(), atol=1e-5)


def test_weighted_rows_become_rows_that_count_once(mixed, rng):
    rows = Moments().fit(mixed[0], mixed[1:]).sources
    weights = [rng.exponential(1, len(table)) for table in mixed[1:]]
    found, parts = replace(rows, weights=weights), np.split(rows.dense(), [len(mixed[1])])
    expected = np.concatenate([linearised(*each) for each in zip(parts, weights, strict=True)])
    v, r = rng.normal(size=rows.width), rng.normal(size=len(rows))
    np.testing.assert_allclose(found.dense(), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.times(v), expected @ v, rtol=1e-10)
    np.testing.assert_allclose(found.sums(r), expected.T @ r, rtol=1e-10, atol=1e-12)
    less = found.less(v)
    np.testing.assert_allclose(less.dense(), expected - v, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(less.times(v), (expected - v) @ v, rtol=1e-10)
    np.testing.assert_allclose(less.sums(r), (expected - v).T @ r, rtol=1e-10, atol=1e-12)


def test_a_category_that_only_the_target_has():
    """No source has a scale for it, and nothing is divided by 0."""
    target = pd.DataFrame({"x": ["new"] * 3, "z": ["a", "b", "a"]})
    sources = [pd.DataFrame({"x": ["old"] * 4, "z": list("abab")}) for _ in range(2)]
    assert Moments().fit(target, sources).beyond == 1


def test_weights_count_rows():
    assert linearised(np.array([1.0, 4.0]), np.array([2.0, 1.0])).mean() == 2  # of 1, 1, 4
