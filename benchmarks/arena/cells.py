"""All losses of a pool on one problem, computed once and shared by every estimator.

A cell is one (data set, target, family, seed). Every configuration is fitted on the training rows
of all sources; without each of up to four groups of sources, on all rows of the others, as a trial
of the package is; and on all rows of all sources, as the final model is. Kept are the losses

- ``pooled``   (P, n_val): of the first model on the sources' validation rows,
- ``left_out`` (P, n): on all rows of the sources, each by the model that never saw its site,
- ``target``   (P, n_T): of the last model on the target's rows: for scoring, and in the
  experiments with a few labelled target rows;

the predictions (``pooled_predictions``, ``left_out_predictions``, ``target_predictions``: values,
or probabilities of the classes), the label and site of every row, and the density ratios of target
to source and of target to all sources pooled, at all rows.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pools import pool
from problems import Problem, problem
from reproduction.settings import SETTINGS
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from shiftune.evaluate._fits import assign_folds
from shiftune.ratio import ClassifierRatio

TRAIN = 0.7


@dataclass(frozen=True)
class Cell:
    """Which losses to compute."""

    dataset: str
    target: int
    family: str
    seed: int
    size: int

    @property
    def name(self) -> str:
        """File name of the cell."""
        return f"{self.dataset.replace(' ', '_')}-{self.target}-{self.family}-{self.seed}.npz"


def compute(cell: Cell, folder: Path) -> float:
    """Compute a cell and write it to the folder; return the seconds it took."""
    start = time.perf_counter()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays = _losses(problem(cell.dataset, cell.target, cell.seed), cell)
    part = folder / f"{cell.name}.part"
    with part.open("wb") as file:
        np.savez_compressed(file, **arrays)
    part.rename(folder / cell.name)
    return time.perf_counter() - start


def _losses(p: Problem, cell: Cell) -> dict[str, np.ndarray]:
    site, train = split_rows(p, np.random.default_rng([cell.seed, 1]))
    X, y = np.concatenate(p.X), np.concatenate(p.y)
    classes = None if p.task == "regression" else np.unique(y)
    group = assign_folds(np.array([len(x) for x in p.X]))
    labels = {"pooled": y[~train], "left_out": y, "target": p.y_target}
    found: dict[str, list[np.ndarray]] = {where: [] for where in labels}
    for model in pool(cell.family, p.task, X.shape[1], cell.size, cell.seed):
        try:
            fitted = _predictions(model, X, y, train, group[site], p.X_target, classes)
        except ValueError:  # for example, only one class in all rows but those of a group
            continue
        for where, own in zip(found, fitted, strict=True):
            found[where].append(own.astype(np.float32))
    arrays = {}
    for where, predictions in found.items():
        shape = (len(predictions), len(labels[where]))  # also where every fit has failed
        losses = np.array([losses_of(each, labels[where], classes) for each in predictions])
        columns = () if classes is None else (len(classes),)
        arrays[where] = losses.reshape(shape).astype(np.float32)
        arrays[f"{where}_predictions"] = np.reshape(predictions, (*shape, *columns))
    return arrays | {
        "y": y.astype(np.float32),
        "site": site.astype(np.int16),
        "train": train,
        "group": group.astype(np.int8),
        "kind": np.array(p.kind),
        "task": np.array(p.task),
        **_ratios(p, X, site, train),
    }


def _predictions(
    model: Any,
    X: np.ndarray,
    y: np.ndarray,
    train: np.ndarray,
    group: np.ndarray,
    X_target: np.ndarray,
    classes: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the predictions of validation rows, of all rows out of site, and of the target."""

    def by_fit(rows: np.ndarray, new: np.ndarray) -> np.ndarray:
        return predictions_of(clone(model).fit(X[rows], y[rows]), new, classes)

    pooled, target = by_fit(train, X[~train]), by_fit(np.full(len(X), True), X_target)
    left_out = np.empty((len(X), *target.shape[1:]))
    for g in np.unique(group):
        left_out[group == g] = by_fit(group != g, X[group == g])
    return pooled, left_out, target


def split_rows(p: Problem, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the site of every row of the sources, and whether it is trained on."""
    site = np.repeat(np.arange(len(p.X)), [len(x) for x in p.X])
    train = np.zeros(len(site), dtype=bool)
    for j in range(len(p.X)):
        rows = np.flatnonzero(site == j)
        train[rng.permutation(rows)[: round(TRAIN * len(rows))]] = True
    return site, train


def predictions_of(model, X: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """Return values (n,), or probabilities of all classes of the sources (n, C)."""
    if classes is None:
        return model.predict(X)
    chances = np.zeros((len(X), len(classes)))
    chances[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(X)
    return chances


def losses_of(predictions: np.ndarray, y: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """Return squared errors, at most 100, or log losses, at most those of a chance of 1e-3."""
    if classes is None:
        return np.minimum((y - predictions) ** 2, 100.0)
    at = np.searchsorted(classes, y).clip(0, len(classes) - 1)
    chance = np.where(classes[at] == y, predictions[np.arange(len(y)), at], 0.0)
    return -np.log(np.clip(chance, 1e-3, 1.0))


def _ratios(
    p: Problem, X: np.ndarray, site: np.ndarray, train: np.ndarray
) -> dict[str, np.ndarray]:
    """Density ratios from training rows, at all rows: per source, pooled, and as published."""
    sources = [X[(site == j) & train] for j in range(len(p.X))]
    rows = [X[site == j] for j in range(len(p.X))]
    own = ClassifierRatio("logistic").fit(p.X_target, sources).weights(rows)
    together = ClassifierRatio("logistic").fit(p.X_target, [np.concatenate(sources)])
    published = SETTINGS["as-published"].ratio(0)
    kernel = published.fit(p.X_target, sources).weights(rows)  # type: ignore[union-attr]
    return {
        "w_own": np.concatenate(own).astype(np.float32),
        "w_pooled": together.weights([X])[0].astype(np.float32),
        "w_published": np.concatenate(kernel).astype(np.float64),
    }
