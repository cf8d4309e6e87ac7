"""Race of a family's trials: those whose first model is poor are stopped after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from shiftune.search.records import MEAN_LOSS, MODEL

# The first model of a trial has to be as good as the third best of its family, which takes about
# half of the fits (benchmarks/results/racing.md).
PLACE = 3
# By how much less a trial has to add at unseen sites, per unit of its first model's mean loss, at
# most: 0.2 and 0.3 in two searches of the demonstration.
MOST_SLOPE = 0.3


def bar(trials: Sequence[FrozenTrial], family: str) -> float | None:
    """Mean loss of a first model above which a trial is stopped; None stops none.

    Mean losses at sites that the model knows are compared within a family: a family of models that
    remember sites would win against others.
    """
    known = sorted(trial.user_attrs[MEAN_LOSS] for trial in _complete(trials, family))
    return known[PLACE - 1] if len(known) >= PLACE else None


class Expected(NamedTuple):
    """Value that a stopped trial would have had, and its variance."""

    value: float
    variance: float


def expected(trials: Sequence[FrozenTrial], family: str, mean_loss: float) -> Expected:
    """Return what a trial would have been worth, had it not been stopped.

    The mean loss of its first model, and what the complete trials of its family have more than
    theirs. Complete trials are those of good first models; a poorer one may have less to add at
    unseen sites, so that the variance grows with its distance from them.
    """
    complete = _complete(trials, family)
    means = np.array([t.user_attrs[MEAN_LOSS] for t in complete])
    more = np.array([t.value for t in complete]) - means
    away = mean_loss - float(means.mean())
    return Expected(
        mean_loss + float(more.mean()), float(more.var(ddof=1)) + (MOST_SLOPE * away) ** 2
    )


def _complete(trials: Sequence[FrozenTrial], family: str) -> list[FrozenTrial]:
    return [
        trial
        for trial in trials
        if trial.state is TrialState.COMPLETE and trial.user_attrs.get(MODEL, "") == family
    ]
