"""Models in files: what is trusted, and what is refused."""

from __future__ import annotations

import io
import itertools
import json
import pickle
import zipfile
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import Ridge

from shiftune import load_model
from shiftune.errors import DataWarning, ProblemError, StorageError
from shiftune.models import MODELS, ready_model, save_model


class Foreign(BaseEstimator):
    """A model of somebody else's package."""

    def fit(self, X, y):
        self.mean_ = float(np.mean(y))
        return self


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("executed",))


@pytest.mark.parametrize("name", MODELS)
def test_every_known_model_is_stored_without_code(name, tmp_path):
    """And predicts the same once it is loaded, also on gaps and categories never seen."""
    if MODELS[name].module in ("lightgbm", "xgboost"):
        pytest.importorskip(MODELS[name].module)
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=60), "b": rng.choice(["x", "y"], 60)})
    new = pd.DataFrame({"extra": 1, "b": ["z", None, "x"], "a": ["1.5", "?", None]})
    for task in MODELS[name].tasks:
        y = X["a"] if task == "regression" else np.where(X["a"] > 0, "yes", "no")
        ready = ready_model(name, task, {"a": "number", "b": "category"})
        small = {"n_estimators": 5, "max_iter": 50}
        known = ready.bare.get_params()
        fast = {ready.prefix + n: v for n, v in small.items() if n in known and name != "mlp"}
        model = ready.pipeline.set_params(**fast).fit(X, np.asarray(y))
        path = save_model(model, tmp_path / "model")
        assert path.name == "model.skops"
        loaded = load_model(path)
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        np.testing.assert_array_equal(loaded.predict(new), model.predict(new))


def test_unknown_types_are_named_and_refused(tmp_path):
    path = save_model(Foreign().fit([[0]], [3]), tmp_path / "model")
    assert path.suffix == ".skops"
    with pytest.raises(ProblemError, match=r"not trusted: .*Foreign; if you trust") as refused:
        load_model(path)
    name = str(refused.value).split("not trusted: ")[1].split(";")[0]
    assert load_model(path, trusted=[name]).mean_ == 3


def test_what_skops_cannot_store_is_pickled_with_a_warning(tmp_path):
    save_model(Ridge().fit([[0.0], [1.0]], [0, 1]), tmp_path / "model")
    with pytest.warns(DataWarning, match=r"loading model\.pickle executes code"):
        path = save_model(Ridge().set_params(alpha=lambda: 1), tmp_path / "model")
    assert [p.name for p in tmp_path.iterdir()] == ["model.pickle"]
    with pytest.raises(ProblemError, match="execute_code=True"):
        load_model(path)
    assert load_model(path, execute_code=True).alpha() == 1


def test_a_pickle_under_another_name_is_not_executed(tmp_path):
    for name in ("model.skops", "model.joblib"):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(ProblemError, match=r"not a skops file|not a stored model"):
            load_model(tmp_path / name)
    with pytest.raises(ProblemError, match="there is no file"):
        load_model(tmp_path / "nothing.skops")


def test_a_stored_model_names_a_column_that_is_not_there(tmp_path):
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "x"]})
    model = ready_model("ridge", "regression", {"a": "number", "b": "category"})
    path = save_model(model.pipeline.fit(X, [1, 2, 3]), tmp_path / "model")
    with pytest.raises(ProblemError, match=r"lack 1 column that the model reads: 'b'"):
        load_model(path).predict(X[["a"]])
    with pytest.raises(ProblemError, match="reads a DataFrame"):
        load_model(path).predict(X.to_numpy())


def crafted(schema):
    """Return the bytes of a skops file with some schema."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("schema.json", schema)
    return content.getvalue()


NODE = {"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode", "__id__": 1}
LIST = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "__id__": 1}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no zip file",
        crafted(""),
        crafted("null"),
        crafted("[]"),
        crafted("{}"),
        crafted(json.dumps(NODE)),
        crafted(json.dumps(NODE | {"protocol": 1})),
        crafted(json.dumps(NODE | {"protocol": 2, "content": None})),
        crafted(json.dumps(LIST | {"protocol": 2, "content": 3})),
        crafted(json.dumps(LIST | {"protocol": 2, "content": [[[]]]})),
        crafted(json.dumps({**LIST, "__class__": 3, "protocol": 2, "content": []})),
        crafted(json.dumps({**LIST, "__loader__": "NoNode", "protocol": 2, "content": []})),
        crafted("[" * 100_000),
    ],
    ids=itertools.count(),
)
def test_crafted_files_are_one_kind_of_error(tmp_path, content):
    path = tmp_path / "model.skops"
    path.write_bytes(content)
    with pytest.raises(StorageError, match=r"model.skops is damaged"):
        load_model(path)


def test_damaged_files_are_one_kind_of_error(tmp_path):
    """Any damage gives a model, or a StorageError."""
    path = save_model(Ridge().fit([[0], [1]], [0, 1]), tmp_path / "model")
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(len(whole), size=100):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x15]) + whole[place + 1 :])
        with suppress(StorageError):
            load_model(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StorageError):
        load_model(path)


def test_a_file_that_grows_when_it_is_unpacked(tmp_path):
    path = tmp_path / "model.skops"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", bytes(10_000_000))
    with pytest.raises(StorageError, match=r"would take 10,000,000 bytes when unpacked"):
        load_model(path)


def test_a_damaged_pickle(tmp_path):
    path = tmp_path / "model.pickle"
    path.write_bytes(b"damaged")
    with pytest.raises(StorageError, match="is damaged"):
        load_model(path, execute_code=True)
