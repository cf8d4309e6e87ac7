"""Model families of a search: by name, or as given, each with its space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
import pandas as pd
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial
from sklearn.base import clone

from shiftune.errors import SettingsError
from shiftune.evaluate.unseen_sites import LeaveSourcesOut
from shiftune.models import ReadyModel, TableSize, expand_auto, ready_model
from shiftune.models.numbered_classes import NumberedClasses, needs_numbers
from shiftune.models.preparation import preparation
from shiftune.models.space import Space, as_space
from shiftune.names import AUTO
from shiftune.problem import PAPER_SHARES, ShiftProblem, pooled
from shiftune.problem.columns import column_kinds
from shiftune.search.records import DEFAULTS, MODEL
from shiftune.search.trial import Candidate
from shiftune.spelling import check_different
from shiftune.tables import Schema


@dataclass(frozen=True)
class Family:
    """A model and its search space, among the families of a search.

    Attributes
    ----------
    name : str
        Empty for the estimator of a search of one model that has no name.
    estimator : estimator
        With its default parameters.
    space : Space or function
        In the names of the bare model.
    prefix : str
        Prefix of these names in the estimator: ``"model__"`` in pipelines of `ready_model`.
    scope : str
        Prefix of the names in the study, such as "lightgbm." in a search of several families.
    """

    name: str
    estimator: Any
    space: Space | Callable[[Any], Mapping[str, Any]]
    prefix: str = ""
    scope: str = ""

    @property
    def distributions(self) -> Space | None:
        """Search space in the study's names; None for a function."""
        if callable(self.space):
            return None
        return {self.scope + name: values for name, values in self.space.items()}

    def suggest(self, trial: Any) -> dict[str, Any]:
        """Ask an Optuna trial for all parameters; return them in the estimator's names."""
        if callable(self.space):
            found = dict(self.space(_ScopedTrial(trial, self.scope) if self.scope else trial))
        else:
            suggested = self.space.items()
            found = {name: trial._suggest(self.scope + name, each) for name, each in suggested}
        return {self.prefix + name: value for name, value in found.items()}

    def plain_params(self, trial: FrozenTrial) -> dict[str, Any]:
        """Return the parameters of a trial in the bare model's names."""
        params = trial.params
        if DEFAULTS in trial.user_attrs and not params:
            own = self.defaults()
            params = {name: own[name] for name in self.distributions or {} if name in own}
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
        own, space = self.defaults(), self.distributions or {}
        inside = all(name in own and _contains(each, own[name]) for name, each in space.items())
        return {name: own[name] for name in space} if inside else {}

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
        found = getattr(self._trial, name)
        if not name.startswith("suggest_"):
            return found
        return lambda parameter, *args, **options: found(self._scope + parameter, *args, **options)


Families = Mapping[str, Family]


def family_of(families: Families, trial: FrozenTrial) -> Family:
    """Return the family of a recorded trial."""
    return families[trial.user_attrs.get(MODEL, "")]


# ---------------------------------------------------------------- from what is given


def is_model(given: Any) -> bool:
    """Whether the first argument of a search is one estimator."""
    return not isinstance(given, type) and hasattr(given, "fit") and hasattr(given, "get_params")


def check_given(given: Any, space: Any) -> None:
    """Raise a SettingsError unless these can be the estimator and the space of a search."""
    if is_model(given):
        if space is None:
            raise SettingsError(
                f"{type(given).__name__} needs a search space: give one of shiftune.spaces or a "
                "mapping from its parameters to lists, ranges or distributions as the second "
                "argument"
            )
        return
    if isinstance(given, str):
        if space is not None and given == AUTO:
            raise SettingsError("a space is for one model, and 'auto' stands for several")
        return
    if isinstance(given, Mapping | list | tuple) and len(given) > 1 and space is not None:
        raise SettingsError(
            "with several models their spaces are part of the first argument: a mapping from "
            "names to (estimator, space)"
        )
    if isinstance(given, Mapping) and given:
        for name, entry in given.items():
            _check_entry(name, entry)
        return
    if isinstance(given, list | tuple) and given and all(isinstance(n, str) for n in given):
        check_different(given, "model")
        return
    raise SettingsError(
        "the estimator must be a scikit-learn model such as Ridge() or LGBMClassifier(), 'auto', "
        "one or several names of shiftune.models.MODELS, or a mapping from names to (estimator, "
        f"space); got {given!r}"
    )


def _check_entry(name: Any, entry: Any) -> None:
    if not isinstance(name, str) or not name or "." in name:
        raise SettingsError(f"models are named by text without dots, got {name!r}")
    pair = isinstance(entry, tuple | list) and len(entry) == 2 and is_model(entry[0])
    if not pair and not isinstance(entry, ReadyModel):
        raise SettingsError(
            f"the model {name!r} must be a pair (estimator, space), or what "
            f"shiftune.models.ready_model returns; got {entry!r}"
        )


def given_models(given: Any) -> list[Any]:
    """Return the estimators among what was given; none for names."""
    if is_model(given):
        return [given]
    if not isinstance(given, Mapping):
        return []
    return [e.pipeline if isinstance(e, ReadyModel) else e[0] for e in given.values()]


def resolve(given: Any, space: Any, problem: ShiftProblem) -> dict[str, Family]:
    """Return the families of a search by name; models by name are made for the problem's columns.

    >>> from shiftune.datasets import toy_problem
    >>> found = resolve(["linear", "kernel"], None, toy_problem(1.0, n=50).problem)
    >>> [(family.name, sorted(family.distributions)) for family in found.values()]
    [('linear', ['linear.alpha', 'linear.degree']), ('kernel', ['kernel.alpha', 'kernel.gamma'])]
    """
    check_given(given, space)
    if is_model(given):
        found = space if callable(space) else as_space(space, given)
        if needs_numbers(given, problem.classes):
            return {"": Family("", NumberedClasses(_copied(given)), found, "classifier__")}
        return {"": Family("", _copied(given), found)}
    entries = given
    if not isinstance(given, Mapping):
        names = [given] if isinstance(given, str) else given
        schema = schema_of(problem)
        size = table_size(problem, schema)
        entries = {
            name: ready_model(name, problem.task, schema, size=size) for name in expand_auto(names)
        }
    several = len(entries) > 1
    return {
        name: _family(name, entry, space, f"{name}." if several else "")
        for name, entry in entries.items()
    }


def _family(name: str, entry: Any, space: Any, scope: str) -> Family:
    ready = isinstance(entry, ReadyModel)
    estimator, own = (entry.pipeline, entry.space) if ready else entry
    found = own if space is None else space
    if not callable(found):
        try:
            found = as_space(found, entry.bare if ready else estimator)
        except SettingsError as error:
            raise SettingsError(f"the space of {name!r}: {error}") from error
    return Family(name, _copied(estimator), found, entry.prefix if ready else "", scope)


def _copied(model: Any) -> Any:
    try:
        return clone(model)
    except RuntimeError as error:
        raise SettingsError(
            f"{type(model).__name__} cannot be copied: {error}. CatBoost's options that are lists "
            "need to be tuples: cat_features=('ward',)"
        ) from error


def schema_of(problem: ShiftProblem) -> Schema | None:
    """Return the columns of a problem with their kinds; None for arrays of numbers."""
    if not isinstance(problem.target.X, pd.DataFrame):
        return None
    sites = (*problem.sources, problem.target)
    return Schema(column_kinds({site.name: pd.DataFrame(site.X) for site in sites}))


def table_size(problem: ShiftProblem, schema: Schema | None) -> TableSize:
    """Return the fewest training rows of any fit, columns, and how far the target lies outside.

    Some models of a trial leave out several sources.
    """
    # Rounding may cost every source a row.
    rows = [max(int(PAPER_SHARES[1] * len(site)) - 1, 0) for site in problem.sources]
    by_name = dict(zip(problem.names, rows, strict=True))
    groups = LeaveSourcesOut().groups(np.repeat(problem.names, rows))
    left_out = max((sum(by_name[name] for name in group) for group in groups), default=0)
    X, _ = pooled(problem.sources)
    prepared = preparation(schema)
    Z = prepared.fit_transform(X)
    own = prepared.transform(problem.target.X)
    outside = ((own < Z.min(axis=0)) | (own > Z.max(axis=0))).any(axis=1)
    return TableSize(sum(rows) - left_out, int(Z.shape[1]), float(outside.mean()))
