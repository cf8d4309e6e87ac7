"""Trials that tune the model alone share prepared rows, and nothing else changes."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from shiftune import ShiftSearch
from shiftune.evaluate import _fits
from shiftune.evaluate._fits import PreparedRows, tunes_last_step
from shiftune.search import _trial

ALPHA = {"ridge__alpha": FloatDistribution(0.01, 100, log=True)}
FITS = 4  # with four sources


class Counting(StandardScaler):
    """A scaler that counts how often it was fitted."""

    fits = 0

    def fit(self, X, y=None, sample_weight=None):
        Counting.fits += 1
        return super().fit(X, y, sample_weight)


class Overwriting(Ridge):
    """A model that uses its input as scratch paper."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        X[:] = 0
        return self


@pytest.fixture
def sites(rng):
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    site = np.repeat(list("BCDE"), 50)
    return X, X["a"] + (site == "C") + rng.normal(size=200), site


def searched(sites, model, space=ALPHA, **options):
    X, y, site = sites
    options = {"n_trials": 6, "final": "best", "progress": False, **options}
    search = ShiftSearch(model, space, **options)
    return search.fit(X, y, groups=site, X_target=X[:40])


def of(*steps):
    return Pipeline([(type(step).__name__.lower(), step) for step in steps])


def unshared(monkeypatch):
    monkeypatch.setattr(_trial, "tunes_last_step", lambda model, params: False)


@pytest.mark.parametrize(
    ("risk", "weights"),
    [("adjusted", None), ("naive", None), ("variance_reduced", "importance")],
)
def test_same_digits(sites, risk, weights, monkeypatch):
    model = of(StandardScaler(), Ridge())
    shared = searched(sites, model, risk=risk, training_weights=weights)
    unshared(monkeypatch)
    alone = searched(sites, model, risk=risk, training_weights=weights)
    pd.testing.assert_frame_equal(
        shared.trials_.drop(columns="seconds"), alone.trials_.drop(columns="seconds"), rtol=0
    )


def test_fitted_once_per_set_of_training_rows(sites):
    Counting.fits = 0
    searched(sites, Pipeline([("scale", Counting()), ("ridge", Ridge())]))
    assert Counting.fits == FITS + 1  # and in the final model


def test_models_that_overwrite_their_input(sites, monkeypatch):
    model = Pipeline([("scale", StandardScaler()), ("ridge", Overwriting())])
    shared = searched(sites, model)
    unshared(monkeypatch)
    alone = searched(sites, model)
    assert shared.trials_["risk"].tolist() == alone.trials_["risk"].tolist()


def test_tuned_transformers_prepare_by_themselves(sites):
    space = {"scale__with_mean": CategoricalDistribution([True, False]), **ALPHA}
    Counting.fits = 0
    search = searched(sites, Pipeline([("scale", Counting()), ("ridge", Ridge())]), space)
    assert (search.trials_["state"] == "COMPLETE").all()
    assert Counting.fits == 6 * FITS + 1


def test_what_does_not_fit_is_prepared_again(sites, monkeypatch):
    monkeypatch.setattr(_fits, "MOST_BYTES", 8 * 200 * 3)  # one fit: 150 rows and 50
    Counting.fits = 0
    searched(sites, Pipeline([("scale", Counting()), ("ridge", Ridge())]))
    assert Counting.fits == 1 + 6 * (FITS - 1) + 1


def test_workers_share_the_memory(monkeypatch):
    rows = (np.zeros((100, 3)),)
    monkeypatch.setattr(_fits, "MOST_BYTES", 2 * rows[0].nbytes)

    def prepared(sharers):
        calls = []
        kept = pickle.loads(pickle.dumps(PreparedRows(sharers)))  # as a worker receives it
        for _ in range(5):
            kept.get("key", lambda: calls.append("call") or rows)
        return len(calls)

    assert [prepared(sharers) for sharers in (1, 2, 3)] == [1, 1, 5]


@pytest.mark.parametrize(("n_jobs", "sharers"), [(1, 1), (3, 3)])
def test_a_search_divides_the_memory_by_its_workers(sites, monkeypatch, n_jobs, sharers):
    def stop(task, context, **options):
        raise InterruptedError(f"{context.prepared._sharers} sharers")

    monkeypatch.setattr("shiftune.search._loop.Workers", stop)
    with pytest.raises(InterruptedError, match=f"{sharers} sharers"):
        searched(sites, of(StandardScaler(), Ridge()), n_jobs=n_jobs)


def test_which_parameters_leave_the_transformers_alone():
    model = of(StandardScaler(), Ridge())
    assert tunes_last_step(model, {"ridge__alpha": 1.0})
    assert not tunes_last_step(model, {"ridge": Ridge()})  # a step as a whole
    assert not tunes_last_step(Ridge(), {"alpha": 1.0})


def test_kinds_of_rows():
    frame = pd.DataFrame({"x": [1.0, 2.0], "c": ["u", "v"]})
    rows = (np.asfortranarray(np.eye(3)), sparse.csr_array(np.eye(2)), frame)
    kept = PreparedRows()
    kept.get("key", lambda: rows)
    again = kept.get("key", lambda: pytest.fail("prepared again"))
    assert again[0].flags.f_contiguous
    np.testing.assert_array_equal(again[0], rows[0])
    np.testing.assert_array_equal(again[1].toarray(), np.eye(2))
    pd.testing.assert_frame_equal(again[2], frame)
    assert pickle.loads(pickle.dumps(kept)).get("key", lambda: (np.zeros(1),))[0].shape == (1,)


@pytest.mark.parametrize("kind", [np.ndarray.tolist, pd.Series])
def test_rows_of_other_kinds_are_prepared_in_every_fit(sites, kind):
    def first_column(X):
        return kind(X["a"].to_numpy())

    model = Pipeline([("first", FunctionTransformer(first_column)), ("ridge", OfOneColumn())])
    search = searched(sites, model)
    assert (search.trials_["state"] == "COMPLETE").all()


class OfOneColumn(Ridge):
    """A model whose rows are numbers."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(np.reshape(X, (-1, 1)), y, sample_weight)

    def predict(self, X):
        return super().predict(np.reshape(X, (-1, 1)))


def test_sparse_rows(sites, monkeypatch):
    X, y, site = sites
    coarse = X.round().astype(str)
    model = of(OneHotEncoder(handle_unknown="ignore"), Ridge())
    shared = searched((coarse, y, site), model)
    unshared(monkeypatch)
    assert (
        shared.trials_["risk"].tolist()
        == searched((coarse, y, site), model).trials_["risk"].tolist()
    )
