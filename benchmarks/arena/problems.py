"""The arena's problems: real multi-site tables, the paper's patients, and generated sites.

A problem is a target site with hidden labels and labelled sources. Tables are found in the folder
that the environment variable SHIFTUNE_DATA names (``sites/NAME.npz`` with X, y and site,
``parkinson`` and ``gvhd``); generated problems need no files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path

import numpy as np
from reproduction.data import load_gvhd, load_parkinson
from reproduction.toy import toy_problem

# Rows of a source and of a target that are used, drawn at random: a fit then takes a fraction of
# a second, and most of the tables' sites are not larger.
MOST_SOURCE_ROWS = 400
MOST_TARGET_ROWS = 1500
FEWEST_TARGET_ROWS = 60


@dataclass(frozen=True)
class Problem:
    """Arrays of one problem: sources (X_j, y_j), target X and hidden y."""

    dataset: str
    target: str
    kind: str  # "real" or "generated"
    task: str  # "regression" or "classification"
    X: list[np.ndarray]
    y: list[np.ndarray]
    X_target: np.ndarray
    y_target: np.ndarray
    names: list[str]


@lru_cache(maxsize=4)
def table(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, str, list[str]]:
    """Return X, y, site of every row, task and names of the sites."""
    root = Path(os.environ["SHIFTUNE_DATA"])
    if name in ("gvhd", "parkinson"):
        load = load_gvhd if name == "gvhd" else load_parkinson
        problem = load(folder=root / name)
        sites = [problem.oracle, *problem.sources]
        X = np.concatenate([np.asarray(site.X, dtype=float) for site in sites])
        y = np.concatenate([site.labels for site in sites])
        site = np.repeat(np.arange(len(sites)), [len(s) for s in sites])
        return X, _on_one_scale(y, problem.task), site, problem.task, [s.name for s in sites]
    with np.load(root / "sites" / f"{name}.npz") as arrays:
        X, y, site = arrays["X"].astype(float), arrays["y"], arrays["site"]
    described = json.loads((root / "sites" / f"{name}.json").read_text())
    task = "regression" if described["task"] == "regression" else "classification"
    return X, _on_one_scale(y, task), site, task, [str(s) for s in described["site_names"]]


def _on_one_scale(y: np.ndarray, task: str) -> np.ndarray:
    """Let the variance of a table's labels be 1, so that squared errors can be compared."""
    return (y - y.mean()) / y.std() if task == "regression" else y


def real_datasets() -> list[str]:
    """Return the names of the tables that are there."""
    root = Path(os.environ["SHIFTUNE_DATA"])
    names = sorted(path.stem for path in (root / "sites").glob("*.npz"))
    return [*names, *(name for name in ("gvhd", "parkinson") if (root / name).is_dir())]


GENERATED = [f"toy c={c}" for c in (1, 2, 3, 4, 5)] + ["hospitals near", "hospitals far"]


def targets(dataset: str, count: int, seed: int) -> list[int]:
    """Draw target sites of a table (or numbers of generated problems)."""
    rng = np.random.default_rng([seed, *dataset.encode()])
    if dataset in GENERATED:
        return [int(t) for t in rng.integers(0, 2**31, count)]
    _, _, site, _, _ = table(dataset)
    large = [s for s in np.unique(site) if (site == s).sum() >= FEWEST_TARGET_ROWS]
    return [int(s) for s in rng.permutation(large)[:count]]


def cells_in_turn(
    datasets: Sequence[str] | None, count: int, seeds: Iterable[int]
) -> Iterator[tuple[str, int, int]]:
    """Yield data set, target and seed: the first targets of all data sets, then the second.

    The data sets, by default all tables, are shuffled: whenever a run is stopped, what is finished
    is a fair sample.
    """
    names = datasets or real_datasets()
    shuffled = [names[i] for i in np.random.default_rng(0).permutation(len(names))]
    for seed in seeds:
        drawn = [[(name, t, seed) for t in targets(name, count, seed)] for name in shuffled]
        for turn in zip_longest(*drawn):
            yield from (cell for cell in turn if cell is not None)


def problem(dataset: str, target: int, seed: int) -> Problem:
    """Return one problem, with the rows that are used drawn by the seed."""
    rng = np.random.default_rng([seed, target, *dataset.encode()])
    if dataset in GENERATED:
        return _generated(dataset, target, rng)
    X, y, site, task, names = table(dataset)

    def rows(s: int, most: int) -> np.ndarray:
        found = np.flatnonzero(site == s)
        return np.sort(rng.permutation(found)[:most])

    own = rows(target, MOST_TARGET_ROWS)
    sources = [s for s in np.unique(site) if s != target]
    taken = [rows(s, MOST_SOURCE_ROWS) for s in sources]
    return Problem(
        dataset,
        names[target],
        "real",
        task,
        [X[r] for r in taken],
        [y[r] for r in taken],
        X[own],
        y[own],
        [names[s] for s in sources],
    )


def _generated(dataset: str, number: int, rng: np.random.Generator) -> Problem:
    """Problems in which p(y|x) is the same everywhere."""
    if dataset.startswith("toy"):
        toy = toy_problem(float(dataset[-1]), k=2, n=1000, random_state=number)
        sources, oracle = toy.problem.sources, toy.problem.oracle
        return Problem(
            dataset,
            str(number),
            "generated",
            "regression",
            [np.asarray(s.X) for s in sources],
            [s.labels for s in sources],
            np.asarray(oracle.X),
            oracle.labels,
            [s.name for s in sources],
        )
    # Hospitals: patients of different age, severity and so on; the answer is a curved function.
    d, k = 6, 8
    spread = 0.5 if dataset.endswith("near") else 1.2
    centres = spread * rng.standard_normal((k + 1, d))
    scales = np.exp(0.2 * rng.standard_normal((k + 1, d)))
    a, b = rng.standard_normal(d), rng.standard_normal((d, 3))
    X = [c + s * rng.standard_normal((400, d)) for c, s in zip(centres, scales, strict=True)]
    signal = [x @ a + 1.5 * np.sin(x @ b).sum(axis=1) for x in X]
    y = [s + rng.standard_normal(len(s)) for s in signal]
    sd = np.concatenate(y).std()
    y = [v / sd for v in y]
    return Problem(
        dataset,
        str(number),
        "generated",
        "regression",
        X[1:],
        y[1:],
        X[0],
        y[0],
        [str(j) for j in range(1, k + 1)],
    )
