"""Gain from labelling some rows of the target, estimated before they are labelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from shiftune.errors import SettingsError
from shiftune.risk import RiskEstimate
from shiftune.risk.few_labels import chance_of_differences, contributions, differences_between_sites
from shiftune.risk.variance import squares_by_source

if TYPE_CHECKING:
    from shiftune.search.result import SearchResult

Floats = NDArray[np.float64]

COUNTS = (10, 30, 100)
DRAWS = 200
FEWEST_SOURCES = 3


def label_worth(
    result: SearchResult, counts: int | Sequence[int] = COUNTS, *, level: float = 0.95
) -> pd.DataFrame:
    r"""Estimate the gain from labelling some rows of the target.

    Each source takes the target's role in turn: the others estimate the risk of each trial there,
    m of its rows are labelled (200 draws: the source's own value plus the sampling error of m
    rows), both are combined as in `RegressionAdjusted`, and the trial of lowest value is chosen.
    Estimates of single sources are shrunk towards their mean by the share of sampling error in
    their differences. The figures are rough, and too low where the target's rows are unlike the
    sources', because they do not include the error of the adjustment.

    Parameters
    ----------
    result : SearchResult
        Of a search with ``risk="adjusted"``.
    counts : number or numbers of labelled rows
        In all, including those that the search had; 0 is always in the table.
    level : float
        Of the interval.

    Returns
    -------
    DataFrame
        Indexed by the number of labels: ``risk``, the mean true risk of the model that would be
        chosen; ``excess``, how far that is above the best trial's; ``half_width`` of the interval
        of the chosen trial's risk. Where sites hardly differ, the noise of a few labels moves the
        choice among trials that are nearly as good, and the excess grows a little.
    """
    counts = [counts] if isinstance(counts, int | np.integer) else counts
    risks = list(result.risks.values())
    worth = result.settings.risk.worth_in_labels(risks)
    if worth is None:
        raise SettingsError(
            "the worth of labels needs a search with risk='adjusted', whose estimate includes how "
            "far sites differ"
        )
    _check(risks, counts)
    k = len(risks[0].n) - risks[0].labelled_target
    estimates = np.array([risk.estimates[:k] for risk in risks])
    truth = _true_values(risks, estimates, k)
    rng = np.random.default_rng(result.settings.random_state)
    rows = []
    for m in sorted({0, *counts}):
        own = m / (m + worth)
        chosen, best = [], []
        for j in range(k):
            others = np.delete(estimates, j, axis=1).mean(axis=1)
            noise = _chance_of_a_mean(risks, j, rng) / np.sqrt(m) if m else 0.0
            estimated = (1 - own) * others[:, None] + own * (truth[:, [j]] + noise)
            chosen.append(truth[np.argmin(estimated, axis=0), j].mean())
            best.append(truth[:, j].min())
        rows.append(
            {
                "labels": m,
                "risk": float(np.mean(chosen)),
                "excess": float(np.mean(chosen) - np.mean(best)),
                "half_width": _half_width(result.risk, k, own, m, level),
            }
        )
    return pd.DataFrame(rows).set_index("labels")


def _check(risks: Sequence[RiskEstimate], counts: Sequence[int]) -> None:
    if len(risks[0].n) - risks[0].labelled_target < FEWEST_SOURCES:
        raise SettingsError(
            f"the worth of labels needs at least {FEWEST_SOURCES} sources, which show how far a "
            "new site may differ"
        )
    if not counts or any(not isinstance(m, int | np.integer) or m < 0 for m in counts):
        raise SettingsError(f"counts must be whole numbers >= 0, got {list(counts)!r}")


def _true_values(risks: Sequence[RiskEstimate], estimates: Floats, k: int) -> Floats:
    """Shrink the sources' estimates to their mean, by the share of sampling error in them."""
    mean = estimates.mean(axis=1, keepdims=True)
    apart = estimates - mean
    # Errors and differences that all trials have in common do not affect the choice.
    common = apart.mean(axis=0)
    seen = differences_between_sites(estimates)
    chance = float(np.mean([chance_of_differences(risks, j) for j in range(k)]))
    real = max(0.0, 1 - chance / seen) if seen > 0 else 0.0
    return np.asarray(mean + common + np.sqrt(real) * (apart - common))


def _chance_of_a_mean(risks: Sequence[RiskEstimate], j: int, rng: np.random.Generator) -> Floats:
    """Draw the error of one row's loss at source j, alike for all trials, shape (T, draws)."""
    moved = contributions(risks, j) * np.sqrt(risks[0].n[j])
    return np.asarray(moved @ rng.standard_normal((moved.shape[1], DRAWS)))


def _half_width(risk: RiskEstimate, k: int, own: float, m: int, level: float) -> float:
    """Half the interval with m labels: that of the sources shrinks, that of the rows comes in."""
    already = float((risk.lam * risk.n)[k:].sum())  # labels that the search had
    by_labels = float(squares_by_source(risk.influence, risk.block_counts)[k:].sum())
    from_sources = (risk.variance - by_labels) / (1 - already) ** 2
    one_row = float(np.average(risk.divergences[:k], weights=risk.n[:k]))
    variance = (1 - own) ** 2 * from_sources + (own**2 * one_row / m if m else 0.0)
    return float(stdtrit(risk.dof, 0.5 + level / 2) * np.sqrt(variance))
