r"""Fits of a trial: from a model to a prediction of every evaluated row, and its losses.

The data of a study, the folds in which a trial is fitted, how a model is fitted, rows that are
prepared once for all trials, and the constants that a model must beat.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

from shiftune import _interrupts
from shiftune.errors import DataError, SettingsError
from shiftune.evaluate._losses import Loss
from shiftune.problem._site import Features, rows_of
from shiftune.rows._encoding import drawn_rows
from shiftune.rows._moments import coefficients, linearised

# Regression: values, (n,), float64 (single precision has steps of 128 at the size of time stamps).
# Classes: probabilities, (n, C), in the order of `StudyData.classes`; for losses of predicted
# classes, votes (1 for the predicted class). Both float32.
Predictions = NDArray[Any]

# Fits of a trial, each without a fourth of the sites. Five and eight cost more and choose no better
# (`benchmarks/results/judge.md`).
FOLDS = 4
# Bytes that the prepared rows of a study may take in all worker processes of a machine together;
# the rows of further fits are prepared anew in every trial. 100,000 rows in 115 columns, for four
# fits, take 370 MB. A Dask cluster, whose workers may be on other machines, counts as one.
MOST_BYTES = 512 * 2**20
# Constants that are tried for quantities: the mean, and these quantiles.
_QUANTILES = np.linspace(0.025, 0.975, 39)
# Training rows that a constant is learned from.
_MOST_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class StudyData:
    """Data that every trial reads: training rows, evaluated rows, and the folds of both.

    Fit number f of a trial trains on the rows that are not in fold f, and predicts the evaluated
    rows that are. By default both are all labelled rows of the sources, and a site lies in one
    fold, so that every row is predicted by a model that has not seen its site. For the paper's
    estimators the rows of every source are split, all evaluated rows are in fold 0, and no
    training row is.

    Attributes
    ----------
    X_train, y_train : rows and labels of all sources, stacked
    train_folds : array of shape (n_train,)
        Fold of every training row; -1 for rows that every fit trains on.
    training_weights : array of shape (n_train,) or None
        Of the training rows in every fit: density ratios, or the weights that rows were given.
    X_validation : evaluated rows of all sources, stacked
    y_validation : k arrays of shape (n_j,)
    folds : array of shape (n,)
        Fold of every evaluated row.
    weights : k arrays of shape (n_j,), or None where the estimate needs none
    names : k names
    labelled_target : str
        Name of the site with the few labelled rows of the target; empty if there are none.
    classes : array of shape (C,) or None
        Labels of the training and evaluated rows, sorted; None where predictions are values.
    groups : k arrays of shape (n_j,), or None where rows are independent
        Codes of evaluated rows that belong together.
    train_groups : array of shape (n_train,), or None
        Codes of the training rows; a fit does not train on groups that it predicts.
    sample_weight : k arrays of shape (n_j,), or None where every row counts once
        Weights that the evaluated rows were given; the training rows then have them, too.
    """

    X_train: Features
    y_train: NDArray[Any]
    train_folds: NDArray[np.intp]
    training_weights: NDArray[np.float64] | None
    X_validation: Features
    y_validation: tuple[NDArray[Any], ...]
    folds: NDArray[np.intp]
    weights: tuple[NDArray[np.float64], ...] | None
    names: tuple[str, ...]
    labelled_target: str = ""
    classes: NDArray[Any] | None = None
    groups: tuple[NDArray[np.intp], ...] | None = None
    train_groups: NDArray[np.intp] | None = None
    sample_weight: tuple[NDArray[np.float64], ...] | None = None

    @property
    def sources(self) -> list[str]:
        """Names of the evaluated sites but the target's."""
        return [name for name in self.names if name != self.labelled_target]

    @property
    def out_of_site(self) -> bool:
        """Whether every row is predicted by a model that has not seen its site."""
        return self.train_folds.min() >= 0 and len(self.sources) > 1

    @property
    def fold_numbers(self) -> list[int]:
        """Folds with evaluated rows, hence the fits of a trial."""
        return [int(fold) for fold in np.unique(self.folds)]

    def trains(self, fold: int) -> NDArray[np.bool_]:
        """Mark the training rows of a fit, shape (n_train,)."""
        kept = self.train_folds != fold
        if self.groups is not None and self.train_groups is not None and not kept.all():
            held_out = np.concatenate(self.groups)[self.folds == fold]
            kept &= ~np.isin(self.train_groups, held_out)
        return np.asarray(kept)

    def validation_rows(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the evaluated rows of these sites, shape (n,)."""
        return np.isin(np.asarray(self.names)[self.validation_sites], names)

    @property
    def validation_sites(self) -> NDArray[np.intp]:
        """The place in `names` of every evaluated row's site, shape (n,)."""
        return np.repeat(np.arange(len(self.names)), [len(y) for y in self.y_validation])

    def losses(self, predictions: Predictions, loss: Loss) -> list[NDArray[np.float64]]:
        """Return the losses of predictions of all evaluated rows, one array per site."""
        y = np.concatenate(self.y_validation)
        return self.by_site(losses_of_rows(predictions, y, loss, self.classes))

    def by_site(self, losses: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Split losses of all evaluated rows, shape (n,), into one array per site.

        Where rows have weights, the mean of an array is the weighted mean of the site's losses
        (`shiftune.rows.Moments`).
        """
        return self._each_site(linearised, losses)

    def row_coefficients(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return coefficients of plain losses, from those of the losses in `by_site`, (n,)."""
        return np.concatenate(self._each_site(coefficients, shares))

    def _each_site(
        self, change: Callable[..., NDArray[np.float64]], values: NDArray[np.float64]
    ) -> list[NDArray[np.float64]]:
        parts = np.split(values, np.cumsum([len(y) for y in self.y_validation])[:-1])
        weights = self.sample_weight or [None] * len(parts)
        return [change(part, w) for part, w in zip(parts, weights, strict=True)]

    def nonnegative(self, losses: Sequence[NDArray[np.float64]]) -> bool:
        """Whether no loss is below 0, of losses in `by_site`."""
        weights = self.sample_weight or [np.ones(len(z)) for z in losses]
        means = [z.mean() for z in losses]
        plain = [m + (z - m) / w * w.mean() for z, w, m in zip(losses, weights, means, strict=True)]
        return all(z.min() >= -1e-9 * np.abs(z).max() for z in plain)  # rounding


# ---------------------------------------------------------------- folds


def assign_folds(sizes: NDArray[np.intp], most: int = FOLDS) -> NDArray[np.intp]:
    """Assign sites, the largest first, to folds of about equally many rows; shape (k,).

    >>> assign_folds(np.array([5, 3, 3]), 2)
    array([0, 1, 1])
    """
    folds, rows = np.zeros(len(sizes), dtype=np.intp), np.zeros(min(most, len(sizes)))
    for j in np.argsort(-sizes, kind="stable"):
        folds[j] = np.argmin(rows)
        rows[folds[j]] += sizes[j]
    return folds


def row_folds(y: NDArray[Any], groups: NDArray[np.intp] | None, seed: int) -> NDArray[np.intp]:
    """Assign the rows of a single site, or whole groups, to folds of similar labels; (n,)."""
    codes = np.arange(len(y)) if groups is None else groups
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    luck = np.random.default_rng(seed).random(len(first))
    order = np.lexsort((luck, y[first]))
    folds = np.empty(len(first), dtype=np.intp)
    folds[order] = np.arange(len(first)) % FOLDS
    return np.asarray(folds[group])


# ---------------------------------------------------------------- one fit


class Predicted(NamedTuple):
    """Predictions of one fit, the classes of their columns, if any, and its training rows."""

    output: NDArray[Any]
    classes: NDArray[Any] | None
    rows: int
    model: Any = None  # if it was to be kept


def fit_predict(
    model: Any,
    data: StudyData,
    fold: int,
    needs: str,
    prepared: PreparedRows | None = None,
    transformers: Hashable = None,
    *,
    keep: bool = False,
) -> Predicted:
    """Fit a model without a fold, and predict the fold by the method that the loss needs.

    With `prepared` rows only the last step of a pipeline is fitted, which predicts the prepared
    rows; `transformers` stands for the other steps, which all pipelines with this value have in
    common.
    """
    kept, evaluated = data.trains(fold), data.folds == fold
    y, weights = data.y_train[kept], data.training_weights
    if weights is not None and not kept.all():
        # Density ratios are relative; weights that rows were given are numbers of rows.
        weights = relative(weights[kept]) if data.sample_weight is None else weights[kept]

    def rows() -> tuple[Features, Features]:
        return (
            data.X_train if kept.all() else rows_of(data.X_train, kept),
            data.X_validation if evaluated.all() else rows_of(data.X_validation, evaluated),
        )

    if len(y) and (y == y[0]).all() and not kept.all():
        # The other sites show one label only, which is all that a model of them can know.
        fitted, X = DummyClassifier(strategy="most_frequent").fit(y[:1], y[:1]), rows()[1]
    # Not where transformers may read the weights.
    elif prepared is not None and (weights is None or not _requests_weights(model)):
        steps, model = model[:-1], model[-1]

        def prepare() -> tuple[Any, Any]:
            X_train, X = rows()
            return steps.fit_transform(X_train, y), steps.transform(X)

        X_train, X = prepared.get((transformers, fold), prepare)
        fitted = fit(model, X_train, y, weights)
    else:
        X_train, X = rows()
        fitted = fit(model, X_train, y, weights)
    values, classes = np.asarray(getattr(fitted, needs)(X)), getattr(fitted, "classes_", None)
    return Predicted(values, classes, len(y), fitted if keep else None)


class TrialLosses(NamedTuple):
    """Losses of a trial: k arrays of shape (n_j,), and the predictions that they are of.

    Predictions are None where they are neither values, classes nor probabilities.
    """

    by_source: list[NDArray[np.float64]]
    predictions: Predictions | None


def losses_of_fits(predicted: Mapping[int, Predicted], data: StudyData, loss: Loss) -> TrialLosses:
    """Put the predictions of all folds together; return the losses of every site."""
    y, classes = np.concatenate(data.y_validation), data.classes
    order = np.argsort(np.concatenate([np.flatnonzero(data.folds == f) for f in predicted]))
    if loss.needs == "predict_proba":
        spread = [_in_all_classes(fold, data, loss) for fold in predicted.values()]
        P = np.concatenate(spread)[order].astype(np.float32)
        return TrialLosses(data.losses(P, loss), P)
    columns = [fold.output for fold in predicted.values()]
    values = np.concatenate([c[:, 0] if c.shape[1:] == (1,) else c for c in columns])[order]
    return TrialLosses(data.by_site(loss(y, values)), _values_or_votes(values, classes))


def losses_of_rows(
    predictions: Predictions,
    y: NDArray[Any],
    loss: Loss,
    classes: NDArray[Any] | None,
) -> NDArray[np.float64]:
    """Return the loss of every row, shape (n,)."""
    if loss.needs == "predict" and classes is not None:  # shares of votes
        if predictions.ndim != 2:
            raise DataError(f"{loss.name}: votes have shape (n, C), got {predictions.shape}")
        predictions = classes[predictions.argmax(axis=1)]
    return loss(y, predictions, classes)


def _values_or_votes(values: Predictions, classes: NDArray[Any] | None) -> Predictions | None:
    """Return predicted values, or predicted classes as votes; None where they are neither."""
    if classes is None:
        return values.astype(np.float64) if values.dtype.kind in "biuf" else None
    places = pd.Index(classes).get_indexer(pd.Index(values))
    if (places < 0).any():  # scores, for a loss that reads them
        return None
    votes = np.zeros((len(values), len(classes)), dtype=np.float32)
    votes[np.arange(len(values)), places] = 1
    return votes


def _in_all_classes(fold: Predicted, data: StudyData, loss: Loss) -> NDArray[np.float64]:
    """Return probabilities of all classes, shape (n, C), from those of a model's own classes.

    A class that none of the m training rows has gets half a row's probability, 1 / (2 m + 1): it
    may be the label of a row of the fold, and a probability of 0 would have no logarithm.
    """
    classes, seen = data.classes, np.asarray(fold.classes)
    P = fold.output.astype(float)
    if P.ndim == 1 and len(seen) == 2:  # the probability of the second class
        P = np.column_stack([1 - P, P])
    assert classes is not None  # as losses of probabilities have them
    places = pd.Index(classes).get_indexer(pd.Index(seen))
    if P.shape[1:] != seen.shape or (places < 0).any():
        raise DataError(
            f"{loss.name}: the model has probabilities of shape {fold.output.shape} for the "
            f"classes {[str(c) for c in seen]}, and the labels are {[str(c) for c in classes]}"
        )
    missing = len(classes) - len(seen)
    if not missing:
        return P[:, np.argsort(places)]
    least = 0.5 / (fold.rows + 0.5 * missing)
    spread = np.full((len(P), len(classes)), least)
    spread[:, places] = P * (1 - missing * least)
    return spread


def fit(model: Any, X: Features, y: NDArray[Any], weights: NDArray[np.float64] | None) -> Any:
    """Fit a model, with sample weights where they are given, also inside pipelines.

    With scikit-learn's metadata routing, a model that requests `sample_weight` routes it; without
    a request it reaches the last step of a pipeline.
    """
    _interrupts.check()
    if weights is None:
        return model.fit(X, y)
    if _requests_weights(model):
        return model.fit(X, y, sample_weight=weights)
    with config_context(enable_metadata_routing=False):
        return model.fit(X, y, **{weight_argument(model): weights})


def _requests_weights(model: Any) -> bool:
    """Whether a model, or a part of it, requests `sample_weight` by metadata routing."""
    if not get_config()["enable_metadata_routing"]:
        return False
    return bool(get_routing_for_object(model).consumes("fit", ["sample_weight"]))


def weight_argument(model: Any) -> str:
    """Name the argument of `fit` through which sample weights reach the model."""
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


def relative(weights: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return weights with mean 1, so that penalties keep their meaning; None if all are 0."""
    return np.asarray(weights / weights.mean()) if weights.any() else None


def seeded(model: Any, random_state: int) -> Any:
    """Return a clone in which every seed that the user left open is set, so that fits repeat."""
    copy = clone(model)
    seeds = {
        name: random_state
        for name, value in copy.get_params().items()
        if value is None and name.split("__")[-1] == "random_state"
    }
    return copy.set_params(**seeds)


def losses_of(fitted: Any, X: Features, y: NDArray[Any], loss: Loss) -> NDArray[np.float64]:
    """Return the losses of a fitted model, shape (n,)."""
    predicted = np.asarray(getattr(fitted, loss.needs)(X))
    return loss(y, predicted, getattr(fitted, "classes_", None))


# ---------------------------------------------------------------- rows prepared once per study


class PreparedRows:
    """Prepared training and validation rows of every fit of a trial, kept for the next trial.

    What the transformers of a pipeline learn depends on the training rows alone. Trials that tune
    only the last step therefore train on the same prepared rows, to the last digit. `sharers` is
    the number of objects like this one, in all processes, among which `MOST_BYTES` is divided.
    """

    def __init__(self, sharers: int = 1) -> None:
        self._sharers = sharers
        self._kept: dict[Hashable, tuple[Any, ...]] = {}
        self._bytes = 0.0

    def get(self, key: Hashable, prepare: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return what `prepare` returned for this key, copied: a model may overwrite its input."""
        if key not in self._kept:
            rows = prepare()
            size = sum(map(_bytes_of, rows))
            if self._bytes + size > MOST_BYTES / self._sharers:
                return rows
            self._kept[key] = rows
            self._bytes += size
        return deepcopy(self._kept[key])

    def __reduce__(self) -> tuple[type[PreparedRows], tuple[int]]:
        # Every process prepares its own rows, which costs less than sending them.
        return PreparedRows, (self._sharers,)


def _bytes_of(rows: Any) -> float:
    if isinstance(rows, pd.DataFrame):
        return float(rows.memory_usage(deep=True).sum())
    if isinstance(rows, np.ndarray):
        return float(rows.nbytes)
    if hasattr(rows, "nnz"):  # sparse
        return 16.0 * int(rows.nnz)  # values and their places
    return math.inf  # lists, tables of other libraries: nobody knows, so they are not kept


def tunes_last_step(model: Any, params: Mapping[str, Any]) -> bool:
    """Whether a model is a pipeline, and these parameters are all of its last step."""
    # Subclasses may do more than transform rows: imbalanced-learn's resample them.
    if type(model) is not Pipeline or len(model.steps) < 2:
        return False
    last = f"{model.steps[-1][0]}__"
    return all(name.startswith(last) for name in params)


# ---------------------------------------------------------------- constants


def constant_predictions(data: StudyData, loss: Loss) -> Predictions:
    """Predict every evaluated row by the best constant of the rows that its model is trained on."""
    if data.sample_weight is None or data.training_weights is None:
        drawn = drawn_rows(len(data.y_train), _MOST_ROWS)
    else:  # in proportion to the weights
        shares = np.cumsum(data.training_weights) / data.training_weights.sum()
        drawn = np.searchsorted(shares, (np.arange(_MOST_ROWS) + 0.5) / _MOST_ROWS)
    best = []
    for fold in data.fold_numbers:
        kept = data.trains(fold)[drawn]
        y = data.y_train[drawn[kept]] if kept.any() else data.y_train[data.trains(fold)]
        best.append(best_constant(y, loss, data.classes))
    return np.asarray(best)[np.searchsorted(data.fold_numbers, data.folds)]


def best_constant(y: NDArray[Any], loss: Loss, classes: NDArray[Any] | None) -> NDArray[np.float64]:
    """Return the constant prediction of lowest mean loss: a value, or a number for every class.

    Quantities: the mean or a quantile. Probabilities: the classes' frequencies, with half a row
    added to each. Votes: the class of lowest loss.
    """
    if classes is not None and loss.needs == "predict_proba":
        counts = np.array([np.sum(y == value) for value in classes]) + 0.5
        return np.asarray(counts / counts.sum())
    if classes is None:
        values = y.astype(float)
        tried = np.append(values.mean(), np.quantile(values, _QUANTILES))
    else:
        tried = classes
    best = int(np.argmin([_mean_loss(loss, y, np.full(len(y), value)) for value in tried]))
    return np.asarray(tried[best] if classes is None else np.eye(len(classes))[best])


def _mean_loss(loss: Loss, y: NDArray[Any], predicted: NDArray[Any]) -> float:
    """Return the mean loss; infinity where a loss has no value there, such as log 0."""
    try:
        with np.errstate(all="ignore"):
            return float(loss(y, predicted).mean())
    except DataError:
        return np.inf
