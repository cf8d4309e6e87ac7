"""Altered model files: an error in words or a model, never the end of the process.

Numbers in arrays, in the schema and in LightGBM's text are exchanged for others, and the archive is
made anew, so that its checksums are right. Each file is loaded, and predicts, in a process of its
own, which may die of it.
"""

from __future__ import annotations

import functools
import io
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeRegressor

from shiftune.errors import StorageError
from shiftune.models import MODELS, load_model, ready_model, save_model

# Bytes of memory and seconds of a processor that a process may use; one that ends does with less.
MEMORY, SECONDS = 4 << 30, 20
UNCHECKED = ("xgboost",)
SMALL = {"n_estimators": 3, "max_iter": 3, "num_leaves": 6}
# Types of a part of scikit-learn that reads categories by itself, which no model by name does.
OF_CATEGORIES = ("functools.partial", "sklearn.utils.validation.check_array")
Entries = dict[str, bytes]


def _rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.normal(size=60), "b": rng.choice(list("uvwxyz"), 60)})


def _more() -> dict[str, Any]:
    """Return models of parts that no model by name has."""
    X = np.column_stack([np.random.default_rng(0).normal(size=60), np.arange(60) % 9])
    found = {
        "hist_gradient_boosting, categories": HistGradientBoostingRegressor(
            max_iter=3, categorical_features=[1]
        ),
        "gradient boosting": GradientBoostingClassifier(n_estimators=3),
        "tree": DecisionTreeRegressor(),
        "brute knn": KNeighborsClassifier(algorithm="brute"),
        "ball tree": KNeighborsClassifier(algorithm="ball_tree", leaf_size=5),
        "dropped levels": Pipeline(
            [("e", OneHotEncoder(drop="first")), ("t", DecisionTreeRegressor())]
        ),
    }
    if "lightgbm" in sys.modules:
        from lightgbm import LGBMClassifier, LGBMRegressor

        small = {"n_estimators": 3, "min_child_samples": 5, "verbosity": -1, "n_jobs": 1}
        found["lightgbm, categories"] = LGBMRegressor(categorical_feature=[1], **small)
        found["lightgbm, linear trees"] = LGBMRegressor(linear_tree=True, **small)
        found["lightgbm, three classes"] = LGBMClassifier(**small)
    return {name: model.fit(X, np.arange(60) % 3) for name, model in found.items()}


def write_models(folder: Path) -> list[str]:
    """Write a small model of each kind to a folder; return their names."""
    warnings.simplefilter("ignore")
    table, rng = _rows(), np.random.default_rng(1)
    models = {}
    for name in [name for name in MODELS if name not in UNCHECKED]:
        for task in MODELS[name].tasks:
            ready = ready_model(name, task, {"a": "number", "b": "category"})
            known = ready.bare.get_params()
            small = {ready.prefix + n: v for n, v in SMALL.items() if n in known}
            y = table["a"].to_numpy() if task == "regression" else rng.choice(list("pqr"), 60)
            models[f"{name}, {task}"] = ready.pipeline.set_params(**small).fit(table, y)
    for name, model in {**models, **_more()}.items():
        save_model(model, folder / name)
    return [*models, *_more()]


# ---------------------------------------------------------------- what is altered

ODD = (0, 1, -1, -2, 2, 3, 7, 30, 99999, 2**31 - 1, -(2**31), 2**40, -(2**63), 2**63 - 1)


def _alter_array(entries: Entries, rng: random.Random) -> str:
    arrays = [name for name in entries if name.endswith(".npy")]
    if not arrays:
        return _alter_schema(entries, rng)
    name = rng.choice(arrays)
    array = np.load(io.BytesIO(entries[name]))
    field = rng.choice(array.dtype.names) if array.dtype.names else None
    kind = rng.choice(["one", "one", "one", "shuffled", "cut", "twice", "turned"])
    if array.size == 0 or array.ndim == 0:
        kind = "twice"
    if kind == "one":
        column = array if field is None else array[field]
        at = tuple(rng.randrange(n) for n in array.shape)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if column.dtype.kind in "iuf":
                column[at] = np.array(rng.choice(ODD)).astype(column.dtype)
            elif column.dtype.kind == "b":
                column[at] = not column[at]
    elif kind == "shuffled":
        array = array[rng.sample(range(len(array)), len(array))]
    elif kind == "cut":
        array = array[: len(array) // 2]
    elif kind == "turned":
        array = array.T
    else:
        array = np.concatenate([np.atleast_1d(array)] * 2)
    out = io.BytesIO()
    np.save(out, array)
    entries[name] = out.getvalue()
    return f"{name} {array.dtype} {field}: {kind}"


def _alter_schema(entries: Entries, rng: random.Random) -> str:
    """Exchange a number in the schema, or two parts of it."""
    schema = json.loads(entries["schema.json"])
    nodes: list[dict[str, Any]] = []
    _find(schema, nodes)
    if rng.random() < 0.3:
        a, b = rng.sample(nodes, 2)
        a_before, b_before = json.dumps(a), json.dumps(b)
        if a_before not in b_before and b_before not in a_before:
            a.clear(), a.update(json.loads(b_before)), b.clear(), b.update(json.loads(a_before))
        what = "parts"
    else:
        numbers = [
            n for n in nodes if re.fullmatch(r"-?\d+|true|false|null", str(n.get("content")))
        ]
        node = rng.choice(numbers)
        what = node["content"]
        node["content"] = json.dumps(rng.choice([*ODD, None, True, False, 0.5, "x"]))
    entries["schema.json"] = json.dumps(schema).encode()
    return f"schema: {what}"


def _find(part: Any, nodes: list[dict[str, Any]]) -> None:
    if isinstance(part, dict):
        if "__loader__" in part:
            nodes.append(part)
        for each in part.values():
            _find(each, nodes)
    elif isinstance(part, list):
        for each in part:
            _find(each, nodes)


def _alter_text(entries: Entries, rng: random.Random) -> str:
    """Exchange digits, a number, or lines of LightGBM's text."""
    schema = entries["schema.json"].decode()
    found = re.search(r'"\\"tree\\\\n.*?pandas_categorical', schema)
    if found is None:
        return _alter_array(entries, rng)
    lines = found[0].split("\\\\n")
    end = next(at for at, line in enumerate(lines) if line.startswith("end of trees"))
    kind = rng.choice(["digits", "number", "number", "number", "line", "lines"])
    at = rng.choice([at for at in range(end) if re.search(r"\d", lines[at])])
    before = lines[at]
    if kind == "number":
        tokens = list(re.finditer(r"-?\d+", before))
        token = rng.choice(tokens)
        lines[at] = before[: token.start()] + str(rng.choice(ODD)) + before[token.end() :]
    elif kind == "line":
        lines[at] = rng.choice(
            ["", before + " 1", before.rpartition(" ")[0], before + "\\\\n" + before]
        )
    elif kind == "lines":
        other = rng.randrange(end)
        lines[at], lines[other] = lines[other], lines[at]
    else:
        for _ in range(30):
            here = rng.choice([i for i in range(end) if re.search(r"\d", lines[i])])
            digit = rng.choice(list(re.finditer(r"\d", lines[here])))
            line = lines[here]
            lines[here] = line[: digit.start()] + str(rng.randrange(10)) + line[digit.end() :]
    # The sizes are right again, half of the time.
    text = "\\\\n".join(lines)
    if rng.random() < 0.5:
        trees = re.split(r"(?=Tree=\d)", text.partition("end of trees")[0])[1:]
        sizes = " ".join(str(len(tree.replace("\\\\n", "\n"))) for tree in trees)
        text = re.sub(r"tree_sizes=[^\\]*", f"tree_sizes={sizes}", text)
    entries["schema.json"] = schema.replace(found[0], text).encode()
    return f"text: {kind} in {before[:40]}"


def altered(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return an altered file, and what was altered."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    alter: Callable[[Entries, random.Random], str] = rng.choice(
        [_alter_array, _alter_array, _alter_text, _alter_text, _alter_schema]
    )
    what = [alter(entries, rng) for _ in range(rng.choice([1, 1, 1, 2]))]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, entry in entries.items():
            archive.writestr(name, entry)
    return out.getvalue(), "; ".join(what)


# ---------------------------------------------------------------- how it ends

ENDS = {0: "predictions", 10: "error in words", 11: "Python's error at a prediction"}


def loaded_and_asked(path: Path) -> int:
    """Load a file and predict; return a number of `ENDS`."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        model = load_model(path, trusted=OF_CATEGORIES)
    except StorageError:
        return 10
    X = np.column_stack([np.random.default_rng(0).normal(size=60), np.arange(60) % 9])
    try:
        model.predict(_rows() if isinstance(model, Pipeline) and "read" in model.named_steps else X)
        for method in ("predict_proba", "decision_function"):
            if hasattr(model, method):
                getattr(model, method)(X if "read" not in str(model) else _rows())
    except Exception:
        return 11
    return 0


def in_process(run: Callable[[], int]) -> str:
    """Run a function in a forked process; return how it ended."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            warnings.simplefilter("ignore")
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            code = run()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return ENDS.get(code) or (signal.Signals(-code).name if code < 0 else f"exit code {code}")


@functools.cache
def _models() -> dict[str, bytes]:
    """Return files of sound models, made by another process: this one is forked later."""
    import lightgbm  # noqa: F401
    import skops.io  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        end = in_process(lambda: int(not write_models(Path(folder))))
        assert end == ENDS[0], end
        return {path.stem: path.read_bytes() for path in sorted(Path(folder).glob("*.skops"))}


def passed(rng: random.Random) -> tuple[str, str, str]:
    """Alter a model; return its name, how it ended and what was altered."""
    name = rng.choice(list(_models()))
    content, what = altered(_models()[name], rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skops"
        path.write_bytes(content)
        return name, in_process(lambda: loaded_and_asked(path)), what
