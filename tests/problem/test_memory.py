"""Rows in memory: kept once by site, and once more end to end."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from shiftune import ShiftProblem, ShiftSearch
from shiftune.problem import pooled
from shiftune.search._settings import check_settings
from shiftune.workers import _in_worker


@pytest.fixture
def given(rng):
    X = rng.normal(size=(20_000, 12)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    return {"X": X, "y": y, "groups": np.arange(20_000) % 5, "X_target": X[:200] + 1}


def settings_of(problem, **options):
    search = ShiftSearch(LogisticRegression(), {"C": [1.0]}, **options)
    return check_settings(search.get_params(deep=False), problem)


@pytest.mark.parametrize("risk", ["adjusted", "naive"])
def test_a_study_takes_about_three_times_what_was_given(given, risk):
    ShiftProblem.from_arrays(**{name: each[:500] for name, each in given.items()})  # imports
    tracemalloc.start()
    problem = ShiftProblem.from_arrays(**given)
    whole = tracemalloc.get_traced_memory()[0]
    settings = settings_of(problem, risk=risk)
    split = settings.split(problem)
    after = tracemalloc.get_traced_memory()[0]
    context = settings.context(problem, split, None)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    size = sum(array.nbytes for array in given.values())
    assert context.data.X_train.dtype == np.float32
    assert whole < 1.1 * size
    assert after - whole < 0.1 * size  # the split is indices
    # With "adjusted" the rows are once more there as standardised numbers, in single precision.
    assert held < (3.4 if risk == "adjusted" else 2.2) * size


def test_workers_map_rows_into_memory(given, tmp_path, monkeypatch):
    problem = ShiftProblem.from_arrays(**given)
    settings = settings_of(problem)
    context = settings.context(problem, settings.split(problem), None)
    found = []
    monkeypatch.setattr(_in_worker, "MIN_MAPPED_BYTES", 10_000)
    monkeypatch.setattr("joblib.dump", lambda parts, path: found.extend(parts))
    _in_worker.write_context(str(tmp_path), context)
    rest, arrays = found
    # Rows for training and validation are the same; they are also standardised.
    assert sum(array.nbytes for array in arrays) > 1.3 * given["X"].nbytes
    assert len(rest) < 0.1 * given["X"].nbytes


def test_single_and_double_precision_meet_in_double(rng):
    X = rng.normal(size=(30, 2))
    sites = {"B": (X.astype(np.float32), X[:, 0]), "C": (X, X[:, 1])}
    problem = ShiftProblem.from_sites(sites, X)
    assert {site.X.dtype for site in (*problem.sources, problem.target)} == {np.dtype(float)}
    assert pooled(problem.sources)[0].dtype == np.float64


@pytest.mark.parametrize("frame", [False, True])
def test_parts_of_a_site_are_as_immutable_as_it_is(rng, frame):
    X = rng.normal(size=(30, 2))
    table = pd.DataFrame(X, columns=["a", "b"]) if frame else X
    site = ShiftProblem.from_sites([(table, X[:, 0]), (table, X[:, 1])], table).sources[0]
    part, before = site.take(np.array([3, 5, 8])).take(np.array([2, 0])), X[[8, 3]].copy()
    if frame:
        changed = part.X
        changed.iloc[0, 0] = 99.0
        table.iloc[8, 0] = 77.0
    else:
        X[8, 0] = 77.0
        assert not part.X.flags.writeable
    np.testing.assert_array_equal(np.asarray(part.X), before)
    np.testing.assert_array_equal(part.labels, before[:, 0])
    assert part.rows.tolist() == [8, 3]
