"""Intervals that hold at a new site, with known truth."""

from __future__ import annotations

import numpy as np
import pytest

from shiftune.errors import ProblemError
from shiftune.predictor._conformal import SiteScores, class_sets, row_scores


def coverage(k, level, rng, *, rows=8, new=400, between=1.0, repeats=800):
    """Share of new rows, at as many new sites, whose score lies below the quantile."""
    found = np.empty(repeats)
    for r in range(repeats):
        sizes = rng.integers(1, 2 * rows, k)
        scores = [np.abs(rng.normal(rng.normal(0, between), 1, n)) for n in sizes]
        q = SiteScores.of(scores).quantile(level)
        found[r] = np.mean(np.abs(rng.normal(rng.normal(0, between), 1, new)) <= q)
    return found.mean(), found.std(ddof=1) / np.sqrt(repeats)


@pytest.mark.parametrize(("k", "level"), [(9, 0.9), (20, 0.8), (3, 0.5)])
@pytest.mark.parametrize("between", [0.0, 3.0])
def test_coverage_at_a_new_site(k, level, between):
    """At least the level, and not much more than the mass at infinity allows."""
    share, error = coverage(k, level, np.random.default_rng(k), between=between)
    assert error < 0.015
    assert share > level - 3 * error
    assert share < level + 2 / (k + 1) + 3 * error


def test_rows_are_not_sites():
    """Pooled, as if each row were a site, rows of four sites that differ cover 60 %, not 70 %."""
    rng = np.random.default_rng(0)
    centres = np.abs(rng.normal(size=(4000, 5)))  # rows of a site are alike
    pooled = np.quantile(np.repeat(centres[:, :4], 50, axis=1), 0.7, axis=1)
    assert np.mean(centres[:, 4] <= pooled) < 0.65
    own = [SiteScores.of([np.repeat(c, 50) for c in each[:4]]).quantile(0.7) for each in centres]
    assert np.mean(centres[:, 4] <= own) == pytest.approx(0.8, abs=3 * np.sqrt(0.16 / 4000))


@pytest.mark.parametrize(("k", "level", "needed"), [(8, 0.9, 9), (5, 0.95, 19), (1, 0.6, 2)])
def test_too_few_sites(k, level, needed):
    scores = SiteScores.of([np.arange(10.0)] * k)
    with pytest.raises(ProblemError, match=f"at least {needed} sites with labels, and there are"):
        scores.quantile(level)
    assert np.isfinite(scores.quantile(scores.highest_level))


def test_a_site_counts_once():
    one, other = np.array([1.0]), np.array([2.0])
    few = SiteScores.of([one, other, other]).quantile(0.25)
    many = SiteScores.of([np.repeat(one, 99), np.repeat(other, 3), other]).quantile(0.25)
    assert few == many == 1.0


def test_what_is_kept_of_many_scores_is_never_shorter():
    rng = np.random.default_rng(1)
    scores = [np.abs(rng.normal(size=n)) for n in rng.integers(201, 3000, 30)]
    for level in (0.3, 0.8, 0.9):
        kept, all_of_them = SiteScores.of(scores), SiteScores(list(map(np.sort, scores)))
        assert kept.quantile(level) >= all_of_them.quantile(level)
        assert kept.quantile(level) == pytest.approx(all_of_them.quantile(level), rel=0.02)


@pytest.mark.parametrize(("q", "second"), [(0.4, [False] * 3), (0.6, [False, True, True])])
def test_sets_of_classes_have_the_likeliest(q, second):
    sets = class_sets(np.array([[0.9, 0.1], [0.55, 0.45], [0.5, 0.5]]), q)
    assert sets[:, 0].all()
    assert sets[:, 1].tolist() == second


def test_scores():
    values = row_scores(np.array([1.0, 5.0]), np.array([2.0, 2.0]), None)
    assert values.tolist() == [1.0, 3.0]
    of_classes = row_scores(np.array(["b"]), np.array([[0.2, 0.8]]), np.array(["a", "b"]))
    assert of_classes == pytest.approx([0.2])
    with pytest.raises(ProblemError, match="because"):
        SiteScores([], "because").quantile(0.5)
    with pytest.raises(ProblemError, match="between 0 and 1"):
        SiteScores.of([values]).quantile(90)
