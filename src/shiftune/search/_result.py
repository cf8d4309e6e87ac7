"""Result of a search: computed once when the last trial is finished, and never changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from optuna.distributions import BaseDistribution
from sklearn.utils.metaestimators import available_if

from shiftune._wording import number
from shiftune.effects import without_effect
from shiftune.errors import ProblemError, SettingsError
from shiftune.evaluate._fits import PreparedRows, fit, row_folds, seeded
from shiftune.evaluate._losses import Loss
from shiftune.metrics import Metric, metrics_for
from shiftune.metrics._curves import (
    ChosenThreshold,
    calibration_curve,
    check_two_classes,
    decision_curve,
    threshold_for,
)
from shiftune.metrics._metric import SitePredictions
from shiftune.metrics._new_site import MetricTables, NewSite, SourceMetrics, metric_tables
from shiftune.predictor._conformal import SiteScores, class_sets, interval_around
from shiftune.predictor._ensemble import ensemble_of, prediction_of
from shiftune.predictor._selection import Choice
from shiftune.problem import ShiftProblem, Site, pooled
from shiftune.ratio import DensityRatio, column_shifts, overlap
from shiftune.ratio._overlap import weights_to_look_at
from shiftune.risk import RegressionAdjusted
from shiftune.risk._result import RiskEstimate
from shiftune.search._families import Families, Family, family_of, is_model, unused
from shiftune.search._importance import fold_models, importance
from shiftune.search._settings import Settings
from shiftune.search._storage import PredictionStore
from shiftune.search._targets import label_plan, risks_at, target_table
from shiftune.search._trial import (
    DEFAULTS,
    SECONDS,
    Candidate,
    Outcome,
    TrialContext,
    best_trial,
    evaluated_risks,
    finished_trials,
    run_trial,
    table,
)
from shiftune.search._updating import COUNTS, Updated, Updater, label_worth, site_scores, update

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from shiftune.checks import Check, Checks, Verdict

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Overlap:
    """Similarity of the sources' rows to the target.

    Attributes
    ----------
    weights : dict from a source's name to an array of shape (n_j,)
        Density ratios.
    table : DataFrame
        Of `shiftune.ratio.overlap`.
    used : bool
        Whether the risk was estimated with these weights; otherwise they only describe the sites.
    """

    weights: dict[str, Floats]
    table: pd.DataFrame
    used: bool


class of_sources(cached_property[Any]):  # noqa: N801 - used as cached_property is
    """Cached property of what does not depend on the target: all targets of a search share it."""

    def __get__(self, result: Any, owner: Any = None) -> Any:
        if result is not None and result.shares_sources:
            return getattr(result.origin, self.attrname or "")
        return super().__get__(result, owner)


def _has(method: str) -> Callable[[Any], bool]:
    def check(fitted: ResultMethods) -> bool:
        model = fitted._model()
        if is_model(model):  # models by name are known once the task is
            getattr(model, method)  # raises an AttributeError where it is missing
        return True

    return check


class ResultMethods:
    """What can be asked of a result: methods of `ShiftSearch` and of `SearchResult`."""

    def _result(self) -> SearchResult:
        raise NotImplementedError

    def _model(self) -> Any:
        """Return the final model, or that which will be tuned."""
        return self._result().predictor

    @available_if(_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict with the final model; columns of a table are found by name."""
        result = self._result()
        return prediction_of(result.predictor, result.problem.read(X), "predict")

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict probabilities with the final model."""
        result = self._result()
        return prediction_of(result.predictor, result.problem.read(X), "predict_proba")

    def summary(self, *, settings: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the result as one document of JSON values, which `best.json` holds.

        Report, model card, screen and notebook view show it. Values are dicts, lists, text, numbers
        and None, which stands for what is unknown or infinite. Every estimate has `value`, `low`
        and `high`, the ends of its 95 % interval; `estimable` is False where that is uninformative.
        `docs/result.md` has a table of all fields.

        Parameters
        ----------
        settings : mapping, optional
            Names and texts that a reader needs to repeat the search, as of `save_report`. With a
            "command", advice names options of the command line.

        Returns
        -------
        dict
            `format`, the number of the document's form; what is predicted (`title`, `question`,
            `target`, `target_rows`, `label`, `task`, `classes`, `loss`, `loss_title`); the result
            (`verdict`, `checks`, `figures`, `picture`, `comparisons`, `next_steps`, `risk`); what
            it was made from (`sites`, `columns`, `column_importance`, `most_shifted`, `adjusted`,
            `sample`); the search (`models`, `model`, `params`, `parameters`, `members`,
            `ensemble_gain`, `trials`); `metrics`, `site_metrics`, `labels`, `sets`, `notes`,
            `how_estimated`, `assumptions`, `provenance`.
        """
        from shiftune.report._summary import summary

        return summary(self._result(), settings=settings)

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
    ) -> ChosenThreshold:
        """Choose a threshold for the target; see `shiftune.metrics.threshold_for`."""
        return threshold_for(
            check_two_classes(self._result().new_site),
            sensitivity=sensitivity,
            specificity=specificity,
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

    def update(
        self,
        X: Any,
        y: ArrayLike,
        *,
        subject: ArrayLike | None = None,
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
        subject : array of shape (m,), optional
            Ids of rows that belong together; see `ShiftProblem.from_frame`.
        sample_weight : array of shape (m,), optional
            Where the rows of the search have weights; 1 each by default.

        Returns
        -------
        Updated
            The search itself stays as it is; labels that it had count as well.
        """
        result = self._result()
        codes = None
        if subject is not None:  # a row without an id is a subject of its own
            codes = pd.factorize(np.asarray(subject))[0]
            codes = -1 - np.where(codes < 0, len(codes) + np.arange(len(codes)), codes)
        return update(result, result.predictor, X, y, codes, sample_weight)

    def predict_interval(self, X: Any, level: float = 0.9) -> NDArray[np.float64]:
        """Predict intervals of values that hold at a new site, shape (n, 2).

        Conformal prediction over sites: see `shiftune.predictor.SiteScores`.
        """
        if self._result().context.data.classes is not None:
            raise SettingsError("this search predicts classes; predict_set gives sets of them")
        return interval_around(self.predict(X), self._result().site_scores.quantile(level))

    def predict_set(self, X: Any, level: float = 0.9) -> NDArray[np.bool_]:
        """Predict sets of classes that hold at a new site, shape (n, C).

        Conformal prediction over sites: see `shiftune.predictor.SiteScores`.
        """
        if self._result().context.data.classes is None:
            raise SettingsError("this search predicts values; predict_interval gives intervals")
        q = self._result().site_scores.quantile(level)
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
            ``gain_high`` at a new site; ``half_width`` of the interval of the risk.
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
            Start no further column after this many seconds; those that shift most come first.
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
        >>> from shiftune import ShiftProblem, ShiftSearch
        >>> X = np.random.default_rng(0).normal(size=(4, 200, 2))  # the target and three sources
        >>> sites = [(rows, 3 * rows[:, 0] + rows[:, 1]) for rows in X[1:]]
        >>> search = ShiftSearch(Ridge(), {"alpha": [0.01, 0.1]}, n_trials=2)
        >>> table = search.fit(ShiftProblem.from_sites(sites, X[0])).importance()
        >>> table["importance"].round().to_dict()
        {0: 17.0, 1: 2.0}
        """
        result = self._result()
        table = importance(result, timeout, level)
        if level == 0.95 and table["importance"].notna().all():  # what all reports show
            vars(result)["column_importance"] = table.copy()
        return table

    def target_table(self, *, sources: bool = False) -> pd.DataFrame:
        """Return one line per target, the most urgent first; `targets_` is the same.

        Parameters
        ----------
        sources : bool
            Add the sources, each treated as if it were new, with what came true.

        Returns
        -------
        DataFrame
            Indexed by site: ``rows``; the expected loss ``risk``, with its 95 % interval from
            ``low`` to ``high``; ``verdict`` and its ``reason``; ``outside``, the share of its rows
            outside the middle 98 % of the sources' rows, or in categories that none has, in the
            column where it is largest; ``special``, the columns in which they differ most from the
            sources'; ``gain_30``, how much 30 labels would lower the loss; and ``truth``, the mean
            loss on the site's labels, of models without it.
        """
        return target_table(self._result(), sources=sources)

    def label_plan(self, budget: int, *, level: float = 0.95) -> pd.DataFrame:
        """Plan how many rows to label at which target: where the summed loss falls most.

        Parameters
        ----------
        budget : int
            Labels of all targets together.
        level : float
            Of the intervals.

        Returns
        -------
        DataFrame
            Indexed by site, the most labels first: ``labels``; ``risk`` without them; ``gain``,
            from `label_worth`, with the interval from ``gain_low`` to ``gain_high``.
        """
        return label_plan(self._result(), budget, level=level)

    # ---------------------------------------------------------------- pictures
    # They belong to lower layers, and need Matplotlib (the extra `report`).

    def plot_history(self) -> Figure:
        """Plot risk and interval of every trial; see `shiftune.report.figures.history`."""
        from shiftune.report.figures import history

        result = self._result()
        return history(result.trials, chosen=result.chosen)

    def plot_expected(self) -> Figure:
        """Plot the first figure beside sites, chance or a constant, and plain cross-validation.

        See `shiftune.report.figures.expected`.
        """
        from shiftune.report.figures import expected

        return expected(self.summary()["picture"])

    def plot_sources(self) -> Figure:
        """Plot every source's estimate for the winner; see `shiftune.report.figures.forest`."""
        from shiftune.report.figures import forest

        return forest(self._result().risk)

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

    def plot_importance(self) -> Figure:
        """Plot which columns matter at the target; see `shiftune.report.figures.importance`."""
        from shiftune.report.figures import importance

        table = self._result().column_importance
        return importance(self.importance() if table is None else table)

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


@dataclass(frozen=True, eq=False, repr=False)
class SearchResult(ResultMethods):
    """Trials of a search, their estimates, and what follows from them.

    A fitted `ShiftSearch` has it as `result_`; report, notebook, checks and figures read it. Later
    changes to the search's parameters do not affect it. Expensive parts are computed on first use
    and kept.

    Attributes
    ----------
    problem : ShiftProblem
    settings : Settings
        Parameters of the search, checked for the problem, with defaults filled in.
    context : TrialContext
        Rows, labels and estimator of every trial.
    options : dict
        Parameters of the search in words, for those who want to repeat it.
    ratio : DensityRatio or None
    study : optuna.Study
    choice : Choice
        Trials of the final model, their weights and their risk together.
    store : PredictionStore
        Out-of-site predictions of the trials.
    origin : SearchResult or None
        Of another target of the same search, from `ShiftSearch.at`: the search's own result.
    """

    problem: ShiftProblem
    settings: Settings
    context: TrialContext
    options: dict[str, str]
    ratio: DensityRatio | None
    study: optuna.Study
    choice: Choice
    store: PredictionStore
    origin: SearchResult | None = None

    def _result(self) -> SearchResult:
        return self

    @property
    def shares_sources(self) -> bool:
        """Whether the evaluated rows are those of `origin`, which has what follows from them."""
        return self.origin is not None and self.context.data is self.origin.context.data

    def __getstate__(self) -> dict[str, Any]:
        if self.origin is not None:
            self.trials  # noqa: B018 - computed from predictions, which are left behind
        return vars(self)

    @cached_property
    def risks(self) -> dict[int, RiskEstimate]:
        """Estimates of all evaluated trials by their numbers; at another target, of those kept."""
        return evaluated_risks(self.study) if self.origin is None else risks_at(self)

    @cached_property
    def trials(self) -> pd.DataFrame:
        """`ShiftSearch.trials_`."""
        finished = finished_trials(self.study)
        if self.origin is not None:  # others may have added trials since
            finished = [trial for trial in finished if trial.number in self.origin.trials.index]
        return table(finished, self.risks)

    @property
    def families(self) -> Families:
        """Models and spaces by name; of a search of one estimator under the empty name."""
        return self.settings.families

    @property
    def loss(self) -> Loss:
        """Loss that was tuned."""
        return self.settings.loss

    @property
    def target(self) -> str:
        """Name of the target."""
        return self.problem.target.name

    @of_sources
    def chosen(self) -> int:
        """Number of the best trial."""
        best = best_trial(self.risks)
        assert best is not None  # a result has at least one evaluated trial
        return best

    @property
    def risk(self) -> RiskEstimate:
        """Expected loss of `predictor` at a site that the model has not seen.

        An ensemble is evaluated on sites that were held out of the choice of its members, and the
        best trial alone (``final="best"``) likewise: each site evaluates the trial that the other
        sites would choose.
        """
        return self.choice.risk if self.updated is None else self.updated.risk_

    @cached_property
    def updater(self) -> Updater:
        """What the result shows about differences between sites."""
        return Updater(self)

    @cached_property
    def updated(self) -> Updated | None:
        """Update by the labelled rows of the problem; None where there are none, or they cannot.

        It is estimated with the models of the trials, and has no predictor.
        """
        few, updater = self.problem.labelled_target, self.updater
        if few is None or updater.obstacle:
            return None
        return updater.updated(few)

    def model_of(self, number: int) -> Any:
        """Return the model of a trial, not fitted yet."""
        (trial,) = [t for t in finished_trials(self.study) if t.number == number]
        family = family_of(self.families, trial)
        model = seeded(family.estimator, self.settings.random_state)
        return model.set_params(**family.candidate(trial).params)

    @property
    def final_model(self) -> Any:
        """The chosen trial, or the weighted mean of several, not fitted yet."""
        weights = self.choice.weights
        return ensemble_of(
            {f"trial {number}": self.model_of(number) for number in weights},
            list(weights.values()),
            # Regressors can be trained on classes that are numbers; their predictions are values.
            "regression" if self.context.data.classes is None else "classification",
            vote=self.loss.needs == "predict",
        )

    def fitted(self, model: Any, labels: Site | None = None) -> Any:
        """Fit a model on all rows of the sources, and on labelled rows of the target.

        Labels that cannot update the model are training rows like others.
        """
        if self.updater.obstacle:
            labels = self.problem.labelled_target
        sites = [*self.problem.sources, *([] if labels is None else [labels])]
        X, y = pooled(sites)
        return fit(model, X, y, self.settings.weights_for_training(self.ratio, sites))

    @cached_property
    def predictor(self) -> Any:
        """What `predict` uses, fitted on all rows of all sources when it is first asked for.

        An `EnsembleRegressor`, an `EnsembleClassifier`, or one model; updated by labels of the
        target.
        """
        if self.origin is not None and self.problem.names == self.origin.problem.names:
            return without_effect(self.origin.predictor)
        few, predictor = self.problem.labelled_target, self.fitted(self.final_model)
        if few is None or self.updated is None or not self.updated.used_:
            return predictor
        return self.updater.with_labels(predictor, few)

    @of_sources
    def best_estimator(self) -> Any:
        """Model of the winning trial, fitted on all rows of all sources when it is asked for."""
        if list(self.choice.weights) == [self.chosen]:
            return without_effect(self.predictor)
        return self.fitted(self.model_of(self.chosen))

    @cached_property
    def site_scores(self) -> SiteScores:
        """Scores of the final model at sites that it has not seen."""
        return site_scores(self, self.updated)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes on unused families, an interval without width."""
        notes = ["; ".join(note) for note in unused(self.families, finished_trials(self.study))]
        risk = self.risk
        low, high = risk.interval()
        if high <= low:  # it does not mean that the risk is known
            if risk.n.max() == 1:
                why = "no source has more than one row that evaluates the trials"
            else:
                rows, value = risk.n.sum(), number(risk.value)
                why = f"the losses of the {rows} rows that evaluate it are all {value}"
            notes.append(
                f"the interval has no width, although the risk is not known exactly: {why}"
            )
        return tuple(notes)

    @cached_property
    def members(self) -> pd.DataFrame:
        """Trials in `predictor`: model, weight, estimated risk of its own, parameters."""
        trials = {trial.number: trial for trial in finished_trials(self.study)}
        rows = [
            {
                "trial": number,
                "model": family_of(self.families, trials[number]).name or model_name(self.model),
                "weight": weight,
                "risk": self.risks[number].value if number in self.risks else np.nan,
                "params": family_of(self.families, trials[number]).plain_params(trials[number]),
            }
            for number, weight in self.choice.weights.items()
        ]
        return pd.DataFrame(rows).set_index("trial")

    @cached_property
    def best_trial(self) -> optuna.trial.FrozenTrial:
        """The chosen trial."""
        (trial,) = [t for t in finished_trials(self.study) if t.number == self.chosen]
        return trial

    @property
    def family(self) -> Family:
        """Model and space of the chosen trial."""
        return family_of(self.families, self.best_trial)

    @property
    def model(self) -> Any:
        """Estimator of the chosen trial, with its default parameters."""
        return self.family.estimator

    @property
    def best_model(self) -> str:
        """Name of the winning trial's family; empty in a search of one estimator."""
        return self.family.name

    @property
    def best_params(self) -> dict[str, Any]:
        """Parameters of the winning trial.

        With a define-by-run function, the values that the trial suggested; empty where the
        default parameters are best.
        """
        return self.family.plain_params(self.best_trial)

    @cached_property
    def tied(self) -> list[int]:
        """Trials that cannot be distinguished from the chosen one, which comes first."""
        tied = self.trials["tied_with_best"].fillna(False)
        marked = self.trials[tied].sort_values("criterion", kind="stable")
        return sorted(map(int, marked.index), key=lambda number: number != self.chosen)

    @of_sources
    def distributions(self) -> dict[str, BaseDistribution]:
        """Parameters that any trial has, and where they were searched."""
        distributions: dict[str, BaseDistribution] = {}
        for trial in finished_trials(self.study):
            distributions = trial.distributions | distributions
        return distributions

    @cached_property
    def default(self) -> Outcome:
        """Outcome of the model with its default parameters, evaluated on the rows of the trials.

        Of several families whose defaults are trials, the best.
        """
        tried = [t for t in finished_trials(self.study) if DEFAULTS in t.user_attrs]
        if evaluated := [t for t in tried if t.number in self.risks]:
            best = min(evaluated, key=lambda t: self.risks[t.number].criterion)
            return Outcome(self.risks[best.number], "", best.user_attrs[SECONDS])
        return run_trial(self.context, Candidate({}, self.family.name))

    @cached_property
    def overlap(self) -> Overlap:
        """Weights of the estimate, or those of `problem.diagnose()` where it has none."""
        problem, k = self.problem, len(self.problem.sources)
        ratios = self.context.data.weights
        if ratios is None:
            weights, rows = weights_to_look_at(problem, random_state=self.settings.random_state)
        else:
            weights = list(ratios[:k])
            rows = [site.X for site in self.settings.split(problem).validation[:k]]
        table = overlap(weights, problem.target.X, rows, problem.names)
        return Overlap(dict(zip(problem.names, weights, strict=True)), table, ratios is not None)

    @of_sources
    def medians(self) -> pd.DataFrame:
        """Median of every column of numbers at every source."""
        tables = [pd.DataFrame(site.X).rename(columns=str) for site in self.problem.sources]
        return pd.DataFrame([X.median(numeric_only=True) for X in tables])

    @cached_property
    def shifts(self) -> pd.DataFrame:
        """Distance of every column at every source from the target; see `column_shifts`."""
        sources = [site.X for site in self.problem.sources]
        return column_shifts(self.problem.target.X, sources, self.problem.names)

    @cached_property
    def column_importance(self) -> pd.DataFrame | None:
        """Table of `importance`; None until it is computed, which takes long."""
        seconds = self.settings.importance_timeout
        return None if seconds is None else self.importance(timeout=seconds)

    @cached_property
    def worth_of_labels(self) -> pd.DataFrame | None:
        """Table of `label_worth`, as far as the target has rows.

        None where the target has labels already, or the estimator has no such figure.
        """
        if self.problem.labelled_target is not None or len(self.problem.target) < min(COUNTS):
            return None
        try:
            return label_worth(self)
        except ProblemError:
            return None

    def new_site_of(self, predictions: SitePredictions) -> NewSite:
        """Return the estimator of metrics at the target from predictions at the sources."""
        risk = self.context.risk
        fitted = risk if isinstance(risk, RegressionAdjusted) else None
        target = self.problem.target
        return NewSite(predictions, target.X, fitted, target.sample_weight)

    @cached_property
    def new_site(self) -> NewSite | None:
        """Estimator of metrics of the final model; None where no predictions were kept."""
        predictions = self.choice.predictions
        if self.updated is not None:
            return self.updated.new_site_
        if predictions is None:
            return None
        return self.new_site_of(self.site_predictions)

    @of_sources
    def site_predictions(self) -> SitePredictions:
        """Predictions of the final model at the sources, as metrics read them."""
        assert self.choice.predictions is not None  # `new_site` asks
        return SitePredictions.of(self.choice.predictions, self.context.data, self.loss)

    @of_sources
    def losses(self) -> dict[str, list[Floats]]:
        """Losses by site, of the final model and of the best single trial."""
        every = {"model": self.choice.predictions, "single": self.choice.of_single}
        data = self.context.data
        return {n: data.losses(p, self.loss) for n, p in every.items() if p is not None}

    @of_sources
    def fold_models(self) -> list[Any]:
        """Members of the final model, fitted without each fold of sites, for `importance`."""
        return fold_models(self)

    @of_sources
    def leakage(self) -> Check:
        """Check of label leakage, as one of `checks`."""
        from shiftune.checks._of_data import leakage_check

        return leakage_check(self)

    @of_sources
    def site_effects(self) -> list[Check]:
        """Check of the effects of sites; none where labels cannot show them."""
        from shiftune.checks._of_data import site_effects_check

        shown = not self.updater.obstacle and self.updater.effects.out_of_site
        return [site_effects_check(self)] if shown else []

    @of_sources
    def plain_cv(self) -> dict[str, float]:
        """Loss and metrics of the best trial in plain cross-validation: folds are random rows.

        Its models know the sites that they predict, which is too optimistic for a new one.
        Empty where the trials are evaluated on such rows anyway, or the model cannot be fitted.
        """
        data, trial = self.context.data, self.family.candidate(self.best_trial)
        if not data.out_of_site:
            return {}
        groups = None if data.groups is None else np.concatenate(data.groups)
        folds = row_folds(np.concatenate(data.y_validation), groups, self.settings.random_state)
        data = replace(data, folds=folds, train_folds=folds[: len(data.y_train)])
        context = replace(self.context, data=data, prepared=PreparedRows())
        if (predictions := run_trial(context, trial).predictions) is None:
            return {}
        loss = {self.loss.name: float(np.concatenate(data.losses(predictions, self.loss)).mean())}
        rows = SitePredictions.of(predictions, data, self.loss)
        y, p = np.concatenate(rows.y), np.concatenate(rows.p)
        weights = None if rows.weights is None else np.concatenate(rows.weights)
        asked = [metric for metric in self.asked_metrics if not rows.obstacle(metric)]
        return loss | {metric.name: metric(y, p, weights) for metric in asked}

    @property
    def asked_metrics(self) -> list[Metric]:
        """Metrics that were asked for, or those of the task."""
        return metrics_for(self.settings.metrics, self.loss, self.context.data.classes)

    @cached_property
    def metrics(self) -> MetricTables:
        """Metrics of the final model, at the target and at the sources."""
        known = self.source_metrics if self.updated is None else None
        return metric_tables(self.asked_metrics, self.new_site, known)

    @of_sources
    def source_metrics(self) -> SourceMetrics:
        """Metrics of the final model at the sources."""
        return SourceMetrics.of(self.asked_metrics, self.new_site)

    @cached_property
    def checks(self) -> Checks:
        """Checks of the assumptions; see `shiftune.checks.run_checks`."""
        from shiftune.checks import run_checks

        return run_checks(self)

    @cached_property
    def targets(self) -> pd.DataFrame:
        """Table of the targets; see `target_table`."""
        return target_table(self)

    @cached_property
    def verdict(self) -> Verdict:
        """Whether to use the result at the target: "trust", "with care" or "do not use", and why.

        From `checks`; ``print(search.verdict_)`` prints it with the reason.
        """
        from shiftune.checks import verdict_of

        return verdict_of(self.checks)

    @property
    def cv_results(self) -> dict[str, Any]:
        """Finished trials as a dict of arrays, with scikit-learn's names.

        `mean_test_score` is the negated `criterion` by which trials are compared, and
        `std_test_score` the standard error of the estimate at the target. Every site is a split:
        `split0_test_score` is the negated estimate of the first source. `rank_test_score` is 1 for
        `best_index_`. Scores of trials that failed are NaN.
        """
        trials = self.trials
        by_number = {trial.number: trial for trial in finished_trials(self.study)}
        results: dict[str, Any] = {"mean_fit_time": trials["seconds"].to_numpy(float)}
        params = [name for name in trials if str(name).startswith("param_")]
        for name in params:
            values = trials[name]
            results[str(name)] = np.ma.array(values.to_numpy(object), mask=values.isna().to_numpy())
        results["params"] = [
            family_of(self.families, by_number[number]).plain_params(by_number[number])
            for number in trials.index
        ]
        for place, name in enumerate(self.choice.risk.names):
            results[f"split{place}_test_score"] = -trials[f"risk_{name}"].to_numpy(float)
        results["mean_test_score"] = -trials["criterion"].to_numpy(float)
        results["std_test_score"] = trials["stderr"].to_numpy(float)
        ranks = trials["criterion"].rank(method="min", na_option="bottom")
        results["rank_test_score"] = ranks.to_numpy(np.int32)
        return results


def model_name(estimator: Any) -> str:
    """Name a model, that of the last step for a pipeline."""
    steps = getattr(estimator, "steps", None)
    return type(steps[-1][1] if steps else estimator).__name__
