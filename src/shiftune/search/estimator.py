"""What scikit-learn and its users ask of a search: tags, copies and pickles, scores, names."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags

from shiftune.evaluate.fitting import losses_of
from shiftune.problem import ShiftProblem
from shiftune.problem.columns import as_pandas, rows_like
from shiftune.problem.labels import as_labels
from shiftune.search.cv_results import cv_results
from shiftune.search.families import given_models
from shiftune.search.result import SearchResult


class SearchEstimator(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A search as scikit-learn's functions see it."""

    estimator: Any
    predictor_: Any
    problem_: ShiftProblem
    result_: SearchResult

    @property
    def best_score_(self) -> float:
        """Negated estimate of the risk of `predictor_` at the target."""
        return -self.result_.risk.value

    @property
    def cv_results_(self) -> dict[str, Any]:
        """Trials as a dict of arrays; see `shiftune.search.cv_results`."""
        return cv_results(self.result_)

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

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Negated mean loss of `predictor_` on labelled rows: the scale of `best_score_`."""
        labels = as_labels(as_pandas(y), "X")
        rows = rows_like(X, self.problem_.target.X)
        losses = losses_of(self.predictor_, rows, labels, self.result_.loss)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        return -float(np.average(losses, weights=weights))

    def _forget(self) -> None:
        """Delete the results of an earlier fit: a fit that is interrupted must not show them."""
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
            delattr(self, name)

    def __sklearn_tags__(self) -> Any:
        """A search for a classifier is a classifier; with names the task is known after `fit`."""
        tags, models = super().__sklearn_tags__(), given_models(self.estimator)
        tags.input_tags.sparse = True  # read as arrays
        if hasattr(self, "predictor_"):
            models = [self.predictor_]
        if not models:
            return tags
        inner = get_tags(models[0])
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = copy.deepcopy(inner.classifier_tags)
        tags.regressor_tags = copy.deepcopy(inner.regressor_tags)
        return tags

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
