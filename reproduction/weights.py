"""Weights of the toy problem's sources in each setting, by their distance from the target."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from reproduction.settings import NO_GUARD, SETTINGS, Setting, all_rows
from reproduction.toy import ToyProblem, toy_problem
from shiftune.errors import OverlapWarning
from shiftune.ratio import effective_rows, site_weights
from shiftune.ratio._density import ratio_named
from shiftune.risk._estimate import estimate

DISTANCES = (0.0, 1.5, 3.0, 4.5, np.inf)
# Where the sources lie farthest from the target.
LARGEST_C = 5.0


def source_weights(seeds: range, n: int = 1000) -> pd.DataFrame:
    """Describe the weights of every source of the toy problems at c = 5.

    Parameters
    ----------
    seeds : range
    n : int
        Rows of every site.

    Returns
    -------
    DataFrame
        By setting, seed and source: distance between the means of source and target, in standard
        deviations of x; mean weight (it should be 1); effective rows; share in the variance
        reduced estimate of the best theta's risk; whether the guard leaves it out.

    Examples
    --------
    >>> source_weights(range(1), n=200).columns.tolist()
    ['setting', 'seed', 'distance', 'mean_weight', 'effective_rows', 'share', 'left_out']
    """
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        for seed in seeds:
            toy = toy_problem(LARGEST_C, n=n, random_state=seed)
            for setting in SETTINGS.values():
                rows += _of_problem(toy, setting, seed)
    return pd.DataFrame(
        rows,
        columns=[
            "setting",
            "seed",
            "distance",
            "mean_weight",
            "effective_rows",
            "share",
            "left_out",
        ],
    )


def by_distance(frame: pd.DataFrame) -> pd.DataFrame:
    """Summarise `source_weights` by setting and distance.

    Returns
    -------
    DataFrame
        Number of sources, median mean weight and its 90 % quantile, median effective rows, and
        mean share.

    Examples
    --------
    >>> by_distance(source_weights(range(3), n=200)).columns.tolist()
    ['sources', 'mean weight', '90 % quantile', 'effective rows', 'share']
    """
    names = [f"{low:g} to {high:g}" for low, high in pairwise(DISTANCES)]
    binned = frame.assign(distance=pd.cut(frame["distance"], DISTANCES, labels=names, right=False))
    groups = binned.groupby(["setting", "distance"], observed=True, sort=False)
    table = pd.DataFrame(
        {
            "sources": groups.size(),
            "mean weight": groups["mean_weight"].median(),
            "90 % quantile": groups["mean_weight"].quantile(0.9),
            "effective rows": groups["effective_rows"].median(),
            "share": groups["share"].mean(),
        }
    )
    return table.sort_index(level="distance", sort_remaining=False).reindex([*SETTINGS], level=0)


def _of_problem(
    toy: ToyProblem, setting: Setting, seed: int
) -> list[tuple[str, int, float, float, float, float, bool]]:
    problem = toy.problem
    split = all_rows(problem) if setting.reuses_rows else problem.split(random_state=seed)
    ratio = ratio_named(setting.ratio(seed), seed)
    weights = site_weights(
        ratio.fit(problem.target.X, [site.X for site in split.density]), split.validation
    )
    losses = [toy.losses(toy.best_theta, site.labels) for site in split.validation]
    risk = estimate(losses, weights, guard=setting.guard or NO_GUARD)
    distances = np.abs(toy.sites.means[1:, 0] - toy.sites.means[0, 0])
    return [
        (setting.name, seed, d, float(w.mean()), float(effective_rows(w)[0]), share, bool(reason))
        for d, w, share, reason in zip(
            distances.tolist(), weights, (risk.lam * risk.n).tolist(), risk.left_out, strict=True
        )
    ]
