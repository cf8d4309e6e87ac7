"""Settings of a search: checked once, before any model is trained, and handed down as a value."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import CategoricalDistribution
from optuna.samplers import BaseSampler, NSGAIIISampler, NSGAIISampler, TPESampler
from sklearn.base import clone, is_regressor
from sklearn.pipeline import Pipeline

from shiftune import _interrupts, _names
from shiftune._names import Task
from shiftune._options import Role, SearchOptions, check_each, options
from shiftune._wording import ROOTS, percent
from shiftune.errors import DataError, DataWarning, ProblemError, SearchWarning, SettingsError
from shiftune.evaluate._fits import (
    StudyData,
    assign_folds,
    relative,
    row_folds,
    seeded,
    weight_argument,
)
from shiftune.evaluate._losses import LARGEST_LOSS, LOSSES, SMALLEST_LOSS, Loss, loss_named
from shiftune.metrics import metrics_for
from shiftune.models._space import check_names
from shiftune.problem import PAPER_SHARES, ShiftProblem, Site, Split, pooled
from shiftune.problem._site import groups_of, weights_of
from shiftune.ratio import DensityRatio
from shiftune.ratio._density import ratio_named, site_weights
from shiftune.risk import RegressionAdjusted, RiskEstimator, risk_named
from shiftune.search._families import Families, Family, resolve
from shiftune.search._storage import open_study, stable_repr
from shiftune.search._trial import TrialContext
from shiftune.search.gp import GPLCBSampler

Callback = Callable[[optuna.Study, optuna.trial.FrozenTrial], object]

NO_DENSITY_ROWS = (0.0, 0.7, 0.3)
# Share of the other sites' rows that a model is trained on, below which a warning is raised.
_FEWEST_KEPT = 0.8


@dataclass(kw_only=True, eq=False, repr=False)
class Settings(SearchOptions):
    """Options of a search that suit its problem and each other, with defaults filled in.

    `check_settings` makes them, and nobody changes them; nothing below the search knows more of it.
    `families` are models and spaces by name, `ratio` is not fitted yet, None where none is needed;
    None in `metrics` stands for the default set.
    """

    families: Families
    loss: Loss
    risk: RiskEstimator
    ratio: DensityRatio | None  # type: ignore[assignment]  # a name or one is given
    final: str
    callbacks: Sequence[Callback]

    @property
    def one_target(self) -> str:
        """Reason why several targets cannot share trials; empty if they can."""
        if self.risk.out_of_site and self.ratio is None:
            return ""
        how = "training_weights" if self.risk.out_of_site else "the risk estimator"
        return f"{how} makes trials for one target, so several cannot share them"

    def renewed(self, params: Mapping[str, Any]) -> Settings:
        """Return the settings with all but what a trial is from parameters by name."""
        check_each(params)
        kept = {option.name: getattr(self, option.name) for option in options(Role.SEARCH)}
        return replace(self, **{**params, **kept, **_filled_in(params, self.risk)})

    def __getstate__(self) -> dict[str, Any]:
        # A fitted search that is loaded elsewhere does not need what its trials ran with.
        return vars(self) | {"executor": None, "callbacks": ()}

    def split(self, problem: ShiftProblem) -> Split:
        """Split the rows of every source; with out-of-site predictions all rows do everything."""
        if self.shares is None:
            return Split(problem.sources, problem.sources, problem.labelled_sites)
        if not callable(self.shares):
            return problem.split(self.shares, random_state=self.random_state)
        split = self.shares(problem)
        if not isinstance(split, Split):
            raise SettingsError(
                f"the function given as shares must return a Split, got {type(split).__name__}"
            )
        return split

    def prepared(self, problem: ShiftProblem) -> tuple[TrialContext, DensityRatio | None]:
        """Split the sources, fit the density ratio where one is needed, gather what trials need."""
        split, ratio = self.split(problem), None
        if self.ratio is not None:
            _interrupts.check()
            sources = [site.X for site in split.density]
            ratio = clone(self.ratio).fit(problem.target.X, sources)
        _interrupts.check()
        return self.context(problem, split, ratio), ratio

    def context(
        self, problem: ShiftProblem, split: Split, ratio: DensityRatio | None
    ) -> TrialContext:
        """Gather what every trial needs; `ratio` is fitted, or None where none is needed."""
        evaluated = split.validation
        if problem.oracle is not None and self.risk.uses_target_labels:
            evaluated = (problem.oracle,)
        names = tuple(site.name for site in evaluated)
        few = problem.labelled_target
        sources = [site for site in evaluated if few is None or site.name != few.name]
        risk, weights = self.fitted_risk(problem.target, sources), None
        if ratio is not None and self.risk.needs_ratio:
            weights = tuple(site_weights(ratio, evaluated))
            # Its warnings depend on the weights alone: they are raised here, once, and not in
            # every trial.
            risk.estimate([np.ones(len(site)) for site in evaluated], weights, names=names)
        X_train, y_train = pooled(split.train)
        X_validation, y_validation = X_train, y_train
        if evaluated != split.train:
            X_validation, y_validation = pooled(evaluated)
        models = {name: family.estimator for name, family in self.families.items()}
        values = predicts_values(models.values(), problem, self.loss)
        train_folds, folds = self._folds(split.train, evaluated)
        groups = groups_of([*split.train, *evaluated])  # codes that both have in common
        data = StudyData(
            X_train=X_train,
            y_train=y_train,
            train_folds=train_folds,
            training_weights=self.weights_for_training(ratio, split.train),
            X_validation=X_validation,
            folds=folds,
            y_validation=tuple(site.labels for site in evaluated),
            weights=weights,
            names=names,
            labelled_target="" if few is None else few.name,
            classes=None if values else np.unique(np.concatenate([y_train, y_validation])),
            groups=None if groups is None else tuple(groups[len(split.train) :]),
            train_groups=None if groups is None else np.concatenate(groups[: len(split.train)]),
            sample_weight=weights_of(evaluated),
        )
        _check_training_rows(data, split.train)
        estimators = {name: seeded(model, self.random_state) for name, model in models.items()}
        preparations = {
            name: stable_repr(model[:-1])
            for name, model in estimators.items()
            if isinstance(model, Pipeline) and len(models) > 1
        }
        return TrialContext(estimators, data, self.loss, risk, preparations=preparations)

    def fitted_risk(self, target: Site, sources: Sequence[Site]) -> RiskEstimator:
        """Fit the estimator of the risk on the rows of a target, and of its sources."""
        weights = weights_of([target, *sources])
        some = {} if weights is None else {"sample_weight": weights}
        risk: RiskEstimator = clone(self.risk)
        rows = [site.X for site in sources]
        if type(risk) is RegressionAdjusted:  # sites have been checked
            return risk.fit_checked([target.X, *rows], weights)
        return risk.fit(target.X, rows, **some)

    def _folds(
        self, train: Sequence[Site], evaluated: Sequence[Site]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Folds of the training and of the evaluated rows; see `StudyData`."""
        sizes = [len(site) for site in train]
        if not self.risk.out_of_site:
            return np.full(sum(sizes), -1), np.zeros(sum(map(len, evaluated)), dtype=np.intp)
        if len(train) == 1:
            site = train[0]
            by_site = {site.name: row_folds(site.labels, site.groups, self.random_state)}
        else:
            folds = assign_folds(np.array(sizes))
            by_site = {
                site.name: np.full(len(site), fold) for site, fold in zip(train, folds, strict=True)
            }
        train_folds = np.concatenate(list(by_site.values()))
        # The target's labelled rows train no trial: the model of most rows predicts them.
        most = np.argmin(np.bincount(train_folds))
        evaluation_folds = [by_site.get(site.name, np.full(len(site), most)) for site in evaluated]
        return train_folds, np.concatenate(evaluation_folds)

    def weights_for_training(
        self, ratio: DensityRatio | None, sites: Sequence[Site]
    ) -> NDArray[np.float64] | None:
        """Weights of the rows of all sites, end to end; None where there are none."""
        if sample_weight := weights_of(sites):
            return np.concatenate(sample_weight)
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


def _check_training_rows(data: StudyData, train: Sequence[Site]) -> None:
    """Refuse folds that no other row can predict; warn of rows that their subject makes useless."""
    kept = min(
        data.trains(fold).sum() / max(int(np.sum(data.train_folds != fold)), 1)
        for fold in data.fold_numbers
    )
    what = "row" if data.groups is None else "subject"
    remedy = "if ids are numbered anew at every site, make them different: B-1 instead of 1"
    for site in train if data.out_of_site else ():
        units = len(site) if site.groups is None else len(np.unique(site.groups))
        if units < 2:
            raise DataError(
                f"site {site.name!r} has one {what}, too few to evaluate it; leave it out, "
                "or join it with a similar one"
            )
    if kept == 0 and len(train) == 1:
        raise DataError(
            f"site {train[0].name!r} is the only source and has one {what}, which no other can "
            f"evaluate; add sources, or {what}s"
        )
    if kept == 0:
        raise DataError(
            "no subject is left to train on where some sites are predicted: theirs also occur at "
            f"all other sites; {remedy}"
        )
    if kept < _FEWEST_KEPT:
        warnings.warn(
            f"up to {percent(1 - kept)} of the rows cannot train models that predict other sites, "
            f"since their subjects have rows there, too; {remedy}",
            DataWarning,
            stacklevel=2,
        )


def check_settings(params: Mapping[str, Any], problem: ShiftProblem) -> Settings:
    """Return the settings from all parameters of a search by name, or raise a SettingsError."""
    check_each(params)
    args = SimpleNamespace(**params)
    families = resolve(args.estimator, args.space, problem, args.loss)
    models = [family.estimator for family in families.values()]
    loss = loss_for(models, args.loss, problem)
    risk = risk_named(args.risk)
    if risk.uses_target_labels and problem.oracle is None:
        raise SettingsError("risk='oracle' needs a problem whose target labels are kept aside")
    if args.executor is not None and args.n_jobs != 1:
        raise SettingsError(f"give executor or n_jobs, not both; got n_jobs={args.n_jobs!r}")
    if args.join and args.storage is None:
        raise SettingsError(
            "join=True is for processes that share a storage; give the path of a journal or the "
            "URL of a database as storage"
        )
    needs_ratio = risk.needs_ratio or args.training_weights is not None
    shares = args.shares or (PAPER_SHARES if needs_ratio else NO_DENSITY_ROWS)
    if risk.out_of_site:
        shares = None
        if args.shares is not None:
            raise SettingsError(
                f"risk={args.risk!r} trains and evaluates on every row, so there are no shares; "
                "give shares= with one of the paper's estimators, such as risk='variance_reduced'"
            )
    if args.importance_timeout is not None and not risk.out_of_site:
        raise SettingsError(f"importance_timeout= needs risk='adjusted', got {args.risk!r}")
    if isinstance(shares, Sequence) and needs_ratio and not shares[0] > 0:
        raise SettingsError(
            f"risk={args.risk!r} needs a density ratio, and shares={shares!r} leaves no "
            "rows to estimate it from"
        )
    sampler_named(args.sampler, args.random_state)
    weighted = weights_of(problem.sources) is not None
    if weighted and needs_ratio:
        raise SettingsError(
            "density ratios count every row once, so rows with sample_weight need "
            "risk='adjusted' or 'naive', and training_weights=None"
        )
    for family in families.values():
        if args.training_weights or weighted:
            weight_argument(family.estimator)
        _check_space(family, stored=args.storage is not None)
    classes = None if predicts_values(models, problem, loss) else problem.classes
    metrics_for(args.metrics, loss, classes)
    ratio = ratio_named(args.ratio, args.random_state)
    made = {
        "estimator": {name: family.estimator for name, family in families.items()},
        "space": {name: family.space for name, family in families.items()},
        "families": families,
        "loss": loss,
        "risk": risk,
        "ratio": clone(ratio) if needs_ratio else None,
        "shares": shares,
        **_filled_in(params, risk),
    }
    return Settings(**{**params, **made})


def _filled_in(params: Mapping[str, Any], risk: RiskEstimator) -> dict[str, Any]:
    """Return what stands for None in some parameters."""
    default = "ensemble" if risk.out_of_site else "best"
    return {"final": params["final"] or default, "callbacks": params["callbacks"] or ()}


def predicts_values(models: Iterable[Any], problem: ShiftProblem, loss: Loss) -> bool:
    """Return whether predictions are values: regressors can be trained on numbered classes."""
    regressors = all(map(is_regressor, models))
    return problem.task == "regression" or (loss.needs == "predict" and regressors)


def loss_for(models: Sequence[Any], requested: Any, problem: ShiftProblem) -> Loss:
    """Return the loss of a search, checked against the models and the labels."""
    default = "log_loss" if problem.task == "classification" else "squared"
    for model in models:
        if problem.task == "classification" and is_regressor(model) and requested is None:
            raise DataError(
                f"{type(model).__name__} is a regressor but the labels are read as classes; if "
                "they are quantities make the problem with task='regression'"
            )
    loss = loss_named(default if requested is None else requested)
    numbers = problem.task == "classification" and problem.classes.dtype.kind in "biuf"
    if not (numbers and all(map(is_regressor, models))):
        _check_kind(requested, loss, problem.task)
    if isinstance(requested, str) and requested in ROOTS:
        warnings.warn(
            f"{requested!r} is not a mean over rows; the search tunes the squared error, which is "
            "lowest where its root is, and estimates the root as a metric",
            SearchWarning,
            stacklevel=2,
        )
    for model in models:
        if not hasattr(model, loss.needs):
            raise SettingsError(
                f"the loss {loss.name!r} needs {loss.needs}, which {type(model).__name__} does not "
                "have; choose another loss (such as 'zero_one'), or a model with "
                "probabilities (for SVMs CalibratedClassifierCV)"
            )
    if problem.task == "regression" and loss.name in LOSSES:
        _check_scale(loss, np.concatenate([site.labels for site in problem.labelled_sites]))
    return loss


def _check_kind(requested: Any, loss: Loss, task: Task) -> None:
    """Refuse a loss of classes for quantities, and the other way round, by the name given."""
    words = {"classification": "classes", "regression": "quantities"}
    ((other, losses),) = ((name, of) for name, of in _names.LOSSES_OF.items() if name != task)
    if isinstance(requested, str | Loss) and loss.name in losses:
        raise SettingsError(
            f"the loss {str(getattr(requested, 'name', requested))!r} is for {words[other]}, "
            f"and the labels are {words[task]}; choose from {', '.join(_names.LOSSES_OF[task])}"
        )


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


def _check_space(family: Family, *, stored: bool) -> None:
    """Refuse names that are not parameters, and choices that a storage returns as another type."""
    if callable(family.space):
        try:
            params = family.suggest(open_study(None, {}).ask())
        except Exception:  # it may reject combinations; those of trials are recorded as failed
            return
        check_names(family.estimator, params)
        return
    for name, distribution in (family.distributions or {}).items():
        if not stored or not isinstance(distribution, CategoricalDistribution):
            continue
        for choice in distribution.choices:
            if choice is not None and not isinstance(choice, bool | int | float | str):
                raise SettingsError(
                    f"the choices of {name!r} are of type {type(choice).__name__}, which no "
                    "storage can keep; use names for them in a function as space, for example "
                    "lambda trial: {...[trial.suggest_categorical(...)]}"
                )


def sampler_named(
    sampler: str | BaseSampler, random_state: int, finished: int = 0, driver: int | None = None
) -> BaseSampler:
    """Return a sampler from its name, or a copy of the user's own, which is left as it is.

    `random_state` seeds the samplers known by name; `finished` trials has the study that is
    continued. Of several drivers that share the study, each needs proposals of its own, by its
    number.
    """
    if isinstance(sampler, NSGAIISampler | NSGAIIISampler):
        raise SettingsError(
            f"{type(sampler).__name__} is for several objectives, and the target risk is one; "
            "use 'gp_lcb', 'tpe' or 'random'"
        )
    if isinstance(sampler, BaseSampler):
        sampler = copy.deepcopy(sampler)
        if driver is not None and not isinstance(sampler, GPLCBSampler):
            sampler.reseed_rng()
        return sampler
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
