"""ShiftSearch: tune any scikit-learn model for a site without labels.

From `fit` to the result: the parameters are checked once (`_settings`), the trials are run
(`_loop`), one or several of them are chosen, and fitted on all rows.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import optuna
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from optuna.samplers import BaseSampler
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from shiftune import _interrupts
from shiftune._names import Task
from shiftune._wording import count
from shiftune.effects import without_effect
from shiftune.errors import ProblemError, SearchWarning, SettingsError
from shiftune.evaluate._fits import losses_of
from shiftune.evaluate._losses import Loss
from shiftune.metrics._curves import (
    ChosenThreshold,
    calibration_curve,
    check_two_classes,
    decision_curve,
    threshold_for,
)
from shiftune.predictor._conformal import class_sets, interval_around
from shiftune.predictor._ensemble import prediction_of
from shiftune.predictor._selection import Choice, best_alone, choose
from shiftune.problem import ShiftProblem, Split
from shiftune.problem._reading import as_pandas
from shiftune.problem._site import as_labels
from shiftune.ratio import DensityRatio
from shiftune.risk import RiskEstimator
from shiftune.risk._result import RiskEstimate
from shiftune.risk._theory import LAMBDA_UNBIASED, regret_bound
from shiftune.search._families import check_given, given_models, is_model
from shiftune.search._importance import importance
from shiftune.search._loop import Loop, trial_answers
from shiftune.search._result import SearchResult, cv_results, nothing_to_choose
from shiftune.search._settings import Callback, Settings, check_final, check_settings
from shiftune.search._storage import candidates, identity, only_search_of, open_answers, open_study
from shiftune.search._trial import (
    CATCH,
    TrialContext,
    best_trial,
    evaluated_risks,
    finished_trials,
    table,
)
from shiftune.search._updating import Updated, label_worth, update
from shiftune.search.gp._sampler import lowest_plausible_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from shiftune.checks import Checks, Judgement

# Parameters that the report lists.
OPTIONS = (
    "estimator",
    "loss",
    "risk",
    "ratio",
    "sampler",
    "n_trials",
    "shares",
    "training_weights",
    "random_state",
)
# Parameters that `refit` reads anew, besides `final`: they do not change what a trial is.
OF_REFIT = ("metrics", "n_jobs", "executor", "trial_timeout")


class NotFitted(ProblemError, NotFittedError):  # type: ignore[misc]  # noqa: N818
    """The search has not been fitted yet."""


def _has(method: str) -> Callable[[Any], bool]:
    def check(search: ShiftSearch) -> bool:
        model = getattr(search, "predictor_", search.estimator)
        if is_model(model):  # models by name are known once the task is
            getattr(model, method)  # raises an AttributeError where it is missing
        return True

    return check


@dataclass(eq=False, repr=False)
class ShiftSearch(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Search for hyperparameters of a target without labels, with an estimate of the risk there.

    By default every trial fits four models, each without a fourth of the sources, and each predicts
    the rows of the sources that it has not seen; their losses are adjusted for how these rows
    differ from the target's. The other estimators split the rows of every source: one model is
    fitted on training rows, and its losses are those of validation rows. With
    ``risk="variance_reduced"`` it is the paper's Algorithm 1 (any optimiser) and, with the default
    sampler, Algorithm 2 (Bayesian optimisation), with density ratios estimated once.

    Parameters
    ----------
    estimator : scikit-learn estimator or pipeline, name, list of names, mapping, or "auto"
        Names are those of `shiftune.models.MODELS`; such models read columns of any kind. A
        mapping has names of your choice, and pairs (estimator, space) or what
        `shiftune.models.ready_model` returns. "auto" stands for boosted trees, a kernel machine
        and a linear model. Several families share the trials of one study, in which parameters
        have names such as "linear.alpha". The first trial of every model has the parameters that
        it was given, so that no choice is estimated to be worse.
    space : mapping from parameter names to distributions, or function
        Distributions are Optuna's, or a list of choices, (low, high), (low, high, "log"), or
        scipy's `uniform`, `loguniform`, `randint`; `shiftune.spaces` has ready ones. A function
        takes an Optuna trial and returns the parameters (define-by-run). A model
        by name has a space of its own.
    loss : str, Loss or function
        Default: "log_loss" for classification, "squared" for regression. "auc" and other metrics
        of whole sites are tuned as 1 - metric. "mae" and other names of scikit-learn are known.
    risk : str, RiskEstimator or function
        "adjusted" (see `shiftune.risk.RegressionAdjusted`), another of `shiftune.risk.ESTIMATORS`
        ("variance_reduced" is the paper's), a `shiftune.risk.RiskEstimator`, or a function of
        (losses, weights, names) that returns a `RiskEstimate`.
    ratio : str or DensityRatio
        For the risk estimators and training weights that need density ratios; see
        `shiftune.ratio`. "logistic" costs next to nothing and sees shifts of the means; "auto"
        also tries kernels and boosted trees, which see other shifts, at the cost of some 10 s for
        30 sources.
    sampler : "gp_lcb", "random", "tpe" or an Optuna sampler
    n_trials : int
        Number of trials in all, those of a continued study included.
    timeout : float, optional
        Seconds after which no new trial is begun, but for the first. Of several families, one
        whose trials take long has fewer of its first eight.
    trial_timeout : float, optional
        Seconds that the fits of one trial may take, one after the other; a longer trial is recorded
        as failed. Trials then run in worker processes, which can be stopped, or on a Dask cluster
        whose workers have nannies.
    n_jobs : int
        Worker processes, which share the fits of a trial; -1 is one per core. They are started
        when that pays: the first fits of a small table run in this process.
    executor : function, optional
        Run trials on a Dask cluster instead of `n_jobs` processes: ``client.get_executor``, or a
        function that calls it with options. It is called once; the client has to last.
    storage : path, Optuna URL or Optuna storage, optional
        A path is a journal file. A run that was killed continues where it stopped; other data or
        other settings are refused, and so is a second search at the same time, unless all `join`.
        (With other storages, one search at a time is the user's promise.)
    join : bool
        Share the trials in the storage with other processes that run the same search. Together they
        run `n_trials`, and take over those of a process that has died. `fit` returns in each of
        them when all are finished. Proposals then depend on the processes' speed.
    answers : path, optional
        Folder for the predictions of trials. Default: beside a journal, otherwise memory, so that
        every process computes those of the others again at the end.
    shares : three numbers, or a function from the problem to a `Split`, optional
        Of every source for density ratio, training and validation, where `risk` is one of the
        paper's estimators. Default: the paper's .21 / .49 / .30, or 0 / .7 / .3 where no density
        ratio is needed. ("adjusted" trains and judges on every row.)
    training_weights : None or "importance"
        Whether the model is trained on rows weighted by their density ratios.
    final : "ensemble" or "best", optional
        What `predict` uses: a weighted mean of the best trials, judged on sites that were held out
        of the choice of its members (`shiftune.predictor`), or the best trial alone.
        Default: "ensemble" for "adjusted", "best" otherwise.
    metrics : names, functions or Metrics, optional
        In `metrics_`; see `shiftune.metrics.metric_named`. Default: a set for the task.
    callbacks : list of functions, optional
        Called with the study and the finished trial after every trial, as Optuna does;
        ``study.stop()`` in one of them ends the search. (`study` is Optuna's, whose values are
        risks.)
    catch : exception class or tuple of them
        Errors of a model that make a trial fail; others end the search. Default: all. With
        ``catch=()`` the first error is raised.
    progress : bool, optional
        Show a progress bar; default: on terminals.
    random_state : int
        The same number gives the same trials, also with several workers (as many as before), and
        also when a study is continued (except with "tpe", which then goes on differently). It
        seeds the split, the density ratio, the sampler, and every `random_state` of the model
        that is None. (An Optuna sampler that is passed in keeps its own seed.)

    Attributes
    ----------
    best_params_ : dict
        Of the winning trial; with a define-by-run function, the values that the trial suggested,
        none where the model is best as it was given.
    best_model_ : str
        Name of the winning trial's family; empty in a search of one estimator.
    families_ : dict from names to Family
        Estimators and spaces, made for the problem.
    predictor_ : estimator
        What `predict` uses, fitted on all rows of all sources: an `EnsembleRegressor`, an
        `EnsembleClassifier`, or one model.
    best_score_ : float
        Negated value of `risk_`; `score` has the same scale.
    cv_results_ : dict of arrays
        `trials_` with scikit-learn's names; every source is a split.
    members_ : DataFrame
        Trials in `predictor_`: model, weight, estimated risk of its own, parameters.
    gain_ : Estimate or None
        Risk of the best single trial less that of the ensemble, paired.
    risk_ : RiskEstimate
        Of `predictor_`: the expected loss at a site that the model has not seen. An ensemble is
        judged on sites that were held out of the choice of its members, and the best trial alone
        (``final="best"``) likewise: each site judges the trial that the other sites would choose.
    metrics_, site_metrics_ : DataFrames
        Metrics of `predictor_` at the target, and at every source; computed when read.
    verdict_ : Judgement
        "trust", "with care" or "do not use", with the reason, from `checks`; computed when read.
    best_estimator_ : estimator
        Of the winning trial, refitted on all rows of all sources, when it is asked for.
    trials_ : DataFrame
        One row per trial: state, model (where there are names), value, standard error, interval,
        the `criterion` by which trials are compared (for "adjusted" the mean loss of the sites,
        otherwise the risk), parameters, seconds, ties with the best, the risk at every source, the
        reason of a failure.
    result_ : SearchResult
        All of the above, and what report, checks and figures are made of.
    study_ : optuna.Study
    problem_ : ShiftProblem
    settings_ : Settings
        The parameters, checked for the problem, with defaults filled in.
    weights_ : list of arrays or None
        Density ratios at the validation rows, where the risk is estimated with them.
    ratio_ : DensityRatio or None
        Fitted, where it is needed.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> X = np.random.default_rng(0).normal(size=(3, 100, 2))  # the target and two sources
    >>> problem = ShiftProblem.from_sites([(rows, rows.sum(axis=1)) for rows in X[1:]], X[0])
    >>> search = ShiftSearch(Ridge(), {"alpha": optuna.distributions.FloatDistribution(
    ...     0.01, 100, log=True)}, n_trials=8, ratio="ulsif")
    >>> search.fit(problem).trials_["state"].value_counts().to_dict()
    {'COMPLETE': 8}
    """

    estimator: Any = "auto"
    space: Any = None
    _: KW_ONLY
    loss: str | Loss | Callable[..., Any] | None = None
    risk: str | RiskEstimator | Callable[..., RiskEstimate] = "adjusted"
    ratio: str | DensityRatio = "logistic"
    sampler: str | BaseSampler = "gp_lcb"
    n_trials: int = 50
    timeout: float | None = None
    trial_timeout: float | None = None
    n_jobs: int = 1
    executor: Callable[[], Any] | None = None
    storage: str | os.PathLike[str] | optuna.storages.BaseStorage | None = None
    join: bool = False
    answers: str | os.PathLike[str] | None = None
    shares: tuple[float, float, float] | Callable[[ShiftProblem], Split] | None = None
    training_weights: str | None = None
    final: str | None = None
    metrics: Any = None
    callbacks: Sequence[Callback] | None = None
    catch: type[BaseException] | tuple[type[BaseException], ...] = CATCH
    progress: bool | None = None
    random_state: int = 0

    # ---------------------------------------------------------------- fitting

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        X_target: Any = None,
        sample_weight: ArrayLike | None = None,
        **others: Any,
    ) -> Self:
        """Search, then fit the final model on all rows of all sources.

        Parameters
        ----------
        X : ShiftProblem, or array or DataFrame of shape (n, d)
            The problem; or the rows of all sources, with
        y, groups : arrays of shape (n,)
            their labels and sites, and
        X_target : array or DataFrame of shape (n_T, d)
            the rows of the target.
        sample_weight : array of shape (n,), optional
            Weights of the rows in X; see `ShiftProblem.from_frame`.
        others
            None: arguments for the model's `fit` are refused.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C, as soon as no trial is half recorded; a second Ctrl-C does not wait.
            `trials_`, `study_` and `problem_` have what was finished, `refit` turns it into a
            model, and with a `storage` the same call continues where it stopped.
        """
        if others:
            raise SettingsError(
                f"fit takes X, y, groups, X_target and sample_weight, not {next(iter(others))!r}; "
                "give options of the model to its constructor"
            )
        with _interrupts.deferred():
            self._forget()
            check_given(self.estimator, self.space)
            self.add_trials(self._problem(X, y, groups, X_target, sample_weight))
            self.refit()
        for note in self.result_.notes:
            warnings.warn(note, SearchWarning, stacklevel=2)
        return self

    def _problem(
        self, X: Any, y: Any, groups: Any, X_target: Any, sample_weight: Any
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
        of_values = any(map(is_regressor, given_models(self.estimator)))
        task: Task | None = "regression" if of_values else None
        return ShiftProblem.from_arrays(
            X, y, groups, X_target, sample_weight=sample_weight, task=task
        )

    def _params(self) -> dict[str, Any]:
        """Parameters of a search; a subclass may have others, or none."""
        return {field.name: getattr(self, field.name) for field in fields(ShiftSearch)}

    def add_trials(self, problem: ShiftProblem) -> Self:
        """Run trials until there are enough; `refit` then chooses among them.

        `fit` does both. Of several processes that `join`, only one may need the choice.
        """
        with _interrupts.deferred():
            self._forget()
            settings = check_settings(self._params(), problem)
            with only_search_of(settings.storage, join=settings.join):
                self._open(problem, settings)
                try:
                    self._prepare()
                    Loop(settings, self.context_, self.study_, self.answers_).run()
                except KeyboardInterrupt:
                    self._read_trials()
                    raise
        return self

    def refit(self) -> Self:
        """Choose among the trials so far, and fit the choice on all rows of all sources.

        `fit` does this at its end. Call it after `fit` was interrupted, for the model and the
        risk that the finished trials give:

        >>> search = ShiftSearch(...)                         # doctest: +SKIP
        >>> search.fit(problem)                               # doctest: +SKIP
        ^C KeyboardInterrupt
        >>> search.refit().best_params_                       # doctest: +SKIP
        """
        if not hasattr(self, "study_"):
            raise NotFitted("this ShiftSearch has no trials; call fit first")
        with _interrupts.deferred():
            self.settings_: Settings = replace(
                self.settings_,
                final=check_final(self.final, self.settings_.risk),
                **{name: getattr(self, name) for name in OF_REFIT},
            )
            if not hasattr(self, "context_"):  # the interrupt came before the first trial
                self._prepare()
            self.__dict__.pop("best_estimator_", None)  # of an earlier choice
            self._read_results()
            _interrupts.check()
            self.predictor_ = self._final()
            if hasattr(self.predictor_, "classes_"):
                self.classes_ = self.predictor_.classes_
        return self

    def reopen(self, problem: ShiftProblem) -> Self:
        """Read the trials in the storage and choose among them; no trial is added, nothing fitted.

        `result_`, `risk_` and `trials_` are then as after `fit`; `refit` adds `predictor_`.
        """
        with _interrupts.deferred():
            self._forget()
            self._open(problem, check_settings(self._params(), problem))
            self._prepare()
            self._read_results()
        return self

    # ---------------------------------------------------------------- steps of a fit

    def _forget(self) -> None:
        """Delete the results of an earlier fit: a fit that is interrupted must not show them."""
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
            delattr(self, name)

    def _open(self, problem: ShiftProblem, settings: Settings) -> None:
        """Open the storage, which may have trials of the same search."""
        families, loss = settings.families, settings.loss
        same = identity(families, settings, problem, loss, settings.ratio, self.risk)
        study = open_study(settings.storage, same, join=settings.join)
        self.answers_ = open_answers(settings.storage, study, settings.answers)
        self.problem_, self.settings_, self.study_ = problem, settings, study
        self.families_ = families
        self.loss_: Loss = loss

    def _prepare(self) -> None:
        """Split the sources, fit the density ratio where one is needed, gather what trials need."""
        settings, target = self.settings_, self.problem_.target
        split = settings.split(self.problem_)
        ratio: DensityRatio | None = None
        if settings.needs_ratio:
            _interrupts.check()
            ratio = clone(settings.ratio).fit(target.X, [site.X for site in split.density])
        _interrupts.check()
        self.context_: TrialContext = settings.context(self.problem_, split, ratio)
        weights = self.context_.data.weights
        self.ratio_, self.weights_ = ratio, None if weights is None else list(weights)

    def _read_trials(self) -> dict[int, RiskEstimate]:
        """Make the table of the trials; return the estimated risks by trial."""
        risks = evaluated_risks(self.study_)
        self.trials_ = table(finished_trials(self.study_), risks)
        return risks

    def _read_results(self) -> None:
        risks = self._read_trials()
        self.result_: SearchResult = SearchResult(
            problem=self.problem_,
            settings=self.settings_,
            context=self.context_,
            options={name: repr(getattr(self, name)) for name in OPTIONS},
            ratio=self.ratio_,
            study=self.study_,
            trials=self.trials_,
            risks=risks,
            choice=self._choose(risks),
        )
        self.risk_ = self.result_.risk
        self.members_, self.gain_ = self.result_.members, self.result_.choice.gain
        self.best_index_ = self.result_.chosen
        self.best_model_ = self.result_.family.name
        self.best_params_ = self.result_.family.plain_params(self.result_.best_trial)

    def _choose(self, risks: Mapping[int, RiskEstimate]) -> Choice:
        """Choose the final model, from the estimated risks of the trials."""
        trials, context = finished_trials(self.study_), self.context_
        best = best_trial(risks)
        if best is None:
            raise ProblemError(nothing_to_choose(self.trials_, self.problem_))
        predictions = trial_answers(
            self.settings_, context, self.study_, self.answers_, candidates(trials)
        )
        data, loss, estimate = context.data, context.loss, context.estimate
        choice = best_alone(best, risks[best], predictions, data, loss, estimate)
        if self.settings_.final == "ensemble" and len(predictions) > 1:
            choice = choose(choice, predictions, data, loss, estimate)
        return choice

    def _final(self) -> Any:
        """Fit the final model, and update it by labels of the target."""
        result, few = self.result_, self.problem_.labelled_target
        predictor = result.fitted(result.final_model)
        if few is None or result.updated is None or not result.updated.used_:
            return predictor
        return result.updater.with_labels(predictor, few)

    # ---------------------------------------------------------------- as an estimator

    def _check_fitted(self) -> None:
        known = vars(self)
        if "predictor_" in known:
            return
        name = type(self).__name__
        if finished := len(known.get("trials_", ())):
            raise NotFitted(
                f"the fit of this {name} was stopped after {count(finished, 'trial')}; "
                "refit() turns them into a model"
            )
        raise NotFitted(f"this {name} has not been fitted; call fit first")

    def _result(self) -> SearchResult:
        self._check_fitted()
        return self.result_

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            """Explain that what `fit` learns is not there yet."""
            if name.endswith("_") and not name.startswith("_"):
                self._check_fitted()
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @available_if(_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict with the final model; columns of a table are found by name."""
        self._check_fitted()
        return prediction_of(self.predictor_, self.problem_.read(X), "predict")

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict probabilities with the final model."""
        self._check_fitted()
        rows = self.problem_.read(X)
        return prediction_of(self.predictor_, rows, "predict_proba")

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Negated mean loss of `predictor_` on labelled rows: the scale of `best_score_`."""
        labels = as_labels(as_pandas(y), "X")
        rows = self.problem_.read(X)
        losses = losses_of(self.predictor_, rows, labels, self.result_.loss)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        return -float(np.average(losses, weights=weights))

    @cached_property
    def best_estimator_(self) -> Any:
        """Model of the winning trial, fitted on all rows of all sources when it is asked for."""
        chosen = self._result().chosen
        if list(self.result_.choice.weights) == [chosen]:
            return without_effect(self.predictor_)
        return self.result_.fitted(self.result_.model_of(chosen))

    @property
    def best_score_(self) -> float:
        """Negated estimate of the risk of `predictor_` at the target."""
        return -self.result_.risk.value

    @property
    def cv_results_(self) -> dict[str, Any]:
        """Finished trials as a dict of arrays.

        `mean_test_score` is the negated `criterion` by which trials are compared, and
        `std_test_score` the standard error of the estimate at the target. Every site is a split:
        `split0_test_score` is the negated estimate of the first source. `rank_test_score` is 1 for
        `best_index_`. Scores of trials that failed are NaN.
        """
        return cv_results(self.result_)

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        return int(self.problem_.target.X.shape[1])

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of the columns, where all of them are text."""
        X = self.problem_.target.X
        if not isinstance(X, pd.DataFrame) or not all(isinstance(n, str) for n in X.columns):
            raise AttributeError("the rows have no names of columns")
        return np.asarray(X.columns, dtype=object)

    def __sklearn_tags__(self) -> Any:
        """A search for a classifier is a classifier; with names the task is known after `fit`."""
        tags, models = super().__sklearn_tags__(), given_models(self.estimator)
        tags.input_tags.sparse = True  # read as arrays
        if hasattr(self, "predictor_"):
            models = [self.predictor_]
        if not models:
            return tags
        inner = get_tags(models[0])
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = copy.deepcopy(inner.classifier_tags)
        tags.regressor_tags = copy.deepcopy(inner.regressor_tags)
        return tags

    def __sklearn_clone__(self) -> Self:
        # A cluster, a storage and callbacks cannot be copied, and need not be.
        shared = ("executor", "storage", "callbacks")
        params = {
            name: value if name in shared else clone(value, safe=False)
            for name, value in self.get_params(deep=False).items()
        }
        return type(self)(**params)

    def __getstate__(self) -> Any:
        # A fitted search that is loaded elsewhere does not need what its trials ran with.
        return super().__getstate__() | {"executor": None, "callbacks": None}

    # ---------------------------------------------------------------- figures as data

    @property
    def metrics_(self) -> pd.DataFrame:
        """Metrics at the target; see `shiftune.metrics.metric_tables`."""
        return self._result().metrics.table.copy()

    @property
    def site_metrics_(self) -> pd.DataFrame:
        """Metrics at every source; see `shiftune.metrics.metric_tables`."""
        return self._result().metrics.by_site.copy()

    def calibration_curve(self, site: str | None = None) -> pd.DataFrame:
        """Observed shares by predicted probability; see `shiftune.metrics.calibration_curve`."""
        return calibration_curve(check_two_classes(self._result().new_site), site)

    def decision_curve(self) -> pd.DataFrame:
        """Net benefit by threshold; see `shiftune.metrics.decision_curve`."""
        return decision_curve(check_two_classes(self._result().new_site))

    def threshold_for(
        self,
        *,
        sensitivity: float | None = None,
        specificity: float | None = None,
        net_benefit: float | None = None,
    ) -> ChosenThreshold:
        """Choose a threshold for the target; see `shiftune.metrics.threshold_for`."""
        return threshold_for(
            check_two_classes(self._result().new_site),
            sensitivity=sensitivity,
            specificity=specificity,
            net_benefit=net_benefit,
        )

    def default_risk(self) -> RiskEstimate:
        """Estimate the target risk of the model with its default parameters.

        It is fitted and evaluated once, on the same rows as every trial, so
        ``search.default_risk().minus(search.result_.choice.risk)`` is the gain from tuning
        (`risk_` where no labels of the target have updated the predictor).
        """
        outcome = self._result().default
        if outcome.risk is None:
            raise ProblemError(
                f"the model with its default parameters cannot be evaluated: {outcome.failure}"
            )
        return outcome.risk

    def regret_bound(self, delta: float = 0.1) -> float:
        r"""Upper bound on the regret of the choice, with probability :math:`1 - \delta`.

        The paper's main theorem (`shiftune.risk.regret_bound`), with the variance of the chosen
        trial in place of those at the unknown optima, and :math:`R_n` as the gap between the
        chosen trial and the lowest value that is plausible under the Gaussian process (mean - 2 sd)
        anywhere in the space. Infinity where no source overlaps with the target and the estimate
        fell back on another.

        The theorem covers estimates of the form :math:`\sum_j \lambda_j \sum_i w_{ij} L_{ij}`
        with :math:`\sum_j \lambda_j n_j = 1`: "unbiased", "variance_reduced", and given lambdas.
        Any other estimator is refused, unless its estimate fell back.
        """
        result = self._result()
        risk = result.risks[result.chosen]
        if risk.fallback:  # its method is that of the substitute; infinity is true of any
            return np.inf
        if risk.method not in LAMBDA_UNBIASED:
            raise SettingsError(
                f"the regret bound holds for lambda-unbiased estimates; {risk.method!r} is "
                "not one: search with risk='unbiased' or risk='variance_reduced'"
            )
        return regret_bound(
            max(risk.value - lowest_plausible_value(result.study), 0.0),
            variance_chosen=risk.variance,
            variance_best=risk.variance,
            variance_best_estimated=risk.variance,
            delta=delta,
        )

    def update(
        self,
        X: Any,
        y: ArrayLike,
        *,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Updated:
        """Update the predictor by labels of some rows of the target, without a new search.

        An effect of the site is added to `predictor_`: as much of it as the labels show, given how
        far the sources differ (`shiftune.effects`). Half of the updated predictor is the same
        model, refitted with the labels. Where the estimated gain is negative, labels are not used.

        Parameters
        ----------
        X : DataFrame or array of shape (m, d)
            Rows of the target.
        y : array of shape (m,)
        group : array of shape (m,), optional
            Ids of rows that belong together; see `ShiftProblem.from_frame`.
        sample_weight : array of shape (m,), optional
            Where the rows of the search have weights; 1 each by default.

        Returns
        -------
        Updated
            The search itself stays as it is; labels that it had count as well.
        """
        codes = None if group is None else -1 - pd.factorize(np.asarray(group))[0]
        return update(self._result(), self.predictor_, X, y, codes, sample_weight)

    def predict_interval(self, X: Any, level: float = 0.9) -> NDArray[np.float64]:
        """Predict intervals of values that hold at a new site, shape (n, 2).

        Conformal prediction over sites: see `shiftune.predictor.SiteScores`.
        """
        if self._result().context.data.classes is not None:
            raise SettingsError("this search predicts classes; predict_set gives sets of them")
        return interval_around(self.predict(X), self.result_.site_scores.quantile(level))

    def predict_set(self, X: Any, level: float = 0.9) -> NDArray[np.bool_]:
        """Predict sets of classes that hold at a new site, shape (n, C).

        Conformal prediction over sites: see `shiftune.predictor.SiteScores`.
        """
        if self._result().context.data.classes is None:
            raise SettingsError("this search predicts values; predict_interval gives intervals")
        q = self.result_.site_scores.quantile(level)
        return class_sets(self.predict_proba(X), q)

    def label_worth(
        self, counts: int | Sequence[int] | None = None, *, level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate the gain from labelling some rows of the target.

        Each source is treated as the target in turn: some of its rows are labelled, its own effect
        is learned from them as `update` does it, and its other rows are predicted, all with models
        that have not seen it. A source that is too small has 60 % of its rows labelled, and its
        gain is extrapolated. That labels also train is not included. Needs at least two sources.

        Parameters
        ----------
        counts : number or numbers of labelled rows, optional
            In all, including those that the search had; 0 is always in the table. Default: 10, 30,
            100, 300, as far as the target has rows.
        level : float
            Of the intervals.

        Returns
        -------
        DataFrame
            Indexed by the number of labels: ``risk``, the expected loss at the target; ``gain``,
            how much lower it is than without labels, with the interval from ``gain_low`` to
            ``gain_high`` for one more site; ``half_width`` of the interval of the risk.
        """
        return label_worth(self._result(), counts, level=level)

    def importance(self, *, timeout: float | None = None, level: float = 0.95) -> pd.DataFrame:
        r"""Estimate which columns matter at the target: permutation feature importance.

        How much the loss rises where column c has the values :math:`x'_c` of other rows,

        .. math:: \mathrm{E}\, \ell(h(x_{-c}, x'_c), y) - \mathrm{E}\, \ell(h(x), y),

        with h the final model, fitted without each fold of sites as in the trials, and
        :math:`x'_c` drawn from the target's rows. It is estimated as `risk_` is: adjusted to these
        rows, with an interval for a site that no model has seen. (Linear model, independent
        columns, squared error: :math:`2 b_c^2 \mathrm{Var}(x_c)`.) Updates by labels do not count.

        Parameters
        ----------
        timeout : float, optional
            Seconds after which no further column is begun; those that shift most come first.
        level : float
            Of the intervals, which need two sources.

        Returns
        -------
        DataFrame of shape (d, 8)
            Indexed by column, the most important first: ``importance``, ``low`` to ``high``;
            ``shift``, the mean distance from the sources (`shiftune.ratio.column_shifts`);
            ``adjustment``, how much the expected loss rises when the sources are adjusted to the
            target in this column alone, ``adjustment_low`` to ``adjustment_high``; ``note``.

        >>> from sklearn.linear_model import Ridge
        >>> X = np.random.default_rng(0).normal(size=(4, 200, 2))  # the target and three sources
        >>> sites = [(rows, 3 * rows[:, 0] + rows[:, 1]) for rows in X[1:]]
        >>> search = ShiftSearch(Ridge(), {"alpha": [0.01, 0.1]}, n_trials=2)
        >>> table = search.fit(ShiftProblem.from_sites(sites, X[0])).importance()
        >>> table["importance"].round().to_dict()
        {0: 17.0, 1: 2.0}
        """
        return importance(self._result(), timeout, level)

    def checks(self) -> Checks:
        """Check what can make the result worthless; see `shiftune.checks.run_checks`.

        Takes seconds; ``print(search.checks())`` prints them as text, `verdict_` sums them up.
        """
        return self._result().checks

    @property
    def verdict_(self) -> Judgement:
        """Whether to use the result at the target: "trust", "with care" or "do not use", and why.

        From `checks`; ``print(search.verdict_)`` prints it with the reason.
        """
        from shiftune.checks import judgement

        return judgement(self._result().checks)

    def summary(self) -> dict[str, Any]:
        """Return the result as one document of JSON values; see `SearchResult.summary`."""
        return self._result().summary(predictor=self.predictor_)

    # ---------------------------------------------------------------- pictures
    # They belong to lower layers, and need Matplotlib (the extra `report`).

    def plot_history(self) -> Figure:
        """Plot risk and interval of every trial; see `shiftune.report.figures.history`."""
        from shiftune.report.figures import history

        result = self._result()
        return history(result.trials, chosen=result.chosen)

    def plot_sources(self, level: float = 0.95) -> Figure:
        """Plot every source's estimate for the winner; see `shiftune.report.figures.forest`."""
        from shiftune.report.figures import forest

        return forest(self._result().risk, level)

    def plot_calibration(self) -> Figure:
        """Plot the calibration curve; see `shiftune.report.figures.calibration`."""
        from shiftune.report.figures import calibration

        sites = check_two_classes(self._result().new_site).predictions.names
        return calibration(
            self.calibration_curve(), {site: self.calibration_curve(site) for site in sites}
        )

    def plot_decision_curve(self) -> Figure:
        """Plot net benefit by threshold; see `shiftune.report.figures.decision`."""
        from shiftune.report.figures import decision

        return decision(self.decision_curve())

    def plot_weights(self) -> Figure:
        """Plot the density ratios of every source; see `shiftune.report.figures.weights`."""
        from shiftune.report.figures import weights

        return weights(self._result().overlap)

    def plot_shifts(self) -> Figure:
        """Plot the columns that differ at the target; see `shiftune.report.figures.shifts`."""
        from shiftune.report.figures import shifts

        return shifts(self._result().shifts)

    def plot_importances(self) -> Figure:
        """Plot importances of the parameters; see `shiftune.report.figures.importances`."""
        from shiftune.report.figures import importances

        return importances(self._result().importances)

    def plot_parameter(self, name: str) -> Figure:
        """Plot risk against one parameter; see `shiftune.report.figures.parameter_slice`."""
        from shiftune.report.figures import parameter_slice

        return parameter_slice(self._result(), name)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        settings: Mapping[str, str] | None = None,
        updates: Sequence[Mapping[str, Any]] = (),
    ) -> Path:
        """Write the result as one HTML file; see `shiftune.report.save_report`."""
        from shiftune.report import save_report

        return save_report(self._result(), path, settings=settings, updates=updates)

    def model_card(
        self, path: str | os.PathLike[str], *, settings: Mapping[str, str] | None = None
    ) -> Path:
        """Write a model card, a Markdown file; see `shiftune.report.save_model_card`."""
        from shiftune.report import save_model_card

        return save_model_card(self._result(), path, settings=settings)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """View in notebooks: scikit-learn's diagram before the fit, the answer after it."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle and hasattr(self, "predictor_"):
            from shiftune.report._page import notebook

            bundle["text/html"] = notebook(self.result_)
        return bundle

    def _repr_html_(self) -> str | None:
        """The same as HTML, for viewers that read no bundles; None where the user wants text."""
        return self._repr_mimebundle_().get("text/html")
