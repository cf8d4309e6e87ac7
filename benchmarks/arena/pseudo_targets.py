"""Auto: each source is treated as the target in turn; the candidate that chooses best is used.

For a source j of group g, the models without g have not seen it, so its own labels show which of
them is best there. Each candidate estimates the risk at j from the other sources: losses of
the models without g on the other sources' validation rows (known sites), the other sources' losses
on unseen sites, mixed by a, weighted by w^tau with w the ratio of j to the others.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Literal

import numpy as np
from view import View

from shiftune.ratio import ClassifierRatio

MIXES = (0.0, 0.25, 0.5, 0.75, 1.0)
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
# What is used unless something else is better by a standard error of the paired differences.
USUAL = (0.5, 0.0)
MOST_PLAYERS = 12


def chosen_by_pseudo_targets(
    choose: Literal["tempering", "mixing", "both"],
) -> Callable[[View], np.ndarray]:
    """Return an estimator that chooses tau, a or both."""

    def values(view: View) -> np.ndarray:
        candidates = [
            (a, tau)
            for a, tau in product(MIXES, POWERS)
            if (choose != "tempering" or a == USUAL[0]) and (choose != "mixing" or tau == USUAL[1])
        ]
        regrets = _regrets(view)
        usual, best, lead = regrets[USUAL], USUAL, 0.0
        for candidate in candidates:
            gain = usual - regrets[candidate]
            error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 2 else np.inf
            if gain.mean() - error > lead:
                best, lead = candidate, gain.mean() - error
        a, tau = best
        w = view.balanced**tau
        return ((1 - a) * view.known + a * view.unseen) @ w / w.sum()

    return values


def _regrets(view: View) -> dict[tuple[float, float], np.ndarray]:
    """Return the regret of every candidate for every source that plays the target."""
    if "_regrets" in view.__dict__:
        return view.__dict__["_regrets"]
    K = len(view.problem.X)
    group, others = view.cell["group"].astype(int), view.cell["others"].astype(float)
    found: dict[tuple[float, float], list[float]] = {c: [] for c in product(MIXES, POWERS)}
    for j in np.random.default_rng(0).permutation(K)[:MOST_PLAYERS]:
        rest = group[view.site] != group[j]
        if not (rest & view.judged).any():
            continue
        ratio = ClassifierRatio("logistic").fit(view.problem.X[j], [view.X[rest & ~view.judged]])
        rows = rest[view.judged]
        w = ratio.weights_at(view.X[view.judged][rows], source=0)
        truth = view.unseen_everywhere[:, view.site == j].mean(axis=1)
        known, unseen = others[:, group[j]][:, rows], view.unseen[:, rows]
        for a, tau in found:
            v = w**tau
            estimates = ((1 - a) * known + a * unseen) @ v / v.sum()
            found[a, tau].append(regret(truth, int(np.argmin(estimates))))
    view.__dict__["_regrets"] = {c: np.array(values) for c, values in found.items()}
    return view.__dict__["_regrets"]


def regret(truth: np.ndarray, chosen: int) -> float:
    """Excess over the best, relative to that of the median configuration, at most 3."""
    best = truth.min()
    spread = float(np.median(truth) - best)
    return min(float(truth[chosen] - best) / spread, 3.0) if spread > 0 else 0.0
