"""ShiftSearch: tune any scikit-learn model for a site without labels.

From `fit` to the result: the parameters are checked once (`_settings`), the trials are run
(`_loop`), one or several of them are chosen, and fitted on all rows.
"""

from __future__ import annotations

import copy
import textwrap
import warnings
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import optuna
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from shiftune import _interrupts
from shiftune._names import Task
from shiftune._options import PARAMETERS, Role, SearchOptions, options
from shiftune._wording import check_choice, count, listed
from shiftune.columns._column import kind_of
from shiftune.errors import DataError, ProblemError, SearchWarning, SettingsError
from shiftune.evaluate._fits import losses_of
from shiftune.predictor._selection import best_alone, choose
from shiftune.problem import ShiftProblem
from shiftune.problem._reading import as_pandas
from shiftune.problem._site import as_labels
from shiftune.ratio import DensityRatio
from shiftune.search._families import check_given, given_models
from shiftune.search._loop import Loop, trial_predictions
from shiftune.search._result import ResultMethods, SearchResult
from shiftune.search._settings import Settings, check_settings
from shiftune.search._storage import (
    PredictionStore,
    StorageUrl,
    candidates,
    identity,
    only_search_of,
    open_predictions,
    open_study,
)
from shiftune.search._targets import most_urgent_first, result_at
from shiftune.search._trial import (
    MODEL,
    OUT_OF_TIME,
    TrialContext,
    best_trial,
    evaluated_risks,
    finished_trials,
    table,
)

if TYPE_CHECKING:
    from shiftune.checks import Checks


class NotFitted(ProblemError, NotFittedError):  # type: ignore[misc]  # noqa: N818
    """The search has not been fitted yet."""


def _of_result(name: str, doc: str = "") -> Any:
    """Return a property that reads one of `SearchResult`, and has its docstring."""

    def read(search: ShiftSearch) -> Any:
        value = attrgetter(name)(search._result())
        return value.copy() if isinstance(value, pd.DataFrame) else value

    return property(read, doc=doc or getattr(SearchResult, name).__doc__)


@dataclass(frozen=True, eq=False)
class OpenedStudy:
    """Study of a search, which may have trials already, and what its trials share."""

    problem: ShiftProblem
    settings: Settings
    study: optuna.Study
    predictions: PredictionStore

    @classmethod
    def of(cls, problem: ShiftProblem, settings: Settings) -> Self:
        """Open the storage."""
        if len(problem.targets) > 1 and settings.one_target:
            raise SettingsError(
                f"{settings.one_target}; run a search per target, with problem.at(site), or use "
                "risk='adjusted', which serves all of them"
            )
        same = identity(settings, problem)
        study = open_study(settings.storage, same, join=settings.join)
        predictions = open_predictions(settings.storage, study, settings.predictions_folder)
        return cls(problem, settings, study, predictions)

    @cached_property
    def prepared(self) -> tuple[TrialContext, DensityRatio | None]:
        """What every trial needs, and the density ratio where one is needed."""
        return self.settings.prepared(self.problem)

    @property
    def table(self) -> pd.DataFrame:
        """Table of the trials so far."""
        return table(finished_trials(self.study), evaluated_risks(self.study))

    def result(self, settings: Settings, options: dict[str, str]) -> SearchResult:
        """Choose the final model among the trials so far."""
        trials, risks = finished_trials(self.study), evaluated_risks(self.study)
        best = best_trial(risks)
        if best is None:
            raise ProblemError(nothing_to_choose(table(trials, risks), self.problem))
        context, ratio = self.prepared
        predictions = trial_predictions(
            settings, context, self.study, self.predictions, candidates(trials)
        )
        evaluation = context.data, context.loss, context.estimate
        choice = best_alone(best, risks[best], predictions, *evaluation)
        if settings.final == "ensemble" and len(predictions) > 1:
            family = {trial.number: trial.user_attrs.get(MODEL, "") for trial in trials}
            choice = choose(choice, predictions, *evaluation, family)
        result = SearchResult(
            self.problem, settings, context, options, ratio, self.study, choice, self.predictions
        )
        # Now: others may add trials to the study.
        vars(result).update(risks=risks, trials=table(trials, risks))
        return result


class ShiftSearch(ResultMethods, SearchOptions, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Search for hyperparameters of a target without labels, with an estimate of the risk there.

    By default every trial fits four models, each without a fourth of the sources, and each predicts
    the rows of the sources that it has not seen; their losses are adjusted for how these rows
    differ from the target's. The other estimators split the rows of every source: one model is
    fitted on training rows, and its losses are those of validation rows. With
    ``risk="variance_reduced"`` it is the paper's Algorithm 1 (any optimiser) and, with the default
    sampler, Algorithm 2 (Bayesian optimisation), with density ratios estimated once.

    {parameters}

    Attributes
    ----------
    result_ : SearchResult
        What `fit` has found. The attributes below and most methods read it.
    trials_, study_, problem_
        Also there after a `fit` that was interrupted.

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

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "storage" and type(value) is str and "://" in value:
            value = StorageUrl(value)
        super().__setattr__(name, value)

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
            problem = self._problem(X, y, groups, X_target, sample_weight)
            several = len(problem.targets) > 1 and self.storage is None
            reason = check_settings(self._params(), problem).one_target if several else ""
            if reason:
                return self._fit_each(problem, reason)
            self.add_trials(problem)
            return self.refit()

    def _fit_each(self, problem: ShiftProblem, reason: str) -> Self:
        """Run a search per target; `at` has them."""
        n = len(problem.targets)
        warnings.warn(f"{reason}: each of the {n} has a search", SearchWarning, stacklevel=4)
        self._of_target: dict[str, Self] = {}
        for site in problem.targets:
            self._of_target[site.name] = clone(self).fit(problem.at(site.name))
        return self

    def _problem(
        self, X: Any, y: Any, groups: Any, X_target: Any, sample_weight: Any
    ) -> ShiftProblem:
        """Return the problem as given, or one made from arrays, for the models given."""
        if isinstance(X, ShiftProblem):
            if any(value is not None for value in (y, groups, X_target, sample_weight)):
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
        return {option.name: getattr(self, option.name) for option in options()}

    def add_trials(self, problem: ShiftProblem) -> Self:
        """Run trials until there are enough; `refit` then chooses among them.

        `fit` does both. Of several processes that `join`, only one may need the choice.
        """
        with _interrupts.deferred():
            settings = check_settings(self._params(), problem)
            self._forget()
            with only_search_of(settings.storage, join=settings.join):
                self._opened = opened = OpenedStudy.of(problem, settings)
                Loop(settings, opened.prepared[0], opened.study, opened.predictions).run()
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
        opened = self._trials()
        with _interrupts.deferred():
            result = opened.result(opened.settings.renewed(self._params()), self._options())
            _interrupts.check()
            result.predictor  # noqa: B018 - fitted now: an interrupt leaves no result
            self.result_: SearchResult = result
        for note in result.notes:
            warnings.warn(note, SearchWarning, stacklevel=3)
        return self

    def reopen(self, problem: ShiftProblem) -> Self:
        """Read the trials in the storage and choose among them; no trial is added, nothing fitted.

        All is then as after `fit`, and `predictor_` is fitted when it is first asked for.
        """
        with _interrupts.deferred():
            settings = check_settings(self._params(), problem)
            self._forget()
            self._opened = OpenedStudy.of(problem, settings)
            self.result_ = self._opened.result(settings, self._options())
        return self

    def at(self, site: Any, *, name: str = "new") -> Self:
        """Return the search for another target: same trials, same final model, its own estimates.

        Nothing is fitted, and no trial is added: what depends on the target's rows is computed
        anew (`risk_`, `metrics_`, `verdict_`, `label_worth`, `report`, `update`, ...). Trials are
        compared by the sources' mean losses, which have no target in them, so that members and
        weights are the best for every target, and for all of them together.

        This is so with ``risk="adjusted"``. Other estimators and training weights make trials for
        one target: `fit` then runs a search per target, which this returns.

        Parameters
        ----------
        site : site name, or array or DataFrame of shape (n, d)
            One of several targets of the problem; or a source, treated as if it were new: its
            labels do not train `predictor_`, but they count in which trials are its members, and
            trained the models whose losses at other sources estimate its risk, which is somewhat
            too favourable; or rows of a site that the search did not know.
        name : str
            Of the site whose rows are given.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> df = pd.DataFrame({"shop": list("ABCDEF") * 50, "area": rng.normal(size=300)})
        >>> df["sales"] = np.where(df["shop"].isin(["A", "F"]), np.nan, 2 * df["area"])
        >>> problem = ShiftProblem.from_frame(df, site="shop", label="sales", target=["A", "F"])
        >>> search = ShiftSearch("linear", n_trials=3, random_state=0).fit(problem)
        >>> search.targets_["rows"].to_dict()
        {'A': 50, 'F': 50}
        >>> bool(search.at("F").risk_.value < 2), len(search.at(df[:9]).problem_.target)
        (True, 9)
        """
        if "_of_target" in vars(self):
            if np.ndim(site):
                raise SettingsError("trials of these searches are for one target; name the target")
            return self._of_target[check_choice(str(site), self._of_target, "target", DataError)]
        search = copy.copy(self)
        with _interrupts.deferred():
            search.result_ = result_at(self._result(), site, name)
        search.__dict__.pop("_opened", None)
        return search

    def _options(self) -> dict[str, str]:
        """Parameters in words, for the report."""
        shown = options(Role.SEARCH, Role.TRIALS)
        return {option.name: repr(getattr(self, option.name)) for option in shown}

    def _forget(self) -> None:
        """Delete the results of an earlier fit: a fit that is interrupted must not show them."""
        for name in ("result_", "_opened", "_of_target"):
            self.__dict__.pop(name, None)

    # ---------------------------------------------------------------- as an estimator

    def _trials(self) -> OpenedStudy:
        if "_of_target" in vars(self):
            names = listed(self._of_target)
            raise NotFitted(f"each target has a search of its own: at(site), with {names}")
        if "_opened" not in vars(self):
            raise NotFitted(f"this {type(self).__name__} has not been fitted; call fit first")
        return self._opened

    def _result(self) -> SearchResult:
        if "result_" not in vars(self):
            finished = count(len(self._trials().table), "trial")
            raise NotFitted(
                f"the fit of this {type(self).__name__} was stopped after {finished}; "
                "refit() turns them into a model"
            )
        return self.result_

    def _model(self) -> Any:
        return self.result_.predictor if "result_" in vars(self) else self.estimator

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            """Explain that what `fit` learns is not there yet."""
            if name.endswith("_") and not name.startswith("_"):
                self._result()
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Negated mean loss of `predictor_` on labelled rows: the scale of `best_score_`."""
        labels = as_labels(as_pandas(y), "X")
        result = self._result()
        losses = losses_of(result.predictor, result.problem.read(X), labels, result.loss)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        return -float(np.average(losses, weights=weights))

    risk_ = _of_result("risk")
    predictor_ = _of_result("predictor")
    members_ = _of_result("members")
    gain_ = _of_result(
        "choice.gain", "Risk of the best single trial less that of the ensemble, paired, or None."
    )
    metrics_ = _of_result(
        "metrics.table", "Metrics at the target; see `shiftune.metrics.metric_tables`."
    )
    site_metrics_ = _of_result(
        "metrics.by_site", "Metrics at every source; see `shiftune.metrics.metric_tables`."
    )
    verdict_ = _of_result("verdict")
    best_index_ = _of_result("chosen")
    best_model_ = _of_result("best_model")
    best_params_ = _of_result("best_params")
    best_estimator_ = _of_result("best_estimator")
    cv_results_ = _of_result("cv_results")

    @property
    def targets_(self) -> pd.DataFrame:
        """Table of the targets; see `target_table`."""
        if "_of_target" in vars(self):
            tables = [search.targets_ for search in self._of_target.values()]
            return most_urgent_first(pd.concat(tables))
        return self._result().targets.copy()

    @property
    def best_score_(self) -> float:
        """Negated value of `risk_`; `score` has the same scale."""
        return -self._result().risk.value

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes of the probabilities, where the predictor has any."""
        return np.asarray(self.predictor_.classes_)

    @property
    def study_(self) -> optuna.Study:
        """Optuna's study, whose values are the criteria of the trials."""
        return self.result_.study if "result_" in vars(self) else self._trials().study

    @property
    def problem_(self) -> ShiftProblem:
        """The problem."""
        return self.result_.problem if "result_" in vars(self) else self._trials().problem

    @property
    def trials_(self) -> pd.DataFrame:
        """One row per finished trial.

        State, model (where there are names), risk, standard error, interval, the `criterion` by
        which trials are compared (for "adjusted" the mean loss of the sites, otherwise the risk),
        parameters, seconds, the risk at every source, the reason of a failure, ties with the best.
        """
        return self.result_.trials if "result_" in vars(self) else self._trials().table

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
        if "result_" in vars(self):
            models = [self.predictor_]
        if not models:
            return tags
        inner = get_tags(models[0])
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = copy.deepcopy(inner.classifier_tags)
        tags.regressor_tags = copy.deepcopy(inner.regressor_tags)
        return tags

    def __dir__(self) -> list[str]:
        # scikit-learn's reads every attribute, some of which take seconds to compute.
        return list(object.__dir__(self))

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

    def checks(self) -> Checks:
        """Check what can make the result worthless; see `shiftune.checks.run_checks`.

        Takes seconds; ``print(search.checks())`` prints them as text, `verdict_` sums them up.
        """
        return self._result().checks

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """View in notebooks: scikit-learn's diagram before the fit, the result after it."""
        if "result_" not in vars(self):
            return dict(super()._repr_mimebundle_(**kwargs))
        bundle = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            from shiftune.report._page import notebook

            bundle["text/html"] = notebook(self.result_)
        return bundle

    def _repr_html_(self) -> str | None:
        """The same as HTML, for viewers that read no bundles; None where the user wants text."""
        return self._repr_mimebundle_().get("text/html")


ShiftSearch.__doc__ = (ShiftSearch.__doc__ or "").replace(
    "{parameters}", textwrap.indent(PARAMETERS, "    ").strip()
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
        hint = _hint_about_columns(problem)
    return (
        f"all {len(failures)} trials failed, so there is nothing to choose from; "
        f"the first reasons:{shown}{hint}"
    )


def _hint_about_columns(problem: ShiftProblem) -> str:
    """Return a hint about columns without numbers, a common reason for trials that fail."""
    X = problem.target.X
    if not isinstance(X, pd.DataFrame):
        return ""
    text = [str(name) for name in X if kind_of(X[name]) != "number" and X[name].dtype != bool]
    if not text:
        return ""
    return (
        f"\nThe columns {listed(text)} are not numeric. If that is the reason, encode them in a "
        "pipeline (shiftune.models.ready_model makes one), or leave them out"
    )
