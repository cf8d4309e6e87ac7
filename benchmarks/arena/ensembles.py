"""Ensembles of trials of several families, chosen out of site and scored on hidden targets.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/ensembles.py --losses FOLDER/losses --seeds 31 \
        --out ensembles.csv

reads the cells that ``benchmarks/arena losses`` has computed and writes the target's loss of
everything that could be the final model. The members are chosen by the package's own code.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from pools import FAMILIES
from regret import mean, ratio_of_means
from stored_cells import arguments, over_cells
from trials import LABELS, MOST_LABELLED, Trials, naive, read

from shiftune.predictor._selection import ROUNDS, Candidates
from shiftune.risk._adjusted import SOURCE_PSEUDO_ROWS
from shiftune.search._families import EVERY, next_family

# ---------------------------------------------------------------- the final model


def one_trial(trials: Trials, adjusted: bool = False) -> float:
    """Return the loss of the trial of lowest criterion."""
    return trials.target_loss(trials.best(adjusted))


def top(trials: Trials, count: int) -> float:
    """Return the loss of the plain mean of the best trials."""
    best = np.argsort(trials.losses @ trials.row_shares, kind="stable")[:count]
    return trials.target_loss(np.isin(np.arange(len(trials.family)), best) / len(best))


def greedy(trials: Trials, adjusted: bool = False, rounds: int = ROUNDS) -> float:
    """Return the loss of the ensemble that the package's code chooses."""
    return trials.target_loss(trials.weights_of(trials.candidates(adjusted), rounds))


def gated(trials: Trials, sure: bool) -> float:
    """Return the loss of one trial where the ensemble's nested estimate is higher (for sure)."""
    found = trials.candidates()
    apart = trials.losses_of(found.nested_predictions())
    apart -= trials.losses_of(found.nested_predictions(rounds=1))
    by_site = np.array([own.mean() for own in trials.by_site(apart)])
    worse = float(trials.row_shares @ apart)
    error = by_site.std(ddof=1) / np.sqrt(len(by_site)) if len(by_site) > 1 else np.inf
    if worse > (2 * error if sure else 0):
        return trials.of_one(found.numbers[0])
    return trials.target_loss(trials.weights_of(found))


def by_budget(trials: Trials, total: int) -> Trials:
    """Return the trials that the package's budget would have run, the families' own in order."""
    waiting = {name: list(np.flatnonzero(trials.family == name)) for name in set(trials.family)}
    waiting = {name: waiting[name] for name in dict.fromkeys(trials.family)}
    run: list[int] = []
    weights: dict[str, float] = {}
    while len(run) < min(total, len(trials.family)):
        proposed = {name: int(np.sum(trials.family[run] == name)) for name in waiting}
        if len(run) % EVERY == 0 and run:
            part = trials.only(run)
            members = part.candidates()
            found = members.members(members.weights())
            weights = dict.fromkeys(waiting, 0.0)
            for i, weight in found.items():
                weights[str(part.family[i])] += weight
        free = {name: proposed[name] for name in waiting if waiting[name]}
        run.append(waiting[next_family(free, weights.copy)].pop(0))
    return trials.only(run)


def estimated(trials: Trials) -> dict[str, float]:
    """Estimate the ensemble's risk from its nested losses: adjusted, and mean over the sites."""
    nested = trials.losses_of(trials.ensemble()[1])
    risk = trials.fitted.estimate(trials.by_site(nested))
    low, high = risk.interval(0.9)
    return {
        "estimate, adjusted": risk.value,
        "estimate, mean of the sites": risk.criterion,
        "estimate, low": low,
        "estimate, high": high,
    }


def best_in_hindsight(trials: Trials) -> float:
    """Return the loss of the trial that the target's own labels choose."""
    return min(trials.of_one(i) for i in range(len(trials.family)))


def scored(files: dict[str, Path], dataset: str, target: int, seed: int) -> list[dict[str, object]]:
    """Score one problem."""
    trials = read(files, dataset, target, seed)
    row: dict[str, object] = {"dataset": dataset, "target": target, "seed": seed}
    for family in dict.fromkeys(trials.family):
        own = trials.first([family], 24)
        row |= {
            f"{family}: naive": naive(own),
            f"{family}: median": float(np.median([own.of_one(i) for i in range(len(own.family))])),
            f"{family}: one trial": one_trial(own),
            f"{family}: one trial, adjusted": one_trial(own, adjusted=True),
            f"{family}: ensemble": greedy(own),
            f"{family}: best in hindsight": best_in_hindsight(own),
        }
    pools = {}
    if set(FAMILIES) <= set(trials.family):
        pools = {"3 x 8": trials.first(FAMILIES, 8), "3 x 24": trials.first(FAMILIES, 24)}
        if "forest" in trials.family:
            four = [*FAMILIES, "forest"]
            pools["4 x 6"] = trials.first(four, 6)
            pools["3 x 24 + 8 forests"] = trials.only(np.flatnonzero(np.isin(trials.family, four)))
        row |= estimated(pools["3 x 24"])
        row |= with_labels(pools["3 x 24"], np.random.default_rng([seed, target]))
        for total in (24, 36):
            equal, shared = trials.first(FAMILIES, total // 3), by_budget(pools["3 x 24"], total)
            row[f"{total} trials, families alike: ensemble"] = greedy(equal)
            row[f"{total} trials, shared by weights: ensemble"] = greedy(shared)
    for name, pool in pools.items():
        row |= {
            f"{name}: one trial": one_trial(pool),
            f"{name}: one trial, adjusted": one_trial(pool, adjusted=True),
            f"{name}: mean of the top 5": top(pool, 5),
            f"{name}: ensemble": greedy(pool),
            f"{name}: ensemble, adjusted": greedy(pool, adjusted=True),
            f"{name}: ensemble, 8 rounds": greedy(pool, rounds=8),
            f"{name}: ensemble, 30 rounds": greedy(pool, rounds=30),
            f"{name}: ensemble unless estimated worse": gated(pool, sure=False),
            f"{name}: ensemble unless surely worse": gated(pool, sure=True),
            f"{name}: best in hindsight": best_in_hindsight(pool),
        }
    return [row]


def with_labels(trials: Trials, rng: np.random.Generator) -> dict[str, float]:
    """Score ensembles that a few labelled rows of the target help to choose, on its other rows.

    The rows count m / (m + m_0) in the criterion, with the prior value of m_0; see
    `shiftune.risk._adjusted`.
    """
    found = {}
    for m in LABELS:
        if m > MOST_LABELLED * len(trials.y_target):
            continue
        order = rng.permutation(len(trials.y_target))
        own, others = order[:m], order[m:]
        rest = replace(
            trials,
            target_predictions=trials.target_predictions[:, others],
            y_target=trials.y_target[others],
        )
        share = m / (m + SOURCE_PSEUDO_ROWS)
        at_labelled = trials.target_predictions[:, own].astype(trials.predictions.dtype)
        both = Candidates(
            dict(enumerate(np.concatenate([trials.predictions, at_labelled], axis=1))),
            [*trials.y, trials.y_target[own]],
            np.concatenate([(1 - share) * trials.row_shares, np.full(m, share / m)]),
            trials.loss,
            trials.classes,
        )
        found[f"{m} labels, ensemble without"] = greedy(rest)
        found[f"{m} labels, ensemble with"] = rest.target_loss(trials.weights_of(both))
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
    found = pd.DataFrame({name: mean(own) for name, own in means.items()}).T
    return found.set_axis(["percent", "low", "high"], axis=1).assign(
        better=(means < 0).mean(), worst=means.max(), worst_table=means.idxmax()
    )


def regrets(rows: pd.DataFrame, family: str) -> pd.DataFrame:
    """Return regrets of a family's choices relative to naive's; regrets are capped at 3 medians."""
    best, median = rows[f"{family}: best in hindsight"], rows[f"{family}: median"]
    span = (median - best).where(median > best)
    means = {}
    for name in ("naive", "one trial", "one trial, adjusted", "ensemble"):
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
    parser = arguments(__doc__)
    parser.add_argument("--kind", choices=["real", "generated"], default="real")
    parser.add_argument("--families", nargs="+", default=[*FAMILIES, "forest"])
    args = parser.parse_args()
    found = over_cells(scored, args, args.families, kind=args.kind)
    found.to_csv(args.out, index=False, float_format="%.6g")
    for seed, rows in found.groupby("seed"):
        print(f"{rows['dataset'].nunique()} tables, {len(rows)} cells, seed {seed}")
        print(relative(rows, f"{args.families[0]}: naive").round(2).to_string())
        if "estimate, low" in rows:
            print(estimates(rows).round(3).to_string())
            print(labels_gain(rows).round(2).to_string())
        print(pd.concat({f: regrets(rows, f) for f in args.families}).round(2).to_string())


if __name__ == "__main__":
    main()
