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
from sklearn.base import clone

from shiftune._wording import count, number
from shiftune.effects import (
    SiteEffects,
    Update,
    UpdatedClassifier,
    UpdatedRegressor,
    without_effect,
)
from shiftune.effects._updated import predictions_of
from shiftune.errors import DataError, DataWarning, OverlapWarning, SettingsError
from shiftune.evaluate._fits import Predictions
from shiftune.metrics import metric_tables
from shiftune.metrics._metric import SitePredictions
from shiftune.metrics._new_site import NewSite
from shiftune.predictor._conformal import SiteScores, row_scores
from shiftune.problem import ShiftProblem, Site
from shiftune.problem._site import groups_of, rows_of, stacked, weights_of
from shiftune.risk._adjusted import combined, share_of_labels, with_share
from shiftune.risk._result import Estimate, RiskEstimate, by_group
from shiftune.rows._moments import linearised
from shiftune.search._families import columns_of

if TYPE_CHECKING:
    from shiftune.search._result import SearchResult

Floats = NDArray[np.float64]

# Reason why there are neither updates nor intervals of rows.
NOT_OUT_OF_SITE = (
    "no row was predicted by a model that has not seen its site; that needs risk='adjusted' and at "
    "least two sources"
)
# Labels train half of the updated predictor, each as so many rows (`benchmarks/results/labels.md`).
_ROWS_OF_A_LABEL = 10


@dataclass(frozen=True, eq=False, repr=False)
class Updated:
    """Predictor of a site, updated by labels of some of its rows.

    Attributes
    ----------
    predictor_ : estimator
        `UpdatedRegressor` or `UpdatedClassifier`; without any label if `used_` is False.
    risk_ : RiskEstimate
        Of `predictor_`, its training half not counted: from the sources, each with an effect from
        as many labels of its own, and the labelled rows, each with the effect of the others.
    before_ : RiskEstimate
        Of the predictor without the update, from the same rows.
    gain_ : Estimate
        Risk without the update less that with it, paired.
    used_, unlike_ : bool, float
        Whether the update is used (not where its estimated gain is negative). Certainty, from 0 to
        1, that the site is unlike the sources, so that `metrics_` do not hold there.
    effect_ : DataFrame
        A row per term (and class): estimate, standard deviation, and that between sites.
    labels_, effective_ : int
        Labelled rows; their number if groups count as one, and weights as effective rows.
    metrics_ : DataFrame
        Of `predictor_`, from sources that are each updated by as many labels.
    new_site_, problem_
        Estimator of these metrics; problem of the search.
    """

    predictor_: Any
    risk_: RiskEstimate
    before_: RiskEstimate
    gain_: Estimate
    used_: bool
    unlike_: float
    effect_: pd.DataFrame
    metrics_: pd.DataFrame
    new_site_: NewSite
    labels_: int
    effective_: int
    problem_: ShiftProblem

    def __repr__(self) -> str:
        """Return number of labels and risk in a line."""
        how = "Updated" if self.used_ else "Not updated"
        return f"<{how} by {count(self.labels_, 'label')}: {self.risk_!r}>"

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes of the probabilities."""
        return np.asarray(self.predictor_.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict with the updated predictor."""
        return np.asarray(self.predictor_.predict(self.problem_.read(X)))

    def predict_proba(self, X: Any) -> Floats:
        """Predict probabilities with the updated predictor."""
        return np.asarray(self.predictor_.predict_proba(self.problem_.read(X)))


class Updater:
    """What a result shows about differences between sites."""

    def __init__(self, result: SearchResult) -> None:
        self.result = result

    @property
    def obstacle(self) -> str:
        """Reason why labels cannot update the predictor; empty if they can."""
        result, data = self.result, self.result.context.data
        if result.choice.predictions is None or data.train_folds.min() < 0:
            return NOT_OUT_OF_SITE
        if data.classes is not None and result.loss.needs == "predict":
            return (
                f"the loss {result.loss.name} is of predicted classes, and an effect needs "
                "probabilities; search with loss='log_loss' or 'brier'"
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
        """Effects of the sources; targets of one search share them."""
        if self.result.origin is not None and self.result.shares_sources:
            return self.result.origin.updater.effects
        result, data, predictions = self.result, self.result.context.data, self.predictions
        rows = [data.validation_rows([name]) for name in data.sources]
        k = len(rows)
        return SiteEffects(
            [predictions[site_rows] for site_rows in rows],
            [rows_of(data.X_validation, site_rows) for site_rows in rows],
            data.y_validation[:k],
            result.loss,
            data.classes,
            columns_of(result.problem),
            groups=None if data.groups is None else data.groups[:k],
            sample_weight=None if data.sample_weight is None else data.sample_weight[:k],
            out_of_site=data.out_of_site,
            seed=result.settings.random_state,
        )

    def estimate(
        self,
        of_sources: Sequence[Floats],
        of_target: Floats | None = None,
        few: Site | None = None,
        unlike: float = 0.0,
    ) -> RiskEstimate:
        """Estimate the risk from losses of the sources, and of labelled rows of the target."""
        context, data, k = self.result.context, self.result.context.data, len(of_sources)
        losses = [*of_sources, *([] if of_target is None else [of_target])]
        weights: list[Floats | None] = [*(data.sample_weight or [None] * k)[:k]]
        groups = [*(data.groups or [np.arange(len(site)) for site in losses])[:k]]
        if few is not None:
            weights.append(few.sample_weight)
            groups.append(np.arange(len(few)) if few.groups is None else few.groups)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)  # raised when the search began
            risk = context.risk.estimate(
                [linearised(site, w) for site, w in zip(losses, weights, strict=True)],
                names=[*data.sources, self.result.target][: len(losses)],
            )
        risk = risk.signed(nonnegative=min(float(site.min()) for site in losses) >= 0)
        risk = by_group(risk, groups)
        if of_target is not None:
            risk = combined(risk, self.estimate(of_sources), unlike)
        return risk.condensed()

    def updated(self, few: Site, predictor: Any = None) -> Updated:
        """Update a fitted predictor by labelled rows, and estimate what the update gains.

        Without a predictor, the models of the trials and the problem's labels give the estimate.
        """
        result, effects, loss = self.result, self.effects, self.result.loss
        if predictor is None:
            plain = self.predictions[-len(few) :].astype(float)
        else:
            plain = predictions_of(predictor, few.X, values=effects.classes is None)
        site = effects.rows(few.X, plain, few.labels, few.groups, few.sample_weight)
        update, labels = effects.update(site), site.effective
        after = self.estimate(effects.source_losses(labels), update.own_losses, few, update.unlike)
        own_before = loss(few.labels, plain, effects.classes)
        before = self.estimate(effects.source_losses(0), own_before, few, update.unlike)
        before = with_share(before, float(after.lam[-1] * after.n[-1]))
        gain = before.minus(after)
        used = gain.value >= 0
        sites = SitePredictions.of(self.predictions, result.context.data, loss)
        if used:
            sites = sites.updated(effects.source_predictions(labels))
            if predictor is not None:
                predictor = self.with_labels(predictor, few)
        new_site = result.new_site_of(sites)
        return Updated(
            predictor,
            after if used else before,
            before,
            gain,
            used,
            update.unlike,
            _table(effects, update),
            metric_tables(result.asked_metrics, new_site).table,
            new_site,
            len(few),
            labels,
            result.problem,
        )

    def with_labels(self, predictor: Any, few: Site) -> Any:
        """Return the fitted predictor with the effect, half of it refitted with the labels.

        Values train freed of the effect, which is added to both halves, and of outliers; classes
        train as they are.
        """
        effects, y = self.effects, few.labels
        plain = predictions_of(predictor, few.X, values=effects.classes is None)
        site = effects.rows(few.X, plain, y, few.groups, few.sample_weight)
        effect = effects.effect(site)
        if effects.classes is None:
            residuals = (site.y[:, None] - site.with_effect(effect))[:, 0]
            y = site.scaled[:, 0] + effects.without_outliers(residuals)
            # Some models take labels above 0 alone.
            every = np.concatenate([site.y, *(source.y for source in effects.sources)])
            y = y.clip(every.min(), every.max())
        freed = Site(few.name, few.X, y, None, few.groups, few.sample_weight)
        rows = freed.take(np.tile(np.arange(len(few)), _ROWS_OF_A_LABEL))
        kind = UpdatedRegressor if effects.classes is None else UpdatedClassifier
        model = kind(clone(predictor), effects.terms, effect)
        model.predictor_ = predictor
        model.refitted_ = self.result.fitted(self.result.final_model, rows)
        if effects.classes is not None:
            model.classes_ = effects.classes
        return model


def update(
    result: SearchResult,
    predictor: Any,
    X: Any,
    y: ArrayLike,
    groups: NDArray[np.intp] | None = None,
    sample_weight: ArrayLike | None = None,
) -> Updated:
    """Update a fitted predictor by labelled rows, in addition to those that the search had.

    `groups` are the codes of the rows' groups, as the target of the problem has them.
    """
    few = _read(result.problem, X, y, sample_weight)
    few = Site(few.name, few.X, few.labels, few.rows, groups, few.sample_weight)
    _warn_of_odd_labels(result.problem, few)
    if result.problem.labelled_target is not None:
        few = _together(result.problem.labelled_target, few)
    return result.updater.updated(few, without_effect(predictor))


def _read(problem: ShiftProblem, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Site:
    """Check labelled rows as `ShiftProblem` checks them."""
    if isinstance(X, pd.DataFrame) and isinstance(y, pd.Series):
        one, other = X.index, y.index
        if not one.equals(other) and Counter(one) == Counter(other):
            raise DataError("X and y have the same index in another order; give y.loc[X.index]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # about the sources, raised before
        weighted = sample_weight is not None or problem.target.sample_weight is not None
        read = ShiftProblem.from_sites(
            {
                site.name: (site.X, site.labels, *[site.sample_weight][:weighted])
                for site in problem.sources
            },
            problem.target.X,
            labelled_target=(problem.read(X), y, *[sample_weight][:weighted]),
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
            "update is probably too low; label more rows"
        )
    if words:
        warnings.warn(words, DataWarning, stacklevel=4)
    if few.groups is not None and len(np.unique(few.groups)) < len(few) / 2:
        warnings.warn(
            f"the {count(len(few), 'label')} of {few.name!r} are of "
            f"{count(len(np.unique(few.groups)), 'subject')}, and show little of the others; label "
            "rows of more subjects",
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
    weights = weights_of([earlier, later])
    X = stacked([earlier.X, later.X])
    counts = None if weights is None else np.concatenate(weights)
    return Site(earlier.name, X, y, groups=codes, sample_weight=counts)


def _hashes(site: Site) -> list[int]:
    rows = pd.util.hash_pandas_object(pd.DataFrame(site.X), index=False).to_numpy()
    return [hash((int(row), label)) for row, label in zip(rows, site.labels.tolist(), strict=True)]


def _table(effects: SiteEffects, update: Update) -> pd.DataFrame:
    names, classes = effects.terms.names, effects.classes
    if classes is not None and len(classes) == 2:
        classes = classes[1:]
    of_class = {} if classes is None else {"class": np.repeat(classes, len(names))}
    frame = pd.DataFrame(
        of_class
        | {
            "term": names * len(update.effect),
            "estimate": update.effect.ravel(),
            "deviation": update.deviation.ravel(),
            "between_sites": np.tile(update.between, len(update.effect)),
        }
    )
    return frame.set_index([*of_class, "term"])


def site_scores(result: SearchResult, updated: Updated | None = None) -> SiteScores:
    """Return the scores of the evaluated rows of all sources.

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


# ---------------------------------------------------------------- what labels are worth

COUNTS = (10, 30, 100, 300)


def label_worth(
    result: SearchResult,
    counts: int | Sequence[int] | None = None,
    *,
    level: float = 0.95,
    labelled: int = 0,
) -> pd.DataFrame:
    """Table of `ShiftSearch.label_worth`, of labels beside those of rows that are labelled."""
    if counts is None:
        counts = [0, *(m for m in COUNTS if m <= len(result.problem.target))]
    label_counts = np.atleast_1d(np.asarray(counts))
    if not len(label_counts) or label_counts.dtype.kind not in "iu" or label_counts.min() < 0:
        raise SettingsError(f"counts must be whole numbers >= 0, got {counts!r}")
    if not 0 < level < 1:
        raise SettingsError(f"level must lie between 0 and 1, got {level!r}")
    updater = result.updater
    effects = updater.effects
    if not effects.out_of_site:
        raise SettingsError(
            "one source does not show how far sites differ; label_worth needs at least two"
        )
    before = updater.estimate(effects.source_losses(labelled))
    rows = []
    for m in sorted({0, *label_counts.tolist()}):
        losses = effects.source_losses(labelled + m)
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
                "half_width": _half_width(risk, losses, labelled + m, level),
            }
        )
    return pd.DataFrame(rows).set_index("labels")


def _half_width(risk: RiskEstimate, losses: Sequence[Floats], m: int, level: float) -> float:
    """Half the interval with m labels, which take a share from the sources by their variance."""
    if m:
        one_row = float(np.average([of_site.var() for of_site in losses], weights=risk.n))
        share = share_of_labels(m, one_row, risk.variance)
        variance = (1 - share) ** 2 * risk.variance + share**2 * one_row / m
        risk = replace(risk, variance=variance)
    low, high = risk.interval(level)
    return (high - low) / 2
