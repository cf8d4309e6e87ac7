"""Trials that are stopped after their first fit: what is saved, and what it costs.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/racing.py --losses FOLDER/losses \
        --seeds 30 31 --out racing.csv

reads the cells that ``benchmarks/arena losses`` has computed. A trial's first model is trained on
all sources; four more, without a quarter of the sites each, are trained unless the rule stops the
trial. Stopped trials have no share in the ensemble. Costs are in fits of the rows they train on
(the four have three quarters), as a share of all; the loss at the hidden target is compared with
that of the ensemble of all trials.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from ensembles import Trials, read
from metrics import FAMILIES
from stored_cells import arguments, over_cells

from shiftune.evaluate.answers import Answers

EACH = 24
FREE = 3
# In fits of all training rows: a model that leaves a quarter of the sites out, and all of a trial.
LEFT_OUT, ALL_FITS = 0.75, 1.0 + 4 * 0.75


@dataclass(frozen=True)
class Race:
    """A trial is stopped if its first model is worse than that of another one of its family.

    That is the trial at place `rank` among those that were completed, by `deviations` standard
    errors of the paired difference of site means, or by the mean loss of all rows alone. The first
    `FREE` trials of a family are never stopped. The first model has all sources, or (`unseen`)
    leaves a group of sites out, and is judged there.
    """

    rank: int
    deviations: float | None = None
    unseen: bool = False

    def stops(self, own: np.ndarray, earlier: list[np.ndarray], sites: np.ndarray) -> bool:
        """Decide by the losses of first models."""
        if len(earlier) < max(FREE, self.rank):
            return False
        if self.deviations is None:
            return bool(own.mean() > np.sort([each.mean() for each in earlier])[self.rank - 1])
        means = [float(site_mean(each, sites).mean()) for each in earlier]
        other = earlier[int(np.argsort(means, kind="stable")[self.rank - 1])]
        apart = site_mean(own - other, sites)
        return bool(apart.mean() > self.deviations * error(own - other, sites))


def site_mean(values: np.ndarray, sites: np.ndarray) -> np.ndarray:
    """Return the mean at every site."""
    return np.bincount(sites, values) / np.bincount(sites)


def error(values: np.ndarray, sites: np.ndarray) -> float:
    """Return the standard error of the mean over sites: of their differences, or of the rows."""
    means, n = site_mean(values, sites), np.bincount(sites)
    between = means.var(ddof=1) / len(means) if len(means) > 1 else 0.0
    within = float(((np.bincount(sites, values**2) / n - means**2) / n).sum()) / len(means) ** 2
    return float(np.sqrt(max(between, within)))


RULES = {
    "best, 2 standard errors": Race(1, 2.0),
    "third best, mean of rows": Race(3),
    "sixth best, mean of rows": Race(6),
    "third best at a group of unseen sites": Race(3, unseen=True),
    "sixth best at a group of unseen sites": Race(6, unseen=True),
}


def raced(trials: Trials, rule: Race, group: np.ndarray) -> tuple[np.ndarray, float]:
    """Return which trials were completed, and the share of the costs.

    `group` is the group of every site.
    """
    y = np.concatenate(trials.y)
    sites = np.repeat(np.arange(len(trials.y)), [len(own) for own in trials.y])
    rows = group[sites] == 0 if rule.unseen else np.ones(len(y), dtype=bool)
    first = []
    for each in trials.answers:
        answers = (each.unseen if rule.unseen else each.known)[rows]
        first.append(Answers(answers, answers).losses(y[rows], trials.loss, trials.classes))
    sites = np.unique(sites[rows], return_inverse=True)[1]
    completed = np.ones(len(first), dtype=bool)
    for family in np.unique(trials.family):
        earlier: list[np.ndarray] = []
        for i in np.flatnonzero(trials.family == family):
            if rule.stops(first[i], earlier, sites):
                completed[i] = False
            else:
                earlier.append(first[i])
    first_fit = LEFT_OUT if rule.unseen else 1.0
    cost = np.where(completed, ALL_FITS, first_fit).sum() / (ALL_FITS * len(first))
    return completed, float(cost)


def ensemble_loss(trials: Trials) -> float:
    """Return the loss of the ensemble at the target."""
    found = trials.candidates()
    weights = np.zeros(len(trials.family))
    weights[found.numbers] = found.weights()
    return trials.target_loss(weights)


def scored(files: dict[str, Path], dataset: str, target: int, seed: int) -> list[dict[str, object]]:
    """Compare all rules on one problem, with all families and with each alone."""
    warnings.simplefilter("ignore")
    every = read(files, dataset, target, seed).first(FAMILIES, EACH)
    group = np.load(next(iter(files.values())))["group"]
    rows = []
    for families in (FAMILIES, *[(name,) for name in FAMILIES]):
        trials = every.first(families, EACH)
        full, best = ensemble_loss(trials), int(np.argmin(trials.losses @ trials.compared_by()))
        for name, rule in RULES.items():
            completed, cost = raced(trials, rule, group)
            found = ensemble_loss(trials.only(np.flatnonzero(completed)))
            row = {"dataset": dataset, "target": target, "seed": seed, "rule": name}
            row |= {"families": "+".join(families), "cost": cost, "loss": found, "full": full}
            rows.append(row | {"best kept": bool(completed[best])})
    return rows


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Geometric mean over tables of the loss relative to that of all trials, and the costs."""
    rows = rows.assign(log=np.log(rows["loss"] / rows["full"]))
    tables = rows.groupby(["families", "rule", "dataset"])[["log", "cost", "best kept"]].mean()
    by = tables.groupby(["families", "rule"], sort=False)
    found = by.mean()
    return pd.DataFrame(
        {
            "loss": np.exp(found["log"]),
            "standard error": by["log"].sem(),
            "worst table": np.exp(by["log"].max()),
            "cost": found["cost"],
            "best kept": found["best kept"],
        }
    )


def main() -> None:
    args = arguments(__doc__).parse_args()
    rows = over_cells(scored, args, FAMILIES)
    rows.to_csv(args.out, index=False, float_format="%.6g")
    for seed, part in rows.groupby("seed"):
        print(f"seed {seed}, {part['dataset'].nunique()} tables")
        print(summary(part).round(4).to_string())


if __name__ == "__main__":
    main()
