"""Result of a search: computed once when the last trial is finished, and never changed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pandas as pd
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.trial import TrialState

from shiftune._wording import listed, number
from shiftune.columns._column import kind_of
from shiftune.errors import ProblemError
from shiftune.evaluate._fits import fit, seeded
from shiftune.evaluate._losses import Loss
from shiftune.metrics import Metric, metrics_for
from shiftune.metrics._metric import SitePredictions
from shiftune.metrics._new_site import MetricTables, NewSite, metric_tables
from shiftune.predictor._conformal import SiteScores, row_scores
from shiftune.predictor._ensemble import ensemble_of
from shiftune.predictor._selection import Choice
from shiftune.problem import ShiftProblem, Site, pooled
from shiftune.ratio import DensityRatio, column_shifts, overlap
from shiftune.ratio._overlap import weights_to_look_at
from shiftune.risk import RegressionAdjusted
from shiftune.risk._result import Estimate, RiskEstimate
from shiftune.search._families import Families, Family, family_of, notes_on_unused
from shiftune.search._settings import Settings
from shiftune.search._storage import open_study
from shiftune.search._trial import (
    DEFAULTS,
    MODEL,
    OUT_OF_TIME,
    SECONDS,
    Candidate,
    Outcome,
    TrialContext,
    best_trial,
    finished_trials,
    paired_difference,
    run_trial,
)
from shiftune.search._updating import COUNTS, NOT_OUT_OF_SITE, Updated, Updater, label_worth

if TYPE_CHECKING:
    from shiftune.checks import Checks

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


@dataclass(frozen=True, eq=False, repr=False)
class SearchResult:
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
    trials : DataFrame
        `ShiftSearch.trials_`.
    risks : dict from trial number to RiskEstimate
        Of every trial that was evaluated, in their order.
    choice : Choice
        Trials of the final model, their weights and their risk together.
    """

    problem: ShiftProblem
    settings: Settings
    context: TrialContext
    options: dict[str, str]
    ratio: DensityRatio | None
    study: optuna.Study
    trials: pd.DataFrame
    risks: dict[int, RiskEstimate]
    choice: Choice

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

    @cached_property
    def chosen(self) -> int:
        """Number of the best trial."""
        best = best_trial(self.risks)
        assert best is not None  # a result has at least one evaluated trial
        return best

    @property
    def risk(self) -> RiskEstimate:
        """Estimate for the final model."""
        return self.choice.risk if self.updated is None else self.updated.risk_

    @cached_property
    def updater(self) -> Updater:
        """What the result shows about differences between sites."""
        return Updater(self)

    @cached_property
    def updated(self) -> Updated | None:
        """Update by the labelled rows of the problem; None where there are none, or they cannot.

        It is judged with the models of the trials, and has no predictor.
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
    def site_scores(self) -> SiteScores:
        """Scores of the final model at sites that it has not seen."""
        return site_scores(self, self.updated)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes on unused families, an interval without width, rows not drawn."""
        notes = [*notes_on_unused(self.families, finished_trials(self.study))]
        risk, stderr = self.risk, self.stderr_of_all_rows
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
        if stderr is not None:
            notes.append(
                f"the standard error of {number(risk.stderr)} would be about {number(stderr)} with "
                "all rows, of which a sample was drawn"
            )
        return tuple(notes)

    @property
    def stderr_of_all_rows(self) -> float | None:
        """About the standard error with all rows, if a sample of them was drawn."""
        if (sample := self.problem.sample) is None:
            return None
        target = self.problem.target.name  # its labelled rows are all read
        shares = [1.0 if name == target else sample.share_of(name) for name in self.risk.names]
        return self.risk.stderr_of_all_rows(np.array(shares))

    @cached_property
    def members(self) -> pd.DataFrame:
        """Trials of the final model: model, weight, risk of its own, parameters; by weight."""
        trials = {trial.number: trial for trial in finished_trials(self.study)}
        rows = [
            {
                "trial": number,
                "model": family_of(self.families, trials[number]).name or model_name(self.model),
                "weight": weight,
                "risk": self.risks[number].value,
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
    def best_params(self) -> dict[str, Any]:
        """Parameters of the chosen trial, in the names of the study."""
        return dict(self.best_trial.params)

    @cached_property
    def tied(self) -> list[int]:
        """Trials that cannot be distinguished from the chosen one, which comes first."""
        tied = self.trials["tied_with_best"].fillna(False)
        marked = self.trials[tied].sort_values("criterion", kind="stable")
        return sorted(map(int, marked.index), key=lambda number: number != self.chosen)

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Parameters that any trial has, and where they were searched."""
        found: dict[str, BaseDistribution] = {}
        for trial in finished_trials(self.study):
            found = trial.distributions | found
        return found

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
        own = self.context.data.weights
        if own is None:
            weights, rows = weights_to_look_at(problem, random_state=self.settings.random_state)
        else:
            weights = list(own[:k])
            rows = [site.X for site in self.settings.split(problem).validation[:k]]
        table = overlap(weights, problem.target.X, rows, problem.names)
        return Overlap(dict(zip(problem.names, weights, strict=True)), table, own is not None)

    @cached_property
    def shifts(self) -> pd.DataFrame:
        """Distance of every column at every source from the target; see `column_shifts`."""
        sources = [site.X for site in self.problem.sources]
        return column_shifts(self.problem.target.X, sources, self.problem.names)

    @cached_property
    def importances(self) -> dict[str, float]:
        """Share of every parameter in the differences between trials, largest first.

        Among the trials of the chosen family. Optuna's functional ANOVA on a random forest. Empty
        with too few trials, trials that do not differ, or fewer than two parameters in common.
        """
        trials = [
            trial
            for trial in self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            if trial.user_attrs.get(MODEL, "") == self.family.name
            and (trial.params or DEFAULTS not in trial.user_attrs)
        ]
        # With fewer trials the importances reflect the sampler's luck.
        if len(trials) < 10 or np.ptp([trial.value for trial in trials]) == 0:
            return {}
        if len(set.intersection(*(set(trial.params) for trial in trials))) < 2:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna's, about what is experimental
            study = open_study(None, {})
            study.add_trials(trials)
            found = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
        return {name: float(share) for name, share in found.items()}

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
        return self.new_site_of(SitePredictions.of(predictions, self.context.data, self.loss))

    @property
    def asked_metrics(self) -> list[Metric]:
        """Metrics that were asked for, or those of the task."""
        return metrics_for(self.settings.metrics, self.loss, self.context.data.classes)

    @cached_property
    def metrics(self) -> MetricTables:
        """Metrics of the final model, at the target and at the sources."""
        return metric_tables(self.asked_metrics, self.new_site)

    @cached_property
    def checks(self) -> Checks:
        """Checks of the assumptions; see `shiftune.checks.run_checks`."""
        from shiftune.checks import run_checks

        return run_checks(self)

    def summary(
        self, *, settings: Mapping[str, str] | None = None, predictor: Any = None
    ) -> dict[str, Any]:
        """Return the result as one document of JSON values, which `best.json` holds.

        Report, model card, screen and notebook view show it. Values are dicts, lists, text, numbers
        and None, which stands for what is unknown or infinite. Every estimate has `value`, `low`
        and `high`, the ends of its 95 % interval; `estimable` is False where that says nothing.
        `docs/result.md` has a table of all fields.

        Parameters
        ----------
        settings : mapping, optional
            Names and texts that a reader needs to repeat the search, as of `save_report`. With a
            "command", advice names options of the command line.
        predictor : estimator, optional
            `ShiftSearch.predictor_`: how far labels of the target move its predictions.

        Returns
        -------
        dict
            `format`, the number of the document's form; what is predicted (`title`, `question`,
            `target`, `target_rows`, `label`, `task`, `classes`, `loss`, `loss_title`); the answer
            (`verdict`, `checks`, `figures`, `comparisons`, `next_steps`, `risk`); what it was made
            from (`sites`, `columns`, `most_shifted`, `adjusted`, `sample`); the search (`models`,
            `model`, `params`, `parameters`, `members`, `ensemble_gain`, `trials`); `metrics`,
            `site_metrics`, `labels`, `notes`, `how_estimated`, `assumptions`, `provenance`.
        """
        from shiftune.report._summary import summary

        return summary(self, settings=settings, predictor=predictor)


def cv_results(result: SearchResult) -> dict[str, Any]:
    """Return the table of `ShiftSearch.cv_results_`."""
    trials = result.trials
    by_number = {trial.number: trial for trial in finished_trials(result.study)}
    found: dict[str, Any] = {"mean_fit_time": trials["seconds"].to_numpy(float)}
    params = [name for name in trials if str(name).startswith("param_")]
    for name in params:
        values = trials[name]
        found[str(name)] = np.ma.array(values.to_numpy(object), mask=values.isna().to_numpy())
    found["params"] = [
        family_of(result.families, by_number[number]).plain_params(by_number[number])
        for number in trials.index
    ]
    for place, name in enumerate(result.choice.risk.names):
        found[f"split{place}_test_score"] = -trials[f"risk_{name}"].to_numpy(float)
    found["mean_test_score"] = -trials["criterion"].to_numpy(float)
    found["std_test_score"] = trials["stderr"].to_numpy(float)
    ranks = trials["criterion"].rank(method="min", na_option="bottom")
    found["rank_test_score"] = ranks.to_numpy(np.int32)
    return found


def site_scores(result: SearchResult, updated: Updated | None = None) -> SiteScores:
    """Return the scores of the judged rows of all sources.

    If labels of the target have updated the predictor, every source is updated by as many of its
    own, and its other rows have scores.
    """
    predictions, data, updater = result.choice.predictions, result.context.data, result.updater
    classes = data.classes
    if predictions is None or not data.out_of_site:
        return SiteScores([], NOT_OUT_OF_SITE)
    if classes is not None and result.loss.needs == "predict":
        return SiteScores(
            [],
            f"the loss {result.loss.name} is of predicted classes, and a set of classes needs "
            "probabilities; search with loss='log_loss' or 'brier'",
        )
    if updated is not None and updated.used_:
        return SiteScores.of(
            updater.effects.source_values(
                updated.effective_,
                lambda y, predictions: row_scores(y, predictions, classes),
            )
        )
    scores = row_scores(np.concatenate(data.y_validation), predictions, classes)
    return SiteScores.of([scores[data.validation_rows([name])] for name in data.sources])


# ---------------------------------------------------------------- alternatives to the final model


class Compared(StrEnum):
    """Result of comparing another choice with the chosen one."""

    WORSE = "worse"
    TIED = "tied"
    BETTER = "better"


@dataclass(frozen=True, slots=True)
class Rival:
    """Alternative to the final model, or to the best trial.

    `risk` is estimated at the target, on the same rows; `gap` is its risk minus that of what it is
    compared with, paired row by row; `trial` is None for the model with its default parameters.
    """

    risk: RiskEstimate
    gap: Estimate
    trial: int | None = None

    @property
    def compared(self) -> Compared:
        """Whether the 95 % interval of the difference lies above 0, below 0, or around it."""
        low, high = self.gap.interval()
        return Compared.WORSE if low > 0 else Compared.BETTER if high < 0 else Compared.TIED


def default_rival(result: SearchResult) -> Rival | None:
    """Return the model with its default parameters; None where it cannot be evaluated."""
    risk = result.default.risk
    if risk is None:
        return None
    return Rival(risk, paired_difference(risk, result.choice.risk))


def tied_rivals(result: SearchResult, most: int) -> list[Rival]:
    """Return the trials that cannot be distinguished from the best one, itself first."""
    best = result.risks[result.chosen]
    tied = {number: result.risks[number] for number in result.tied[:most]}
    return [Rival(risk, paired_difference(risk, best), number) for number, risk in tied.items()]


def model_name(estimator: Any) -> str:
    """Name a model, that of the last step for a pipeline."""
    steps = getattr(estimator, "steps", None)
    return type(steps[-1][1] if steps else estimator).__name__


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
