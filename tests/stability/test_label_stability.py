"""Shifted inputs alone trigger nothing; labels that move are found, and the site is named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from benchmarks import label_stability as module
from benchmarks.label_stability import NotTested, label_stability
from sklearn.linear_model import LogisticRegression

from shiftune import ShiftProblem
from shiftune.errors import ProblemError
from shiftune.problem import Site


def sites(rng, k=4, n=150, move=lambda site, x: 0.0, classify=False):
    """Means one standard deviation apart, a curve, noise that grows with x."""
    found = []
    for j, mean in enumerate(rng.normal(0, 1, k)):
        x = rng.normal(mean, 1, (n, 2))
        f = np.sin(2 * x[:, 0]) + x[:, 1] + move(j, x[:, 0] - mean)
        y = f + np.exp(0.3 * x[:, 0]) * rng.standard_normal(n)
        found.append(Site(f"s{j}", x, (y > 0).astype(int) if classify else y))
    return found


@pytest.mark.slow
def test_level_under_covariate_shift():
    """10 runs at 5 %: more than 3 have a probability of 0.001. benchmarks/stability.py has more."""
    found = [label_stability(sites(np.random.default_rng(run), k=3, n=80)) for run in range(10)]
    assert sum(test.p_value < 0.05 for test in found) <= 3
    assert sum(bool(test.moved()) for test in found) <= 3
    # Not a test that never rejects: p values are spread out.
    assert sum(test.p_value < 0.8 for test in found) >= 3


@pytest.mark.parametrize(
    ("move", "kind"),
    [
        (lambda site, x: 0.8 * (site == 1), "p_level"),
        (lambda site, x: 1.0 * (site == 1) * x, "p_slope"),
    ],
)
def test_one_site_moves(move, kind, rng):
    found = label_stability(sites(rng, n=300, move=move))
    assert found.p_value < 0.01
    assert found.moved()[0] == "s1"
    assert found.sites[kind].idxmin() == "s1"
    if kind == "p_level":
        assert found.sites.loc["s1", "shift"] == pytest.approx(
            0.8, abs=3 * found.sites.loc["s1", "stderr"]
        )


@pytest.mark.slow
def test_all_sites_move_a_little(rng):
    """No site alone stands out by much, but together they do."""
    levels = rng.normal(0, 0.3, 25)
    found = label_stability(sites(rng, k=25, n=60, move=lambda site, x: levels[site]))
    assert found.p_value < 0.01
    assert len(found.moved()) < 25


@pytest.mark.slow
def test_gain_is_the_share_of_the_error_that_sites_explain(rng):
    """Levels with variance 1 beside noise with variance 1: half of the squared error."""
    X = [rng.normal(0, 1, (200, 1)) for _ in range(10)]
    levels = np.repeat([-1.0, 1.0], 5)
    moved = [
        Site(str(j), x, c + rng.standard_normal(200))
        for j, (x, c) in enumerate(zip(X, levels, strict=True))
    ]
    found = label_stability(moved)
    assert found.gain == pytest.approx(0.5, abs=0.05)
    assert found.explained < 0.1


def test_classes(rng):
    found = label_stability(
        sites(rng, n=300, move=lambda site, x: 1.5 * (site == 0), classify=True)
    )
    assert found.moved()[0] == "s0"
    assert set(found.sites["class"]) == {"1"}
    assert 0 < found.sites.loc["s0", "shift"] < 0.6


@pytest.mark.slow
def test_more_than_two_classes(rng):
    found = []
    for name in "BCD":
        x = rng.normal(size=(150, 2))
        chances = rng.gumbel(size=(150, 3)) + x[:, [0]] * np.array([1, 0, -1])
        if name == "C":
            chances[:, 2] += 1.5
        found.append(
            Site(name, x, np.array(["low", "mid", "high"], dtype=object)[chances.argmax(1)])
        )
    test = label_stability(found)
    assert test.moved()[0] == "C"
    assert test.sites.loc["C", "class"] == "high"


@pytest.mark.slow
def test_mixed_columns_are_read_and_left_as_they_are(hospitals):
    problem = ShiftProblem.from_frame(hospitals, site="hospital", label="readmitted", target="A")
    before = problem.fingerprint()
    found = label_stability(problem.labelled_sites, task=problem.task)
    assert 0.05 < found.p_value <= 1
    assert problem.fingerprint() == before
    again = label_stability(problem.labelled_sites, task=problem.task)
    pd.testing.assert_frame_equal(found.sites, again.sites)


def test_sites_that_cannot_be_asked(rng):
    """One is too small, two have inputs that nobody else has."""
    far = [
        Site(s, rng.normal(m, 1, (60, 1)), rng.normal(size=60)) for s, m in [("B", 0), ("C", 40)]
    ]
    small = Site("tiny", np.zeros((5, 1)), np.zeros(5))
    found = label_stability([*far, small])
    assert found.p_value == 1
    assert found.sites["not_tested"].to_list() == [
        *[NotTested.UNLIKE_OTHERS] * 2,
        NotTested.FEW_ROWS,
    ]
    with pytest.raises(ProblemError, match="at least two sites with 10 labelled rows"):
        label_stability([far[0], small])


def test_labels_that_do_not_vary(rng):
    found = label_stability(
        [Site(s, rng.normal(size=(30, 2)), np.full(30, 0.1)) for s in "BC"], task="regression"
    )
    assert (found.p_value, found.gain) == (1, 0)


def test_columns_that_do_not_vary(rng):
    moved = [Site(s, np.ones((60, 2)), rng.normal(m, 1, 60)) for s, m in [("B", 0), ("C", 2)]]
    found = label_stability(moved)
    assert found.p_value < 0.001
    assert found.sites.loc["C", "shift"] == pytest.approx(2, abs=0.6)


def test_large_tables_are_drawn_from(rng):
    found = label_stability(sites(rng, k=2, n=3000), max_rows=400)
    assert found.sites["n"].to_list() == [3000, 3000]
    assert found.sites["comparable"].max() < 200


def test_of_many_sites_some_are_drawn(rng, monkeypatch):
    monkeypatch.setattr(module, "MOST_SITES", 3)
    sites = [Site(str(j), rng.normal(size=(30, 1)), rng.normal(size=30)) for j in range(5)]
    sites.append(Site("small", rng.normal(size=(4, 1)), rng.normal(size=4)))
    found = label_stability(sites, max_rows=60)
    assert found.compared == 3
    assert found.rows_read == 60
    assert found.sites.loc["small", "not_tested"] == NotTested.FEW_ROWS
    assert (found.sites["not_tested"] == NotTested.NOT_DRAWN).sum() == 2


def test_many_columns_cost_no_more_than_some(rng, monkeypatch):
    # Fewer bins in trees, and principal components in models of the site.
    monkeypatch.setattr(module, "MANY_COLUMNS", 3)
    seen = []
    fit = LogisticRegression.fit

    def noted(self, X, y):
        seen.append(X.shape[1])
        return fit(self, X, y)

    monkeypatch.setattr(LogisticRegression, "fit", noted)
    X = rng.normal(size=(90, 12))
    y = X[:, 0] + rng.normal(size=90)
    label_stability([Site(str(j), X[j::3], y[j::3]) for j in range(3)])
    assert max(seen) <= 2 * 3 + 1
    assert module._trees(90, 12)["max_bins"] == 255 * 3 // 12


def test_holms_correction():
    found = module._holm(np.array([0.01, 0.04, np.nan, 0.03]))
    np.testing.assert_allclose(found, [0.03, 0.06, np.nan, 0.06])
