"""Intervals for one more site: coverage and interval score at hidden targets.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/intervals.py --losses FOLDER/losses \
        --seeds 30 31 --out intervals.csv

reads the cells that ``benchmarks/arena losses`` has computed, estimates the risk of what would be
handed over (the chosen trial of each family, the ensemble, the ensemble with an update by a few
labels), and compares rules for the variance of the estimate and its degrees of freedom. The first
seed decides (and leaves one table out at a time), the second judges.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
from ensembles import LABELS, cells_in, read
from scipy.special import stdtrit
from tqdm import tqdm
from updates import ensemble_effects

from shiftune.evaluate.answers import Answers
from shiftune.risk import RiskEstimate
from shiftune.risk.few_labels import combined
from shiftune.risk.heterogeneity import heterogeneity
from shiftune.risk.variance import FEWEST_ROWS, pooled_variance, squares_by_source

FAMILIES = ("trees", "kernel", "linear")
LEVEL = 0.9
REPEATS = 2
# Of the target's rows that may be labelled: the mean loss on the others stands for the truth.
MOST_LABELLED = 0.2
# Coverage that a rule needs on the seed that decides.
NEEDED = 0.9


@dataclass(frozen=True)
class Pieces:
    """Parts of an estimate's variance, from which every rule makes its interval."""

    value: float
    nonnegative: bool
    estimates: np.ndarray  # of the sources, without those of fewer than five rows
    chance: np.ndarray  # their sampling variances
    one_row: float
    stretch: float
    leverage: np.ndarray
    rows: float  # variance by the rows
    rows_dof: float
    besides: float
    by_unseen: float  # the estimate by models that do not know the site

    @classmethod
    def of(cls, risk: RiskEstimate, by_unseen: float) -> Pieces:
        """Take an estimate apart."""
        site = risk.new_site
        k = len(site.leverage)
        n = risk.n[:k]
        divergences = squares_by_source(site.row_effects, risk.block_counts)[:k] * n
        large = n >= FEWEST_ROWS if np.sum(n >= FEWEST_ROWS) > 1 else n > 0
        one_row = float(np.average(divergences, weights=n))
        rows, rows_dof = pooled_variance(risk.influence, risk.block_counts, risk.ess)
        return cls(
            risk.value,
            risk.nonnegative,
            risk.estimates[:k][large],
            (divergences / np.maximum(n - 1, 1))[large],
            one_row,
            site.stretch,
            site.leverage,
            rows,
            rows_dof,
            float(site.extrapolation @ site.extrapolation) + site.noise * one_row,
            by_unseen,
        )

    def interval(self, between: float, dof: float | None = None, extra: float = 0.0) -> tuple:
        """Return the interval with a variance between sites and its degrees of freedom.

        `dof` None: those of the whole variance are k - 1.
        """
        k = len(self.leverage)
        sites = between * float(self.leverage @ self.leverage + self.leverage.sum() ** 2)
        total = self.rows + sites + self.besides
        if dof is None:
            degrees = max(k - 1.0, 1.0)
        else:
            spread = self.rows**2 / self.rows_dof + sites**2 / max(dof, 1)
            degrees = max(total**2 / spread, 1.0) if spread > 0 else 1.0
        half = float(stdtrit(degrees, 0.5 + LEVEL / 2)) * np.sqrt(total + extra)
        low = self.value - half
        return (max(low, 0.0) if self.nonnegative else low), self.value + half


# ---------------------------------------------------------------- rules

Rule = Callable[[Pieces], tuple]


def paule_mandel(p: Pieces) -> tuple:
    """Paule and Mandel's variance; where it is 0 only the rows' degrees of freedom count."""
    between = 0.0
    if len(p.estimates) > 1 and (p.chance > 0).all():
        between = p.stretch * heterogeneity(p.estimates, p.chance).tau_squared
    return p.interval(between, len(p.leverage) - 1)


def moments(part: float, of_one_row: float, whole: bool = False, unseen: bool = False) -> Rule:
    """Variance of the estimates less chance, at least a part of it and a share of one row's.

    `whole`: k - 1 degrees of freedom for the whole variance. `unseen`: plus the square of how far
    the estimate moves if only models count that do not know the site.
    """

    def rule(p: Pieces) -> tuple:
        between = max(p.stretch * _seen(p, part), of_one_row * p.one_row)
        extra = (p.by_unseen - p.value) ** 2 if unseen else 0.0
        return p.interval(between, None if whole else len(p.leverage) - 1, extra)

    return rule


def with_prior(part: float, of_one_row: float, sites: float) -> Rule:
    """Mean of the variance that is seen and a prior that counts as so many sites."""

    def rule(p: Pieces) -> tuple:
        k = len(p.estimates)
        seen = (k - 1) * p.stretch * _seen(p, part)
        dof = k - 1 + sites
        return p.interval((seen + sites * of_one_row * p.one_row) / dof, dof)

    return rule


def _seen(p: Pieces, part: float) -> float:
    if len(p.estimates) < 2:
        return 0.0
    spread = float(p.estimates.var(ddof=1))
    return max(spread - float(p.chance.mean()), part * spread)


PACKAGE = "at least 1/2 and 1/200"
RULES: dict[str, Rule] = {
    "Paule and Mandel": paule_mandel,
    "moments": moments(0, 0),
    "at least 1/200": moments(0, 1 / 200),
    "at least 1/4 and 1/200": moments(1 / 4, 1 / 200),
    "at least 1/2": moments(1 / 2, 0),
    PACKAGE: moments(1 / 2, 1 / 200),
    "at least 1/2 and 1/100": moments(1 / 2, 1 / 100),
    "at least 3/4 and 1/200": moments(3 / 4, 1 / 200),
    "all of it": moments(1, 0),
    "at least 1/2 and 1/200, unseen": moments(1 / 2, 1 / 200, unseen=True),
    "at least 1/2, k - 1": moments(1 / 2, 0, whole=True),
    "at least 1/2, k - 1, unseen": moments(1 / 2, 0, whole=True, unseen=True),
}
# Better on these tables, and far too narrow where sites differ more than the prior expects.
PRIORS = {"prior 1/50, 5 sites": with_prior(1 / 2, 1 / 50, 5)}
ALL = RULES | PRIORS


# ---------------------------------------------------------------- cells


def scored(files: dict[str, Path], dataset: str, target: int, seed: int) -> list[dict[str, object]]:
    """Return the intervals of all rules for everything that one problem would hand over."""
    warnings.simplefilter("ignore")
    trials = read(files, dataset, target, seed).first(FAMILIES, 24)
    adjusted = trials.fitted
    rows: list[dict[str, object]] = []

    def add(kind: str, truth: float, risk: RiskEstimate, by_unseen: float) -> None:
        pieces = Pieces.of(risk, by_unseen)
        for name, rule in ALL.items():
            low, high = rule(pieces)
            row = {"dataset": dataset, "target": target, "seed": seed, "sources": len(trials.y)}
            row |= {"kind": kind, "rule": name, "truth": truth, "estimate": risk.value}
            rows.append(row | {"by_unseen": by_unseen, "low": low, "high": high})

    def judge(kind: str, answers: Answers, truth: float) -> None:
        halves, unseen = (
            adjusted.estimate(trials.by_site(trials.losses_of(each)))
            for each in (answers, replace(answers, unseen_share=1.0))
        )
        add(kind, truth, halves, unseen.value)

    for family in FAMILIES:
        own = np.flatnonzero(trials.family == family)
        best = own[np.argmin(trials.losses[own] @ adjusted.coefficients_)]
        judge("one trial", trials.answers[best], trials.of_one(best))
    found = trials.candidates()
    weights = np.zeros(len(trials.family))
    weights[found.numbers] = found.weights()
    judge("ensemble", found.nested_answers(), trials.target_loss(weights))
    _, effects, at_target = ensemble_effects(trials)
    X, y = trials.X_target, trials.y_target
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
            add(f"update by {m} labels", truth, risk, risk.value)
    return rows


# ---------------------------------------------------------------- tables


def measured(rows: pd.DataFrame) -> pd.DataFrame:
    """Add coverage, interval score and half width, the last two relative to the truth."""
    low, high, truth = rows["low"], rows["high"], rows["truth"]
    missed = (low - truth).clip(lower=0) + (truth - high).clip(lower=0)
    return rows.assign(
        covered=truth.between(low, high),
        score=(high - low + 2 / (1 - LEVEL) * missed) / truth,
        half=(high - low) / 2 / truth,
    )


def by_kind(rows: pd.DataFrame, what: str) -> pd.DataFrame:
    """Means over the cells of a table, then over tables, for every rule (rows) and kind."""
    means = rows.pivot_table(what, "rule", ["kind", "dataset"])
    return means.T.groupby("kind").mean().T.loc[[name for name in ALL if name in means.index]]


def relative_score(rows: pd.DataFrame) -> pd.Series:
    """Interval score of every rule relative to Paule and Mandel's, geometric mean of the kinds."""
    score = by_kind(rows, "score")
    return np.exp(np.log(score / score.loc["Paule and Mandel"]).mean(axis=1))


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return coverage, score and width of every rule, and coverage by the number of sources."""
    covered = by_kind(rows, "covered")
    tables = rows.groupby(["rule", "dataset"])["covered"].mean()
    found = {
        "covered": covered.mean(axis=1),
        "least of the kinds": covered.min(axis=1),
        "tables of 80 %": (tables >= 0.8).groupby("rule").mean(),
        "score": relative_score(rows),
        "half width": rows.groupby("rule")["half"].median(),
    }
    sizes = pd.cut(rows["sources"], [0, 5, 15, np.inf], labels=["3-5", "6-15", "more"])
    for size, part in rows.groupby(sizes, observed=True):
        found[f"{size} sources"] = by_kind(part, "covered").mean(axis=1)
    return pd.DataFrame(found).loc[covered.index]


def chosen_without(rows: pd.DataFrame) -> Counter[str]:
    """Count the rules of lowest score among those that cover, without one table at a time."""
    rows = rows[rows["rule"].isin(RULES)]
    found: Counter[str] = Counter()
    for table in rows["dataset"].unique():
        others = rows[rows["dataset"] != table]
        covers = by_kind(others, "covered").mean(axis=1) >= NEEDED
        found[str(relative_score(others)[covers].idxmin())] += 1
    return found


def centres(rows: pd.DataFrame) -> pd.DataFrame:
    """Compare estimates half by known sites, and by unseen sites alone, with the truth."""
    one = rows[(rows["rule"] == PACKAGE) & rows["kind"].isin(["one trial", "ensemble"])]
    found = {}
    for name, column in (("half and half", "estimate"), ("unseen only", "by_unseen")):
        ratio = one[column] / one["truth"]
        by = ratio.groupby(one["kind"]).median(), (ratio - 1).abs().groupby(one["kind"]).median()
        found[name] = pd.concat(by, keys=["estimate / truth", "error"])
    return pd.DataFrame(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--losses", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs=2, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    work = [
        joblib.delayed(scored)(files, *key, seed)
        for seed in args.seeds
        for key, files in cells_in(args.losses, seed, FAMILIES, "real").items()
    ]
    done = joblib.Parallel(n_jobs=args.jobs, return_as="generator_unordered")(work)
    rows = pd.DataFrame([row for cell in tqdm(done, total=len(work), unit="cell") for row in cell])
    rows = rows.sort_values(["seed", "dataset", "target"], kind="stable", ignore_index=True)
    rows.to_csv(args.out, index=False, float_format="%.6g")
    rows = measured(rows)
    for seed, part in rows.groupby("seed"):
        print(f"seed {seed}, {part['dataset'].nunique()} tables")
        print(summary(part).round(3).to_string())
        for what in ("covered", "score"):
            print(by_kind(part, what).loc[["Paule and Mandel", PACKAGE]].round(3).to_string())
        print(centres(part).round(3).to_string())
        if seed == args.seeds[0]:
            print("without one table", chosen_without(part).most_common())


if __name__ == "__main__":
    main()
