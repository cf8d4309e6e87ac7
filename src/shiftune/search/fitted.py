"""Methods of a fitted search: predictions, figures, checks, the report."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if

from shiftune.effects import without_effect
from shiftune.errors import ProblemError, SettingsError
from shiftune.evaluate.fitting import fit, seeded
from shiftune.metrics.curves import calibration_curve, check_two_classes, decision_curve
from shiftune.metrics.thresholds import ChosenThreshold, threshold_for
from shiftune.names import Task
from shiftune.predictor.conformal import class_sets, interval_around
from shiftune.predictor.ensemble import ensemble_of
from shiftune.predictor.table_model import prediction_of
from shiftune.problem import ShiftProblem, pooled
from shiftune.problem.columns import rows_like
from shiftune.risk.result import RiskEstimate
from shiftune.risk.theory import LAMBDA_UNBIASED, regret_bound
from shiftune.search.families import family_of, is_model
from shiftune.search.gp.bound import lowest_plausible_value
from shiftune.search.label_worth import label_worth, labels_for
from shiftune.search.records import finished_trials
from shiftune.search.result import SearchResult
from shiftune.search.updating import Updated, update
from shiftune.wording import count

if TYPE_CHECKING:
    from shiftune.checks import Checks, Judgement


class NotFitted(ProblemError, NotFittedError):  # type: ignore[misc]  # noqa: N818
    """The search has not been fitted yet."""


def _has(method: str) -> Callable[[Any], bool]:
    def check(search: FittedSearch) -> bool:
        model = getattr(search, "predictor_", search.estimator)
        if is_model(model):  # models by name are known once the task is
            getattr(model, method)  # raises an AttributeError where it is missing
        return True

    return check


class FittedSearch:
    """Methods of `ShiftSearch` that read what `fit` has learned and change nothing.

    Reports and figures belong to lower layers, so they are imported when they are called. The
    figures need Plotly (the extra ``report``).
    """

    estimator: Any
    predictor_: Any
    problem_: ShiftProblem
    trials_: pd.DataFrame
    result_: SearchResult

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

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            """Explain that what `fit` learns is not there yet."""
            if name.endswith("_") and not name.startswith("_"):
                self._check_fitted()
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @available_if(_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict with what the search hands over; columns of a table are found by name."""
        self._check_fitted()
        return prediction_of(self.predictor_, rows_like(X, self.problem_.target.X), "predict")

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict probabilities with what the search hands over."""
        self._check_fitted()
        rows = rows_like(X, self.problem_.target.X)
        return prediction_of(self.predictor_, rows, "predict_proba")

    def _result(self) -> SearchResult:
        self._check_fitted()
        return self.result_

    def _predictor(self) -> Any:
        """What is handed over, not fitted yet."""
        weights = self.result_.choice.weights
        models = {f"trial {number}": self._model(number) for number in weights}
        # Regressors can be trained on classes that are numbers; their predictions are values.
        values = self.result_.context.data.classes is None
        task: Task = "regression" if values else "classification"
        vote = self.result_.loss.needs == "predict"
        return ensemble_of(models, list(weights.values()), task, vote=vote)

    def _model(self, number: int) -> Any:
        """Return the model of a trial, not fitted yet."""
        (trial,) = [t for t in finished_trials(self.result_.study) if t.number == number]
        family = family_of(self.result_.families, trial)
        model = seeded(family.estimator, self.result_.settings.random_state)
        return model.set_params(**family.candidate(trial).params)

    def _fitted(self, model: Any) -> Any:
        """Fit a model on all labelled rows."""
        sites = self.result_.problem.labelled_sites
        X, y = pooled(sites)
        return fit(
            model, X, y, self.result_.settings.weights_for_training(self.result_.ratio, sites)
        )

    @cached_property
    def best_estimator_(self) -> Any:
        """Model of the winning trial, fitted on all rows of all sources when it is asked for."""
        chosen = self._result().chosen
        if list(self.result_.choice.weights) == [chosen]:
            return without_effect(self.predictor_)
        return self._fitted(self._model(chosen))

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
        Any other estimator is refused.
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

    def update(self, X: Any, y: ArrayLike, *, group: ArrayLike | None = None) -> Updated:
        """Update the predictor by labels of some rows of the target, without a new search.

        The site's own effect is added to the answers of `predictor_`: as much of it as so many
        labels can show, given how far the sources differ (`shiftune.effects`).

        Parameters
        ----------
        X : DataFrame or array of shape (m, d)
            Rows of the target.
        y : array of shape (m,)
        group : array of shape (m,), optional
            Ids of rows that belong together; see `ShiftProblem.from_frame`.

        Returns
        -------
        Updated
            With `predict`, `predict_proba`, `predictor_`, `risk_`, `before_`, `gain_`,
            `metrics_`, `effect_`.
            The search itself stays as it is; labels that it had count as well.
        """
        codes = None if group is None else -1 - pd.factorize(np.asarray(group))[0]
        return update(self._result(), self.predictor_, X, y, codes)

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
        """Estimate the gain from labelling target rows; see `shiftune.search.label_worth`."""
        return label_worth(self._result(), counts, level=level)

    def labels_for(
        self, *, half_width: float | None = None, loss: float | None = None, level: float = 0.95
    ) -> int | None:
        """Return how many labels are expected to be enough; see `shiftune.search.label_worth`."""
        return labels_for(self._result(), half_width=half_width, loss=loss, level=level)

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

    # ---------------------------------------------------------------- pictures

    def plot_history(self) -> Any:
        """Plot risk and interval of every trial; see `shiftune.report.figures.history`."""
        from shiftune.report.figures import history

        result = self._result()
        return history(result.trials, chosen=result.chosen)

    def plot_sources(self, level: float = 0.95) -> Any:
        """Plot every source's estimate for the winner; see `shiftune.report.figures.forest`."""
        from shiftune.report.figures import forest

        return forest(self._result().risk, level)

    def plot_calibration(self) -> Any:
        """Plot the calibration curve; see `shiftune.report.figures.calibration`."""
        from shiftune.report.figures import calibration

        sites = check_two_classes(self._result().new_site).predictions.names
        return calibration(
            self.calibration_curve(), {site: self.calibration_curve(site) for site in sites}
        )

    def plot_decision_curve(self) -> Any:
        """Plot net benefit by threshold; see `shiftune.report.figures.decision`."""
        from shiftune.report.figures import decision

        return decision(self.decision_curve())

    def plot_weights(self) -> Any:
        """Plot the density ratios of every source; see `shiftune.report.figures.weights`."""
        from shiftune.report.figures import weights

        return weights(self._result().overlap)

    def plot_shifts(self) -> Any:
        """Plot the columns that differ at the target; see `shiftune.report.figures.shifts`."""
        from shiftune.report.figures import shifts

        return shifts(self._result().shifts)

    def plot_importances(self) -> Any:
        """Plot importances of the parameters; see `shiftune.report.figures.importances`."""
        from shiftune.report.figures import importances

        return importances(self._result().importances)

    def plot_parameter(self, name: str) -> Any:
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
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle and hasattr(self, "predictor_"):
            from shiftune.report.notebook import summary

            bundle["text/html"] = summary(self.result_)
        return bundle

    def _repr_html_(self) -> str | None:
        """The same as HTML, for viewers that read no bundles; None where the user wants text."""
        return self._repr_mimebundle_().get("text/html")
