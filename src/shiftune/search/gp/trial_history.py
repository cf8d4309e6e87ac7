"""Trials of a study as arrays for the Gaussian process."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState
from scipy.spatial import KDTree

from shiftune.search.gp.unit_cube import UnitCube

Array = NDArray[np.float64]

#: User attribute of a trial: the variance of its value, on the scale of the value squared.
VARIANCE_KEY = "risk_variance"

# On the standardised scale; a value this uncertain has no influence, and the algebra stays finite.
LARGEST_VARIANCE = 1e12
# Trials whose mean shows how low a region is, the trial itself among them.
NEIGHBOURS = 5


@dataclass(frozen=True, slots=True)
class TrialHistory:
    """Trials as rows in the unit cube, with values to be minimised.

    Attributes
    ----------
    rows : (n, C)
        Trials with a value.
    y, variances : (n,)
        Standardised values, and their known variances on the same scale.
    pending : (q, C)
        Trials without a value: running, failed, or pruned before they reported anything.
    settled : (s, C)
        Trials in which nothing else could be varied, so that the same row is the same trial.
    location, unit : float
        Mean and spread that the standardisation removed.
    """

    rows: Array
    y: Array
    variances: Array
    pending: Array
    settled: Array
    location: float
    unit: float

    @classmethod
    def read(
        cls,
        trials: Sequence[FrozenTrial],
        cube: UnitCube,
        space: Mapping[str, BaseDistribution],
        direction: StudyDirection,
        in_flight: Mapping[int, Mapping[str, Any]],
    ) -> TrialHistory:
        """Read the trials that have all parameters of the space.

        ``in_flight`` holds, by trial number, proposals that may not have reached the study yet.
        """
        sign = -1.0 if direction == StudyDirection.MAXIMIZE else 1.0
        inside = [trial for trial in trials if covers(trial, space)]
        values = [_signed_value(trial, sign) for trial in inside]
        seen = [t for t, value in zip(inside, values, strict=True) if value is not None]
        unseen = [t for t, value in zip(inside, values, strict=True) if value is None]
        y = np.array([value for value in values if value is not None], dtype=np.float64)
        stopped = np.array([t.state == TrialState.PRUNED for t in seen], dtype=np.bool_)
        # Not in the study yet, or only some of their parameters.
        stored = {trial.number for trial in inside}
        proposed = [
            dict(params)
            for number, params in in_flight.items()
            if number not in stored and params.keys() >= space.keys()
        ]
        settled = [trial.params for trial in inside if _nothing_else(trial, space)]
        if len(settled) == len(inside):  # no conditional parameters, as far as can be seen
            settled += proposed
        variances = np.array([reported_variance(trial) for trial in seen], dtype=np.float64)
        y, variances, location, unit = standardise(tame(y, variances, stopped), variances)
        return cls(
            rows=cube.encode([trial.params for trial in seen]),
            y=y,
            variances=variances,
            pending=cube.encode([*(trial.params for trial in unseen), *proposed]),
            settled=cube.encode(settled),
            location=location,
            unit=unit,
        )

    def thinned(self, most: int) -> TrialHistory:
        """Keep at most so many rows: half of them from low regions, the others spread widely.

        A proposal takes time of the third power of their number. Low regions are those where a few
        neighbours have a low mean, plus two standard errors: to keep the lowest values themselves,
        and not the high ones beside them, would make noisy regions look good.
        """
        if len(self.y) <= most:
            return self
        _, near = KDTree(self.rows).query(self.rows, NEIGHBOURS)
        level = self.y[near].mean(axis=1)
        level += 2 * np.sqrt(self.y[near].var(axis=1, ddof=1) / NEIGHBOURS)
        kept = spread_rows(self.rows, np.argsort(level, kind="stable")[: most // 2], most)
        return replace(self, rows=self.rows[kept], y=self.y[kept], variances=self.variances[kept])

    def unscaled(self, y: float) -> float:
        """Convert a standardised value to the scale of the study, to be minimised."""
        return self.location + self.unit * y


def spread_rows(rows: Array, first: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Add the row farthest from all chosen ones, one by one; return the chosen ones, sorted.

    None is added that equals a chosen one, so there may be fewer.

    >>> spread_rows(np.array([[0.0], [0.1], [1.0], [0.9]]), np.array([0]), 2).tolist()
    [0, 2]
    """
    distance = np.full(len(rows), np.inf)
    chosen = [int(i) for i in first]
    for i in chosen:
        distance = np.minimum(distance, np.square(rows - rows[i]).sum(axis=1))
    while len(chosen) < count and distance.max() > 0:
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.square(rows - rows[chosen[-1]]).sum(axis=1))
    return np.sort(np.array(chosen, dtype=np.intp))


def covers(trial: FrozenTrial, space: Mapping[str, BaseDistribution]) -> bool:
    """Whether a trial has all parameters of a space, with the same distributions."""
    return all(trial.distributions.get(name) == found for name, found in space.items())


def _nothing_else(trial: FrozenTrial, space: Mapping[str, BaseDistribution]) -> bool:
    return all(name in space or found.single() for name, found in trial.distributions.items())


def _signed_value(trial: FrozenTrial, sign: float) -> float | None:
    """Return the value, or the last one that a pruned trial reported; None without either."""
    value = None
    if trial.state == TrialState.COMPLETE:
        value = trial.value
    elif trial.state == TrialState.PRUNED and trial.last_step is not None:
        value = trial.intermediate_values[trial.last_step]
    return None if value is None or math.isnan(value) else sign * value


def reported_variance(trial: FrozenTrial) -> float:
    """Return the trial's `VARIANCE_KEY` attribute; 0 if it is missing or not a variance.

    >>> from optuna.trial import create_trial
    >>> reported_variance(create_trial(value=1.0, user_attrs={"risk_variance": 0.25}))
    0.25
    """
    found = trial.user_attrs.get(VARIANCE_KEY)
    if found is None:
        return 0.0
    try:
        variance = float(found)
    except (TypeError, ValueError):
        variance = math.nan
    if variance >= 0.0:
        return variance
    # The trial's cost is already spent: a warning, not the end of the study.
    warnings.warn(
        f"trial {trial.number} has the user attribute {VARIANCE_KEY!r} = {found!r}, which is not "
        "a variance; expected a number >= 0. The trial is used as if it had none.",
        stacklevel=2,
    )
    return 0.0


def tame(y: Array, variances: Array, stopped: NDArray[np.bool_]) -> Array:
    """Return values (n,) to be minimised, with extreme ones moved nearer to the others.

    - Infinite values become the worst (or best) finite one.
    - A pruned trial was stopped for being poor, and its last value need not be comparable: it
      counts as no better than the median of the trials that finished.
    - Values farther above the median than the best is below it are moved to that fence,
      ``median + (median - min(y + sd)) + 2 sd``. One diverged fit with a loss of 1e6 would
      otherwise leave no difference between all the others: a function with such a cliff was left
      at a regret of 0.5 without the fence and 2e-5 with it (mean of 30 seeds). The standard
      deviations keep the fence away from mere noise: cutting the high values of a noisy region
      and not the low ones makes the region look good (regret 0.12 instead of 0.07, 40 seeds).

    >>> y = np.array([1.0, 2.0, 3.0, 1e6, np.inf])
    >>> tame(y, np.zeros(5), np.zeros(5, dtype=bool)).tolist()
    [1.0, 2.0, 3.0, 5.0, 5.0]
    """
    finite = y[np.isfinite(y)]
    if not len(finite):
        return np.zeros_like(y)
    y = np.clip(y, finite.min(), finite.max())
    if stopped.any() and not stopped.all():
        y = np.where(stopped, np.maximum(y, np.median(y[~stopped])), y)
    sd = np.sqrt(variances)
    best, median = np.min(y + sd), np.median(y)
    if best >= median:  # ties for the best, or nothing but noise: no scale to set a fence by
        return y
    return np.minimum(y, median + (median - best) + 2.0 * sd)


def standardise(y: Array, variances: Array) -> tuple[Array, Array, float, float]:
    """``(y - m) / s``, ``variances / s^2``, m and s: precision-weighted mean and spread.

    The weights are ``1 / (s^2 + variance)``, found in two rounds from the unweighted s: a very
    uncertain value moves neither m nor s. Without variances, m and s are the usual ones.

    >>> y, v, m, s = standardise(np.array([1.0, 3.0]), np.array([0.0, 0.0]))
    >>> y.tolist(), m, s
    ([-1.0, 1.0], 2.0, 1.0)
    """
    if not len(y):
        return y, variances, 0.0, 1.0
    centre = np.median(y)
    unit = np.abs(y - centre).max() or 1.0
    z = (y - centre) / unit
    v = np.minimum(variances / unit / unit, LARGEST_VARIANCE)
    spread = z.var()
    mean = z.mean()
    for _ in range(2):
        w = 1.0 / (spread + v + 1e-12)
        w /= w.sum()
        mean = w @ z
        spread = w @ np.square(z - mean)
    scale = np.sqrt(spread) if spread > 1e-18 else 1.0
    known = np.minimum(v / scale**2, LARGEST_VARIANCE)
    return (z - mean) / scale, known, float(centre + unit * mean), float(unit * scale)
