"""Checks of a search's settings, before any model is trained."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from optuna.distributions import CategoricalDistribution
from sklearn.base import is_regressor

from shiftune import names
from shiftune.errors import DataError, ProblemError, SearchWarning, SettingsError
from shiftune.evaluate.fitting import weight_argument
from shiftune.evaluate.losses import LARGEST_LOSS, LOSSES, SMALLEST_LOSS, Loss
from shiftune.evaluate.plan import FitPlan
from shiftune.evaluate.rounds import rounds_parameter
from shiftune.evaluate.unseen_sites import leaves_sites_out
from shiftune.loss_names import ROOTS
from shiftune.metrics import metrics_for
from shiftune.metrics.as_loss import tuned_loss
from shiftune.models.space import check_names as check_parameters
from shiftune.names import Task
from shiftune.problem import ShiftProblem
from shiftune.problem.columns import column_kinds
from shiftune.problem.weights import weights_of
from shiftune.risk import risk_named
from shiftune.search.evaluation_settings import EvaluationSettings, predicts_values
from shiftune.search.families import Family, resolve
from shiftune.search.records import OUT_OF_TIME
from shiftune.search.samplers import sampler_named
from shiftune.search.storage import open_study
from shiftune.spelling import check_choice
from shiftune.wording import listed

if TYPE_CHECKING:
    from shiftune.search.search import ShiftSearch


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
    X: Any, y: Any, groups: Any, X_target: Any, models: Sequence[Any], sample_weight: Any = None
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
    if search.early_stopping:
        families = _stopping_early(families, problem)
    models = [family.estimator for family in families.values()]
    loss = loss_for(models, search.loss, problem)
    settings = EvaluationSettings.of(search)
    check_numbers(search)
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
    _check_calibrate(search.calibrate, loss, classes, settings.plan)
    return Checked(families, loss, settings)


def _stopping_early(families: dict[str, Family], problem: ShiftProblem) -> dict[str, Family]:
    """Return the families without numbers of boosting rounds in their spaces."""
    models = [family.estimator for family in families.values()]
    if not any(map(rounds_parameter, models)):
        raise SettingsError(
            "early_stopping is for boosted trees (LightGBM, XGBoost, CatBoost, scikit-learn's), "
            f"and there are none among {listed([type(model).__name__ for model in models])}"
        )
    if len(problem.sources) < 2:
        raise SettingsError("early_stopping needs at least two sources, to have unseen ones")
    return {name: family.stopping_early() for name, family in families.items()}


def final_for(search: ShiftSearch) -> str:
    """Return what a search hands over, "ensemble" or "best"."""
    if search.final is None:
        return risk_named(search.risk).default_final
    return check_choice(search.final, names.FINALS, "final model")


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
            f"{', '.join(names.LOSSES_OF['regression'])}"
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


def check_numbers(search: Any) -> None:
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


def _check_calibrate(
    calibrate: str, loss: Loss, classes: NDArray[Any] | None, plan: FitPlan
) -> None:
    if check_choice(calibrate, names.CALIBRATIONS, "calibration") == "none":
        return
    why = ""
    if classes is None:
        why = "maps probabilities of classes, and this search predicts quantities"
    elif loss.needs == "predict":
        why = f"maps probabilities, and the loss {loss.name} is of predicted classes"
    elif calibrate == "auto" and loss.within_site:
        about = (
            "a map does not change ranks, but for ties"
            if loss.name in ("auc", "average_precision")
            else "it is of classes at a threshold, which a map only moves"
        )
        why = f"takes a map by its loss, which is of no use with {loss.name}: {about}; name a map"
    elif not leaves_sites_out(plan):
        why = (
            "is learned on answers of models that had not seen the site, and this search fits one "
            "model per trial; search with risk='adjusted' and its own plan of fits"
        )
    if why:
        raise SettingsError(f"calibrate={calibrate!r} {why}")


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
