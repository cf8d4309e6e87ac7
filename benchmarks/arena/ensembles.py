"""Ensembles of trials of several families, chosen on answers and scored on hidden targets.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/ensembles.py --losses FOLDER/losses --seed 31

reads the cells that ``benchmarks/arena losses`` has computed (all families of a data set, target
and seed have the same rows and models per trial) and writes the target's loss of everything that
could be handed over. The members are chosen by the package's own code.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import joblib
import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, for `reproduction`

from cells import losses_of
from problems import GENERATED, problem
from regret import LEVEL, ratio_of_means
from tqdm import tqdm

from shiftune.evaluate._answers import Answers
from shiftune.evaluate._losses import Loss, bounded
from shiftune.predictor._selection import MOST_COMPARED, ROUNDS, Candidates
from shiftune.risk import RegressionAdjusted
from shiftune.risk._adjusted import ROWS_FOR_HALF_SHARE, SOURCE_PSEUDO_ROWS
from shiftune.search._families import EVERY, next_family

# What `cells.losses_of` bounds losses to.
LOSSES = {
    "regression": bounded("squared", 100.0),
    "classification": bounded("log_loss", -np.log(1e-3)),
}
DRAWS = 4000
LABELS = (10, 30, 100)
# Of the target's rows that may be labelled; on the others the choice is scored.
MOST_LABELLED = 0.6


@dataclass
class Trials:
    """Trials of several families on one problem."""

    family: np.ndarray  # (P,) names
    answers: list[Answers]
    pooled: np.ndarray  # (P,) mean loss on validation rows of known sites
    target_answers: np.ndarray  # (P, n_T) or (P, n_T, C)
    y: list[np.ndarray]  # validation labels by site
    X: list[np.ndarray]  # validation rows by site
    X_target: np.ndarray
    y_target: np.ndarray
    task: str
    classes: np.ndarray | None
    loss: Loss | None = None  # by which members are chosen, if not that of the task

    def __post_init__(self) -> None:
        self.loss = self.loss or LOSSES[self.task]

    def only(self, keep: Sequence[int]) -> Trials:
        """Return some of the trials."""
        kept = np.asarray(keep)
        return Trials(
            self.family[kept],
            [self.answers[i] for i in kept],
            self.pooled[kept],
            self.target_answers[kept],
            self.y,
            self.X,
            self.X_target,
            self.y_target,
            self.task,
            self.classes,
            self.loss,
        )

    def first(self, families: Sequence[str], each: int) -> Trials:
        """Return the first trials of some families."""
        return self.only(
            np.concatenate([np.flatnonzero(self.family == name)[:each] for name in families])
        )

    @cached_property
    def shares(self) -> np.ndarray:
        """Shares of the sites, as in the package's default estimator."""
        n = np.array([len(own) for own in self.y])
        shares = n / (n + ROWS_FOR_HALF_SHARE)
        return shares / shares.sum()

    @cached_property
    def row_shares(self) -> np.ndarray:
        """Shares of the rows, (n_val,)."""
        n = [len(own) for own in self.y]
        return np.repeat(self.shares / n, n)

    @cached_property
    def fitted(self) -> RegressionAdjusted:
        """The package's default estimator, fitted."""
        return RegressionAdjusted().fit(self.X_target, self.X)

    def compared_by(self, trust: float | None = None) -> np.ndarray:
        """Coefficients of the rows in the criterion, (n_val,); by default the package's own.

        `trust` is the share of the adjustment to the target's rows.
        """
        if trust is None:
            better = np.argsort(self.losses @ self.row_shares, kind="stable")
            kept = better[: min((len(better) + 1) // 2, MOST_COMPARED)]
            best = self.fitted.estimate(self.by_site(self.losses[better[0]]))
            return self.fitted.row_shares(self.losses[kept], best)
        return (1 - trust) * self.row_shares + trust * self.fitted.coefficients_

    def by_site(self, values: np.ndarray) -> list[np.ndarray]:
        """Split values of the validation rows by site."""
        return np.split(values, np.cumsum([len(own) for own in self.y])[:-1])

    @cached_property
    def losses(self) -> np.ndarray:
        """Losses half by models that know the site, (P, n_val)."""
        return np.array([self.losses_of(answers) for answers in self.answers])

    def losses_of(self, answers: Answers) -> np.ndarray:
        """Return the losses of answers to all validation rows, (n_val,)."""
        sites = np.repeat(np.arange(len(self.y)), [len(own) for own in self.y])
        return answers.losses(np.concatenate(self.y), self.loss, self.classes, sites)

    def candidates(self, trust: float | None = None) -> Candidates:
        """Return the package's chooser."""
        shares = self.compared_by(trust)
        answers = dict(enumerate(self.answers))
        return Candidates(answers, self.y, shares, self.loss, self.classes)

    def target_loss(self, weights: np.ndarray) -> float:
        """Return the mean loss of a weighted mean of the trials at the hidden target."""
        answers = np.tensordot(weights, self.target_answers, axes=1)
        return float(losses_of(answers, self.y_target, self.classes).mean())

    def of_one(self, i: int) -> float:
        """Return the loss of a single trial at the target."""
        return self.target_loss(np.eye(len(self.family))[i])


def read(files: dict[str, Path], dataset: str, target: int, seed: int) -> Trials:
    """Read the cells of all families of one problem."""
    p = problem(dataset, target, seed)
    cells = {family: dict(np.load(path)) for family, path in files.items()}
    one = next(iter(cells.values()))
    judged, task = ~one["train"], str(one["task"])
    y = one["y"].astype(float)[judged]
    site = one["site"][judged]
    X = np.concatenate(p.X)[judged]
    answers = [
        Answers(known, unseen[judged], 0.5)
        for cell in cells.values()
        for known, unseen in zip(cell["pooled_answers"], cell["left_out_answers"], strict=True)
    ]
    return Trials(
        np.concatenate([[name] * len(cell["pooled"]) for name, cell in cells.items()]),
        answers,
        np.concatenate([cell["pooled"].mean(axis=1) for cell in cells.values()]),
        np.concatenate([cell["target_answers"] for cell in cells.values()]).astype(float),
        [y[site == j] for j in np.unique(site)],
        [X[site == j] for j in np.unique(site)],
        p.X_target,
        p.y_target,
        task,
        None if task == "regression" else np.unique(one["y"].astype(float)),
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


# ---------------------------------------------------------------- what is handed over


def naive(trials: Trials) -> float:
    """Return the loss of the trial of lowest mean loss on known sites."""
    return trials.of_one(int(np.argmin(trials.pooled)))


def one_trial(trust: float | None) -> Callable[[Trials], float]:
    """Hand over the trial of lowest criterion, with a share of the adjustment."""

    def handed(trials: Trials) -> float:
        return trials.of_one(int(np.argmin(trials.losses @ trials.compared_by(trust))))

    return handed


def top(count: int) -> Callable[[Trials], float]:
    """Average the best trials."""

    def handed(trials: Trials) -> float:
        best = np.argsort(trials.losses @ trials.row_shares, kind="stable")[:count]
        return trials.target_loss(np.isin(np.arange(len(trials.family)), best) / len(best))

    return handed


def greedy(trust: float | None = None, rounds: int = ROUNDS) -> Callable[[Trials], float]:
    """Choose members by the package's code."""

    def handed(trials: Trials) -> float:
        found = trials.candidates(trust)
        weights = np.zeros(len(trials.family))
        weights[found.numbers] = found.weights(rounds=rounds)
        return trials.target_loss(weights)

    return handed


def gated(sure: bool) -> Callable[[Trials], float]:
    """Hand over one trial where the nested estimate of the ensemble is higher (for sure)."""

    def handed(trials: Trials) -> float:
        found = trials.candidates()
        apart = trials.losses_of(found.nested_answers())
        apart -= trials.losses_of(found.nested_answers(rounds=1))
        by_site = np.array([own.mean() for own in trials.by_site(apart)])
        worse = float(trials.shares @ by_site)
        error = by_site.std(ddof=1) / np.sqrt(len(by_site)) if len(by_site) > 1 else np.inf
        if worse > (2 * error if sure else 0):
            return trials.of_one(found.numbers[0])
        return greedy()(trials)

    return handed


def by_budget(trials: Trials, total: int) -> Trials:
    """Return the trials that the package's budget would have run, the families' own in order."""
    waiting = {name: list(np.flatnonzero(trials.family == name)) for name in set(trials.family)}
    waiting = {name: waiting[name] for name in dict.fromkeys(trials.family)}
    run: list[int] = []
    weights: dict[str, float] = {}
    while len(run) < total:
        proposed = {name: int(np.sum(trials.family[run] == name)) for name in waiting}
        if len(run) % EVERY == 0 and run:
            part = trials.only(run)
            members = part.candidates(0.0)
            found = members.members(members.weights())
            weights = dict.fromkeys(waiting, 0.0)
            for i, weight in found.items():
                weights[str(part.family[i])] += weight
        free = {name: proposed[name] for name in waiting if waiting[name]}
        run.append(waiting[next_family(free, weights.copy)].pop(0))
    return trials.only(run)


def estimated(trials: Trials) -> dict[str, float]:
    """Estimate the ensemble's risk from its nested losses: adjusted, and mean over the sites."""
    nested = trials.losses_of(trials.candidates().nested_answers())
    risk = trials.fitted.estimate(trials.by_site(nested))
    low, high = risk.interval(0.9)
    return {
        "estimate, adjusted": risk.value,
        "estimate, mean of the sites": float(trials.row_shares @ nested),
        "estimate, low": low,
        "estimate, high": high,
    }


def best_in_hindsight(trials: Trials) -> float:
    """Return the loss of the trial that the target's own labels choose."""
    return min(trials.of_one(i) for i in range(len(trials.family)))


def scored(files: dict[str, Path], dataset: str, target: int, seed: int) -> dict[str, object]:
    """Score one problem."""
    trials = read(files, dataset, target, seed)
    row: dict[str, object] = {"dataset": dataset, "target": target, "seed": seed}
    for family in dict.fromkeys(trials.family):
        own = trials.first([family], 24)
        row |= {
            f"{family}: naive": naive(own),
            f"{family}: median": float(np.median([own.of_one(i) for i in range(len(own.family))])),
            f"{family}: mean of the sites": one_trial(0.0)(own),
            f"{family}: adjusted": one_trial(1.0)(own),
            f"{family}: ensemble": greedy()(own),
            f"{family}: best in hindsight": best_in_hindsight(own),
        }
    pools = {}
    if {"trees", "kernel", "linear"} <= set(trials.family):
        three = ["trees", "kernel", "linear"]
        pools = {"3 x 8": trials.first(three, 8), "3 x 24": trials.first(three, 24)}
        if "forest" in trials.family:
            pools["4 x 6"] = trials.first([*three, "forest"], 6)
            pools["3 x 24 + 8 forests"] = trials.only(
                np.flatnonzero(np.isin(trials.family, [*three, "forest"]))
            )
        row |= estimated(pools["3 x 24"])
        row |= with_labels(pools["3 x 24"], np.random.default_rng([seed, target]))
        for total in (24, 36):
            equal, shared = trials.first(three, total // 3), by_budget(pools["3 x 24"], total)
            row[f"{total} trials, families alike: ensemble"] = greedy()(equal)
            row[f"{total} trials, shared by weights: ensemble"] = greedy()(shared)
    for name, pool in pools.items():
        row |= {
            f"{name}: one trial, mean of the sites": one_trial(0.0)(pool),
            f"{name}: one trial, half adjusted": one_trial(0.5)(pool),
            f"{name}: one trial, adjusted": one_trial(1.0)(pool),
            f"{name}: mean of the top 5": top(5)(pool),
            f"{name}: ensemble": greedy()(pool),
            f"{name}: ensemble, mean of the sites": greedy(0.0)(pool),
            f"{name}: ensemble, adjusted": greedy(1.0)(pool),
            f"{name}: ensemble, 8 rounds": greedy(rounds=8)(pool),
            f"{name}: ensemble, 30 rounds": greedy(rounds=30)(pool),
            f"{name}: ensemble unless estimated worse": gated(sure=False)(pool),
            f"{name}: ensemble unless surely worse": gated(sure=True)(pool),
            f"{name}: best in hindsight": best_in_hindsight(pool),
        }
    return row


def with_labels(trials: Trials, rng: np.random.Generator) -> dict[str, float]:
    """Score ensembles that a few labelled rows of the target help to choose, on its other rows.

    The rows count m / (m + m_0) in the criterion, with the prior value of m_0; see
    `shiftune.risk._adjusted`.
    """
    found = {}
    labels = np.concatenate(trials.y)
    shares = trials.compared_by()
    for m in LABELS:
        if m > MOST_LABELLED * len(trials.y_target):
            continue
        order = rng.permutation(len(trials.y_target))
        own, others = order[:m], order[m:]
        share = m / (m + SOURCE_PSEUDO_ROWS)
        known = [
            Answers(
                np.concatenate([a.known, at_target[own].astype(a.known.dtype)]),
                np.concatenate([a.unseen, at_target[own].astype(a.known.dtype)]),
                a.unseen_share,
            )
            for a, at_target in zip(trials.answers, trials.target_answers, strict=True)
        ]
        y = [*trials.y, trials.y_target[own].astype(labels.dtype)]
        both = np.concatenate([(1 - share) * shares, np.full(m, share / m)])
        rest = replace(
            trials,
            target_answers=trials.target_answers[:, others],
            y_target=trials.y_target[others],
        )
        for name, answers, sites, rows in (
            ("without", trials.answers, trials.y, shares),
            ("with", known, y, both),
        ):
            chosen = Candidates(
                dict(enumerate(answers)), sites, rows, LOSSES[trials.task], trials.classes
            )
            weights = np.zeros(len(trials.family))
            weights[chosen.numbers] = chosen.weights()
            found[f"{m} labels, ensemble {name}"] = rest.target_loss(weights)
        found[f"{m} labels, naive trees"] = naive(rest.first(["trees"], 24))
    return found


# ---------------------------------------------------------------- tables


def relative(rows: pd.DataFrame, base: str) -> pd.DataFrame:
    """Return losses relative to a base in percent, means over cells of a data set, then over sets.

    Intervals are by bootstrap over data sets.
    """
    losses = rows.drop(columns=["dataset", "target", "seed"]).filter(
        regex="^(?!estimate|[0-9]+ labels)"
    )
    percent = 100 * (losses.div(losses[base], axis=0) - 1)
    means = percent.groupby(rows["dataset"]).mean()
    rng = np.random.default_rng(0)
    draws = means.to_numpy()[rng.integers(0, len(means), (DRAWS, len(means)))].mean(axis=1)
    low, high = np.percentile(draws, [50 * (1 - LEVEL), 50 * (1 + LEVEL)], axis=0)
    return pd.DataFrame(
        {
            "percent": means.mean(),
            "low": low,
            "high": high,
            "better": (means < 0).mean(),
            "worst": means.max(),
            "worst_table": means.idxmax(),
        }
    )


def regrets(rows: pd.DataFrame, family: str) -> pd.DataFrame:
    """Return regrets of a family's choices relative to naive's; regrets are capped at 3 medians."""
    best, median = rows[f"{family}: best in hindsight"], rows[f"{family}: median"]
    span = (median - best).where(median > best)
    means = {}
    for name in ("naive", "mean of the sites", "adjusted", "ensemble"):
        regret = ((rows[f"{family}: {name}"] - best) / span).clip(upper=3).fillna(0.0)
        means[name] = regret.groupby(rows["dataset"]).mean()
    found = {name: ratio_of_means(own, means["naive"]) for name, own in means.items()}
    return pd.DataFrame(found, index=["regret", "low", "high"]).T


def labels_gain(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what labels gain: loss of the ensemble chosen with them relative to without."""
    found = {}
    for m in LABELS:
        both = rows[["dataset", f"{m} labels, ensemble with", f"{m} labels, ensemble without"]]
        both = both.dropna().set_axis(["dataset", "with", "without"], axis=1)
        percent = 100 * (both["with"] / both["without"] - 1)
        means = percent.groupby(both["dataset"]).mean()
        found[m] = {"percent": means.mean(), "worst": means.max(), "tables": len(means)}
    return pd.DataFrame(found).T


def estimates(rows: pd.DataFrame) -> pd.Series:
    """Return how the estimates for the ensemble compare with its loss at the hidden targets."""
    truth = rows["3 x 24: ensemble"]
    low, high = rows["estimate, low"], rows["estimate, high"]
    found = {
        "90 % interval covers": truth.between(low, high).groupby(rows["dataset"]).mean().mean()
    }
    for name in ("adjusted", "mean of the sites"):
        ratio = rows[f"estimate, {name}"] / truth
        found[f"{name}: median of estimate / truth"] = ratio.median()
        found[f"{name}: median error, relative"] = (ratio - 1).abs().median()
    found["median half width, relative"] = ((high - low) / 2 / truth).median()
    return pd.Series(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--losses", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--kind", choices=["real", "generated"], default="real")
    parser.add_argument("--families", nargs="+", default=["trees", "kernel", "linear", "forest"])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    whole = cells_in(args.losses, args.seed, args.families, args.kind)
    work = [joblib.delayed(scored)(files, *key, args.seed) for key, files in whole.items()]
    done = joblib.Parallel(n_jobs=args.jobs, return_as="generator_unordered")(work)
    rows = pd.DataFrame(list(tqdm(done, total=len(work), unit="cell")))
    rows = rows.sort_values(["dataset", "target"], ignore_index=True)
    rows.to_csv(args.out, index=False, float_format="%.6g")
    print(f"{rows['dataset'].nunique()} tables, {len(rows)} cells, seed {args.seed}")
    print(relative(rows, f"{args.families[0]}: naive").round(2).to_string())
    if "estimate, low" in rows:
        print(estimates(rows).round(3).to_string())
        print(labels_gain(rows).round(2).to_string())
    print(pd.concat({f: regrets(rows, f) for f in args.families}).round(2).to_string())


if __name__ == "__main__":
    main()
