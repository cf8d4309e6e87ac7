"""Update of the final model by a few labels of the target."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from shiftune._wording import count, number
from shiftune.effects import (
    SiteEffects,
    Update,
    UpdatedClassifier,
    UpdatedRegressor,
    without_effect,
)
from shiftune.errors import DataError, DataWarning, OverlapWarning, SettingsError
from shiftune.evaluate._fits import Predictions
from shiftune.metrics import Metric, metric_tables
from shiftune.metrics._metric import SitePredictions
from shiftune.metrics._new_site import NewSite
from shiftune.models._by_name import ColumnReader
from shiftune.problem import ShiftProblem, Site
from shiftune.problem._columns import rows_like
from shiftune.problem._site import groups_of, rows_of, stacked
from shiftune.risk._adjusted import combined, share_of_labels, shared_alike
from shiftune.risk._result import Estimate, RiskEstimate, by_group
from shiftune.search._families import Families, schema_of

if TYPE_CHECKING:
    from shiftune.search._result import SearchResult
    from shiftune.tables import Schema

Floats = NDArray[np.float64]

FEWEST_SOURCES = 3
# Reason why there are neither updates nor intervals of rows.
NOT_OUT_OF_SITE = (
    "no row was predicted by a model that has not seen its site; that needs risk='adjusted' and at "
    "least two sources"
)


@dataclass(frozen=True, eq=False, repr=False)
class Updated:
    """Predictor of a site, updated by labels of some of its rows.

    Attributes
    ----------
    predictor_ : estimator
        `UpdatedRegressor` or `UpdatedClassifier`.
    risk_ : RiskEstimate
        Of `predictor_`: from the sources, each updated by as many labels of its own, and from the
        labelled rows, each predicted with the effect that the others show.
    before_ : RiskEstimate
        Of the predictor without the update, from the same rows, all by models that have not seen
        their site.
    effect_ : DataFrame
        Of the site: a row per term (and class), with estimate, standard deviation, and standard
        deviation between sites.
    new_site_ : NewSite
        Estimator of metrics of `predictor_`, from the sources, each updated by as many labels of
        its own.
    asked_ : Metrics
        Of `metrics_`.
    labels_ : int
        Number of labelled rows.
    problem_ : ShiftProblem
        Of the search.
    """

    predictor_: Any
    risk_: RiskEstimate
    before_: RiskEstimate
    effect_: pd.DataFrame
    new_site_: NewSite
    asked_: Sequence[Metric]
    labels_: int
    problem_: ShiftProblem

    def __repr__(self) -> str:
        """Return number of labels and risk in a line."""
        return f"<Updated by {count(self.labels_, 'label')}: {self.risk_!r}>"

    @property
    def gain_(self) -> Estimate:
        """Risk without the update less that with it, paired."""
        return self.before_.minus(self.risk_)

    @cached_property
    def metrics_(self) -> pd.DataFrame:
        """Metrics of `predictor_` at the target; see `shiftune.metrics.metric_tables`."""
        return metric_tables(self.asked_, self.new_site_).table

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes of the probabilities."""
        return np.asarray(self.predictor_.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict with the updated predictor."""
        return np.asarray(self.predictor_.predict(rows_like(X, self.problem_.target.X)))

    def predict_proba(self, X: Any) -> Floats:
        """Predict probabilities with the updated predictor."""
        return np.asarray(self.predictor_.predict_proba(rows_like(X, self.problem_.target.X)))


class Updater:
    """What a result shows about differences between sites."""

    def __init__(self, result: SearchResult) -> None:
        self.result = result

    @property
    def obstacle(self) -> str:
        """Reason why labels cannot update the predictor; empty if they can."""
        result, data = self.result, self.result.context.data
        if result.choice.predictions is None or not data.out_of_site:
            return NOT_OUT_OF_SITE
        if data.sample_weight is not None:
            return "rows have weights, and an effect of the site would count every row once"
        if len(data.sources) < FEWEST_SOURCES:
            return (
                f"there are {len(data.sources)} sources, and at least {FEWEST_SOURCES} are "
                "needed to see how far sites differ"
            )
        if data.classes is not None and result.loss.needs == "predict":
            return (
                f"the loss {result.loss.name} is of predicted classes, and an effect needs "
                "probabilities; search with loss='log_loss' or 'brier'"
            )
        if result.loss.within_site:
            return (
                f"the loss {result.loss.name} is of all rows of a site together, and an effect "
                "needs one of single rows; search with loss='log_loss' or 'brier'"
            )
        return ""

    @property
    def predictions(self) -> Predictions:
        """Out-of-site predictions of the final model; an error where labels cannot update it."""
        if self.obstacle:
            raise SettingsError(f"labels cannot update this predictor: {self.obstacle}")
        assert self.result.choice.predictions is not None  # without them there is an obstacle
        return self.result.choice.predictions

    @cached_property
    def effects(self) -> SiteEffects:
        """Effects of the sources."""
        result, data, predictions = self.result, self.result.context.data, self.predictions
        rows = [data.validation_rows([name]) for name in data.sources]
        return SiteEffects(
            [predictions[own] for own in rows],
            [rows_of(data.X_validation, own) for own in rows],
            data.y_validation[: len(rows)],
            result.loss,
            data.classes,
            _schema(result.families, result.problem),
            seed=result.settings.random_state,
        )

    def estimate(
        self,
        of_sources: Sequence[Floats],
        own: Floats | None = None,
        own_groups: NDArray[np.intp] | None = None,
    ) -> RiskEstimate:
        """Estimate the risk from losses of the sources, and of labelled rows of the target."""
        losses = list(of_sources) if own is None else [*of_sources, own]
        risk = self._by_row(losses)
        alone = [np.arange(n) for n in risk.n]
        groups = self.result.context.data.groups or alone
        last = alone[-1] if own_groups is None else own_groups
        risk = by_group(risk, [*groups[: len(of_sources)], last][: len(losses)])
        if own is not None:
            risk = combined(risk, self.estimate(of_sources))
        return risk.condensed()

    def one_row(self, of_sources: Sequence[Floats]) -> float:
        """Variance of the loss of a random row of the sources."""
        risk = self._by_row(of_sources)
        return float(np.average(risk.divergences, weights=risk.n))

    def _by_row(self, losses: Sequence[Floats]) -> RiskEstimate:
        names = [*self.result.context.data.sources, self.result.target][: len(losses)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)  # raised when the search began
            return self.result.context.risk.estimate(losses, names=names)

    def updated(self, predictor: Any, few: Site, answers: NDArray[Any]) -> Updated:
        """Return a predictor, updated by labelled rows that it has answered.

        Without a predictor, only its risk is of use.
        """
        effects = self.effects
        update = effects.update(few.X, answers, few.labels, few.groups)
        after = self.estimate(update.source_losses, update.own_losses, few.groups)
        before = self.estimate(effects.source_losses(0), update.own_losses_before, few.groups)
        result = self.result
        plain = SitePredictions.of(self.predictions, result.context.data, result.loss)
        return Updated(
            _with_effect(predictor, effects, update),
            after,
            shared_alike(before, after),
            _table(effects, update),
            result.new_site_of(plain.updated(update.source_answers)),
            result.asked_metrics,
            len(few),
            result.problem,
        )


def update(
    result: SearchResult,
    predictor: Any,
    X: Any,
    y: ArrayLike,
    groups: NDArray[np.intp] | None = None,
) -> Updated:
    """Update a fitted predictor by labelled rows, in addition to those that the search had.

    `groups` are the codes of the rows' groups, as the target of the problem has them.
    """
    few = _read(result.problem, X, y)
    few = Site(few.name, few.X, few.labels, few.rows, groups)
    _warn_of_odd_labels(result.problem, few)
    if result.problem.labelled_target is not None:
        few = _together(result.problem.labelled_target, few)
    return _updated(result, without_effect(predictor), few)


def updated_by_own(result: SearchResult, predictor: Any) -> Any:
    """Update a predictor that was fitted on all labelled rows by those of the target.

    They count for both: the models learn a little of the site, and the effect what is left of its
    residuals (`benchmarks/arena/label_uses.py`).
    """
    few = result.problem.labelled_target
    if few is None or result.updater.obstacle:
        return predictor
    return _updated(result, predictor, few).predictor_


def _updated(result: SearchResult, predictor: Any, few: Site) -> Updated:
    values = result.context.data.classes is None
    answers = np.asarray(getattr(predictor, "predict" if values else "predict_proba")(few.X))
    return result.updater.updated(predictor, few, answers.reshape(-1) if values else answers)


def _read(problem: ShiftProblem, X: Any, y: ArrayLike) -> Site:
    """Check labelled rows as `ShiftProblem` checks them."""
    if isinstance(X, pd.DataFrame) and isinstance(y, pd.Series):
        one, other = X.index, y.index
        if not one.equals(other) and Counter(one) == Counter(other):
            raise DataError("X and y have the same index in another order; give y.loc[X.index]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # about the sources, raised before
        read = ShiftProblem.from_sites(
            {site.name: (site.X, site.labels) for site in problem.sources},
            problem.target.X,
            labelled_target=(X, y),
            target_name=problem.target.name,
            task=problem.task,
        )
    assert read.labelled_target is not None  # it was given
    return read.labelled_target


def _warn_of_odd_labels(problem: ShiftProblem, few: Site) -> None:
    """Warn of labels beyond those of all sources, of classes of one kind, and of few groups."""
    labels = np.concatenate([site.labels for site in problem.sources])
    words = ""
    if problem.task == "regression":
        # In half precision their differences may be infinite.
        low, high, first, last = map(
            float, (labels.min(), labels.max(), few.labels.min(), few.labels.max())
        )
        most = high - low
        if first < low - most or last > high + most:
            words = (
                f"labels of {few.name!r} run from {number(first)} to {number(last)}, those of the "
                f"sources from {number(low)} to {number(high)}; have they the same unit?"
            )
    elif len(few) > 1 and len(np.unique(few.labels)) == 1:
        words = (
            f"all {len(few)} labels of {few.name!r} are {str(few.labels[0])!r}: the risk after the "
            "update is rather too low; label more rows"
        )
    if words:
        warnings.warn(words, DataWarning, stacklevel=4)
    if few.groups is not None and len(np.unique(few.groups)) < len(few) / 2:
        warnings.warn(
            f"the {count(len(few), 'label')} of {few.name!r} are of "
            f"{count(len(np.unique(few.groups)), 'group')}, and show little of the others; label "
            "rows of more groups",
            DataWarning,
            stacklevel=4,
        )


def _together(earlier: Site, later: Site) -> Site:
    """Add labelled rows to those that the search had, unless all of these are among them."""
    if set(_hashes(earlier)) <= set(_hashes(later)):
        return later
    y = np.concatenate([earlier.labels, later.labels])
    groups = groups_of([earlier, later])
    codes = None if groups is None else np.concatenate(groups)
    return Site(earlier.name, stacked([earlier.X, later.X]), y, groups=codes)


def _hashes(site: Site) -> list[int]:
    rows = pd.util.hash_pandas_object(pd.DataFrame(site.X), index=False).to_numpy()
    return [hash((int(row), label)) for row, label in zip(rows, site.labels.tolist(), strict=True)]


def _with_effect(predictor: Any, effects: SiteEffects, update: Update) -> Any:
    """Return an estimator that adds the effect; fitted if the predictor is."""
    kind = UpdatedRegressor if effects.classes is None else UpdatedClassifier
    model = kind(predictor, effects.terms, update.effect, update.limits)
    if predictor is not None:
        model.predictor_ = predictor
        if effects.classes is not None:
            model.classes_ = effects.classes
    return model


def _schema(families: Families, problem: ShiftProblem) -> Schema | None:
    """Return the schema by which the models read columns, or that of the problem."""
    for family in families.values():
        for part in family.estimator.get_params().values():
            if isinstance(part, ColumnReader):
                return part.schema
    return schema_of(problem)


def _table(effects: SiteEffects, update: Update) -> pd.DataFrame:
    names, classes = effects.terms.names, effects.classes
    of_class = {} if classes is None else {"class": np.repeat(classes, len(names))}
    found = pd.DataFrame(
        of_class
        | {
            "term": names * len(update.effect),
            "estimate": update.effect.ravel(),
            "deviation": update.deviation.ravel(),
            "between_sites": np.tile(update.spread.by_term(len(names)), len(update.effect)),
        }
    )
    return found.set_index([*of_class, "term"])


COUNTS = (10, 30, 100, 300)
# Numbers of labels that `labels_for` tries.
LADDER = (5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)


def label_worth(
    result: SearchResult, counts: int | Sequence[int] | None = None, *, level: float = 0.95
) -> pd.DataFrame:
    """Table of `ShiftSearch.label_worth`."""
    if counts is None:
        counts = [0, *(m for m in COUNTS if m <= len(result.problem.target))]
    given = np.atleast_1d(np.asarray(counts))
    if not len(given) or given.dtype.kind not in "iu" or given.min() < 0:
        raise SettingsError(f"counts must be whole numbers >= 0, got {counts!r}")
    if not 0 < level < 1:
        raise SettingsError(f"level must lie between 0 and 1, got {level!r}")
    updater = result.updater
    effects = updater.effects
    before = updater.estimate(effects.source_losses(0))
    rows = []
    for m in sorted({0, *given.tolist()}):
        losses = effects.source_losses(m)
        risk = updater.estimate(losses) if m else before
        gain = before.minus(risk)
        low, high = gain.interval(level) if m else (0.0, 0.0)
        rows.append(
            {
                "labels": m,
                "risk": risk.value,
                "gain": gain.value,
                "gain_low": low,
                "gain_high": high,
                "half_width": _half_width(risk, updater.one_row(losses), m, level),
            }
        )
    return pd.DataFrame(rows).set_index("labels")


def labels_for(
    result: SearchResult,
    *,
    half_width: float | None = None,
    loss: float | None = None,
    level: float = 0.95,
) -> int | None:
    """Smallest number that `ShiftSearch.labels_for` asks for."""
    if half_width is None and loss is None:
        raise SettingsError("give the half width of the interval, the loss, or both")
    for m in (0, *(m for m in LADDER if m <= len(result.problem.target))):
        found = label_worth(result, m, level=level).loc[m]
        narrow = half_width is None or found["half_width"] <= half_width
        if narrow and (loss is None or found["risk"] <= loss):
            return m
    return None


def _half_width(risk: RiskEstimate, one_row: float, m: int, level: float) -> float:
    """Half the interval with m labels, which take a share from the sources by their variance."""
    if m:
        share = share_of_labels(m, one_row, risk.variance)
        variance = (1 - share) ** 2 * risk.variance + share**2 * one_row / m
        risk = replace(risk, variance=variance)
    low, high = risk.interval(level)
    return (high - low) / 2
