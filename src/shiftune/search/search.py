"""ShiftSearch: tune any scikit-learn model for a site without labels."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import optuna
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from shiftune.errors import OverlapWarning, ProblemError, SettingsError
from shiftune.evaluate.fitting import FitPlan, fit, seeded
from shiftune.problem import ShiftProblem, Split, pooled
from shiftune.ratio.auto import ratio_named
from shiftune.risk.few_labels import shared_alike
from shiftune.risk.result import RiskEstimate
from shiftune.risk.theory import LAMBDA_UNBIASED, regret_bound
from shiftune.search.coerce_problem import coerce_problem
from shiftune.search.evaluation_settings import EvaluationSettings
from shiftune.search.gp.bound import lowest_plausible_value
from shiftune.search.identity import stable_repr
from shiftune.search.loop import Loop
from shiftune.search.progress import Progress
from shiftune.search.records import FAILURE, finished_trials, risk_of, table
from shiftune.search.samplers import sampler_named
from shiftune.search.selection import tied_with_best, winner
from shiftune.search.settings import (
    check_model,
    check_settings,
    hint_about_columns,
    loss_for,
)
from shiftune.search.space import check_names
from shiftune.search.storage import open_study
from shiftune.search.trial import Outcome, run_trial
from shiftune.workers import Workers

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

    from shiftune.checks import Checks
    from shiftune.evaluate.losses import Loss
    from shiftune.ratio import DensityRatio
    from shiftune.risk import RiskEstimator


class NotFitted(ProblemError, NotFittedError):  # type: ignore[misc]  # noqa: N818
    """The search has not been fitted yet."""


def _has(method: str) -> Callable[[Any], bool]:
    def check(search: ShiftSearch) -> bool:
        getattr(search.estimator, method)  # its own AttributeError says what is missing
        return True

    return check


class ShiftSearch(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Choose hyperparameters for a target without labels, and say how good the model is there.

    Every trial fits the model on the sources' training rows, takes its losses on their validation
    rows and estimates the risk at the target from them. By default four more models per trial
    leave some of the sources out, so that half of every loss is about a site that the model has
    not seen, and the losses are adjusted for how the sources' rows differ from the target's. With
    ``risk="variance_reduced"`` it is the paper's Algorithm 1 (any optimiser) and, with the default
    sampler, Algorithm 2 (Bayesian optimisation), with density ratios estimated once.

    Parameters
    ----------
    estimator : scikit-learn estimator or pipeline
    space : mapping from parameter names to Optuna distributions, or function
        See `shiftune.search.spaces` for ready ones. A function takes an Optuna trial and returns
        the parameters (define-by-run).
    loss : str, Loss or function
        Default: "log_loss" for classification, "squared" for regression.
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
        Seconds after which no new trial is begun.
    trial_timeout : float, optional
        Seconds that one trial may take; a longer one is recorded as failed. Trials then run in
        worker processes, which can be stopped.
    n_jobs : int
        Worker processes (loky); -1 is one per core.
    executor : function, optional
        Returns a new `concurrent.futures.Executor` to run trials on, for example Dask's
        ``client.get_executor``; instead of `n_jobs`. It is shut down at the end.
    storage : path, Optuna URL or Optuna storage, optional
        A path is a journal file. A run that was killed continues where it stopped; other data or
        other settings are refused. One search at a time can use it.
    shares : three numbers, or a function from the problem to a `Split`, optional
        Of every source for density ratio, training and validation. Default: the paper's
        .21 / .49 / .30, or 0 / .7 / .3 where no density ratio is needed. A function can keep rows
        together that belong together (all visits of a patient, say).
    training_weights : None or "importance"
        Whether the model is trained on rows weighted by their density ratios.
    plan : FitPlan, optional
        Which models a trial fits and whose losses they give. Default: `LeaveSourcesOut`, five
        models, for "adjusted", and `PooledFit`, one model on all sources, otherwise.
        ``LeaveSourcesOut(0)`` is one model, which leaves some sources out.
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
        Of the winning trial; with a define-by-run function, what the trial was asked for.
    best_estimator_ : estimator
        Refitted on all rows of all sources.
    risk_ : RiskEstimate
        Of the winning trial's model. It was chosen for being low: an honest figure for a model
        chosen among many is a little higher.
    trials_ : DataFrame
        One row per trial: state, value, standard error, interval, mean loss without correction
        (the naive estimate), parameters, seconds, whether it can be told apart from the best, the
        risk at every source, the reason of a failure.
    study_ : optuna.Study
    problem_ : ShiftProblem
    weights_ : list of arrays or None
        Density ratios at the validation rows, where the risk is estimated with them.
    ratio_ : DensityRatio or None
        Fitted, where it is needed.
    interrupted_ : bool
        Whether the user stopped the search (Ctrl-C); the results are those so far.

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

    def __init__(
        self,
        estimator: Any,
        space: Any,
        *,
        loss: str | Loss | Callable[..., Any] | None = None,
        risk: str | RiskEstimator | Callable[..., RiskEstimate] = "adjusted",
        ratio: str | DensityRatio = "logistic",
        sampler: str | BaseSampler = "gp_lcb",
        n_trials: int = 50,
        timeout: float | None = None,
        trial_timeout: float | None = None,
        n_jobs: int = 1,
        executor: Callable[[], Executor] | None = None,
        storage: str | os.PathLike[str] | optuna.storages.BaseStorage | None = None,
        shares: tuple[float, float, float] | Callable[[ShiftProblem], Split] | None = None,
        training_weights: str | None = None,
        plan: FitPlan | None = None,
        progress: bool | None = None,
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.space = space
        self.loss = loss
        self.risk = risk
        self.ratio = ratio
        self.sampler = sampler
        self.n_trials = n_trials
        self.timeout = timeout
        self.trial_timeout = trial_timeout
        self.n_jobs = n_jobs
        self.executor = executor
        self.storage = storage
        self.shares = shares
        self.training_weights = training_weights
        self.plan = plan
        self.progress = progress
        self.random_state = random_state

    # ---------------------------------------------------------------- fitting

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        X_target: Any = None,
    ) -> Self:
        """Search, then refit the winner on all rows of all sources.

        Parameters
        ----------
        X : ShiftProblem, or array or DataFrame of shape (n, d)
            The problem; or the rows of all sources, with
        y, groups : arrays of shape (n,)
            their labels and sites, and
        X_target : array or DataFrame of shape (n_T, d)
            the rows of the target.
        """
        check_model(self.estimator)
        problem = coerce_problem(X, y, groups, X_target, self.estimator)
        loss = loss_for(self, problem)
        check_settings(self)
        ratio = clone(ratio_named(self.ratio, self.random_state))
        study = open_study(self.storage, self._identity(problem, loss, ratio))
        self.problem_, self.study_ = problem, study
        earlier = finished_trials(study)
        study.sampler = sampler_named(self.sampler, self.random_state, len(earlier))
        judging = self._judging()
        split = judging.split(problem)
        self.ratio_ = None
        if judging.needs_ratio:
            self.ratio_ = ratio.fit(problem.target.X, [site.X for site in split.density])
        context = judging.context(self.estimator, problem, loss, split, self.ratio_)
        found = context.data.weights
        self.weights_ = None if found is None else list(found)
        with (
            Workers(
                run_trial,
                context,
                n_jobs=self.n_jobs,
                executor=self.executor,
                time_limit=self.trial_timeout,
            ) as workers,
            Progress(self.n_trials, [risk_of(t) for t in earlier], self.progress) as progress,
        ):
            loop = Loop(study, self.space, workers, partial(check_names, self.estimator))
            loop.run(self.n_trials, self.timeout, progress)
        self.interrupted_ = loop.interrupted
        self._read_results(loss)
        self.best_estimator_ = self._refitted(problem)
        if hasattr(self.best_estimator_, "classes_"):
            self.classes_ = self.best_estimator_.classes_
        return self

    def _identity(self, problem: ShiftProblem, loss: Loss, ratio: DensityRatio) -> dict[str, str]:
        """What must be the same for trials of one study to be comparable."""
        judging = self._judging()
        oracle = problem.oracle if judging.risk.uses_target_labels else None
        return {
            "data": f"{problem.fingerprint()} {stable_repr(oracle and oracle.labels)}",
            "model": stable_repr(self.estimator),
            "space": stable_repr(self.space if callable(self.space) else dict(self.space)),
            "loss": stable_repr(loss),
            "risk": stable_repr(self.risk),
            "ratio": stable_repr(ratio) if judging.needs_ratio else "",
            "split": stable_repr((judging.shares, self.random_state)),
            "training weights": stable_repr(self.training_weights),
            "plan": stable_repr(judging.plan),
        }

    def _judging(self) -> EvaluationSettings:
        return EvaluationSettings.of(self)

    # ---------------------------------------------------------------- results

    def _read_results(self, loss: Loss) -> None:
        trials = finished_trials(self.study_)
        judged, risks = self._judged()
        if not judged:
            reasons = dict.fromkeys(trial.user_attrs.get(FAILURE, "") for trial in trials)
            shown = "".join(f"\n  {reason}" for reason in list(reasons)[:3])
            raise ProblemError(
                f"all {len(trials)} trials failed, so there is nothing to choose from; "
                f"the first reasons:{shown}{hint_about_columns(self.problem_)}"
                if trials
                else "no trial was finished, so there is nothing to choose from"
            )
        chosen = winner(risks)
        best, self.risk_ = judged[chosen], risks[chosen]
        self.loss_ = loss
        self.best_index_ = best.number
        self.best_params_ = dict(best.params)
        by_number = {trial.number: risk for trial, risk in zip(judged, risks, strict=True)}
        tied = zip(by_number, tied_with_best(risks), strict=True)
        self.trials_ = table(trials, by_number, {number for number, yes in tied if yes})

    def _judged(self) -> tuple[list[FrozenTrial], list[RiskEstimate]]:
        """Trials that have an estimated risk, and their risks."""
        found = [(trial, risk_of(trial)) for trial in finished_trials(self.study_)]
        judged = [(trial, risk) for trial, risk in found if risk is not None]
        risks = [risk for _, risk in judged]
        return [trial for trial, _ in judged], self._judging().risk.finish(risks)

    def _refitted(self, problem: ShiftProblem) -> Any:
        sites = problem.labelled_sites
        X, y = pooled(sites)
        weights = self._judging().weights_for_training(self.ratio_, sites)
        model = seeded(self.estimator, self.random_state).set_params(**self._model_params())
        return fit(model, X, y, weights)

    def _model_params(self) -> dict[str, Any]:
        """Parameters as the model takes them: a define-by-run function may derive some."""
        if not callable(self.space):
            return self.best_params_
        fixed = optuna.trial.FixedTrial(self.best_params_, number=self.best_index_)
        return dict(self.space(fixed))

    def __sklearn_tags__(self) -> Any:
        """A search for a classifier is a classifier."""
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = copy.deepcopy(inner.classifier_tags)
        tags.regressor_tags = copy.deepcopy(inner.regressor_tags)
        return tags

    def __sklearn_clone__(self) -> ShiftSearch:
        # A cluster and a storage cannot be copied, and need not be.
        shared = ("executor", "storage")
        params = {
            name: value if name in shared else clone(value, safe=False)
            for name, value in self.get_params(deep=False).items()
        }
        return type(self)(**params)

    def __getstate__(self) -> Any:
        # Where trials ran is nothing to a fitted search that is loaded elsewhere.
        return super().__getstate__() | {"executor": None}

    def regret_bound(self, delta: float = 0.1) -> float:
        r"""Upper bound of what the choice costs, with probability :math:`1 - \delta`.

        The paper's main theorem (`shiftune.risk.regret_bound`), with the variance of the chosen
        trial in place of those at the unknown optima, and :math:`R_n` as the gap between the
        chosen trial and the lowest value that the Gaussian process holds possible (mean - 2 sd)
        anywhere in the space. Infinity where no source overlaps with the target and the estimate
        fell back on another.

        The theorem covers estimates of the form :math:`\sum_j \lambda_j \sum_i w_{ij} L_{ij}`
        with :math:`\sum_j \lambda_j n_j = 1`: "unbiased", "variance_reduced", and given lambdas.
        Any other estimator is refused.
        """
        self._check_fitted()
        if self.risk_.fallback:
            return np.inf
        if self.risk_.method not in LAMBDA_UNBIASED:
            raise SettingsError(
                f"the regret bound holds for lambda-unbiased estimates; {self.risk_.method!r} is "
                "none: search with risk='unbiased' or risk='variance_reduced'"
            )
        lowest = lowest_plausible_value(self.study_)
        return regret_bound(
            max(self.risk_.value - lowest, 0.0),
            variance_chosen=self.risk_.variance,
            variance_best=self.risk_.variance,
            variance_best_estimated=self.risk_.variance,
            delta=delta,
        )

    def default_risk(self) -> RiskEstimate:
        """Estimate the target risk of the model as it was given, before any tuning.

        It is fitted and judged once, on the same rows as every trial, so that
        ``search.default_risk().minus(search.risk_)`` says what the tuning gained.
        """
        outcome = self._default_outcome()
        if outcome.risk is None:
            raise ProblemError(f"the model as it was given cannot be judged: {outcome.failure}")
        return outcome.risk

    def _default_outcome(self) -> Outcome:
        self._check_fitted()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)  # said when the search began
            judging = self._judging()
            context = judging.context(
                self.estimator,
                self.problem_,
                self.loss_,
                judging.split(self.problem_),
                self.ratio_,
            )
        outcome = run_trial(context, {})
        if outcome.risk is None:
            return outcome
        return replace(outcome, risk=shared_alike(outcome.risk, self.risk_))

    def plot_history(self, ax: Axes | None = None) -> Axes:
        """Draw risk and interval of every trial; see `shiftune.report.history`."""
        from shiftune.report import history  # the figures are drawn from what is found here

        self._check_fitted()
        return history(self.trials_, ax, chosen=self.best_index_)

    def plot_sources(self, ax: Axes | None = None, level: float = 0.95) -> Axes:
        """Draw what every source says about the winner; see `shiftune.report.forest`."""
        from shiftune.report import forest

        self._check_fitted()
        return forest(self.risk_, ax, level)

    def checks(self) -> Checks:
        """Check what the results rest on, in sentences; see `shiftune.report.run_checks`.

        Overlap, whether p(y|x) moves between sites, whether the sources agree, and whether one of
        them decides. Takes seconds; ``print(search.checks())`` is a text to read.
        """
        from shiftune.report import run_checks

        self._check_fitted()
        return run_checks(self)

    def label_worth(
        self, counts: int | Sequence[int] = (10, 30, 100), *, level: float = 0.95
    ) -> pd.DataFrame:
        """Say what labelling rows of the target would buy; see `shiftune.report.label_worth`."""
        from shiftune.report import label_worth

        self._check_fitted()
        return label_worth(self, counts, level=level)

    def report(
        self, path: str | os.PathLike[str], *, settings: Mapping[str, str] | None = None
    ) -> Path:
        """Write one HTML file that shows what was found; see `shiftune.report.save_report`."""
        from shiftune.report import save_report

        return save_report(self, path, settings=settings)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """What notebooks show: scikit-learn's diagram before the fit, the answer after it."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle and hasattr(self, "best_estimator_"):
            from shiftune.report.notebook import summary

            bundle["text/html"] = summary(self)
        return bundle

    def _repr_html_(self) -> str | None:
        """The same, for those who do not ask for bundles; None where the user wants text."""
        return self._repr_mimebundle_().get("text/html")

    # ---------------------------------------------------------------- using the model

    @available_if(_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict with the refitted winner."""
        self._check_fitted()
        return np.asarray(self.best_estimator_.predict(X))

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict probabilities with the refitted winner."""
        self._check_fitted()
        return np.asarray(self.best_estimator_.predict_proba(X))

    def _check_fitted(self) -> None:
        if not hasattr(self, "best_estimator_"):
            raise NotFitted("this ShiftSearch has not been fitted; call fit first")
