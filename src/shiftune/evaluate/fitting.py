"""Data of a study, fits of models on it, and losses of their predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

from shiftune import interrupts
from shiftune.errors import SettingsError
from shiftune.evaluate.answers import Answers, Predictions, answers_of, in_all_classes
from shiftune.evaluate.losses import Loss
from shiftune.evaluate.prepared_rows import PreparedRows
from shiftune.problem.site import Features
from shiftune.rows.weighted import coefficients, linearised

ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class StudyData:
    """Data that every trial reads: training rows, validation rows, and their sites and weights.

    Attributes
    ----------
    X_train, y_train : rows and labels of all sources, stacked
    train_sites : array of shape (n_train,)
        The site of every training row.
    training_weights : array of shape (n_train,) or None
        Of the training rows in every fit: density ratios, or the weights that rows were given.
    X_validation : validation rows of all sources, stacked
    y_validation : k arrays of shape (n_j,)
    weights : k arrays of shape (n_j,), or None where the estimate needs none
    names : k names
    labelled_target : str
        Name of the site with the few labelled rows of the target; empty if there are none.
    classes : array of shape (C,) or None
        Labels of the training and validation rows, sorted; None where predictions are values.
    groups : k arrays of shape (n_j,), or None where rows are independent
        Codes of validation rows that belong together.
    sample_weight : k arrays of shape (n_j,), or None where every row counts once
        Weights that the validation rows were given; the training rows then have them, too.
    prepared : PreparedRows or None
        Rows after the transformers that all trials have in common; see `sharing`. None prepares
        the rows in every fit.
    left_out : tuple of names
        Sources that `prepared` was learned without.
    """

    X_train: Features
    y_train: NDArray[Any]
    train_sites: NDArray[np.str_]
    training_weights: NDArray[np.float64] | None
    X_validation: Features
    y_validation: tuple[NDArray[Any], ...]
    weights: tuple[NDArray[np.float64], ...] | None
    names: tuple[str, ...]
    labelled_target: str = ""
    classes: NDArray[Any] | None = None
    groups: tuple[NDArray[np.intp], ...] | None = None
    sample_weight: tuple[NDArray[np.float64], ...] | None = None
    # Not set by the constructor, so that `dataclasses.replace` never carries them to other rows.
    prepared: PreparedRows | None = field(default=None, init=False)
    left_out: tuple[str, ...] = field(default=(), init=False)

    def sharing(self, prepared: PreparedRows | None, left_out: tuple[str, ...] = ()) -> StudyData:
        """Return the same data, whose fits take prepared rows from `prepared` and add to it.

        Only for pipelines with the same transformers, and with the training rows of all sources
        but those of `left_out`.
        """
        data = replace(self)
        object.__setattr__(data, "prepared", prepared)
        object.__setattr__(data, "left_out", left_out)
        return data

    @property
    def source_rows(self) -> NDArray[np.str_]:
        """The site of every training row of a source."""
        return np.asarray(self.train_sites[self.train_sites != self.labelled_target])

    def validation_rows(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the validation rows of these sites, shape (n,)."""
        return np.isin(np.asarray(self.names)[self.validation_sites], names)

    @property
    def validation_sites(self) -> NDArray[np.intp]:
        """The place in `names` of every validation row's site, shape (n,)."""
        return np.repeat(np.arange(len(self.names)), [len(own) for own in self.y_validation])

    def losses(self, answers: Answers, loss: Loss) -> list[NDArray[np.float64]]:
        """Return the losses of answers to all validation rows, one array per site."""
        y = np.concatenate(self.y_validation)
        return self.by_site(answers.losses(y, loss, self.classes, self.validation_sites))

    def by_site(self, losses: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Split losses of all validation rows, shape (n,), into one array per site.

        Where rows have weights, the mean of an array is the weighted mean of the site's losses
        (`shiftune.rows.weighted`).
        """
        return self._each_site(linearised, losses)

    def row_coefficients(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return coefficients of plain losses, from those of the losses in `by_site`, (n,)."""
        return np.concatenate(self._each_site(coefficients, shares))

    def _each_site(
        self, change: Callable[..., NDArray[np.float64]], values: NDArray[np.float64]
    ) -> list[NDArray[np.float64]]:
        parts = np.split(values, np.cumsum([len(own) for own in self.y_validation])[:-1])
        weights = self.sample_weight or [None] * len(parts)
        return [change(own, w) for own, w in zip(parts, weights, strict=True)]

    def nonnegative(self, losses: Sequence[NDArray[np.float64]]) -> bool:
        """Whether no loss is below 0, of losses in `by_site`."""
        weights = self.sample_weight or [np.ones(len(own)) for own in losses]
        means = [own.mean() for own in losses]
        plain = [m + (z - m) / w * w.mean() for z, w, m in zip(losses, weights, means, strict=True)]
        return all(own.min() >= -ROUNDING * np.abs(own).max() for own in plain)

    def mean_loss(self, losses: NDArray[np.float64]) -> float:
        """Mean loss over the rows of all sites."""
        return float(np.concatenate(self.by_site(losses)).mean())


class Evaluated(NamedTuple):
    """Losses of one model, shape (n,), and its answers to the same rows, if they can be kept."""

    losses: NDArray[np.float64]
    answers: Predictions | None

    def at(self, rows: NDArray[np.bool_]) -> Evaluated:
        """Return losses and answers of some of the rows."""
        return Evaluated(self.losses[rows], None if self.answers is None else self.answers[rows])

    def with_rows(self, rows: NDArray[np.bool_], other: Evaluated) -> Evaluated:
        """Return a copy that has another model's losses and answers in some of the rows."""
        losses = self.losses.copy()
        losses[rows] = other.losses
        if self.answers is None or other.answers is None:
            return Evaluated(losses, None)
        answers = self.answers.copy()
        answers[rows] = other.answers
        return Evaluated(losses, answers)


class Predicted(NamedTuple):
    """Predictions of one model on validation rows, and the classes of their columns, if any."""

    values: NDArray[Any]
    classes: NDArray[Any] | None


def judge(
    predicted: Predicted,
    data: StudyData,
    loss: Loss,
    sources: Sequence[str] | None = None,
    unknown: Evaluated | None = None,
) -> Evaluated:
    """Return losses and answers of predictions of the validation rows of sources.

    Rows of a class that the model has never seen get those of `unknown`; without it they are an
    error.
    """
    y, sites = np.concatenate(data.y_validation), data.validation_sites
    if sources is not None:
        rows = data.validation_rows(sources)
        y, sites = y[rows], sites[rows]
    return evaluated(predicted.values, predicted.classes, y, loss, data.classes, sites, unknown)


def fit(model: Any, X: Features, y: NDArray[Any], weights: NDArray[np.float64] | None) -> Any:
    """Fit a model, with sample weights where they are given, also inside pipelines.

    With scikit-learn's metadata routing, a model that requests `sample_weight` routes it; without
    a request it reaches the last step of a pipeline.
    """
    interrupts.check()
    if weights is None:
        return model.fit(X, y)
    if requests_weights(model):
        return model.fit(X, y, sample_weight=weights)
    with config_context(enable_metadata_routing=False):
        return model.fit(X, y, **{weight_argument(model): weights})


def requests_weights(model: Any) -> bool:
    """Whether a model, or a part of it, requests `sample_weight` by metadata routing."""
    if not get_config()["enable_metadata_routing"]:
        return False
    return bool(get_routing_for_object(model).consumes("fit", ["sample_weight"]))


def relative(weights: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return weights with mean 1, so that penalties keep their meaning; None if all are 0.

    >>> relative(np.array([0.0, 6.0, 3.0])), relative(np.zeros(2))
    (array([0., 2., 1.]), None)
    """
    return np.asarray(weights / weights.mean()) if weights.any() else None


def losses_of(fitted: Any, X: Features, y: NDArray[Any], loss: Loss) -> NDArray[np.float64]:
    """Return the losses of a fitted model, shape (n,)."""
    predicted = np.asarray(getattr(fitted, loss.needs)(X))
    return evaluated(predicted, getattr(fitted, "classes_", None), y, loss).losses


def evaluated(
    predicted: NDArray[Any],
    own: NDArray[Any] | None,
    y: NDArray[Any],
    loss: Loss,
    classes: NDArray[Any] | None = None,
    sites: NDArray[np.intp] | None = None,
    unknown: Evaluated | None = None,
) -> Evaluated:
    """Return losses and answers of predictions; `own` are the classes of the model.

    `classes` are those of the problem, `unknown` as in `judge`.
    """
    if loss.needs != "predict_proba":
        losses = loss(y, predicted, None, sites)
        return Evaluated(losses, answers_of(predicted, classes))
    own = columns = np.asarray(own)
    seen = np.isin(y, own)
    answers = None
    if classes is not None and (P := in_all_classes(predicted, own, classes)) is not None:
        answers = P.astype(np.float32)
        if len(own) < len(classes) and (unknown is not None or seen.all()):
            # Brier's loss depends on the number of classes, so it must be that of the problem.
            predicted, columns = P, classes
    if unknown is None:
        return Evaluated(loss(y, predicted, columns, sites), answers)
    if answers is not None and unknown.answers is not None:
        answers[~seen] = unknown.answers[~seen]
        if loss.within_site:  # compares rows of all classes
            return Evaluated(loss(y, answers, classes, sites), answers)
    losses = unknown.losses.copy()
    losses[seen] = loss(y[seen], predicted[seen], columns)
    return Evaluated(losses, answers)


def seeded(model: Any, random_state: int) -> Any:
    """Return a clone in which every seed that the user left open is set, so that fits repeat.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> seeded(RandomForestClassifier(), 3).random_state
    3
    """
    copy = clone(model)
    seeds = {
        name: random_state
        for name, value in copy.get_params().items()
        if value is None and name.split("__")[-1] == "random_state"
    }
    return copy.set_params(**seeds)


def weight_argument(model: Any) -> str:
    """Name the argument of `fit` through which sample weights reach the model.

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> weight_argument(make_pipeline(StandardScaler(), Ridge()))
    'ridge__sample_weight'
    """
    if isinstance(model, Pipeline):
        name, last = model.steps[-1]
        return f"{name}__{weight_argument(last)}"
    if isinstance(model, TransformedTargetRegressor):  # it hands arguments on
        return weight_argument(model.regressor)
    if not has_fit_parameter(model, "sample_weight"):
        raise SettingsError(
            f"{type(model).__name__} takes no sample_weight, so its rows cannot have weights; "
            "choose another model, or leave out sample_weight or training_weights"
        )
    return "sample_weight"
