"""Choices that tables and figures share: rows to show, scales of axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.errors import SettingsError


def forest_scale(sources: pd.DataFrame, interval: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of a forest plot's axis, without margin.

    A source that was left out may be far off; the scale is that of the others.
    """
    out = sources["left_out"] != ""
    used = sources if out.all() else sources[~out]
    return min(interval[0], used["low"].min()), max(interval[1], used["high"].max())


def completed(trials: pd.DataFrame, chosen: int | None = None) -> pd.DataFrame:
    """Return the trials that have a risk, in their order; `chosen` must be one of them."""
    good = trials[trials["state"] == "COMPLETE"].sort_index()
    if chosen is not None and chosen not in good.index:
        raise SettingsError(
            f"chosen must be the number of a completed trial, got {chosen!r}; a fitted search has "
            "it as best_index_"
        )
    return good


def parameter_names(trials: pd.DataFrame) -> list[str]:
    """Return the parameters that any trial has."""
    return [str(c).removeprefix("param_") for c in trials if str(c).startswith("param_")]


def needs_log_scale(risks: pd.Series) -> bool:
    """Whether a few very bad trials would hide the differences between the others."""
    return bool(risks.min() > 0 and risks.max() > 10 * risks.min())


def weight_quantiles(
    weights: Sequence[NDArray[np.float64]], names: Sequence[str], floor: float
) -> pd.DataFrame:
    """Return the mean and the 5, 25, 50, 75 and 95 % quantiles of every source's weights.

    Weights below `floor` count as `floor`, so that a logarithmic axis can show them.
    """
    rows = [
        [
            max(float(w.mean()), floor),
            *np.quantile(np.maximum(w, floor), [0.05, 0.25, 0.5, 0.75, 0.95]),
        ]
        for w in weights
    ]
    return pd.DataFrame(
        rows, index=pd.Index(names), columns=["mean", "q05", "q25", "q50", "q75", "q95"]
    )
