"""Intervals for one more site: coverage and interval score at hidden targets.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/intervals.py --losses FOLDER/losses \
        --seeds 30 31 --out intervals.csv

reads the cells that ``benchmarks/arena losses`` has computed, estimates the risk of what would be
handed over (the chosen trial of each family, the ensemble, the ensemble with an update by a few
labels), also with two or three of the sources alone, writes the parts of these estimates to the
file (or reads them from it if it is there), and compares the rules of `interval_rules`. The first
seed decides (and leaves one table out at a time), the others judge. Simulated sites show what
happens where sites differ by more or less than those of real tables.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from ensembles import LABELS, Trials, read
from interval_rules import BEFORE, LEVEL, OLD, PACKAGE, RULES, fit_prior, parts_of
from regret import mean, ratio_of_means
from stored_cells import arguments, over_cells
from updates import ensemble_effects

from shiftune.evaluate._answers import Answers
from shiftune.risk import RegressionAdjusted
from shiftune.risk._adjusted import combined

FAMILIES = ("trees", "kernel", "linear")
REPEATS = 2
# Sources that are drawn where a table has more.
FEW = (2, 3)
# Of the target's rows that may be labelled: the mean loss on the others stands for the truth.
MOST_LABELLED = 0.2
# Coverage that a rule needs, and the share of tables on which it covers 80 %.
NEEDED, TABLES_NEEDED = 0.87, 0.75
HANDED = ["one trial", "ensemble"]
# Simulated: sources, standard deviations between sites (that of a row's loss is 1.4), draws.
SIMULATED = ((2, 3, 6), (0.0, 0.1, 0.2, 0.5, 1.0), 300)


# ---------------------------------------------------------------- cells


def parts(files: dict[str, Path], dataset: str, target: int, seed: int) -> list[dict[str, object]]:
    """Return the parts of the estimates for everything that one problem would hand over."""
    warnings.simplefilter("ignore")
    trials = read(files, dataset, target, seed).first(FAMILIES, 24)
    cell = {"dataset": dataset, "target": target, "seed": seed}
    rows: list[dict[str, object]] = []
    handed = handed_over(trials)
    for count, sites, adjusted in sources_drawn(trials, np.random.default_rng([seed, target])):
        for kind, family, answers, weights in handed:
            truth = trials.target_loss(weights)
            halves, unseen = (
                adjusted.estimate([own[j] for j in sites])
                for own in (
                    trials.by_site(trials.losses_of(each))
                    for each in (answers, replace(answers, unseen_share=1.0))
                )
            )
            row = cell | {"drawn": count, "kind": kind, "family": family, "truth": truth}
            row |= {"by_unseen": unseen.value}
            rows.append(row | {"centre": "half and half"} | parts_of(halves))
            rows.append(row | {"centre": "unseen only"} | parts_of(unseen))
    row = cell | {"drawn": 0, "family": "", "centre": "half and half"}
    return rows + [row | own for own in updated(trials, seed, target)]


def handed_over(trials: Trials) -> list[tuple[str, str, Answers, np.ndarray]]:
    """Return kind, family, answers that judge it, and weights of the trials (P,)."""
    every = np.eye(len(trials.family))
    found = []
    for family in FAMILIES:
        own = np.flatnonzero(trials.family == family)
        best = own[np.argmin(trials.losses[own] @ trials.fitted.coefficients_)]
        found.append(("one trial", family, trials.answers[best], every[best]))
    members = trials.candidates()
    weights = members.weights() @ every[members.numbers]
    return [*found, ("ensemble", "", members.nested_answers(), weights)]


def sources_drawn(
    trials: Trials, rng: np.random.Generator
) -> list[tuple[int, np.ndarray, RegressionAdjusted]]:
    """Return all sources, and draws of two or three: how many are drawn, which, the estimator."""
    k = len(trials.y)
    found = [(0, np.arange(k), trials.fitted)]
    for count in FEW:
        for _ in range(REPEATS if count < k else 0):
            sites = np.sort(rng.permutation(k)[:count])
            X = [trials.X[j] for j in sites]
            found.append((count, sites, RegressionAdjusted().fit(trials.X_target, X)))
    return found


def updated(trials: Trials, seed: int, target: int) -> list[dict[str, object]]:
    """Return the parts of the estimates after updates by a few labels."""
    _, effects, at_target = ensemble_effects(trials)
    X, y, adjusted = trials.X_target, trials.y_target, trials.fitted
    rows: list[dict[str, object]] = []
    for m in LABELS:
        for repeat in range(REPEATS if m <= MOST_LABELLED * len(y) else 0):
            order = np.random.default_rng([seed, target, m, repeat]).permutation(len(y))
            own, others = order[:m], order[m:]
            rest = effects.role(X[others], at_target[others], y[others])
            update = effects.update(X[own], at_target[own], y[own])
            scaled = rest.scaled + rest.Z @ update.effect.T
            truth = float(effects.row_losses(rest.y, scaled, update.limits).mean())
            both = adjusted.estimate([*update.source_losses, update.own_losses])
            risk = combined(both, adjusted.estimate(update.source_losses))
            row = {"kind": f"update by {m} labels", "truth": truth, "by_unseen": risk.value}
            rows.append(row | parts_of(risk))
    return rows


# ---------------------------------------------------------------- simulated sites


def simulated(prior: tuple[float, float]) -> pd.DataFrame:
    """Return the parts of estimates for sites of 120 rows, with two shifted columns."""
    rows = []
    counts, spreads, draws = SIMULATED
    for k in counts:
        for d in spreads:
            rng = np.random.default_rng([k, int(10 * d)])
            for _ in range(draws):
                x = [rng.normal(centre, 1, (120, 2)) for centre in rng.normal(0, 0.5, (k + 1, 2))]
                means = [0.3 * own[:, 0] + 1 + d * rng.standard_normal() for own in x]
                losses = [own - 1 + rng.standard_normal(120) ** 2 for own in means[1:]]
                risk = RegressionAdjusted().fit(x[0], x[1:]).estimate(losses)
                row = {"d": d, "truth": float(means[0].mean()), "by_unseen": risk.value}
                row |= {"prior_mean": prior[0], "prior_sd": prior[1]}
                rows.append(row | parts_of(risk))
    return by_rules(pd.DataFrame(rows))


# ---------------------------------------------------------------- intervals


def intervals(parts: pd.DataFrame, decides: int) -> pd.DataFrame:
    """Apply all rules; the prior of a table is learnt from the others, on the seed that decides."""
    updates = parts["kind"].str.startswith("update")
    learn = learnt_from(parts, decides)
    parts = parts.assign(prior_mean=0.0, prior_sd=1.0)
    for table in parts["dataset"].unique():
        for group in (updates, ~updates):
            own = (parts["dataset"] == table) & group
            prior = fit_prior(parts[learn & group & (parts["dataset"] != table)])
            parts.loc[own, ["prior_mean", "prior_sd"]] = prior
    return by_rules(parts)


def learnt_from(parts: pd.DataFrame, decides: int) -> pd.Series:
    """Return which rows a prior may be learnt from."""
    return (parts["seed"] == decides) & (parts["drawn"] == 0) & (parts["centre"] != "unseen only")


def by_rules(parts: pd.DataFrame) -> pd.DataFrame:
    """Return the intervals of all rules, one below the other."""
    found = []
    for name, rule in RULES.items():
        low, high = rule(parts)
        found.append(parts.assign(rule=name, low=low, high=high))
    return measured(pd.concat(found, ignore_index=True))


def measured(rows: pd.DataFrame) -> pd.DataFrame:
    """Add coverage, interval score and half width, the last two relative to the truth."""
    low, high, truth = rows["low"], rows["high"], rows["truth"]
    missed = (low - truth).clip(lower=0) + (truth - high).clip(lower=0)
    return rows.assign(
        covered=truth.between(low, high),
        score=(high - low + 2 / (1 - LEVEL) * missed) / truth,
        half=(high - low) / 2 / truth,
    )


# ---------------------------------------------------------------- tables


def by_kind(rows: pd.DataFrame, what: str) -> pd.DataFrame:
    """Means over the cells of a table, then over tables, for every rule (rows) and kind."""
    means = rows.pivot_table(what, "rule", ["kind", "dataset"])
    return means.T.groupby("kind").mean().T.loc[[name for name in RULES if name in means.index]]


def relative_score(rows: pd.DataFrame) -> pd.Series:
    """Interval score of every rule relative to Paule and Mandel's, geometric mean of the kinds."""
    score = by_kind(rows, "score")
    return np.exp(np.log(score / score.loc[OLD]).mean(axis=1))


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return coverage, score and width of every rule."""
    covered = by_kind(rows, "covered")
    tables = rows.groupby(["rule", "dataset"])["covered"].mean()
    score = rows.pivot_table("score", "dataset", "rule")
    to_before = {name: ratio_of_means(score[name], score[BEFORE]) for name in covered.index}
    return pd.DataFrame(
        {
            "covered": covered.mean(axis=1),
            "least of the kinds": covered.min(axis=1),
            "tables of 80 %": (tables >= 0.8).groupby("rule").mean(),
            "score": relative_score(rows),
            "half width": rows.groupby("rule")["half"].median(),
            f"to {BEFORE}": {name: own.value for name, own in to_before.items()},
            "low": {name: own.low for name, own in to_before.items()},
            "high": {name: own.high for name, own in to_before.items()},
        }
    ).loc[covered.index]


def groups(rows: pd.DataFrame) -> pd.DataFrame:
    """Coverage of some rules in groups of cells, with its interval over tables, and the score."""
    sizes = pd.cut(rows["sources"], [0, 5, 15, np.inf], labels=["3 to 5", "6 to 15", "more"])
    own, handed = rows["drawn"] == 0, rows["kind"].isin(HANDED)
    masks = {family: own & (rows["family"] == family) for family in FAMILIES}
    masks |= {kind: own & (rows["kind"] == kind) for kind in rows["kind"].unique()}
    masks |= {f"{size} sources": own & (sizes == size) for size in sizes.cat.categories}
    masks |= {f"{count} sources, drawn": (rows["drawn"] == count) & handed for count in FEW}
    masks |= {
        f"{count} drawn, ensemble": (rows["drawn"] == count) & (rows["kind"] == "ensemble")
        for count in FEW
    }
    found = {}
    for name, mask in masks.items():
        if not mask.any():
            continue
        by = rows[mask].groupby(["rule", "dataset"])
        score = by["score"].mean().groupby("rule").mean()
        for rule in (OLD, BEFORE, PACKAGE, f"{BEFORE}, unseen"):
            covered = mean(by["covered"].mean()[rule])
            found[name, rule] = covered._asdict() | {"score": score[rule] / score[BEFORE]}
    return pd.DataFrame(found).T


def chosen_without(rows: pd.DataFrame) -> Counter[str]:
    """Count the rules of lowest score among those that cover, without one table at a time."""
    found: Counter[str] = Counter()
    for left in rows["dataset"].unique():
        table = summary(rows[rows["dataset"] != left])
        covers = (table["covered"] >= NEEDED) & (table["tables of 80 %"] >= TABLES_NEEDED)
        found[str(table.loc[covers, f"to {BEFORE}"].idxmin())] += 1
    return found


def centres(rows: pd.DataFrame) -> pd.DataFrame:
    """Compare estimates half by known sites, and by unseen sites alone, with the truth."""
    one = rows[(rows["rule"] == PACKAGE) & (rows["drawn"] == 0) & rows["kind"].isin(HANDED)]
    ratio = one["estimate"] / one["truth"]
    one = one.assign(ratio=ratio, error=(ratio - 1).abs())
    by = one.groupby(["kind", "centre"])
    means = by[["covered", "score"]].mean()
    return by[["ratio", "error"]].median().join(means)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--kind", choices=["real", "generated"], default="real")
    args = parser.parse_args()
    if not args.out.exists():
        rows = over_cells(parts, args, FAMILIES, kind=args.kind)
        rows.to_csv(args.out, index=False, float_format="%.8g")
    found = pd.read_csv(args.out, keep_default_na=False)
    rows = intervals(found, args.seeds[0])
    own = rows[rows["rule"] == PACKAGE]
    print("differs from the package by", np.abs(own["high"] / own["package_high"] - 1).max())
    for seed, both in rows.groupby("seed"):
        half = both[both["centre"] == "half and half"]
        part = half[half["drawn"] == 0]
        print(f"seed {seed}, {part['dataset'].nunique()} tables")
        print(summary(part).round(3).to_string())
        for count, drawn in half[half["drawn"] > 0].groupby("drawn"):
            print(f"{count} sources drawn")
            print(summary(drawn).round(3).to_string())
        print(groups(half).round(3).to_string())
        print(centres(both).round(3).to_string())
        if seed == args.seeds[0]:
            print("without one table", chosen_without(part).most_common())
    plain = learnt_from(found, args.seeds[0]) & found["kind"].isin(HANDED)
    prior = fit_prior(found[plain])
    print("learnt prior of log(tau^2 / V): mean and standard deviation", np.round(prior, 2))
    print(simulated(prior).pivot_table("covered", "rule", ["sources", "d"]).round(2).to_string())


if __name__ == "__main__":
    main()
