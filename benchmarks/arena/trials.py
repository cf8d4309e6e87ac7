"""Trials of several families on one problem, from the cells that ``benchmarks/arena losses`` wrote.

All families of a data set, target and seed have the same rows, and were fitted on the same rows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, for `reproduction`

from cells import losses_of
from problems import GENERATED, problem

from shiftune.evaluate._fits import losses_of_rows
from shiftune.evaluate._losses import Loss, bounded
from shiftune.predictor._selection import ROUNDS, Candidates
from shiftune.risk import RegressionAdjusted
from shiftune.risk._adjusted import ROWS_FOR_HALF_SHARE

# What `cells.losses_of` bounds losses to.
LOSSES = {
    "regression": bounded("squared", 100.0),
    "classification": bounded("log_loss", -np.log(1e-3)),
}
LABELS = (10, 30, 100)
# Of the target's rows that may be labelled; on the others the choice is scored.
MOST_LABELLED = 0.6


@dataclass
class Trials:
    """Trials of several families on one problem; predictions may have a last axis of C classes."""

    family: np.ndarray  # (P,) names
    predictions: np.ndarray  # (P, n) of all rows of the sources, out of site
    pooled_predictions: np.ndarray  # (P, n_val) of validation rows, by models that know the site
    target_predictions: np.ndarray  # (P, n_T)
    y: list[np.ndarray]  # labels by site
    X: list[np.ndarray]  # rows by site
    y_pooled: np.ndarray  # (n_val,)
    X_target: np.ndarray
    y_target: np.ndarray
    task: str
    classes: np.ndarray | None
    loss: Loss | None = None  # by which members are chosen, if not that of the task

    def __post_init__(self) -> None:
        self.loss = self.loss or LOSSES[self.task]

    def only(self, kept: Sequence[int]) -> Trials:
        """Return some of the trials."""
        return replace(
            self,
            family=self.family[kept],
            predictions=self.predictions[kept],
            pooled_predictions=self.pooled_predictions[kept],
            target_predictions=self.target_predictions[kept],
        )

    def first(self, families: Sequence[str], each: int) -> Trials:
        """Return the first trials of some families."""
        return self.only(
            np.concatenate([np.flatnonzero(self.family == name)[:each] for name in families])
        )

    @cached_property
    def row_shares(self) -> np.ndarray:
        """Shares of the rows in the criterion, (n,), as in the package."""
        n = np.array([len(own) for own in self.y])
        shares = n / (n + ROWS_FOR_HALF_SHARE)
        return np.repeat(shares / shares.sum() / n, n)

    @cached_property
    def fitted(self) -> RegressionAdjusted:
        """The package's default estimator, fitted."""
        return RegressionAdjusted().fit(self.X_target, self.X)

    def coefficients(self, adjusted: bool) -> np.ndarray:
        """Coefficients of the rows in the mean of the sites, or in the adjusted estimate, (n,)."""
        return self.fitted.coefficients_ if adjusted else self.row_shares

    def by_site(self, values: np.ndarray) -> list[np.ndarray]:
        """Split values of the rows by site."""
        return np.split(values, np.cumsum([len(own) for own in self.y])[:-1])

    @cached_property
    def losses(self) -> np.ndarray:
        """Losses out of site, (P, n)."""
        return np.array([self.losses_of(own) for own in self.predictions])

    def losses_of(self, predictions: np.ndarray) -> np.ndarray:
        """Return the losses of predictions of all rows, (n,)."""
        return losses_of_rows(predictions, np.concatenate(self.y), self.loss, self.classes)

    @cached_property
    def pooled(self) -> np.ndarray:
        """Mean loss on validation rows of known sites, (P,)."""
        found = [losses_of(own, self.y_pooled, self.classes) for own in self.pooled_predictions]
        return np.mean(found, axis=1)

    def best(self, adjusted: bool = False) -> np.ndarray:
        """Weights of the trials if the best single one is the final model, (P,)."""
        best = np.argmin(self.losses @ self.coefficients(adjusted))
        return np.eye(len(self.family))[best]

    def candidates(self, adjusted: bool = False) -> Candidates:
        """Return the package's chooser of members."""
        predictions, shares = dict(enumerate(self.predictions)), self.coefficients(adjusted)
        return Candidates(predictions, self.y, shares, self.loss, self.classes)

    def ensemble(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights of the trials (P,), and the nested predictions of all rows."""
        chosen = self.candidates()
        return self.weights_of(chosen), chosen.nested_predictions()

    def weights_of(self, chosen: Candidates, rounds: int = ROUNDS) -> np.ndarray:
        """Return the weights of the trials in an ensemble of candidates, (P,)."""
        weights = np.zeros(len(self.family))
        weights[chosen.numbers] = chosen.weights(rounds=rounds)
        return weights

    def at_target(self, weights: np.ndarray) -> np.ndarray:
        """Return the predictions of a weighted mean of the trials at the target."""
        return np.tensordot(weights, self.target_predictions, axes=1)

    def target_loss(self, weights: np.ndarray) -> float:
        """Return the mean loss of a weighted mean of the trials at the hidden target."""
        return float(losses_of(self.at_target(weights), self.y_target, self.classes).mean())

    def of_one(self, i: int) -> float:
        """Return the loss of a single trial at the target."""
        return self.target_loss(np.eye(len(self.family))[i])


def read(files: dict[str, Path], dataset: str, target: int, seed: int) -> Trials:
    """Read the cells of all families of one problem."""
    p = problem(dataset, target, seed)
    cells = {family: dict(np.load(path)) for family, path in files.items()}
    train, y = next(iter(cells.values()))["train"], np.concatenate(p.y)

    def all_of(name: str) -> np.ndarray:
        return np.concatenate([cell[f"{name}_predictions"] for cell in cells.values()])

    return Trials(
        np.concatenate([[name] * len(cell["pooled"]) for name, cell in cells.items()]),
        all_of("left_out"),
        all_of("pooled"),
        all_of("target").astype(float),
        p.y,
        p.X,
        y[~train],
        p.X_target,
        p.y_target,
        p.task,
        None if p.task == "regression" else np.unique(y),
    )


def cells_in(
    losses: Path, seed: int, families: Sequence[str], kind: str
) -> dict[tuple[str, int], dict[str, Path]]:
    """Return the files of all families by data set and target, where every family has one."""
    generated = {name.replace(" ", "_"): name for name in GENERATED}
    found: dict[tuple[str, int], dict[str, Path]] = {}
    for path in sorted(losses.glob(f"*-{seed}.npz")):
        name, target, family, _ = re.fullmatch(
            r"(.+)-(\d+)-([a-z]+)-(\d+)\.npz", path.name
        ).groups()
        if family in families and (name in generated) == (kind == "generated"):
            found.setdefault((generated.get(name, name), int(target)), {})[family] = path
    return {key: files for key, files in found.items() if set(families) <= set(files)}


def naive(trials: Trials) -> float:
    """Return the loss of the trial of lowest mean loss on known sites."""
    return trials.of_one(int(np.argmin(trials.pooled)))


def handed_over(trials: Trials) -> list[tuple[str, str, np.ndarray, np.ndarray]]:
    """Return kind, family, out-of-site predictions of all rows, and weights of the trials (P,).

    That is, the best trial of every family, and the ensemble of all.
    """
    found = []
    for family in dict.fromkeys(trials.family):
        own = np.flatnonzero(trials.family == family)
        best = own[np.argmin(trials.losses[own] @ trials.row_shares)]
        weights = np.eye(len(trials.family))[best]
        found.append(("one trial", str(family), trials.predictions[best], weights))
    weights, nested = trials.ensemble()
    return [*found, ("ensemble", "", nested, weights)]
