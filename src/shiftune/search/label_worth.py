"""Gain from labelling some rows of the target, estimated before they are labelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from shiftune.errors import SettingsError
from shiftune.risk.few_labels import share_of_labels
from shiftune.risk.result import RiskEstimate

if TYPE_CHECKING:
    from shiftune.search.result import SearchResult

COUNTS = (10, 30, 100, 300)
# Numbers of labels that `labels_for` tries.
LADDER = (5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)


def label_worth(
    result: SearchResult, counts: int | Sequence[int] | None = None, *, level: float = 0.95
) -> pd.DataFrame:
    """Estimate the gain from labelling some rows of the target.

    Each source takes the target's role in turn: some of its rows are labelled, its own effect is
    learned from them as `ShiftSearch.update` does it, and its other rows are predicted, all with
    models that have not seen it. A source that is too small for so many labels has 60 % of its
    rows labelled, so that the gain is rather too low then.

    Parameters
    ----------
    result : SearchResult
        Of a search with ``risk="adjusted"`` and at least three sources.
    counts : number or numbers of labelled rows, optional
        In all, including those that the search had; 0 is always in the table. Default: 10, 30,
        100, 300, as far as the target has rows.
    level : float
        Of the intervals.

    Returns
    -------
    DataFrame
        Indexed by the number of labels: ``risk``, the expected loss at the target; ``gain``,
        how much lower it is than without labels, with the interval from ``gain_low`` to
        ``gain_high`` for one more site; ``half_width`` of the interval of the risk.
    """
    if counts is None:
        counts = [0, *(m for m in COUNTS if m <= len(result.problem.target))]
    given = np.atleast_1d(np.asarray(counts))
    if not len(given) or given.dtype.kind not in "iu" or given.min() < 0:
        raise SettingsError(f"counts must be whole numbers >= 0, got {counts!r}")
    if not 0 < level < 1:
        raise SettingsError(f"level must lie between 0 and 1, got {level!r}")
    updater = result.updater
    effects = updater.effects
    before = updater.estimate(effects.source_losses(0))
    rows = []
    for m in sorted({0, *given.tolist()}):
        losses = effects.source_losses(m)
        risk = updater.estimate(losses) if m else before
        gain = before.minus(risk)
        low, high = gain.interval(level) if m else (0.0, 0.0)
        rows.append(
            {
                "labels": m,
                "risk": risk.value,
                "gain": gain.value,
                "gain_low": low,
                "gain_high": high,
                "half_width": _half_width(risk, updater.one_row(losses), m, level),
            }
        )
    return pd.DataFrame(rows).set_index("labels")


def labels_for(
    result: SearchResult,
    *,
    half_width: float | None = None,
    loss: float | None = None,
    level: float = 0.95,
) -> int | None:
    """Return how many labels are expected to be enough; None if no number that is tried is.

    Parameters
    ----------
    result : SearchResult
    half_width : float, optional
        Wanted half width of the risk's interval, as in the table of `label_worth`.
    loss : float, optional
        Wanted loss at the target.
    level : float
        Of the interval.
    """
    if half_width is None and loss is None:
        raise SettingsError("give the half width of the interval, the loss, or both")
    for m in (0, *(m for m in LADDER if m <= len(result.problem.target))):
        found = label_worth(result, m, level=level).loc[m]
        narrow = half_width is None or found["half_width"] <= half_width
        if narrow and (loss is None or found["risk"] <= loss):
            return m
    return None


def _half_width(risk: RiskEstimate, one_row: float, m: int, level: float) -> float:
    """Half the interval with m labels, which take a share from the sources by their variance."""
    variance = risk.variance
    if m:
        share = share_of_labels(m, one_row, risk.variance)
        variance = (1 - share) ** 2 * variance + share**2 * one_row / m
    return float(stdtrit(risk.dof, 0.5 + level / 2) * np.sqrt(variance))
