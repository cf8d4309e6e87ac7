"""ShiftSearch: tune any scikit-learn model for a site without labels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import optuna
from numpy.typing import ArrayLike
from optuna.samplers import BaseSampler
from sklearn.base import clone

from shiftune import interrupts
from shiftune.errors import SearchWarning
from shiftune.evaluate.losses import Loss
from shiftune.evaluate.plan import FitPlan
from shiftune.problem import ShiftProblem, Split
from shiftune.ratio import DensityRatio
from shiftune.ratio.auto import ratio_named
from shiftune.risk import RiskEstimator
from shiftune.risk.result import RiskEstimate
from shiftune.search.estimator import SearchEstimator
from shiftune.search.families import check_given, given_models
from shiftune.search.fitted import FittedSearch, NotFitted
from shiftune.search.handed_over import choose_among
from shiftune.search.identity import identity
from shiftune.search.loop import Callback
from shiftune.search.records import evaluated_risks, finished_trials, table
from shiftune.search.result import SearchResult
from shiftune.search.running import run_trials
from shiftune.search.settings import (
    OPTIONS,
    Checked,
    check_search,
    coerce_problem,
    refuse_others,
)
from shiftune.search.storage import only_search_of, open_answers, open_study
from shiftune.search.trial import CATCH, TrialContext
from shiftune.search.updating import updated_by_own


@dataclass(eq=False, repr=False)
class ShiftSearch(FittedSearch, SearchEstimator):
    """Search for hyperparameters of a target without labels, with an estimate of the risk there.

    Every trial fits the model on the sources' training rows, takes its losses on their validation
    rows and estimates the risk at the target from them. By default four more models per trial
    leave some of the sources out, so that half of every loss comes from a model that has not seen
    the site, and the losses are adjusted for how the sources' rows differ from the target's. With
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
        function that calls it with options.
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
        Of every source for density ratio, training and validation. Default: the paper's
        .21 / .49 / .30, or 0 / .7 / .3 where no density ratio is needed. A function can keep rows
        together that belong together (such as all visits of a patient).
    training_weights : None or "importance"
        Whether the model is trained on rows weighted by their density ratios.
    plan : FitPlan, optional
        Which models a trial fits and whose losses they give. Default: `LeaveSourcesOut`, five
        models, for "adjusted", and `PooledFit`, one model on all sources, otherwise.
        ``LeaveSourcesOut(races=True)`` stops trials whose first model is poor after it.
    early_stopping : bool
        Choose the number of rounds of boosted trees in every trial on sites that its models have
        not seen, instead of tuning it; see `shiftune.evaluate.EarlyStopping`. The upper end of
        its range in `space`, or the model's own number, is the largest.
    final : "ensemble" or "best", optional
        What `predict` uses: a weighted mean of the best trials, judged on sites that had no say in
        the choice of its members (`shiftune.predictor`), or the trial of lowest risk alone.
        Default: "ensemble" for "adjusted", "best" otherwise.
    calibrate : "none", "auto", "intercept", "platt" or "isotonic"
        Map of the probabilities of what is handed over, learned on answers of models that had not
        seen the site; "auto" takes one that lowers the loss by more than a standard error.
        Ensembles that were tuned by log loss have rarely gained by it; naive Bayes and other
        overconfident models do. For classes only.
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
    calibration_ : Recalibration or None
        What came of `calibrate`: the kind of map, its gain, the map; None with "none".
    risk_ : RiskEstimate
        Of `predictor_`. An ensemble is judged on sites that had no say in the choice of its
        members, and the best trial alone (``final="best"``) likewise: each site judges the trial
        that the other sites would choose.
    metrics_, site_metrics_ : DataFrames
        Metrics of `predictor_` at the target, and at every source; computed when read.
    verdict_ : Judgement
        "trust", "with care" or "do not use", with the reason, from `checks`; computed when read.
    best_estimator_ : estimator
        Of the winning trial, refitted on all rows of all sources, when it is asked for.
    trials_ : DataFrame
        One row per trial: state, model (where there are names), value, standard error, interval,
        mean loss without correction (the naive estimate), the value by which trials of several
        families are compared (`compared_by`), parameters, seconds, ties with the best, the risk at
        every source, the reason of a failure.
    result_ : SearchResult
        All of the above, and what report, checks and figures are made of.
    study_ : optuna.Study
    problem_ : ShiftProblem
    settings_ : EvaluationSettings
        Split, plan and estimator, with defaults filled in.
    weights_ : list of arrays or None
        Density ratios at the validation rows, where the risk is estimated with them.
    ratio_ : DensityRatio or None
        Fitted, where it is needed.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from shiftune.datasets import toy_problem
    >>> toy = toy_problem(1.0, n=300)
    >>> search = ShiftSearch(Ridge(), {"alpha": optuna.distributions.FloatDistribution(
    ...     0.01, 100, log=True)}, n_trials=8, ratio="ulsif")
    >>> search.fit(toy.problem).trials_["state"].value_counts().to_dict()
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
    plan: FitPlan | None = None
    early_stopping: bool = False
    final: str | None = None
    calibrate: str = "none"
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
        """Search, then fit what is handed over on all rows of all sources.

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
        refuse_others(others)
        with interrupts.deferred():
            self._forget()
            check_given(self.estimator, self.space)
            models = given_models(self.estimator)
            problem = coerce_problem(X, y, groups, X_target, models, sample_weight)
            self.add_trials(problem)
            self.refit()
        for note in self.result_.notes:
            warnings.warn(note, SearchWarning, stacklevel=2)
        return self

    def add_trials(self, problem: ShiftProblem) -> Self:
        """Run trials until there are enough; `refit` then chooses among them.

        `fit` does both. Of several processes that `join`, only one may need the choice.
        """
        with interrupts.deferred():
            self._forget()
            checked = check_search(self, problem)
            with only_search_of(self.storage, join=self.join):
                self._open(problem, checked)
                try:
                    run_trials(self, self._context())
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
        with interrupts.deferred():
            if not hasattr(self, "context_"):  # the interrupt came before the first trial
                self._context()
            self.__dict__.pop("best_estimator_", None)  # of an earlier choice
            self._read_results()
            interrupts.check()
            self.predictor_ = updated_by_own(self.result_, self._fitted(self._predictor()))
            if hasattr(self.predictor_, "classes_"):
                self.classes_ = self.predictor_.classes_
        return self

    def reopen(self, problem: ShiftProblem) -> Self:
        """Read the trials in the storage and choose among them; no trial is added, nothing fitted.

        `result_`, `risk_` and `trials_` are then as after `fit`; `refit` adds `predictor_`.
        """
        with interrupts.deferred():
            self._forget()
            self._open(problem, check_search(self, problem))
            self._context()
            self._read_results()
        return self

    def _open(self, problem: ShiftProblem, checked: Checked) -> None:
        families, loss, settings = checked
        known = identity(self, families, settings, problem, loss, self._new_ratio())
        study = open_study(self.storage, known, join=self.join)
        self.problem_, self.families_, self.study_ = problem, families, study
        self.loss_, self.settings_ = loss, settings
        self.answers_ = open_answers(self.storage, study, self.answers)

    def _new_ratio(self) -> DensityRatio:
        ratio: DensityRatio = clone(ratio_named(self.ratio, self.random_state))
        return ratio

    def _context(self) -> TrialContext:
        """Split the sources, fit the density ratio where one is needed, gather what trials need."""
        settings = self.settings_
        split = settings.split(self.problem_)
        ratio = None
        if settings.needs_ratio:
            interrupts.check()
            sources = [site.X for site in split.density]
            ratio = self._new_ratio().fit(self.problem_.target.X, sources)
        interrupts.check()
        models = {name: family.estimator for name, family in self.families_.items()}
        context = settings.context(models, self.problem_, self.loss_, split, ratio)
        found = context.data.weights
        self.ratio_, self.weights_ = ratio, None if found is None else list(found)
        self.context_ = context
        return context

    # ---------------------------------------------------------------- results

    def _read_trials(self) -> dict[int, RiskEstimate]:
        """Make the table of the trials; return the estimated risks by trial."""
        risks = evaluated_risks(self.study_, self.settings_.risk)
        self.trials_ = table(finished_trials(self.study_), risks)
        return risks

    def _read_results(self) -> None:
        risks = self._read_trials()
        self.result_ = SearchResult(
            problem=self.problem_,
            families=self.families_,
            loss=self.loss_,
            settings=self.settings_,
            context=self.context_,
            options={name: repr(getattr(self, name)) for name in OPTIONS},
            ratio=self.ratio_,
            weights=self.weights_,
            study=self.study_,
            trials=self.trials_,
            risks=risks,
            choice=choose_among(self, risks),
            given_metrics=self.metrics,
        )
        self.risk_ = self.result_.risk
        self.members_, self.gain_ = self.result_.members, self.result_.choice.gain
        self.calibration_ = self.result_.choice.calibration
        self.best_index_ = self.result_.chosen
        self.best_model_ = self.result_.family.name
        self.best_params_ = self.result_.family.plain_params(self.result_.best_trial)
