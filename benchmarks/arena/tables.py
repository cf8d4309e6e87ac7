"""Tables of the arena's results: numbers in, numbers out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from regret import (
    CELL,
    NAIVE,
    NOTHING,
    PUBLISHED,
    by_cell,
    geometric_mean,
    mean,
    over_datasets,
    ratio_of_means,
    regret,
    relative,
)


def overall(scores: pd.DataFrame) -> pd.DataFrame:
    """Compare the estimators on the cells of one kind and family.

    Returns
    -------
    DataFrame
        A row per estimator: group, fits, datasets, cells, regret (mean over data sets), relative,
        low and high (to naive), published, published_low and published_high (to VR as published),
        risk_error (median), rank (mean), coverage (mean over data sets), half_width (median,
        relative to the true loss), worst (data set), worst_percent and worst_loss (excess over
        naive there).
    """
    wide = by_cell(scores, regret(scores))
    losses = by_cell(scores, scores["loss"])
    shares = coverage(scores)["value"]
    rows = {}
    for name, own in scores.groupby("estimator", sort=False):
        to_naive = relative(wide, name)
        to_published = relative(wide, name, PUBLISHED) if PUBLISHED in wide else NOTHING
        half = (own["high"] - own["low"]) / 2
        worst = excess(losses, name).iloc[0]
        rows[name] = {
            "group": own["group"].iloc[0],
            "fits": int(own["fits"].max()),
            "datasets": own["dataset"].nunique(),
            "cells": len(own),
            "regret": over_datasets(wide, name)[name].mean(),
            "relative": to_naive.value,
            "low": to_naive.low,
            "high": to_naive.high,
            "published": to_published.value,
            "published_low": to_published.low,
            "published_high": to_published.high,
            "risk_error": ((own["value"] - own["loss"]).abs() / own["loss"]).median(),
            "rank": own["rank"].mean(),
            "coverage": shares.get(name, np.nan),
            "half_width": (half / own["loss"]).median(),
            "worst": worst.name,
            "worst_percent": worst["percent"],
            "worst_loss": worst["loss"],
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("estimator")


def covered(bounded: pd.DataFrame) -> pd.Series:
    """Return whether the interval has the true loss in it, one per row."""
    return bounded["loss"].between(bounded["low"], bounded["high"])


def coverage(scores: pd.DataFrame) -> pd.DataFrame:
    """Return every estimator's share of intervals with the true loss in them, and its interval.

    Means over data sets of the shares in their cells, with a bootstrap interval over data sets.
    """
    bounded = scores.dropna(subset=["low", "high"])
    shares = covered(bounded).groupby([bounded["estimator"], bounded["dataset"]], sort=False).mean()
    found = {name: mean(own) for name, own in shares.groupby(level="estimator", sort=False)}
    return _measured(found, "estimator")


def excess(losses: pd.DataFrame, estimator: str) -> pd.DataFrame:
    """Return by how much the choices' true loss lies above naive's, per data set, worst first.

    Columns: loss (difference of the means over cells) and percent (of naive's mean).
    """
    means = over_datasets(losses, estimator, NAIVE)
    above = means[estimator] - means[NAIVE]
    found = pd.DataFrame({"loss": above, "percent": 100 * above / means[NAIVE]})
    return found.sort_values("percent", ascending=False, kind="stable")


def per_dataset(scores: pd.DataFrame, estimators: Sequence[str]) -> pd.DataFrame:
    """Return the regret of some estimators on every data set, and how many cells it has."""
    wide = by_cell(scores, regret(scores))[list(estimators)]
    cells = scores.drop_duplicates(CELL).groupby("dataset")
    counts = {"targets": cells["target"].nunique(), "seeds": cells["seed"].nunique()}
    counts["cells"] = cells.size()
    return pd.DataFrame(counts).join(wide.groupby(level="dataset").mean())


def per_seed(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the regret relative to naive, a row per estimator, a column per seed."""
    found = {}
    for seed, rows in scores.groupby("seed"):
        wide = by_cell(rows, regret(rows))
        found[seed] = pd.Series({name: relative(wide, name).value for name in wide})
    table = pd.DataFrame(found).rename_axis("estimator")
    return table.loc[list(dict.fromkeys(scores["estimator"]))]


def true_losses(scores: pd.DataFrame, estimators: Sequence[str]) -> pd.DataFrame:
    """Return the mean true loss of the choices, a column per (problem, family); oracle first."""
    problem = ["dataset", "family"]
    oracle = scores.drop_duplicates(CELL).groupby(problem)["best"].mean().rename("oracle")
    means = by_cell(scores, scores["loss"])[list(estimators)].groupby(level=problem).mean()
    return means.join(oracle)[["oracle", *estimators]].T.rename_axis("estimator")


def gap_closed(scores: pd.DataFrame, estimator: str, to: str = PUBLISHED) -> pd.DataFrame:
    """Return how much of another's distance to the oracle an estimator closes, per problem.

    Mean true losses, closed = (to - loss) / (to - oracle), and its bootstrap interval over the
    problem's cells; above, the mean of loss - to with its own interval. For generated problems,
    whose cells are independent draws.
    """
    losses = by_cell(scores, scores["loss"])[[estimator, to]]
    best = scores.drop_duplicates(CELL).set_index(CELL)["best"].rename("oracle")
    cells = losses.join(best).dropna()
    rows = {}
    for problem, own in cells.groupby(level=["dataset", "family"]):
        left = ratio_of_means(own[estimator] - own["oracle"], own[to] - own["oracle"])
        above = mean(own[estimator] - own[to])
        rows[problem] = {
            "cells": len(own),
            "oracle": own["oracle"].mean(),
            "to": own[to].mean(),
            "loss": own[estimator].mean(),
            "closed": 1 - left.value,
            "low": 1 - left.high,
            "high": 1 - left.low,
            "above": above.value,
            "above_low": above.low,
            "above_high": above.high,
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(table.index, names=["dataset", "family"])
    return table


def leave_one_out(scores: pd.DataFrame, candidates: Sequence[str]) -> pd.DataFrame:
    """Choose an estimator by all other data sets, for each data set in turn.

    Candidates that miss a cell are not compared.

    Returns
    -------
    DataFrame
        Per data set: chosen (the candidate with the lowest mean regret on the others), its regret
        and naive's on this one.
    """
    wide = by_cell(scores, regret(scores))
    means = wide[list(candidates)].dropna(axis=1).groupby(level="dataset").mean()
    naive = wide[NAIVE].groupby(level="dataset").mean()
    rows = {}
    for dataset in means.index:
        chosen = means.drop(index=dataset).mean().idxmin()
        rows[dataset] = {
            "chosen": chosen,
            "regret": means.loc[dataset, chosen],
            NAIVE: naive[dataset],
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("dataset")


def few_labels(labels: pd.DataFrame) -> pd.DataFrame:
    """Return the regret relative to naive's, by number of labelled target rows.

    Draws of labelled rows are averaged first. Naive is scored on the same rows: those of the
    target that were not labelled.
    """
    found = {}
    for count, rows in labels.groupby("labels"):
        wide = over_draws(rows)
        found |= {(count, name): relative(wide, name) for name in wide}
    return _measured(found, ["labels", "estimator"])


def over_draws(labels: pd.DataFrame) -> pd.DataFrame:
    """Return mean regrets of the draws of labelled rows, a row per cell; for one number of them."""
    wide = by_cell(labels, regret(labels), [*CELL, "draw"])
    return wide.groupby(level=CELL).mean()


def training_weights(training: pd.DataFrame) -> pd.DataFrame:
    """Return losses of models trained with weights, relative to those trained without.

    Returns
    -------
    DataFrame
        Indexed by weights, chosen_by and dataset: chosen (mean loss of the choices, relative) and
        best (the same of the pools' best).
    """
    keys = ["chosen_by", "weights", *CELL]
    cells = training.set_index(keys)[["loss", "best"]].unstack("weights").dropna()  # noqa: PD010
    means = cells.groupby(level=["chosen_by", "dataset"]).mean()
    weights = [w for w in dict.fromkeys(training["weights"]) if w != "none"]
    found = {
        w: pd.DataFrame(
            {
                "chosen": means["loss", w] / means["loss", "none"],
                "best": means["best", w] / means["best", "none"],
            }
        )
        for w in weights
    }
    return pd.concat(found, names=["weights"])


def over_training_weights(relative_losses: pd.DataFrame) -> pd.DataFrame:
    """Return geometric means over data sets of what `training_weights` gives, with intervals."""
    groups = relative_losses.groupby(level=["weights", "chosen_by"], sort=False)
    found = {(*key, column): geometric_mean(own[column]) for key, own in groups for column in own}
    return _measured(found, ["weights", "chosen_by", "of"])


def by_ratio(ratios: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Return the regret relative to naive of estimators that were given several ratios.

    Estimators are called "NAME, RATIO"; naive has no ratio and is that of the scores.
    """
    both = pd.concat([ratios[ratios["estimator"] != NAIVE], scores[scores["estimator"] == NAIVE]])
    wide = by_cell(both, regret(both))
    found = {}
    for name in wide.columns.drop(NAIVE):
        estimator, _, ratio = name.rpartition(", ")
        found[estimator, ratio] = relative(wide, name)
    return _measured(found, ["estimator", "ratio"])


def _measured(found: dict, names: str | list[str]) -> pd.DataFrame:
    table = pd.DataFrame(list(found.values()), columns=["value", "low", "high"])
    table.index = (
        pd.Index(list(found), name=names)
        if isinstance(names, str)
        else pd.MultiIndex.from_tuples(list(found), names=names)
    )
    return table
