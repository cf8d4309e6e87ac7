"""Turns of the families: whose trial is next, and which sampler proposes its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import optuna
from optuna.samplers import BaseSampler
from optuna.search_space import intersection_search_space
from optuna.trial import FrozenTrial

from shiftune.search.budget import first_trials, next_family
from shiftune.search.families import Families, Family, family_of
from shiftune.search.gp import GPLCBSampler
from shiftune.search.records import DEFAULTS, MODEL, SECONDS, was_interrupted


class Turn(NamedTuple):
    """The family of a trial, and whether the trial has its defaults."""

    family: Family
    defaults: bool


class Turns:
    """Order in which families get trials, decided by the trials so far.

    Parameters
    ----------
    study : optuna.Study
        With the sampler of the search.
    families : mapping from names to Family
    weights : function
        Returns weights of the families, from the trials recorded so far; see `next_family`.
    """

    def __init__(
        self, study: optuna.Study, families: Families, weights: Callable[[], Mapping[str, float]]
    ) -> None:
        self.study = study
        self.families = families
        self.weights = weights
        self._sampler = study.sampler

    def next(self, seconds: float | None) -> Turn:
        """Return the turn of a new trial; `seconds` of all workers limit the first trials."""
        proposed = dict.fromkeys(self.families, 0)
        taken: dict[str, list[float]] = {name: [] for name in self.families}
        for trial in self.study.get_trials(deepcopy=False):
            name = trial.user_attrs.get(MODEL, "")
            if name in proposed and not was_interrupted(trial):
                proposed[name] += 1
                if trial.state.is_finished():
                    taken[name].append(trial.user_attrs.get(SECONDS, 0.0))
        if len(proposed) > 1:
            name = next_family(proposed, self.weights, first_trials(taken, seconds))
        else:
            name = next(iter(proposed))
        return Turn(self.families[name], proposed[name] == 0)

    def of(self, trial: FrozenTrial) -> Turn | None:
        """Return the turn of a trial that was begun earlier; None if it names no family."""
        if MODEL not in trial.user_attrs:
            return None
        return Turn(family_of(self.families, trial), DEFAULTS in trial.user_attrs)

    def sampler(self, turn: Turn) -> BaseSampler:
        """Return a sampler that models the family's own parameters."""
        family, sampler = turn.family, self._sampler
        if not isinstance(sampler, GPLCBSampler):
            return sampler
        if turn.defaults:
            return sampler.for_space({})
        own = [
            trial
            for trial in self.study.get_trials(deepcopy=False)
            if trial.user_attrs.get(MODEL, "") == family.name and DEFAULTS not in trial.user_attrs
        ]
        return sampler.for_space(family.distributions or intersection_search_space(own))
