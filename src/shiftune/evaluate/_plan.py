"""Plans of fits: the models of a trial, and the losses of every source's validation rows.

The data of a study, plans, how a model is fitted, how its predictions are judged, rows that are
prepared once for all trials, and the constants that a model must beat.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

from shiftune import _interrupts
from shiftune.errors import DataError, SettingsError
from shiftune.evaluate._answers import Answers, Predictions, answers_of, in_all_classes
from shiftune.evaluate._losses import Loss
from shiftune.problem._site import Features, rows_of
from shiftune.rows._encoding import drawn_rows
from shiftune.rows._moments import coefficients, linearised

# Bytes that the prepared rows of a study may take in all worker processes of a machine together;
# the rows of further fits are prepared anew in every trial. 100,000 rows in 115 columns, for five
# fits, take 300 MB. A Dask cluster, whose workers may be on other machines, counts as one.
MOST_BYTES = 512 * 2**20
# Constants that are tried for quantities: the mean, and these quantiles.
_QUANTILES = np.linspace(0.025, 0.975, 39)
# Training rows that a constant is learned from.
_MOST_ROWS = 20_000


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
        (`shiftune.rows.Moments`).
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
        return all(own.min() >= -1e-9 * np.abs(own).max() for own in plain)  # rounding


# ---------------------------------------------------------------- plans


@dataclass(frozen=True, slots=True)
class TrialLosses:
    """Losses of a trial's models.

    Attributes
    ----------
    by_source : k arrays of shape (n_j,)
        The losses from which the target risk is estimated.
    naive : float
        Mean loss of the trial's first model over the validation rows of the sites it has seen.
    answers : Answers or None
        Predictions on the same rows, end to end; None for a plan that keeps none.
    """

    by_source: list[NDArray[np.float64]]
    naive: float
    answers: Answers | None = None


class FitPlan(Protocol):
    """Plan of a trial: the models it fits, and the rows on which their losses are computed.

    Another plan is another class with this method; nothing else of the search changes. Where the
    fits of a plan are independent of each other, workers can share those of one trial, and trials
    share rows that are prepared once: see `IndependentFits`.
    """

    def losses(self, model: Any, data: StudyData, loss: Loss) -> TrialLosses:
        """Fit `model` (this trial's own), or clones of it; return every source's losses."""


class Predicted(NamedTuple):
    """Predictions of one model on validation rows, and the classes of their columns, if any."""

    values: NDArray[Any]
    classes: NDArray[Any] | None


class Fit(NamedTuple):
    """One model of a trial: what it is trained without, and where it is judged.

    Attributes
    ----------
    left_out : names
        Sources whose training rows it does not get.
    judged_at : names, or None for all
        Sources whose validation rows it predicts.
    """

    left_out: tuple[str, ...] = ()
    judged_at: tuple[str, ...] | None = None

    def fit_predict(
        self,
        model: Any,
        data: StudyData,
        needs: str,
        prepared: PreparedRows | None = None,
        transformers: Hashable = None,
    ) -> Predicted:
        """Fit a model, and predict by the method that the loss needs.

        With `prepared` rows only the last step of a pipeline is fitted; `transformers` stands for
        the other steps, which all pipelines with this value have in common.
        """
        X_train, y, weights = data.X_train, data.y_train, data.training_weights
        X = data.X_validation
        if self.left_out:
            kept = ~np.isin(data.train_sites, self.left_out)
            X_train, y = rows_of(X_train, kept), y[kept]
            if weights is not None:
                # Density ratios are relative; weights that rows were given are numbers of rows.
                weights = relative(weights[kept]) if data.sample_weight is None else weights[kept]
        if self.judged_at is not None:
            X = rows_of(X, data.validation_rows(self.judged_at))
        # Not where transformers may read the weights.
        if prepared is not None and (weights is None or not _requests_weights(model)):
            steps, model = model[:-1], model[-1]
            X_train, X = prepared.get(
                (transformers, self), lambda: (steps.fit_transform(X_train, y), steps.transform(X))
            )
        fitted = fit(model, X_train, y, weights)
        return Predicted(np.asarray(getattr(fitted, needs)(X)), getattr(fitted, "classes_", None))


class IndependentFits(ABC):
    """Plan whose models do not depend on each other.

    Several workers can fit the models of one trial. The first one is fitted before the others,
    unless workers are idle: if it fails, they are not needed.
    """

    @abstractmethod
    def fits(self, data: StudyData) -> list[Fit]:
        """Return the fits of every trial, all different; the first is of all sources, at all."""

    @abstractmethod
    def combined(
        self, predicted: Mapping[Fit, Predicted], data: StudyData, loss: Loss
    ) -> TrialLosses:
        """Return every source's losses from the predictions of all fits."""

    def losses(self, model: Any, data: StudyData, loss: Loss) -> TrialLosses:
        """Return the losses of all fits, made one after the other."""
        predicted = {
            each: each.fit_predict(clone(model), data, loss.needs) for each in self.fits(data)
        }
        return self.combined(predicted, data, loss)


def independent_fits(plan: FitPlan, data: StudyData) -> list[Fit]:
    """Return the fits of a plan if they are independent; none if a trial cannot be divided."""
    if isinstance(plan, IndependentFits) and type(plan).losses is IndependentFits.losses:
        return plan.fits(data)
    return []


class PooledFit(IndependentFits):
    """One model on the training rows of all sources, evaluated on all validation rows."""

    def __repr__(self) -> str:
        return "PooledFit()"

    def fits(self, data: StudyData) -> list[Fit]:
        """Return the one fit."""
        return [Fit()]

    def combined(
        self, predicted: Mapping[Fit, Predicted], data: StudyData, loss: Loss
    ) -> TrialLosses:
        """Return the losses of the one model."""
        losses, own = _judge(predicted[Fit()], data, loss)
        by_site = data.by_site(losses)
        answers = None if own is None else Answers(own, own)
        return TrialLosses(by_site, float(np.concatenate(by_site).mean()), answers)


class LeaveSourcesOut(IndependentFits):
    r"""Evaluate a trial half on known and half on unseen sites.

    A model trained on all sources has seen other rows of every site on which it is evaluated;
    at the target it has seen none. So the sources are assigned to a few groups, a further model is
    trained without each group, and a row's loss is

    .. math:: L_i = (1 - u)\, \ell(h(x_i), y_i) + u\, \ell(h_{-g(i)}(x_i), y_i) .

    The first part has less noise (each model of the second has fewer sources), the second measures
    what matters; u = 1/2 chose better than either in `benchmarks/arena`.

    Parameters
    ----------
    extra_fits : int
        Groups, hence further fits of every trial; at most one per source. Rows of a class that
        only their own group has keep the loss of the model that knows it.
    unseen : float
        u, from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> LeaveSourcesOut(2).groups(np.array(["B"] * 5 + ["C"] * 3 + ["D"] * 3))
    [('B',), ('C', 'D')]
    """

    def __init__(self, extra_fits: int = 4, unseen: float = 0.5) -> None:
        if not isinstance(extra_fits, int | np.integer) or extra_fits < 2:
            raise SettingsError(
                "extra_fits must be a whole number >= 2 (without its only group no source is "
                f"left), got {extra_fits!r}"
            )
        if not 0 <= unseen <= 1:
            raise SettingsError(f"unseen must lie between 0 and 1, got {unseen!r}")
        self.extra_fits = int(extra_fits)
        self.unseen = unseen

    def __repr__(self) -> str:
        return f"LeaveSourcesOut(extra_fits={self.extra_fits}, unseen={self.unseen:g})"

    def groups(self, train_sites: NDArray[np.str_]) -> list[tuple[str, ...]]:
        """Assign the sites, the largest first, to groups of about equally many training rows."""
        names, rows = np.unique(train_sites, return_counts=True)
        groups: list[list[str]] = [[] for _ in range(min(self.extra_fits, len(names)))]
        if len(groups) < 2:
            return []
        sizes = np.zeros(len(groups))
        for j in np.argsort(-rows, kind="stable"):
            smallest = int(np.argmin(sizes))
            groups[smallest].append(str(names[j]))
            sizes[smallest] += rows[j]
        return [tuple(group) for group in groups]

    def fits(self, data: StudyData) -> list[Fit]:
        """Return the fit of all sources, and one without each group."""
        fits = [Fit()]
        for group in self.groups(data.source_rows) if self.unseen > 0 else []:
            names = tuple(name for name in data.names if name in group)
            labels = data.y_train[~np.isin(data.train_sites, group)]
            # A model needs at least two different labels to learn from.
            if names and len(labels) and (labels != labels[0]).any():
                fits.append(Fit(group, names))
        return fits

    def combined(
        self, predicted: Mapping[Fit, Predicted], data: StudyData, loss: Loss
    ) -> TrialLosses:
        """Return the mixed losses."""
        known = _judge(predicted[Fit()], data, loss)
        losses, unseen = known.losses.copy(), known.answers
        if unseen is not None and len(predicted) > 1:
            unseen = unseen.copy()
        for fit, values in predicted.items():
            if fit.judged_at is None:
                continue
            rows = data.validation_rows(fit.judged_at)
            held_out = _judge(values, data, loss, rows, known)
            losses[rows] = (1 - self.unseen) * losses[rows] + self.unseen * held_out.losses
            if unseen is None or held_out.answers is None:
                unseen = None
            else:
                unseen[rows] = held_out.answers
        answers = None
        if known.answers is not None and unseen is not None:
            answers = Answers(known.answers, unseen, self.unseen)
        naive = float(np.concatenate(data.by_site(known.losses)).mean())
        return TrialLosses(data.by_site(losses), naive, answers)


# ---------------------------------------------------------------- one fit


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


# ---------------------------------------------------------------- losses and answers of one fit


class _Evaluated(NamedTuple):
    """Losses of one model, shape (n,), and its answers to the same rows, if they can be kept."""

    losses: NDArray[np.float64]
    answers: Predictions | None


def _judge(
    predicted: Predicted,
    data: StudyData,
    loss: Loss,
    rows: NDArray[np.bool_] | None = None,
    known: _Evaluated | None = None,
) -> _Evaluated:
    """Return losses and answers of predictions of all validation rows, or of some of them.

    Of `rows`, those of a class that the model has never seen get what `known`, a model of all
    sources, has for them; without it they are an error.
    """
    (values, columns), classes = predicted, data.classes
    y, sites = np.concatenate(data.y_validation), data.validation_sites
    if rows is not None:
        y, sites = y[rows], sites[rows]
    if loss.needs != "predict_proba":
        return _Evaluated(loss(y, values, None, sites), answers_of(values, classes))
    own = columns = np.asarray(columns)
    seen = np.isin(y, own)
    answers = None
    if classes is not None and (P := in_all_classes(values, own, classes)) is not None:
        answers = P.astype(np.float32)
        if len(own) < len(classes) and (known is not None or seen.all()):
            # Brier's loss depends on the number of classes, so it must be that of the problem.
            values, columns = P, classes
    if known is None:
        return _Evaluated(loss(y, values, columns, sites), answers)
    if answers is not None and known.answers is not None:
        answers[~seen] = known.answers[rows][~seen]
        if loss.within_site:  # compares rows of all classes
            return _Evaluated(loss(y, answers, classes, sites), answers)
    losses = known.losses[rows]
    losses[seen] = loss(y[seen], values[seen], columns)
    return _Evaluated(losses, answers)


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


def constant_answers(data: StudyData, loss: Loss, *, known: bool = False) -> Predictions:
    """Answer every validation row by a constant, learned from training rows of other sites.

    With `known` rows, and for a single source, those of the row's own site count as well.
    """
    if data.sample_weight is None or data.training_weights is None:
        drawn = drawn_rows(len(data.y_train), _MOST_ROWS)
    else:  # in proportion to the weights
        shares = np.cumsum(data.training_weights) / data.training_weights.sum()
        drawn = np.searchsorted(shares, (np.arange(_MOST_ROWS) + 0.5) / _MOST_ROWS)
    labels, sites = data.y_train[drawn], data.train_sites[drawn]
    parts = []
    for name, own in zip(data.names, data.y_validation, strict=True):
        others = sites != name
        y = labels if known or not others.any() else labels[others]
        answer = best_constant(y, loss, data.classes)
        parts.append(np.broadcast_to(answer, (len(own), *np.shape(answer))))
    return np.concatenate(parts)


def best_constant(y: NDArray[Any], loss: Loss, classes: NDArray[Any] | None) -> NDArray[np.float64]:
    """Return the constant answer of lowest mean loss: a value, or a number for every class.

    Quantities: the mean or a quantile. Probabilities: the classes' frequencies, with half a row
    added to each. Votes: the class of lowest loss.
    """
    if classes is not None and loss.needs == "predict_proba":
        counts = np.array([np.sum(y == each) for each in classes]) + 0.5
        return np.asarray(counts / counts.sum())
    if classes is None:
        values = y.astype(float)
        tried = np.append(values.mean(), np.quantile(values, _QUANTILES))
    else:
        tried = classes
    best = int(np.argmin([_mean_loss(loss, y, np.full(len(y), each)) for each in tried]))
    return np.asarray(tried[best] if classes is None else np.eye(len(classes))[best])


def _mean_loss(loss: Loss, y: NDArray[Any], answers: NDArray[Any]) -> float:
    """Return the mean loss; infinity where a loss has no value at this answer, such as log 0."""
    try:
        with np.errstate(all="ignore"):
            return float(loss(y, answers).mean())
    except DataError:
        return np.inf
