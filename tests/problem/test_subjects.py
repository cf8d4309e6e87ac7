"""Rows that belong together: read, kept in one part of the split, part of the fingerprint."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftune import ShiftProblem
from shiftune.errors import DataError, DataWarning, SettingsError


def visits(sizes: dict[str, list[int]], *, classes: int = 2, prefix: bool = True) -> pd.DataFrame:
    """Patients of every site, with so many visits each, and a target A of five rows."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "ward": site,
            "patient": f"{site * prefix}{number}",
            "x": rng.normal(),
            "ill": (number + i) % classes,
        }
        for site, own in sizes.items()
        for number, count in enumerate(own)
        for i in range(count)
    ]
    target = [{"ward": "A", "patient": None, "x": rng.normal(), "ill": None} for _ in range(5)]
    return pd.DataFrame(rows + target)


def problem(df: pd.DataFrame, **options) -> ShiftProblem:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return ShiftProblem.from_frame(
            df, site="ward", label="ill", target="A", **{"subject": "patient", **options}
        )


def groups_by_part(split):
    """The groups of every part: {part: {group: sites}}."""
    parts = {"density": split.density, "train": split.train, "validation": split.validation}
    return {
        name: {int(g) for site in sites for g in np.unique(site.groups)}
        for name, sites in parts.items()
    }


sizes_of_sites = st.lists(
    st.lists(st.integers(1, 12), min_size=3, max_size=25), min_size=1, max_size=3
)


@settings(max_examples=40, deadline=None)
@given(sizes_of_sites, st.booleans(), st.booleans(), st.integers(0, 3))
def test_a_group_is_in_one_part_at_all_sites(sizes, prefix, classes, seed):
    names = dict(zip("BCD", sizes, strict=False))
    task = "classification" if classes else "regression"
    p = problem(visits(names, prefix=prefix), task=task)
    try:
        split = p.split(random_state=seed)
    except DataError:
        assert not prefix  # ids that every site has can leave a small one without a part
        return
    if p.sources[0].groups is None:  # all patients have one visit
        return
    density, train, validation = groups_by_part(split).values()
    assert not (density & train)
    assert not (density & validation)
    assert not (train & validation)
    for j, site in enumerate(p.sources):
        parts = [split.density[j], split.train[j], split.validation[j]]
        rows = np.concatenate([part.rows for part in parts])
        assert sorted(rows) == sorted(site.rows)
        largest = np.unique(site.groups, return_counts=True)[1].max()
        if prefix and not classes:
            for part, share in zip(parts, (0.21, 0.49, 0.3), strict=True):
                assert abs(len(part) - share * len(site)) <= largest


def test_sizes_are_close_for_groups_of_very_different_sizes():
    rng = np.random.default_rng(0)
    counts = (1 + rng.pareto(1.2, 200)).astype(int).clip(max=150).tolist()
    p = problem(visits({"B": counts, "C": [10] * 50}))
    split = p.split()
    for parts, share in ((split.density, 0.21), (split.train, 0.49), (split.validation, 0.3)):
        for part, site in zip(parts, p.sources, strict=True):
            assert len(part) / len(site) == pytest.approx(share, abs=0.02)
            assert part.labels.mean() == pytest.approx(site.labels.mean(), abs=0.05)


def test_other_sites_and_their_order_do_not_matter_unless_they_share_groups():
    df = visits({"B": [3, 1, 4, 1, 5, 9, 2], "C": [2, 7, 1, 8, 2]})
    for other in (df[df["ward"] != "C"], df.iloc[::-1]):
        one, two = (
            {
                part.name: sorted(each[["x"]].to_numpy().ravel())
                for part in p.split().validation
                for each in [part.X]
            }
            for p in (problem(df), problem(other))
        )
        assert one["B"] == two["B"]


def test_every_class_is_trained():
    df = visits({"B": [3] * 12, "C": [3] * 12}, classes=1)
    df.loc[[0, 40], "ill"] = [1, 2]
    for seed in range(10):
        trained = [site.labels for site in problem(df).split(random_state=seed).train]
        assert set(np.concatenate(trained)) == {0, 1, 2}


def test_a_group_of_a_source_and_of_the_labelled_target_is_in_one_part():
    df = visits({"B": [4] * 10, "C": [4] * 10})
    inside = df["ward"] == "A"
    df.loc[inside, "patient"] = [f"B{number}" for number in range(inside.sum())]
    df.loc[inside, "ill"] = [number % 2 for number in range(inside.sum())]
    for seed in range(10):
        parts = groups_by_part(problem(df, target_labels="use").split(random_state=seed))
        assert parts["train"] & parts["validation"] == set()


def test_too_few_groups():
    p = problem(visits({"B": [5, 5], "C": [3] * 9}))
    with pytest.raises(DataError, match="site 'B' has fewer than 3 subjects, too few to be split"):
        p.split()
    few = problem(visits({"B": [5], "C": [3] * 9, "D": [5]}))
    with pytest.raises(DataError, match="sites 'B' and 'D' have fewer than 2 subjects"):
        few.split((0, 0.7, 0.3))
    assert len(p.split((0, 0.7, 0.3)).train) == 2


def test_missing_ids():
    df = visits({"B": [4] * 9, "C": [4] * 9})
    df.loc[:2, "patient"] = None
    p = problem(df)
    assert "3 labelled rows without a subject id: each is a subject of its own" in p.notes
    assert len(np.unique(p.sources[0].groups)) == 9 + 3
    with pytest.raises(DataError, match="the subject ids, 'patient', are empty in all rows"):
        problem(df.assign(patient=None))


def test_notes():
    p = problem(visits({"B": [4] * 9, "C": [4] * 12}, prefix=False))
    assert "the 84 rows of the sources form 12 subjects, which are never divided" in p.notes
    assert any(note.startswith("9 subjects at several sources") for note in p.notes)
    assert any(note.startswith("fewer than 10 subjects at 'B'") for note in p.notes)
    df = visits({"B": [4] * 12})
    df.loc[df.index[-1], "patient"] = "B3"
    assert any("1 subject of the target 'A' also at sources" in note for note in problem(df).notes)


def test_groups_of_one_row_change_nothing():
    df = visits({"B": [1] * 30, "C": [1] * 30})
    one, two = problem(df), problem(df.drop(columns="patient"), subject=None)
    assert one.sources[0].groups is None
    assert one.fingerprint() == two.fingerprint()
    assert any("a subject of its own" in note for note in one.notes)


def test_the_group_is_no_feature_and_part_of_the_fingerprint():
    df = visits({"B": [3] * 9, "C": [3] * 9})
    p = problem(df)
    assert list(p.columns) == ["x"]
    other = df.assign(patient=df["patient"].replace("B1", "B0"))
    assert p.fingerprint() != problem(other).fingerprint()
    assert p.fingerprint() != problem(df.drop(columns="patient"), subject=None).fingerprint()
    assert p.fingerprint() == problem(df.copy()).fingerprint()
    with pytest.raises(SettingsError, match="site and subject are both 'ward'"):
        problem(df, subject="ward")
    with pytest.raises(DataError, match="patient"):
        problem(df, subject="patiant")


def test_arrays():
    X, y, site = np.arange(24.0)[:, None], np.arange(24.0), np.repeat(["B", "C"], 12)
    ids = np.arange(24) // 3
    p = ShiftProblem.from_arrays(X, y, site, X, subject=ids)
    assert [own.groups.tolist() for own in p.sources] == [ids[:12].tolist(), ids[12:].tolist()]
    with pytest.raises(SettingsError, match=r"24 rows, and subject has the shape \(3,\)"):
        ShiftProblem.from_arrays(X, y, site, X, subject=[1, 2, 3])
