"""What predicts: a weighted mean of models as one estimator, and the model that reads tables."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from shiftune._names import Task
from shiftune._wording import listed
from shiftune.columns import Columns, Finding
from shiftune.columns._columns import NewRows
from shiftune.errors import DataError, DataWarning, SettingsError
from shiftune.evaluate._fits import fit
from shiftune.predictor._conformal import SiteScores, class_sets, interval_around
from shiftune.ratio._overlap import ColumnSummaries

Members = Sequence[tuple[str, Any]]


class _Ensemble(BaseEstimator):  # type: ignore[misc]
    """Members and weights; see `EnsembleRegressor` and `EnsembleClassifier`."""

    def __init__(self, members: Members, weights: Sequence[float]) -> None:
        self.members = members
        self.weights = weights

    def fit(self, X: Any, y: Any, sample_weight: NDArray[np.float64] | None = None) -> Self:
        """Fit a clone of every member on all rows."""
        self.members_ = [fit(clone(model), X, y, sample_weight) for _, model in self.members]
        return self

    def _mean(self, output: Callable[[Any], Any]) -> NDArray[np.float64]:
        """Return the weighted mean of what a function returns for the fitted members."""
        check_is_fitted(self)
        total: Any = 0.0
        for weight, model in zip(self.weights, self.members_, strict=True):
            total = total + weight * np.asarray(output(model))
        return np.asarray(total)


class EnsembleRegressor(RegressorMixin, _Ensemble):  # type: ignore[misc]
    """Weighted mean of the predictions of several regressors.

    Parameters
    ----------
    members : list of (name, estimator)
    weights : list of numbers that add up to 1

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> members = [(str(c), DummyRegressor(strategy="constant", constant=c)) for c in (1.0, 3.0)]
    >>> EnsembleRegressor(members, [0.75, 0.25]).fit([[0]], [0.0]).predict([[0]])
    array([1.5])
    """

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict values of shape (n,)."""
        return self._mean(lambda model: model.predict(X)).reshape(-1)


class EnsembleClassifier(ClassifierMixin, _Ensemble):  # type: ignore[misc]
    """Weighted mean of the probabilities of several classifiers, or their weighted vote.

    Parameters
    ----------
    members : list of (name, estimator)
    weights : list of numbers that add up to 1
    vote : bool
        Predict the class with most votes instead of the class of highest mean probability; the
        only choice where a member has no probabilities.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> members = [(c, DummyClassifier(strategy="constant", constant=c)) for c in ("no", "yes")]
    >>> ensemble = EnsembleClassifier(members, [0.25, 0.75]).fit([[0], [0]], ["no", "yes"])
    >>> ensemble.predict_proba([[0]]), ensemble.predict([[0]])
    (array([[0.25, 0.75]]), array(['yes'], dtype='<U3'))
    """

    def __init__(self, members: Members, weights: Sequence[float], vote: bool = False) -> None:
        super().__init__(members, weights)
        self.vote = vote

    def fit(self, X: Any, y: Any, sample_weight: NDArray[np.float64] | None = None) -> Self:
        """Fit a clone of every member on all rows."""
        self.classes_ = np.unique(y)
        return super().fit(X, y, sample_weight)

    @available_if(  # type: ignore[untyped-decorator]
        lambda self: all(hasattr(model, "predict_proba") for _, model in self.members)
    )
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict probabilities of shape (n, C), in the order of `classes_`."""
        return self._mean(lambda model: model.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict classes of shape (n,)."""
        if self.vote:
            shares = self._mean(lambda m: np.asarray(m.predict(X))[:, None] == self.classes_)
        else:
            shares = self.predict_proba(X)
        return np.asarray(self.classes_[np.argmax(shares, axis=1)])


def ensemble_of(
    models: Mapping[str, Any], weights: Sequence[float], task: Task, *, vote: bool = False
) -> Any:
    """Return the weighted mean of models by name, or the model itself if there is one."""
    if len(models) == 1:
        return next(iter(models.values()))
    members = list(models.items())
    if task == "regression":
        return EnsembleRegressor(members, weights)
    return EnsembleClassifier(members, weights, vote=vote)


@dataclass(frozen=True)
class TableModel:
    """A fitted predictor that reads tables as they come from files.

    `shiftune tune` stores it, and `shiftune.load_model` returns it. Columns can have any order;
    unknown ones are ignored. Dates and numbers may be written in another way
    than in training. Whatever cannot be read, or differs much from the training rows, is a
    `DataWarning`.

    Attributes
    ----------
    predictor : fitted estimator
        Reads the columns of the training table, as they were read there.
    columns : Columns
        How the columns of the training rows were written, and what they held.
    target : ColumnSummaries
        Of the rows that the model was tuned for.
    identifiers : list of str
        Columns that are copied to the predictions.
    label : str
        Name of what is predicted.
    scores : SiteScores
        At sites that the models had not seen.
    """

    predictor: Any
    columns: Columns
    target: ColumnSummaries
    identifiers: list[str]
    label: str
    scores: SiteScores = field(repr=False)

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes of the probabilities."""
        return np.asarray(self.predictor.classes_)

    def predict(self, table: pd.DataFrame) -> NDArray[Any]:
        """Predict values or classes, shape (n,)."""
        return prediction_of(self.predictor, self._read(table), "predict")

    @available_if(lambda self: hasattr(self.predictor, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, table: pd.DataFrame) -> NDArray[np.float64]:
        """Predict probabilities of shape (n, C), in the order of `classes_`."""
        return prediction_of(self.predictor, self._read(table), "predict_proba")

    def predict_interval(self, table: pd.DataFrame, level: float = 0.9) -> NDArray[np.float64]:
        """Predict intervals of values that hold at a new site, shape (n, 2); see `SiteScores`."""
        if hasattr(self, "predict_proba"):
            raise SettingsError("this model predicts classes; predict_set gives sets of them")
        return interval_around(self.predict(table), self.scores.quantile(level))

    def predict_set(self, table: pd.DataFrame, level: float = 0.9) -> NDArray[np.bool_]:
        """Predict sets of classes that hold at a new site, shape (n, C); see `SiteScores`."""
        if not hasattr(self, "predict_proba"):
            raise SettingsError("this model predicts values; predict_interval gives intervals")
        return class_sets(self.predict_proba(table), self.scores.quantile(level))

    def findings(self, table: pd.DataFrame) -> list[Finding]:
        """Return what cannot be read in a table, or differs much from the training rows."""
        return self._added(table).findings()

    def drift(self, table: pd.DataFrame) -> pd.Series:
        """Return the distance of every column from the rows that the model was tuned for.

        From 0 (alike) to 1, the farthest first; see `shiftune.ratio.column_shifts`.
        """
        rows = self._added(table)
        return self.target.distances(rows.read(table))

    def _added(self, table: pd.DataFrame) -> NewRows:
        if not isinstance(table, pd.DataFrame):
            raise DataError(
                f"the model reads a DataFrame with the columns {list(self.columns)}, got "
                f"{type(table).__name__}"
            )
        rows = NewRows(self.columns)
        rows.check_names(table.columns)
        return rows.add(table)

    def _read(self, table: pd.DataFrame) -> pd.DataFrame:
        rows = self._added(table)
        notes = [*rows.about_names(table.columns, self.identifiers), *map(str, rows.findings())]
        read = rows.read(table)
        if len(read):
            notes += self.about_drift(read)
        for note in notes:
            warnings.warn(note, DataWarning, stacklevel=3)
        return read

    def about_drift(self, read: pd.DataFrame, rows: int | None = None) -> list[str]:
        """Put drift in words, if there is any.

        `read` are new rows, or a random sample of this many `rows`, as `NewRows` reads them.
        """
        distances = self.target.distances(read)
        drifted = self.target.drifted(distances, len(read) if rows is None else rows)
        if drifted.empty:
            return []
        columns = [f"{name!r} ({distance:.2f})" for name, distance in drifted.items()]
        return [
            "the new rows differ from those that the model was tuned for, so the estimated error "
            "may not hold for them; distance of their distributions from 0 to 1: "
            f"{listed(columns, 5, quoted=False)}"
        ]


def prediction_of(predictor: Any, X: Any, method: str) -> NDArray[Any]:
    """Return predictions or probabilities, also for no rows, which scikit-learn refuses."""
    if np.shape(X)[:1] != (0,):
        return np.asarray(getattr(predictor, method)(X))
    classes = getattr(predictor, "classes_", np.empty(0))
    return np.empty((0, len(classes))) if method == "predict_proba" else np.asarray(classes[:0])


def prediction_columns(predictor: Any, X: pd.DataFrame, q: float | None = None) -> pd.DataFrame:
    """Return predictions, and probabilities of classes, as columns.

    With a quantile of `SiteScores` also low and high, or the set of classes.
    """
    if not hasattr(predictor, "predict_proba"):
        columns = {"prediction": prediction_of(predictor, X, "predict")}
        if q is not None:
            columns["low"], columns["high"] = interval_around(columns["prediction"], q).T
        return pd.DataFrame(columns)
    shares, classes = prediction_of(predictor, X, "predict_proba"), predictor.classes_
    if isinstance(predictor, EnsembleClassifier) and not predictor.vote:
        columns = {"prediction": classes[shares.argmax(axis=1)]}  # without asking the members again
    else:
        columns = {"prediction": prediction_of(predictor, X, "predict")}
    for label, share in zip(classes, shares.T, strict=True):
        columns[f"probability_{label}"] = share
    if q is not None:
        sets = [";".join(map(str, classes[inside])) for inside in class_sets(shares, q)]
        columns["set"] = np.array(sets, dtype=object)
    return pd.DataFrame(columns)
