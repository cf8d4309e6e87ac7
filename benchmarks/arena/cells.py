"""All losses of a pool on one problem, computed once and shared by every estimator.

A cell is one (data set, target, family, seed). Every configuration is fitted once on the training
rows of all sources (the model a user would get), and once without each of G groups of sources.
Kept are the losses

- ``pooled``   (P, n_val): of the first model on the sources' validation rows,
- ``left_out`` (P, n_all): on all rows of a source, of the model that never saw its group,
- ``others``   (P, G, n_val): of every group's model on all validation rows,
- ``target``   (P, n_T): of the first model on the target's rows: for scoring, and in the
  experiments with a few labelled target rows;

what the models answered (``pooled_answers``, ``left_out_answers``, ``target_answers``: predictions,
or probabilities of the classes), the label and site of every row, and the density ratios of target
to source and of target to all sources pooled, at all rows.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pools import pool
from problems import Problem, problem
from reproduction.settings import SETTINGS
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from shiftune.ratio import ClassifierRatio

GROUPS = 4
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
    rng = np.random.default_rng([cell.seed, 1])
    site, train = split_rows(p, rng)
    X, y = np.concatenate(p.X), np.concatenate(p.y)
    groups = min(GROUPS, len(p.X))
    group = rng.permutation(np.arange(len(p.X)) % groups)
    models = pool(cell.family, p.task, X.shape[1], cell.size, cell.seed)
    P, n_val = len(models), int((~train).sum())
    pooled = np.empty((P, n_val), dtype=np.float32)
    left_out = np.empty((P, len(X)), dtype=np.float32)
    others = np.empty((P, groups, n_val), dtype=np.float32)
    target = np.empty((P, len(p.X_target)), dtype=np.float32)
    classes = None if p.task == "regression" else np.unique(y)
    shape = () if classes is None else (len(classes),)
    pooled_answers = np.zeros((P, n_val, *shape), dtype=np.float32)
    left_out_answers = np.zeros((P, len(X), *shape), dtype=np.float32)
    target_answers = np.zeros((P, len(p.X_target), *shape), dtype=np.float32)
    failed = np.zeros(P, dtype=bool)
    for i, model in enumerate(models):
        try:
            fitted = clone(model).fit(X[train], y[train])
            pooled_answers[i] = answers_of(fitted, X[~train], classes)
            target_answers[i] = answers_of(fitted, p.X_target, classes)
            pooled[i] = losses_of(pooled_answers[i], y[~train], classes)
            target[i] = losses_of(target_answers[i], p.y_target, classes)
            for g in range(groups):
                held = np.isin(site, np.flatnonzero(group == g))
                seen = train & ~held
                fitted = clone(model).fit(X[seen], y[seen])
                rows = held | ~train
                answers = np.empty((len(X), *shape), dtype=np.float32)
                losses = np.empty(len(X))
                answers[rows] = answers_of(fitted, X[rows], classes)
                losses[rows] = losses_of(answers[rows], y[rows], classes)
                left_out_answers[i, held] = answers[held]
                left_out[i, held] = losses[held]
                others[i, g] = losses[~train]
        except ValueError:  # for example, a class that is missing in all of a group's training rows
            failed[i] = True
    keep = ~failed
    return {
        "pooled": pooled[keep],
        "left_out": left_out[keep],
        "others": others[keep],
        "target": target[keep],
        "pooled_answers": pooled_answers[keep],
        "left_out_answers": left_out_answers[keep],
        "target_answers": target_answers[keep],
        "y": y.astype(np.float32),
        "site": site.astype(np.int16),
        "train": train,
        "group": group.astype(np.int8),
        "kind": np.array(p.kind),
        "task": np.array(p.task),
        **_ratios(p, X, site, train),
    }


def split_rows(p: Problem, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the site of every row of the sources, and whether it is trained on."""
    site = np.repeat(np.arange(len(p.X)), [len(x) for x in p.X])
    train = np.zeros(len(site), dtype=bool)
    for j in range(len(p.X)):
        rows = np.flatnonzero(site == j)
        train[rng.permutation(rows)[: round(TRAIN * len(rows))]] = True
    return site, train


def answers_of(model, X: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """Return predictions (n,), or probabilities of all classes of the sources (n, C)."""
    if classes is None:
        return model.predict(X)
    answers = np.zeros((len(X), len(classes)))
    answers[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(X)
    return answers


def losses_of(answers: np.ndarray, y: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """Return squared errors, at most 100, or log losses, at most those of a chance of 1e-3."""
    if classes is None:
        return np.minimum((y - answers) ** 2, 100.0)
    at = np.searchsorted(classes, y).clip(0, len(classes) - 1)
    chance = np.where(classes[at] == y, answers[np.arange(len(y)), at], 0.0)
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
        "w_pooled": together.weights_at(X, source=0).astype(np.float32),
        "w_published": np.concatenate(kernel).astype(np.float64),
    }
