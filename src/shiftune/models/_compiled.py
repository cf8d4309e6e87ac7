"""Checks of model files: indices that compiled code follows without a check of its own.

Trees, neighbours, support vectors and encoders hold indices of arrays. One that is beyond its array
ends the process or reads other memory, and one that points back never ends. Files of XGBoost, and
estimators of scikit-learn that are not in `CHECKS`, are not checked.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Collection, Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import sparray, spmatrix
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    _forest,
    _gb,
)
from sklearn.neighbors import BallTree, KDTree, KNeighborsClassifier
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC, SVR
from sklearn.tree import BaseDecisionTree
from sklearn.tree._tree import Tree

BOOSTER = "lightgbm.basic.Booster"
# Where its state has the text: of 4.0 and later, and before.
HANDLES = ("_handle", "handle")
# Names of the number of threads, and the most; of too many LightGBM ends the process.
THREADS = {"n_jobs", "num_thread", "num_threads", "nthread", "nthreads"}
MOST_THREADS = 1_024


def check_schema(schema: Any, trusted: Collection[str]) -> None:
    """Check what skops is going to build before it does; raise a ValueError.

    Trusted types are built from their state, never called. LightGBM parses the text of its models
    as soon as they are built, and a wrong one ends the process.
    """
    nodes = list(_nodes(schema))
    checked = []
    for node in nodes:
        loader, name = node["__loader__"], f"{node['__module__']}.{node['__class__']}"
        if name in trusted:
            _require(loader != "ConstructorFromReduceNode", f"{name} is called")
        if name == BOOSTER:
            _require(loader == "ObjectNode", f"{name} is called")
            state = node["content"]
            texts = [state["content"][key] for key in HANDLES if key in state["content"]]
            _require(texts, "LightGBM's model has no text")
            for text in texts:
                check_lightgbm(json.loads(text["content"]))
            checked += [state, *texts]
    # Of nodes with the same number skops builds one.
    numbers = {node["__id__"] for node in checked}
    same = [node for node in nodes if node.get("__id__") in numbers]
    _require(set(map(id, same)) == set(map(id, checked)), "LightGBM's model has two texts")


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    left = [schema]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            if "__loader__" in part:
                yield part
            left += part.values()
        elif isinstance(part, list):
            left += part


def check_model(model: Any) -> None:
    """Raise a ValueError if compiled code could not follow a loaded model."""
    for part in _parts(model):
        settings = part if isinstance(part, dict) else getattr(part, "__dict__", {})
        for name in THREADS & settings.keys():
            n = settings[name]
            _require(not isinstance(n, int) or n <= MOST_THREADS, f"{name}={n} threads")
        for kinds, needed, check in CHECKS:
            if isinstance(part, kinds) and hasattr(part, needed):
                check(part)


def _parts(model: Any) -> Iterator[Any]:
    """Yield every object that a model is made of, once."""
    seen: dict[int, Any] = {}
    left = [model]
    while left:
        part = left.pop()
        if id(part) in seen or isinstance(part, type | ModuleType | FunctionType):
            continue
        seen[id(part)] = part
        yield part
        is_objects = isinstance(part, np.ndarray) and part.dtype.hasobject
        left += part.ravel().tolist() if is_objects else gc.get_referents(part)


def _require(valid: Any, otherwise: str) -> None:
    if not valid:
        raise ValueError(otherwise)


def _within(indices: Any, low: Any, high: Any) -> bool:
    """Whether low <= index < high."""
    indices = np.asarray(indices)
    return bool(np.all((indices >= low) & (indices < high)))


def _check_nodes(
    left: NDArray[Any],
    right: NDArray[Any],
    is_leaf: NDArray[Any],
    features: NDArray[Any],
    n_features: int,
) -> None:
    """Check a tree whose nodes are before their children: from its root, all paths end."""
    inner = np.flatnonzero(~is_leaf)
    for children in (left, right):
        child = np.asarray(children, dtype=np.int64)[inner]
        _require(len(is_leaf) and _within(child, inner + 1, len(is_leaf)), "a tree has no end")
    _require(_within(features[inner], 0, n_features), "a tree reads columns that do not exist")


# ---------------------------------------------------------------- scikit-learn


def _check_sparse(matrix: Any) -> None:
    matrix.check_format(full_check=True)


def _check_tree(tree: Any) -> None:
    _require(tree.node_count == tree.capacity, "a tree has lost nodes")  # before they are read
    left = tree.children_left
    _check_nodes(left, tree.children_right, left == -1, tree.feature, tree.n_features)


def _check_decision_tree(model: Any) -> None:
    same = model.tree_.n_features == model.n_features_in_
    _require(isinstance(model.tree_, Tree) and same, "a tree is of other columns")


def _check_forest(model: Any) -> None:
    trees = np.ravel(model.estimators_)
    same = [tree.n_features_in_ == model.n_features_in_ for tree in trees]
    _require(all(same), "a tree is of other columns")
    if np.ndim(model.estimators_) == 2:  # boosted
        same_classes = np.shape(model.estimators_)[1] == model.n_trees_per_iteration_
        _require(same_classes, "trees are of other classes")


def _check_boosted_histograms(model: Any) -> None:
    is_categorical = np.asarray(model._bin_mapper.is_categorical_)
    _require(is_categorical.size == model.n_features_in_, "categories are of other columns")
    for at in np.flatnonzero(is_categorical):
        levels = model._bin_mapper.bin_thresholds_[at]
        _require(_within(levels, 0, 256), "a category has no bin")
    for tree in [tree for trees in model._predictors for tree in trees]:
        nodes, bits = tree.nodes, tree.raw_left_cat_bitsets
        leaf, features = nodes["is_leaf"].astype(bool), nodes["feature_idx"]
        _check_nodes(nodes["left"], nodes["right"], leaf, features, model.n_features_in_)
        by_level = nodes[~leaf & nodes["is_categorical"].astype(bool)]
        valid = is_categorical[by_level["feature_idx"]].all()
        valid = valid and _within(by_level["bitset_idx"], 0, len(bits)) and bits.shape[1:] == (8,)
        _require(valid, "a tree reads categories that do not exist")


def _check_neighbours(tree: Any) -> None:
    """Compare with a tree of the same points: they are built without chance."""
    state = tree.__getstate__()
    points, leaf_size, metric = np.asarray(state[0]), state[4], state[11]
    _require(np.isfinite(points).all(), "points of neighbours are not finite")
    again = type(tree)(points, leaf_size=leaf_size, metric=metric).__getstate__()
    pairs = zip(state[:7], again[:7], strict=True)  # the others count what was asked
    _require(all(np.array_equal(a, b) for a, b in pairs), "neighbours are of other points")


def _check_neighbour_classes(model: Any) -> None:
    if not model.outputs_2d_:
        same = len(model._y) == model.n_samples_fit_ == model._fit_X.shape[0]
        same = same and _within(model._y, 0, len(model.classes_))
        _require(same, "neighbours are of other classes")


def _check_support_vectors(model: Any) -> None:
    vectors, counts = model.support_vectors_, np.asarray(model._n_support, dtype=np.int64)
    # A regressor has two counts, both of all vectors.
    classes, total = (2, counts[0]) if isinstance(model, SVR) else (len(counts), counts.sum())
    pairs = classes * (classes - 1) // 2
    n = len(model.support_)
    if model.kernel == "precomputed":  # columns of the kernel stand for vectors, which are not kept
        same = isinstance(vectors, np.ndarray) and _within(model.support_, 0, model.shape_fit_[0])
    else:
        same = vectors.shape == (n, model.n_features_in_)
    same = same and total == n and counts.min() >= 0
    same = same and model._dual_coef_.shape == (classes - 1, n) and len(counts) == classes >= 2
    same = same and len(model._intercept_) == pairs
    same = same and {len(model._probA), len(model._probB)} <= {0, pairs}
    # The kind of machine and the storage of its vectors are those of the class.
    _require(same and "_impl" not in vars(model), "support vectors do not fit together")


def _check_levels(encoder: Any) -> None:
    """Check that every level of a column has one of its output columns."""
    drops = encoder._drop_idx_after_grouping
    grouped = encoder._default_to_infrequent_mappings if encoder._infrequent_enabled else None
    for at, (cats, n_outputs) in enumerate(
        zip(encoder.categories_, encoder._n_features_outs, strict=True)
    ):
        levels = np.arange(len(cats))
        if cats.dtype.kind != "O":  # those of other types are searched in their order
            _require(np.array_equal(np.searchsorted(cats, cats), levels), "levels are not sorted")
        if grouped is not None and grouped[at] is not None:
            levels = np.asarray(grouped[at])
        if drops is not None and drops[at] is not None:
            levels = levels[levels != drops[at]]
            levels = levels - (levels > drops[at])
        _require(_within(levels, 0, n_outputs), "levels have no column")


# Classes, what their predictions need and is there once they are fitted, and their check.
CHECKS: list[tuple[Any, str, Callable[[Any], None]]] = [
    ((sparray, spmatrix), "check_format", _check_sparse),
    (Tree, "node_count", _check_tree),
    (BaseDecisionTree, "tree_", _check_decision_tree),
    ((_forest.BaseForest, _gb.BaseGradientBoosting), "estimators_", _check_forest),
    (
        (HistGradientBoostingClassifier, HistGradientBoostingRegressor),
        "_predictors",
        _check_boosted_histograms,
    ),
    ((KDTree, BallTree), "data", _check_neighbours),
    (KNeighborsClassifier, "_y", _check_neighbour_classes),
    ((SVC, SVR), "support_vectors_", _check_support_vectors),
    (OneHotEncoder, "_n_features_outs", _check_levels),
]

# ---------------------------------------------------------------- LightGBM

_OF_LEAVES = ("leaf_value", "leaf_weight", "leaf_count", "leaf_const", "num_features")
_OF_SPLITS = ("left_child", "right_child", "split_feature", "threshold", "decision_type")
# More lines of a tree than LightGBM reads.
_MOST_LINES = 22


def check_lightgbm(text: str) -> None:
    """Raise a ValueError unless LightGBM can follow every tree in the text of a model.

    A header, whose `tree_sizes` cut what follows into trees; each has `num_leaves` leaves and one
    split less. A child is a later split, or ~leaf.
    """
    _require("\r" not in text and "\0" not in text, "LightGBM's model has lines of another kind")
    before, begins, after = text.partition("\nTree=")
    head = _entries(before.split("\n"))
    sizes = _integers(head.get("tree_sizes", ""))
    n_classes = int(_integers(head["num_class"])[0])
    n_columns = int(_integers(head["max_feature_idx"])[0]) + 1
    several = re.search(r"num_class:(\S*)", head.get("objective", ""))
    same = head["num_tree_per_iteration"] == head["num_class"] and n_classes > 0
    same = same and (several is None or several[1] == head["num_class"])
    _require(same and len(sizes) % n_classes == 0, "LightGBM's model has other classes")
    trees, at = (begins + after)[1:].encode(), 0
    for size in sizes.tolist():
        _require(size > 0 and trees.startswith(b"Tree=", at), "LightGBM's trees have other sizes")
        _check_lightgbm_tree(trees[at : at + size].decode(), n_columns)
        at += size
    complete = trees.startswith(b"end of trees", at) if begins else not len(sizes)
    _require(complete, "LightGBM's trees have other sizes")


def _check_lightgbm_tree(text: str, n_columns: int) -> None:
    lines = text.rstrip("\n").split("\n")[1:]
    tree = _entries(lines)
    counts = {name: len(_numbers(values)) for name, values in tree.items()}
    n_leaves, n_levels = (int(_integers(tree[name])[0]) for name in ("num_leaves", "num_cat"))
    valid: Any = n_leaves > 0 and "" not in lines and len(lines) <= _MOST_LINES
    _require(valid and all("=" in line for line in lines), "a tree has other lines")
    if n_leaves == 1:
        _require(counts["leaf_value"] == 1, "a tree has lost leaves")
        return
    for name, n in counts.items():
        if name in _OF_LEAVES or name in _OF_SPLITS or name.startswith(("internal_", "split_")):
            _require(n == n_leaves - (name not in _OF_LEAVES), "a tree has lost leaves or splits")
    left, right, features, kinds = (
        _integers(tree[name])
        for name in ("left_child", "right_child", "split_feature", "decision_type")
    )
    at = np.arange(n_leaves - 1)
    for children in (left, right):
        inside = np.where(
            children < 0, ~children < n_leaves, (children > at) & (children < len(at))
        )
        _require(inside.all(), "a tree has no end")
    _require(_within(features, 0, n_columns), "a tree reads columns that do not exist")
    by_level = kinds % 2 == 1
    if by_level.any() or n_levels:
        ends, n_bits = _integers(tree["cat_boundaries"]), len(_integers(tree["cat_threshold"]))
        sets = np.array(_numbers(tree["threshold"]), dtype=float)[by_level]
        valid = len(ends) == n_levels + 1 and ends[0] == 0 and ends[-1] == n_bits
        valid = valid and (np.diff(ends) >= 0).all() and _within(sets, 0, n_levels)
        _require(valid, "a tree reads categories that do not exist")
    if int(tree.get("is_linear", "0")):
        n = _integers(tree["num_features"]).sum()
        columns = _integers(tree["leaf_features"])
        valid = len(columns) == n == counts["leaf_coeff"]
        _require(valid and "leaf_const" in tree, "a tree has lost coefficients")
        _require(_within(columns, 0, n_columns), "a tree reads columns that do not exist")


def _entries(lines: list[str]) -> dict[str, str]:
    """Return values by name; LightGBM would take the last of several, and trim names."""
    entries: dict[str, str] = {}
    for line in filter(None, lines):
        name, _, value = line.partition("=")
        _require(re.fullmatch(r"[a-z_]+", name) and name not in entries, "LightGBM's lines repeat")
        entries[name] = value
    return entries


def _numbers(text: str) -> list[str]:
    """Return the numbers of a line; of any other text LightGBM would end the process."""
    numbers = [number for number in text.split(" ") if number]
    np.array(numbers, dtype=float)  # raises a ValueError, but for digits of other scripts, and 1_0
    _require(text.isascii() and "_" not in text, "LightGBM's numbers are text")
    return numbers


def _integers(text: str) -> NDArray[np.int64]:
    numbers = _numbers(text)
    _require(all(re.fullmatch("-?[0-9]{1,18}", n) for n in numbers), "LightGBM's integers end")
    return np.array(numbers, dtype=np.int64)
