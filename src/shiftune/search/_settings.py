"""Checks of a search's settings, before any model is trained."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from optuna.distributions import CategoricalDistribution
from optuna.samplers import BaseSampler, NSGAIIISampler, NSGAIISampler, TPESampler
from sklearn.base import clone, is_regressor
from sklearn.pipeline import Pipeline

from shiftune import _names
from shiftune._names import Task
from shiftune._wording import ROOTS, check_choice, listed
from shiftune.errors import DataError, DataWarning, ProblemError, SearchWarning, SettingsError
from shiftune.evaluate._losses import LARGEST_LOSS, LOSSES, SMALLEST_LOSS, Loss
from shiftune.evaluate._plan import FitPlan, StudyData, relative, seeded, weight_argument
from shiftune.metrics import metrics_for
from shiftune.metrics._as_loss import judging_sites, tuned_loss
from shiftune.models._space import check_names as check_parameters
from shiftune.problem import PAPER_SHARES, ShiftProblem, Site, Split, pooled
from shiftune.problem._columns import column_kinds
from shiftune.problem._site import groups_of, weights_of
from shiftune.ratio import DensityRatio
from shiftune.ratio._base import site_weights
from shiftune.risk import RiskEstimator, risk_named
from shiftune.search._families import Family, resolve
from shiftune.search._storage import open_study, stable_repr
from shiftune.search._trial import OUT_OF_TIME, TrialContext
from shiftune.search.gp import GPLCBSampler

if TYPE_CHECKING:
    from shiftune.search._search import ShiftSearch

Shares = tuple[float, float, float] | Callable[[ShiftProblem], Split]

NO_DENSITY_ROWS = (0.0, 0.7, 0.3)


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """The settings of a search that decide what a trial's risk is, with defaults filled in.

    Attributes
    ----------
    risk : RiskEstimator
    plan : FitPlan
    shares : three numbers or a function
    training_weights : None or "importance"
    random_state : int
    """

    risk: RiskEstimator
    plan: FitPlan
    shares: Shares
    training_weights: str | None
    random_state: int

    @classmethod
    def of(cls, search: ShiftSearch) -> Self:
        """Read the settings of a search."""
        risk = risk_named(search.risk)
        plan = search.plan or risk.default_plan()
        found = cls(risk, plan, NO_DENSITY_ROWS, search.training_weights, search.random_state)
        default = PAPER_SHARES if found.needs_ratio else NO_DENSITY_ROWS
        return replace(found, shares=search.shares or default)

    @property
    def needs_ratio(self) -> bool:
        """Whether density ratios are needed, to estimate the risk or to train."""
        return self.risk.needs_ratio or self.training_weights is not None

    def split(self, problem: ShiftProblem) -> Split:
        """Split the rows of every source."""
        if not callable(self.shares):
            return problem.split(
                self.shares, random_state=self.random_state, target_trains=self.risk.target_trains
            )
        split = self.shares(problem)
        if not isinstance(split, Split):
            raise SettingsError(
                f"the function given as shares must return a Split, got {type(split).__name__}"
            )
        return split

    def context(
        self,
        models: Mapping[str, Any],
        problem: ShiftProblem,
        loss: Loss,
        split: Split,
        ratio: DensityRatio | None,
    ) -> TrialContext:
        """Gather what every trial needs.

        `models` has the estimator of every family by name; `ratio` is fitted, or None where none
        is needed.
        """
        evaluated = split.validation
        if self.risk.uses_target_labels:
            if problem.oracle is None:
                raise SettingsError(
                    "risk='oracle' needs a problem whose target labels are kept aside"
                )
            evaluated = (problem.oracle,)
        evaluated = judging_sites(evaluated, loss)
        weighted = ratio if self.risk.needs_ratio else None
        weights = None if weighted is None else site_weights(weighted, evaluated)
        few = problem.labelled_target
        sources = [site for site in evaluated if few is None or site.name != few.name]
        risk = self._fitted_risk(problem.target, sources)
        if weights is not None:
            # Its warnings depend on the weights alone: they are raised here, once, and not in
            # every trial.
            risk.estimate(
                [np.ones(len(site)) for site in evaluated], weights, names=_site_names(evaluated)
            )
        X_train, y_train = pooled(split.train)
        X_validation, _ = pooled(evaluated)
        data = StudyData(
            X_train=X_train,
            y_train=y_train,
            train_sites=np.repeat(_site_names(split.train), [len(site) for site in split.train]),
            training_weights=self.weights_for_training(ratio, split.train),
            X_validation=X_validation,
            y_validation=tuple(site.labels for site in evaluated),
            weights=None if weights is None else tuple(weights),
            names=_site_names(evaluated),
            labelled_target="" if few is None else few.name,
            classes=_classes(models, problem, loss, [y_train, *(s.labels for s in evaluated)]),
            groups=groups_of(evaluated),
            sample_weight=weights_of(evaluated),
        )
        estimators = {name: seeded(model, self.random_state) for name, model in models.items()}
        preparations = {
            name: stable_repr(model[:-1])
            for name, model in estimators.items()
            if isinstance(model, Pipeline) and len(models) > 1
        }
        return TrialContext(estimators, data, loss, risk, self.plan, preparations=preparations)

    def _fitted_risk(self, target: Site, sources: Sequence[Site]) -> RiskEstimator:
        given = weights_of([target, *sources])
        weights = {} if given is None else {"sample_weight": given}
        risk: RiskEstimator = clone(self.risk)
        return risk.fit(target.X, [site.X for site in sources], **weights)

    def weights_for_training(
        self, ratio: DensityRatio | None, sites: Sequence[Site]
    ) -> NDArray[np.float64] | None:
        """Weights of the rows of all sites, end to end; None where there are none."""
        if given := weights_of(sites):
            return np.concatenate(given)
        if ratio is None or self.training_weights is None:
            return None
        weights = relative(np.concatenate(site_weights(ratio, sites)))
        if weights is None:
            warnings.warn(
                "all training weights are 0: no source overlaps with the target, so the model is "
                "trained without weights",
                DataWarning,
                stacklevel=3,
            )
        return weights


def _classes(
    models: Mapping[str, Any], problem: ShiftProblem, loss: Loss, labels: Sequence[NDArray[Any]]
) -> NDArray[Any] | None:
    """Return the classes that predictions can have; None where predictions are values."""
    values = predicts_values(models.values(), problem, loss)
    return None if values else np.unique(np.concatenate(labels))


def predicts_values(models: Iterable[Any], problem: ShiftProblem, loss: Loss) -> bool:
    """Return whether predictions are values: regressors can be trained on numbered classes."""
    regressors = all(map(is_regressor, models))
    return problem.task == "regression" or (loss.needs == "predict" and regressors)


def _site_names(sites: Sequence[Site]) -> tuple[str, ...]:
    return tuple(site.name for site in sites)


NAMES = ("gp_lcb", "random", "tpe")


def sampler_named(
    sampler: str | BaseSampler, random_state: int, finished: int = 0, driver: int | None = None
) -> BaseSampler:
    """Return a sampler from its name, or a copy of the user's own, which is left as it is.

    Parameters
    ----------
    sampler : "gp_lcb", "random", "tpe" or an Optuna sampler
    random_state : int
        Seeds the samplers known by name.
    finished : int
        Trials of the study that is continued.
    driver : int, optional
        Number of the driver, where several share the study: each needs proposals of its own.

    Examples
    --------
    >>> type(sampler_named("gp_lcb", 0)).__name__
    'GPLCBSampler'
    """
    if isinstance(sampler, NSGAIISampler | NSGAIIISampler):
        raise SettingsError(
            f"{type(sampler).__name__} is for several objectives, and the target risk is one; "
            "use 'gp_lcb', 'tpe' or 'random'"
        )
    if isinstance(sampler, BaseSampler):
        own = copy.deepcopy(sampler)
        if driver is not None and not isinstance(own, GPLCBSampler):
            own.reseed_rng()
        return own
    check_choice(sampler, NAMES, "sampler")
    if sampler == "gp_lcb":
        return GPLCBSampler(seed=random_state)
    if sampler == "random":
        # Draws by seed and trial number, so that a continued study does not repeat itself.
        return GPLCBSampler(seed=random_state, n_startup_trials=sys.maxsize)
    # TPE's stream begins anew with every object: with the same seed a continued study would repeat
    # its first trials.
    entropy = [random_state, finished] if driver is None else [random_state, finished, driver]
    seed = np.random.SeedSequence(entropy).generate_state(1)
    return TPESampler(seed=int(seed[0]))


# Parameters that the report lists.
OPTIONS = (
    "estimator",
    "loss",
    "risk",
    "ratio",
    "plan",
    "sampler",
    "n_trials",
    "shares",
    "training_weights",
    "random_state",
)


def coerce_problem(
    X: Any, y: Any, groups: Any, X_target: Any, models: Sequence[Any], sample_weight: Any
) -> ShiftProblem:
    """Return the problem as given, or one made from arrays, for the models given."""
    if isinstance(X, ShiftProblem):
        if any(each is not None for each in (y, groups, X_target, sample_weight)):
            raise SettingsError(
                "with a ShiftProblem, y, groups, X_target and sample_weight are part of it"
            )
        return X
    if y is None or groups is None or X_target is None:
        raise SettingsError(
            "fit needs a ShiftProblem, or X and y with groups= (the site of every row) and "
            "X_target= (the target's rows)"
        )
    # Whole-number labels may be classes or quantities; the model knows which it was made for.
    task: Task | None = "regression" if any(map(is_regressor, models)) else None
    return ShiftProblem.from_arrays(X, y, groups, X_target, sample_weight=sample_weight, task=task)


def refuse_others(given: Mapping[str, Any]) -> None:
    """Refuse arguments for the model's `fit`, in words."""
    for name in given:
        raise SettingsError(
            f"fit takes X, y, groups, X_target and sample_weight, not {name!r}; give options of "
            "the model to its constructor"
        )


def nothing_to_choose(trials: pd.DataFrame, problem: ShiftProblem) -> str:
    """Return why a search without any evaluated trial has no result."""
    failures = trials["failure"]
    if failures.empty:
        return "no trial was finished, so there is nothing to choose from"
    shown = "".join(f"\n  {reason}" for reason in failures.unique()[:3])
    if failures.str.startswith(OUT_OF_TIME).all():
        hint = "\nGive trials more time (trial_timeout)"
    else:
        hint = hint_about_columns(problem)
    return (
        f"all {len(failures)} trials failed, so there is nothing to choose from; "
        f"the first reasons:{shown}{hint}"
    )


def hint_about_columns(problem: ShiftProblem) -> str:
    """Return a hint about columns without numbers, a common reason for trials that fail."""
    X = problem.target.X
    if not isinstance(X, pd.DataFrame):
        return ""
    kinds = column_kinds({site.name: pd.DataFrame(site.X) for site in problem.sources})
    text = [str(n) for n, kind in kinds.items() if kind != "number" and X[n].dtype != bool]
    if not text:
        return ""
    return (
        f"\nThe columns {listed(text)} are not numeric. If that is the reason, encode them in a "
        "pipeline (shiftune.models.ready_model makes one), or leave them out"
    )


class Checked(NamedTuple):
    """Settings of a search, with defaults filled in for a problem."""

    families: dict[str, Family]
    loss: Loss
    settings: EvaluationSettings


def check_search(search: ShiftSearch, problem: ShiftProblem) -> Checked:
    """Return the settings with defaults filled in, or raise a SettingsError."""
    families = resolve(search.estimator, search.space, problem)
    models = [family.estimator for family in families.values()]
    loss = loss_for(models, search.loss, problem)
    settings = EvaluationSettings.of(search)
    _check_numbers(search)
    _check_times(search)
    _check_like_optuna(search)
    _check_choices(search, settings)
    sampler_named(search.sampler, search.random_state)
    weighted = weights_of(problem.sources) is not None
    if weighted and settings.needs_ratio:
        raise SettingsError(
            "density ratios count every row once, so rows with sample_weight need "
            "risk='adjusted' or 'naive', and training_weights=None"
        )
    if weighted and loss.within_site:
        raise SettingsError(
            f"rows with sample_weight cannot be tuned by {loss.name}, which counts every row once; "
            "take the loss 'log_loss'"
        )
    for family in families.values():
        if search.training_weights or weighted:
            weight_argument(family.estimator)
        if callable(family.space):
            _check_function(family)
        elif search.storage is not None:
            _check_plain(family.distributions or {})
    classes = None if predicts_values(models, problem, loss) else problem.classes
    metrics_for(search.metrics, loss, classes)
    return Checked(families, loss, settings)


def final_for(search: ShiftSearch) -> str:
    """Return what a search hands over, "ensemble" or "best"."""
    if search.final is None:
        return risk_named(search.risk).default_final
    return check_choice(search.final, _names.FINALS, "final model")


def loss_for(models: Sequence[Any], given: Any, problem: ShiftProblem) -> Loss:
    """Return the loss of a search, checked against the models and the labels."""
    default = "log_loss" if problem.task == "classification" else "squared"
    for model in models:
        if problem.task == "classification" and is_regressor(model) and given is None:
            raise DataError(
                f"{type(model).__name__} is a regressor but the labels are read as classes; if "
                "they are quantities make the problem with task='regression'"
            )
    loss = tuned_loss(default if given is None else given)
    if loss.within_site and problem.task == "regression":
        raise SettingsError(
            f"the loss {loss.name!r} is for classes, and the labels are quantities; choose from "
            f"{', '.join(_names.LOSSES_OF['regression'])}"
        )
    if isinstance(given, str) and given in ROOTS:
        warnings.warn(
            f"{given!r} is no mean over rows; the search tunes the squared error, which is lowest "
            "where its root is, and risk_ has its scale (metrics_ has the root)",
            SearchWarning,
            stacklevel=2,
        )
    for model in models:
        if not hasattr(model, loss.needs):
            raise SettingsError(
                f"the loss {loss.name!r} needs {loss.needs}, which {type(model).__name__} does not "
                "have; choose another loss (such as 'zero_one' or 'squared'), or a model with "
                "probabilities (for SVMs CalibratedClassifierCV)"
            )
    if problem.task == "regression" and loss.name in LOSSES:
        _check_scale(loss, np.concatenate([site.labels for site in problem.labelled_sites]))
    return loss


def _check_scale(loss: Loss, labels: NDArray[Any]) -> None:
    """Refuse labels whose losses are too large or too small to compute with."""
    middle = np.full(len(labels), np.median(labels.astype(float)))
    size = float(np.abs(labels.astype(float)).max())
    try:
        most = float(loss(labels, middle).max())
    except ProblemError:
        most = np.inf
    if SMALLEST_LOSS <= most <= LARGEST_LOSS or np.all(labels == labels[0]):
        return
    raise DataError(
        f"the labels are numbers of up to {size:.0e}, whose {loss.name} loss is too "
        f"{'small' if most < 1 else 'large'} to compute with; divide the label by {size:.0e} "
        "first, or take the loss 'absolute'"
    )


def _check_numbers(search: ShiftSearch) -> None:
    """Check the numbers of trials and processes, and the seed."""
    if not isinstance(search.n_trials, int | np.integer) or search.n_trials <= 0:
        raise SettingsError(f"n_trials must be a whole number > 0, got {search.n_trials!r}")
    if not isinstance(search.n_jobs, int | np.integer) or search.n_jobs == 0:
        raise SettingsError(
            f"n_jobs must be the number of processes, or -1 for one per core, got {search.n_jobs!r}"
        )
    if not isinstance(search.random_state, int | np.integer) or search.random_state < 0:
        raise SettingsError(
            f"random_state must be a whole number >= 0, got {search.random_state!r}"
        )


def _check_times(search: ShiftSearch) -> None:
    for name in ("timeout", "trial_timeout"):
        value = getattr(search, name)
        if value is not None and not (isinstance(value, int | float) and 0 < value < np.inf):
            raise SettingsError(f"{name} must be > 0 seconds or None, got {value!r}")


def _check_like_optuna(search: ShiftSearch) -> None:
    given = search.callbacks
    if given is not None and not (isinstance(given, Sequence) and all(map(callable, given))):
        raise SettingsError(
            f"callbacks must be a list of functions of (study, trial) or None, got {given!r}"
        )
    kinds = search.catch if isinstance(search.catch, tuple) else (search.catch,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise SettingsError(
            f"catch must be an exception class, such as ValueError, or a tuple of them, got "
            f"{search.catch!r}"
        )


def _check_choices(search: ShiftSearch, settings: EvaluationSettings) -> None:
    if search.executor is not None and (not callable(search.executor) or search.n_jobs != 1):
        raise SettingsError(
            "executor must be the method get_executor of a Dask client, given instead of n_jobs; "
            f"got executor={search.executor!r}, n_jobs={search.n_jobs!r}"
        )
    if search.training_weights not in (None, "importance"):
        raise SettingsError(
            f"training_weights must be None or 'importance', got {search.training_weights!r}"
        )
    if search.join and search.storage is None:
        raise SettingsError(
            "join=True is for processes that share a storage; give the path of a journal or the "
            "URL of a database as storage"
        )
    final_for(search)
    plan = search.plan
    if plan is not None and (isinstance(plan, type) or not hasattr(plan, "losses")):
        raise SettingsError(
            f"plan must be a plan such as LeaveSourcesOut(4) or PooledFit(), got {plan!r}"
        )
    shares = search.shares
    if isinstance(shares, Sequence) and settings.needs_ratio and not shares[0] > 0:
        raise SettingsError(
            f"risk={search.risk!r} needs a density ratio, and shares={shares!r} leaves no "
            "rows to estimate it from"
        )


def _check_function(family: Family) -> None:
    """Refuse a function as space whose names are not those of the model's parameters."""
    try:
        params = family.suggest(open_study(None, {}).ask())
    except Exception:  # it may reject combinations; those of trials are recorded with the reason
        return
    check_parameters(family.estimator, params)


def _check_plain(space: Mapping[str, Any]) -> None:
    """Refuse choices that a storage returns as another type, such as tuples as lists."""
    for name, distribution in space.items():
        if isinstance(distribution, CategoricalDistribution):
            for choice in distribution.choices:
                if choice is not None and not isinstance(choice, bool | int | float | str):
                    raise SettingsError(
                        f"the choices of {name!r} are of type {type(choice).__name__}, which no "
                        "storage can keep; use names for them in a function as space, for example "
                        "lambda trial: {...[trial.suggest_categorical(...)]}"
                    )
