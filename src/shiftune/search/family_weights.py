"""Shares of the families in the ensemble of the trials so far."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from shiftune.predictor.selection import Candidates
from shiftune.search._storage import candidates
from shiftune.search.records import MODEL, finished_trials, risk_of

if TYPE_CHECKING:
    import optuna

    from shiftune.search._storage import AnswerStore
    from shiftune.search.trial import TrialContext

# The shares are computed anew after so many trials.
EVERY = 4
# Members are chosen on about so many rows, which takes some hundredths of a second.
MOST_ROWS = 5_000


class FamilyWeights:
    """What each family contributes to the ensemble that the finished trials would give.

    They depend on the recorded trials alone, and change after every fourth, so that a search with
    several workers, or one that is continued, shares its budget alike.

    Parameters
    ----------
    study : optuna.Study
    context : TrialContext
    answers : AnswerStore
    """

    def __init__(self, study: optuna.Study, context: TrialContext, answers: AnswerStore) -> None:
        self.study = study
        self.context = context
        self.answers = answers
        self._known: tuple[int, dict[str, float]] = (0, {})

    def __call__(self) -> dict[str, float]:
        """Return the shares by name; equal ones where a plan keeps no answers."""
        trials = finished_trials(self.study)
        count = len(trials) - len(trials) % EVERY
        if self._known[0] != count:
            self._known = count, self._weights(trials[:count])
        return self._known[1]

    def _weights(self, trials: list[optuna.trial.FrozenTrial]) -> dict[str, float]:
        kept = {number: self.answers.get(number) for number in candidates(trials)}
        answers = {number: each for number, each in kept.items() if each is not None}
        evaluated = {trial.number: trial for trial in trials if trial.value is not None}
        family = {number: trial.user_attrs.get(MODEL, "") for number, trial in evaluated.items()}
        if not answers:
            return dict.fromkeys(family.values(), 1.0)
        best = min(answers, key=lambda number: evaluated[number].value or 0.0)
        data, risk = self.context.data, risk_of(evaluated[best])
        assert risk is not None  # trials with a value have one
        found = Candidates(
            answers,
            data.y_validation,
            data.row_coefficients(np.repeat(risk.lam, risk.n)),
            self.context.loss,
            data.classes,
            most_rows=MOST_ROWS,
        )
        shares: dict[str, float] = defaultdict(float)
        for number, weight in found.members(found.weights()).items():
            shares[family[number]] += weight
        return dict(shares)
