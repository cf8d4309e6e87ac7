from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftune import ShiftProblem
from shiftune.errors import ProblemError
from shiftune.problem._site import Site
from shiftune.problem._split import PAPER_SHARES, split_sites


def problem(sizes: dict[str, int], *, classes: int = 2) -> ShiftProblem:
    rng = np.random.default_rng(0)
    sites = {name: (rng.normal(size=(n, 2)), np.arange(n) % classes) for name, n in sizes.items()}
    return ShiftProblem.from_sites(sites, rng.normal(size=(20, 2)), task="classification")


def test_the_papers_shares():
    split = problem({"B": 1000, "C": 100}).split()
    assert [len(s) for s in split.density] == [210, 21]
    assert [len(s) for s in split.train] == [490, 49]
    assert [len(s) for s in split.validation] == [300, 30]


def test_every_row_is_in_one_part_and_keeps_its_label():
    p = problem({"B": 57, "C": 31})
    split = p.split(random_state=3)
    for j, site in enumerate(p.sources):
        parts = [split.density[j], split.train[j], split.validation[j]]
        rows = np.concatenate([part.rows for part in parts])
        assert sorted(rows) == list(range(len(site)))
        for part in parts:
            np.testing.assert_array_equal(part.y, site.y[part.rows])
            np.testing.assert_array_equal(part.X, site.X[part.rows])


def test_stratified():
    sites = {
        "B": (np.zeros((200, 1)), np.repeat([0, 1], [180, 20])),
        "C": (np.zeros((9, 1)), [0, 1, 0] * 3),
    }
    split = ShiftProblem.from_sites(sites, np.zeros((5, 1))).split()
    for part, share in zip(
        (split.density, split.train, split.validation), PAPER_SHARES, strict=True
    ):
        assert abs((part[0].y == 1).sum() - 20 * share) <= 1


def test_seed_and_order_of_sites():
    sizes = {"B": 60, "C": 40, "D": 50}
    rows = {s.name: s.rows for s in problem(sizes).split(random_state=5).train}
    again = {s.name: s.rows for s in problem(sizes).split(random_state=5).train}
    other = {s.name: s.rows for s in problem(sizes).split(random_state=6).train}
    fewer = {s.name: s.rows for s in problem({"D": 50, "B": 60}).split(random_state=5).train}
    for name in sizes:
        np.testing.assert_array_equal(rows[name], again[name])
        assert not np.array_equal(rows[name], other[name])
    np.testing.assert_array_equal(rows["B"], fewer["B"])
    assert not np.array_equal(rows["B"][:20], rows["D"][:20])  # sites are not split alike


def test_a_site_of_three_rows_has_one_in_each_part():
    split = problem({"B": 3, "C": 50}).split()
    assert len(split.density[0]) == len(split.train[0]) == len(split.validation[0]) == 1


def test_a_site_of_two_rows_is_named():
    with pytest.raises(ProblemError, match=r"site 'B' has 2 row\(s\), too few"):
        problem({"B": 2, "C": 50}).split()


def test_no_density_part_for_naive():
    split = problem({"B": 100, "C": 2}).split((0, 0.7, 0.3))
    assert split.density == ()
    assert [len(s) for s in split.train] == [70, 1]


def test_a_class_of_one_row_is_taught():
    y = np.zeros(100, dtype=int)
    for row in range(100):
        labels = y.copy()
        labels[row] = 1
        sites = {"B": (np.zeros((100, 1)), labels), "C": (np.zeros((50, 1)), y[:50])}
        split = ShiftProblem.from_sites(sites, np.zeros((5, 1))).split(random_state=row)
        assert 1 in split.train[0].y
        assert len(split.train[0]) == 49


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.5, 0.6, 0.1), (-0.1, 0.6, 0.5), (np.nan, 1, 0)])
def test_bad_shares(shares):
    with pytest.raises(ProblemError, match="shares"):
        problem({"B": 30, "C": 30}).split(shares)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(3, 400),
    shares=st.tuples(*[st.integers(1, 50)] * 3),
    classes=st.integers(1, 8),
    seed=st.integers(0, 5),
)
def test_sizes_and_balance_for_any_site(n, shares, classes, seed):
    wanted = np.array(shares) / sum(shares)
    rng = np.random.default_rng(seed)
    site = Site("B", np.zeros((n, 1)), rng.integers(0, classes, n))
    split = split_sites([site], None, tuple(wanted), True, seed)
    parts = [split.density[0], split.train[0], split.validation[0]]
    sizes = np.array([len(part) for part in parts])
    assert sizes.sum() == n
    assert (sizes >= 1).all()
    assert (np.abs(sizes - wanted * n) <= 2.0).all() or n < 60
    for label in np.unique(site.y):
        count = (site.y == label).sum()
        for part, size in zip(parts, sizes, strict=True):
            assert abs((part.y == label).sum() - count * size / n) <= 2
