"""How the toy problem's sources are weighed in each setting, by their distance from the target."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from reproduction.settings import NO_GUARD, SETTINGS, Setting, all_rows
from shiftune.datasets.toy import ToyProblem, toy_problem
from shiftune.errors import OverlapWarning
from shiftune.ratio import effective_rows, site_weights
from shiftune.ratio.auto import ratio_named
from shiftune.risk.estimate import estimate

DISTANCES = (0.0, 1.5, 3.0, 4.5, np.inf)


def weights_by_distance(seeds: range, c: float = 5.0, n: int = 1000) -> pd.DataFrame:
    """Return medians over toy problems of what the estimators are given.

    Parameters
    ----------
    seeds : range
    c, n : float, int
        Of the toy problems.

    Returns
    -------
    DataFrame
        By setting and distance between the means of source and target, in standard deviations of
        x: number of sources, median mean weight (it should be 1), its 90 % quantile, median
        effective rows, and mean share in the variance reduced estimate of the best theta's risk.

    Examples
    --------
    >>> frame = weights_by_distance(range(3), n=200)
    >>> list(frame.columns)
    ['sources', 'mean weight', '90 % quantile', 'effective rows', 'share']
    """
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        for seed in seeds:
            toy = toy_problem(c, n=n, random_state=seed)
            for setting in SETTINGS.values():
                rows += _of_problem(toy, setting, seed)
    frame = pd.DataFrame(rows, columns=["setting", "distance", "mean", "ess", "share"])
    names = [f"{low:g} to {high:g}" for low, high in pairwise(DISTANCES)]
    frame["distance"] = pd.cut(frame["distance"], DISTANCES, labels=names, right=False)
    groups = frame.groupby(["setting", "distance"], observed=True, sort=False)
    table = pd.DataFrame(
        {
            "sources": groups.size(),
            "mean weight": groups["mean"].median(),
            "90 % quantile": groups["mean"].quantile(0.9),
            "effective rows": groups["ess"].median(),
            "share": groups["share"].mean(),
        }
    )
    return table.sort_index(level="distance", sort_remaining=False).reindex([*SETTINGS], level=0)


def _of_problem(
    toy: ToyProblem, setting: Setting, seed: int
) -> list[tuple[str, float, float, float, float]]:
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
        (setting.name, float(d), float(w.mean()), float(effective_rows(w)[0]), float(share))
        for d, w, share in zip(distances, weights, risk.lam * risk.n, strict=True)
    ]
