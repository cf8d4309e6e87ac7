"""Model families of a search: by name, or as given, each with its space; whose trial is next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import optuna
import pandas as pd
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import intersection_search_space
from optuna.trial import FrozenTrial
from sklearn.base import clone

from shiftune._names import AUTO
from shiftune._wording import check_different, count, listed
from shiftune.columns import Columns
from shiftune.errors import SettingsError
from shiftune.evaluate._fits import FOLDS, assign_folds
from shiftune.models import ReadyModel, TableSize, expand_auto, ready_model
from shiftune.models._by_name import NumberedClasses, needs_numbers, preparation
from shiftune.models._space import Space, as_space
from shiftune.predictor._selection import Candidates
from shiftune.problem import ShiftProblem, pooled
from shiftune.search._storage import PredictionStore, candidates
from shiftune.search._trial import (
    DEFAULTS,
    FAILURE,
    MODEL,
    OUT_OF_TIME,
    REJECTED,
    SECONDS,
    Candidate,
    TrialContext,
    finished_trials,
    risk_of,
    was_interrupted,
)
from shiftune.search.gp import GPLCBSampler


@dataclass(frozen=True)
class Family:
    """A model and its search space, among the families of a search."""

    name: str  # empty for the estimator of a search of one model that has no name
    estimator: Any  # with its default parameters
    space: Space | Callable[[Any], Mapping[str, Any]]  # in the names of the bare model
    prefix: str = ""  # of these names in the estimator: "model__" in pipelines of `ready_model`
    scope: str = ""  # of the names in the study: "lightgbm." in a search of several families

    @property
    def distributions(self) -> Space | None:
        """Search space in the study's names; None for a function."""
        if callable(self.space):
            return None
        return {self.scope + name: values for name, values in self.space.items()}

    def suggest(self, trial: Any) -> dict[str, Any]:
        """Ask an Optuna trial for all parameters; return them in the estimator's names."""
        if callable(self.space):
            params = dict(self.space(_ScopedTrial(trial, self.scope) if self.scope else trial))
        else:
            params = {name: trial._suggest(self.scope + name, d) for name, d in self.space.items()}
        return {self.prefix + name: value for name, value in params.items()}

    def plain_params(self, trial: FrozenTrial) -> dict[str, Any]:
        """Return the parameters of a trial in the bare model's names."""
        params = trial.params
        if DEFAULTS in trial.user_attrs and not params:
            defaults = self.defaults()
            params = {name: defaults[name] for name in self.distributions or {} if name in defaults}
        return {name.removeprefix(self.scope): value for name, value in params.items()}

    def candidate(self, trial: FrozenTrial) -> Candidate:
        """Return the candidate that a recorded trial has evaluated."""
        if trial.user_attrs.get(DEFAULTS):
            return Candidate({}, self.name)
        fixed = optuna.trial.FixedTrial(trial.params, number=trial.number)
        return Candidate(self.suggest(fixed), self.name)

    def first_params(self) -> dict[str, Any]:
        """Return the model's own values of the parameters, in the study's names.

        Empty where one of them lies outside the space, or a function suggests them.
        """
        start, space = self.defaults(), self.distributions or {}
        inside = all(name in start and _contains(dist, start[name]) for name, dist in space.items())
        return {name: start[name] for name in space} if inside else {}

    def defaults(self) -> dict[str, Any]:
        """Return the default values of all parameters, in the study's names."""
        return {
            self.scope + name.removeprefix(self.prefix): value
            for name, value in self.estimator.get_params().items()
            if name.startswith(self.prefix)
        }


def _contains(distribution: BaseDistribution, value: Any) -> bool:
    if isinstance(value, bool) and not isinstance(distribution, CategoricalDistribution):
        return False
    try:
        return bool(distribution._contains(distribution.to_internal_repr(value)))
    except (TypeError, ValueError):  # such as None where numbers are expected
        return False


class _ScopedTrial:
    """A trial whose parameters have the names of a family in front, for define-by-run functions."""

    def __init__(self, trial: Any, scope: str) -> None:
        self._trial, self._scope = trial, scope

    def __getattr__(self, name: str) -> Any:
        attr = getattr(self._trial, name)
        if not name.startswith("suggest_"):
            return attr
        return lambda parameter, *args, **options: attr(self._scope + parameter, *args, **options)


Families = Mapping[str, Family]


def family_of(families: Families, trial: FrozenTrial) -> Family:
    """Return the family of a recorded trial."""
    return families[trial.user_attrs.get(MODEL, "")]


# ---------------------------------------------------------------- from what is given


def is_model(model: Any) -> bool:
    """Whether the first argument of a search is one estimator."""
    return not isinstance(model, type) and hasattr(model, "fit") and hasattr(model, "get_params")


def check_given(model: Any, space: Any) -> None:
    """Raise a SettingsError unless these can be the estimator and the space of a search."""
    if is_model(model):
        if space is None:
            raise SettingsError(
                f"{type(model).__name__} needs a search space: give one of shiftune.spaces or a "
                "mapping from its parameters to lists, ranges or distributions as the second "
                "argument"
            )
        return
    if isinstance(model, str):
        if space is not None and model == AUTO:
            raise SettingsError("space= needs a single model; 'auto' searches several")
        return
    if isinstance(model, Mapping | list | tuple) and len(model) > 1 and space is not None:
        raise SettingsError(
            "with several models their spaces are part of the first argument: a mapping from "
            "names to (estimator, space)"
        )
    if isinstance(model, Mapping) and model:
        for name, entry in model.items():
            if not isinstance(name, str) or not name or "." in name:
                raise SettingsError(f"models are named by text without dots, got {name!r}")
            pair = isinstance(entry, tuple | list) and len(entry) == 2 and is_model(entry[0])
            if not pair and not isinstance(entry, ReadyModel):
                raise SettingsError(
                    f"the model {name!r} must be a pair (estimator, space), or what "
                    f"shiftune.models.ready_model returns; got {entry!r}"
                )
        return
    if isinstance(model, list | tuple) and model and all(isinstance(n, str) for n in model):
        check_different(model, "model")
        return
    raise SettingsError(
        "the estimator must be a scikit-learn model such as Ridge() or LGBMClassifier(), 'auto', "
        "one or several names of shiftune.models.MODELS, or a mapping from names to (estimator, "
        f"space); got {model!r}"
    )


def given_models(model: Any) -> list[Any]:
    """Return the estimators among what was given; none for names."""
    if is_model(model):
        return [model]
    if not isinstance(model, Mapping):
        return []
    return [e.pipeline if isinstance(e, ReadyModel) else e[0] for e in model.values()]


def resolve(model: Any, space: Any, problem: ShiftProblem, loss: Any = None) -> dict[str, Family]:
    """Return the families of a search by name; models by name are made for the problem's columns.

    >>> X = np.arange(50.0)[:, None]
    >>> problem = ShiftProblem.from_sites([(X, X[:, 0])] * 2, X)
    >>> families = resolve(["linear", "kernel"], None, problem)
    >>> [(family.name, sorted(family.distributions)) for family in families.values()]
    [('linear', ['linear.alpha', 'linear.degree']), ('kernel', ['kernel.alpha', 'kernel.gamma'])]
    """
    check_given(model, space)
    if is_model(model):
        space = space if callable(space) else as_space(space, model)
        if needs_numbers(model, problem.classes):
            return {"": Family("", NumberedClasses(_copied(model)), space, "classifier__")}
        return {"": Family("", _copied(model), space)}
    entries = model
    if not isinstance(model, Mapping):
        names = [model] if isinstance(model, str) else model
        columns = columns_of(problem)
        size = table_size(problem)
        entries = {
            name: ready_model(name, problem.task, columns, size=size)
            for name in expand_auto(names, problem.task, loss)
        }
    several = len(entries) > 1
    return {
        name: _family(name, entry, space, f"{name}." if several else "")
        for name, entry in entries.items()
    }


def _family(name: str, entry: Any, space: Any, scope: str) -> Family:
    ready = isinstance(entry, ReadyModel)
    estimator, default_space = (entry.pipeline, entry.space) if ready else entry
    space = default_space if space is None else space
    if not callable(space):
        try:
            space = as_space(space, entry.bare if ready else estimator)
        except SettingsError as error:
            raise SettingsError(f"the space of {name!r}: {error}") from error
    return Family(name, _copied(estimator), space, entry.prefix if ready else "", scope)


def _copied(model: Any) -> Any:
    try:
        return clone(model)
    except RuntimeError as error:
        raise SettingsError(
            f"{type(model).__name__} cannot be copied: {error}. CatBoost's options that are lists "
            "need to be tuples: cat_features=('ward',)"
        ) from error


def columns_of(problem: ShiftProblem) -> Columns | None:
    """Return the columns that models read; None for arrays of numbers."""
    return problem.columns if isinstance(problem.target.X, pd.DataFrame) else None


def table_size(problem: ShiftProblem) -> TableSize:
    """Return the fewest training rows of any fit, columns, and how far the target lies outside.

    Some models of a trial leave out several sources.
    """
    rows = np.array([len(site) for site in problem.sources])
    left_out = (
        np.bincount(assign_folds(rows), rows).max() if len(rows) > 1 else -(-rows[0] // FOLDS)
    )
    X, _ = pooled(problem.sources)
    prepared = preparation(columns_of(problem))
    Z = prepared.fit_transform(X)
    target = prepared.transform(problem.target.X)
    outside = ((target < Z.min(axis=0)) | (target > Z.max(axis=0))).any(axis=1)
    fewest = int(rows.sum() - left_out)
    return TableSize(fewest, Z.shape[1], float(outside.mean()), len(problem.classes))


# ---------------------------------------------------------------- whose trial is next


# Trials that every family has before its weight counts, its defaults among them.
FIRST_TRIALS = 8
# Added to every weight, so that a family of little weight is not left with its first trials.
FLOOR = 0.1


def first_trials(
    seconds: Mapping[str, Sequence[float]], time: float | None = None
) -> dict[str, int]:
    """Return how many trials each family has before its weight counts: `FIRST_TRIALS`.

    Where the `time` of all workers is limited, one of every family comes first, and the rest of it
    is divided equally: a family has as many more as its mean trial fits into its share. `seconds`
    has the times of the finished trials by family; without any it is expected to cost nothing.

    >>> first_trials({"linear": [1.0], "trees": [30.0, 50.0]}, 131.0)  # 100 s are left
    {'linear': 8, 'trees': 2}
    """
    if time is None:
        return dict.fromkeys(seconds, FIRST_TRIALS)
    share = max(time - sum(times[0] for times in seconds.values() if times), 0) / len(seconds)
    means = {name: sum(times) / max(len(times), 1) for name, times in seconds.items()}
    more = FIRST_TRIALS - 1
    return {
        name: 1 + (more if more * mean <= share else int(share / mean))
        for name, mean in means.items()
    }


def next_family(
    proposed: Mapping[str, int],
    weights: Callable[[], Mapping[str, float]],
    first: Mapping[str, int] | None = None,
) -> str:
    """Return the family of the next trial, from the numbers of trials so far.

    Every family has its `first` trials. From then on it is the family with the largest
    ``(weight + FLOOR) / (proposed + 1)``, so that the numbers of trials tend to the `weights`, such
    as the shares of the families in the ensemble so far. A family of weight 0 gets no more; all 0
    counts as all equal.

    >>> next_family({"linear": 8, "trees": 9}, lambda: {"linear": 0.2, "trees": 0.8})
    'trees'
    """
    first = first or dict.fromkeys(proposed, FIRST_TRIALS)
    if due := [name for name in proposed if proposed[name] < first[name]]:
        return min(due, key=proposed.__getitem__)
    shares = weights()
    positive = {name: shares[name] for name in proposed if shares.get(name, 0.0) > 0}
    positive = positive or dict.fromkeys(proposed, 1.0)
    return max(positive, key=lambda name: (positive[name] + FLOOR) / (proposed[name] + 1))


class Plan(NamedTuple):
    """The family of a trial, and whether the trial has its defaults."""

    family: Family
    defaults: bool


def plan_next(
    study: optuna.Study,
    families: Families,
    weights: Callable[[], Mapping[str, float]],
    seconds: float | None,
) -> Plan:
    """Plan a new trial; `seconds` of all workers limit the first trials."""
    proposed = dict.fromkeys(families, 0)
    taken: dict[str, list[float]] = {name: [] for name in families}
    for trial in study.get_trials(deepcopy=False):
        name = trial.user_attrs.get(MODEL, "")
        if name in proposed and not was_interrupted(trial):
            proposed[name] += 1
            if trial.state.is_finished():
                taken[name].append(trial.user_attrs.get(SECONDS, 0.0))
    name = next(iter(families))
    if len(families) > 1:
        name = next_family(proposed, weights, first_trials(taken, seconds))
    return Plan(families[name], proposed[name] == 0)


def sampler_for(planned: Plan, sampler: BaseSampler, study: optuna.Study) -> BaseSampler:
    """Return a sampler that models the family's own parameters."""
    family = planned.family
    if not isinstance(sampler, GPLCBSampler):
        return sampler
    if planned.defaults:
        return sampler.for_space({})
    trials = [
        trial
        for trial in study.get_trials(deepcopy=False)
        if trial.user_attrs.get(MODEL, "") == family.name and DEFAULTS not in trial.user_attrs
    ]
    return sampler.for_space(family.distributions or intersection_search_space(trials))


# The shares are computed anew after so many trials.
EVERY = 4
# Members are chosen on about so many rows, which takes some hundredths of a second.
MOST_ROWS = 5_000


class FamilyWeights:
    """What each family contributes to the ensemble that the finished trials would give.

    They depend on the recorded trials alone, and change after every fourth, so that a search with
    several workers, or one that is continued, shares its budget alike.
    """

    def __init__(
        self, study: optuna.Study, context: TrialContext, predictions: PredictionStore
    ) -> None:
        self.study = study
        self.context = context
        self.predictions = predictions
        self._known: tuple[int, dict[str, float]] = (0, {})

    def __call__(self) -> dict[str, float]:
        """Return the shares by name; equal ones where no predictions are kept."""
        trials = finished_trials(self.study)
        count = len(trials) - len(trials) % EVERY
        if self._known[0] != count:
            self._known = count, self._weights(trials[:count])
        return self._known[1]

    def _weights(self, trials: list[optuna.trial.FrozenTrial]) -> dict[str, float]:
        kept = {number: self.predictions.get(number) for number in candidates(trials)}
        predictions = {n: array for n, array in kept.items() if array is not None}
        evaluated = {trial.number: trial for trial in trials if trial.value is not None}
        family = {number: trial.user_attrs.get(MODEL, "") for number, trial in evaluated.items()}
        if not predictions:
            return dict.fromkeys(family.values(), 1.0)
        best = min(predictions, key=lambda number: evaluated[number].value or 0.0)
        data, risk = self.context.data, risk_of(evaluated[best])
        assert risk is not None  # trials with a value have one
        ensemble = Candidates(
            predictions,
            data.y_validation,
            data.row_coefficients(np.repeat(risk.lam, risk.n)),
            self.context.loss,
            data.classes,
            family,
            MOST_ROWS,
        )
        shares: dict[str, float] = defaultdict(float)
        for number, weight in ensemble.members(ensemble.weights()).items():
            shares[family[number]] += weight
        return dict(shares)


def unused(families: Families, trials: Sequence[FrozenTrial]) -> Iterator[tuple[str, str]]:
    """Yield families of whose finished trials half or all failed, or without any; and remedies."""
    by_model = {
        name: [t for t in trials if t.user_attrs.get(MODEL, "") == name] for name in families
    }
    for name, tried in by_model.items():
        failed = [t for t in tried if FAILURE in t.user_attrs]
        if tried and len(failed) == len(tried):
            how = "its only trial" if len(tried) == 1 else f"all its {len(tried)} trials"
            first = "" if len(tried) == 1 else "the first: "
            reason = failed[0].user_attrs[FAILURE]
            words = f"the model {name!r} is not used: {how} failed ({first}{reason})"
            yield words, f"{_remedy(failed)}, or leave it out"
            continue
        reasons = [t.user_attrs[FAILURE] for t in failed]
        reasons = [reason for reason in reasons if not reason.startswith(REJECTED)]
        if reasons and len(reasons) >= len(tried) / 2:
            of = f" of the model {name!r}" if len(families) > 1 else ""
            words = f"{len(reasons)} of {count(len(tried), 'trial')}{of} failed"
            yield f"{words} (the first: {reasons[0]})", _remedy(failed)
    if untried := [name for name, tried in by_model.items() if not tried]:
        models = "model" if len(untried) == 1 else "models"
        trials_for = f"{count(len(trials), 'trial')} for {len(families)} models"
        words = f"the {models} {listed(untried)} had no trial: {trials_for}"
        yield words, "allow more trials or more time, or name fewer models"


def _remedy(failed: Sequence[FrozenTrial]) -> str:
    if all(trial.user_attrs[FAILURE].startswith(OUT_OF_TIME) for trial in failed):
        return "give trials more time (trial_timeout)"
    return "correct the model or its space"
