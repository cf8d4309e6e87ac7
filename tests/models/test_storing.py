"""Models in files: what is trusted, and what is refused."""

from __future__ import annotations

import io
import itertools
import json
import pickle
import re
import zipfile
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.ensemble import (
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import Ridge
from sklearn.svm import SVC, SVR

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
    for package in ("lightgbm", "xgboost"):
        if name.startswith(package):
            pytest.importorskip(package)
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


def rewritten(path, change):
    """Change the entries of a stored model, with the right checksums."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def arrays_changed(field, change):
    """Return a change of the structured arrays with some field."""

    def changed(entries):
        for name in [name for name in entries if name.endswith(".npy")]:
            array = np.load(io.BytesIO(entries[name]))
            if field in (array.dtype.names or ()):
                change(array)
                out = io.BytesIO()
                np.save(out, array)
                entries[name] = out.getvalue()

    return changed


def far(nodes):
    nodes["left_child"][0] = nodes["right_child"][0] = 2**40


def endless(nodes):
    nodes["left_child"][1:] = nodes["right_child"][1:] = 0


def beyond(nodes):
    nodes["feature"][0] = 2**20


@pytest.mark.parametrize("change", [far, endless, beyond])
@pytest.mark.parametrize("model", [RandomForestClassifier, GradientBoostingRegressor])
def test_trees_that_lead_nowhere(tmp_path, model, change):
    """Their prediction would end the process, or never end."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    path = save_model(model(n_estimators=2).fit(X, X[:, 0] > 0), tmp_path / "model")
    rewritten(path, arrays_changed("left_child", change))
    with pytest.raises(StorageError, match=r"model.skops is damaged.*a tree"):
        load_model(path)


def test_trees_of_a_forest_of_other_columns(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 5))
    model = RandomForestRegressor(n_estimators=2).fit(X[:, :2], X[:, 0])
    model.estimators_ = RandomForestRegressor(n_estimators=2).fit(X, X[:, 4]).estimators_
    with pytest.warns(DataWarning, match="a tree is of other columns"):
        save_model(model, tmp_path / "model")


@pytest.mark.parametrize("model", [SVC(kernel="precomputed"), SVR(kernel="precomputed")])
def test_support_vectors_of_a_precomputed_kernel(tmp_path, model, rng):
    X = rng.normal(size=(40, 3))
    model.fit(X @ X.T, X[:, 0] > 0)
    loaded = load_model(save_model(model, tmp_path / "svm"))
    np.testing.assert_array_equal(loaded.predict(X @ X.T), model.predict(X @ X.T))


@pytest.mark.parametrize("name", ["n_jobs", "num_threads"])
def test_more_threads_than_any_machine_has(tmp_path, name):
    """LightGBM would end the process."""
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMRegressor(n_jobs=1, verbosity=-1).fit(np.eye(50), np.arange(50))
    with pytest.warns(DataWarning, match=f"{name}=99999"):
        save_model(model.set_params(**{name: 99999}), tmp_path / "model")


def lightgbm_text(tmp_path, change):
    """Store a model of LightGBM whose text was changed."""
    lightgbm = pytest.importorskip("lightgbm")
    X = np.random.default_rng(0).normal(size=(60, 2))
    options = {"n_estimators": 2, "num_leaves": 5, "min_child_samples": 5, "verbosity": -1}
    model = lightgbm.LGBMRegressor(**options, n_jobs=1).fit(X, X[:, 0])
    path = save_model(model, tmp_path / "model")

    def changed(entries):
        text = json.dumps(json.dumps(model.booster_.model_to_string()))[1:-1]
        schema = entries["schema.json"].decode()
        assert text in schema
        new = json.dumps(json.dumps(change(model.booster_.model_to_string())))[1:-1]
        entries["schema.json"] = schema.replace(text, new).encode()

    rewritten(path, changed)
    return path


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("left_child=.*", "left_child=99999 0 0 0"),
        ("right_child=.*", "right_child=0 0 0 0"),
        ("split_feature=.*", "split_feature=7 0 0 0"),
        ("num_leaves=.*", "num_leaves=6"),
        ("leaf_value=.*", "leaf_value=1 2 3"),
        ("threshold=.*", "threshold=0 0 0 x"),
        ("num_cat=0", "num_cat=1"),
        ("decision_type=.*", "decision_type=1 1 1 1"),
        ("tree_sizes=.*", "tree_sizes=600 10"),
        ("num_class=1", "num_class=3"),
        ("num_tree_per_iteration=1", "num_tree_per_iteration=0"),
        ("max_feature_idx=1", "max_feature_idx=0"),
        ("num_leaves=", "left_child=1 2 3 4\\nnum_leaves="),
    ],
)
def test_text_that_lightgbm_could_not_read(tmp_path, line, other):
    """It would end the process."""

    def change(text):
        new, count = re.subn(f"(?m)^{line}", other, text, count=1)
        assert count == 1
        if "tree_sizes" in line:
            return new
        trees = re.split(r"(?=Tree=\d)", new.partition("end of trees")[0])[1:]
        return re.sub("tree_sizes=.*", f"tree_sizes={' '.join(str(len(t)) for t in trees)}", new)

    path = lightgbm_text(tmp_path, change)
    with pytest.raises(StorageError, match=r"model.skops is damaged"):
        load_model(path)


def test_a_trusted_type_is_built_from_its_state_and_never_called(tmp_path):
    """LightGBM's would read a file of another name."""
    node = {
        "__class__": "Booster",
        "__module__": "lightgbm.basic",
        "__loader__": "ConstructorFromReduceNode",
        "content": {**LIST, "content": []},
        "protocol": 2,
    }
    path = tmp_path / "model.skops"
    path.write_bytes(crafted(json.dumps(node)))
    with pytest.raises(StorageError, match=r"lightgbm.basic.Booster is called"):
        load_model(path)


def test_the_text_that_was_checked_is_the_one_that_is_read(tmp_path):
    """skops builds one of the nodes that have the same number, which may be another."""

    def changed(entries):
        schema = json.loads(entries["schema.json"])
        state = schema["content"]["content"]["_Booster"]["content"]
        other = json.loads(json.dumps(state))
        other["content"]["_handle"]["content"] = '"tree"'
        other["content"]["_handle"]["__id__"] = 5
        schema["content"]["content"] = {"first": other, **schema["content"]["content"]}
        entries["schema.json"] = json.dumps(schema).encode()

    path = lightgbm_text(tmp_path, lambda text: text)
    load_model(path)
    rewritten(path, changed)
    with pytest.raises(StorageError, match="two texts"):
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


def test_a_sparse_matrix_with_columns_that_do_not_exist(tmp_path):
    model = Ridge().fit([[0], [1]], [0, 1])
    model.table_ = sparse.csr_array(np.eye(3))
    model.table_.indices[0] = 99
    with pytest.warns(DataWarning, match="skops cannot store"):
        save_model(model, tmp_path / "model")


def test_the_ending_may_be_given(tmp_path):
    path = save_model(Ridge().fit([[0.0], [1.0]], [0.0, 1.0]), tmp_path / "to.deploy.skops")
    assert path == tmp_path / "to.deploy.skops"
    assert load_model(path).predict([[1.0]]).shape == (1,)
