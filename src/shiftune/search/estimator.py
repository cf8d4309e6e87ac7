"""What scikit-learn asks of a search as an estimator: tags, copies and pickles."""

from __future__ import annotations

import copy
from typing import Any, Self

from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags

from shiftune.search.families import given_models


class SearchEstimator(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A search as scikit-learn's functions see it."""

    estimator: Any

    def __sklearn_tags__(self) -> Any:
        """A search for a classifier is a classifier; with names the task is known after `fit`."""
        tags, models = super().__sklearn_tags__(), given_models(self.estimator)
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
        # A cluster and a storage cannot be copied, and need not be.
        shared = ("executor", "storage")
        params = {
            name: value if name in shared else clone(value, safe=False)
            for name, value in self.get_params(deep=False).items()
        }
        return type(self)(**params)

    def __getstate__(self) -> Any:
        # A fitted search that is loaded elsewhere does not need the place where its trials ran.
        return super().__getstate__() | {"executor": None}
