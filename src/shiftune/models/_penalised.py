"""Linear models with a squared penalty, on products of columns or on kernel features."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

Array = NDArray[np.float64]

# Rows x features held at a time, 160 MB. A fit draws so many rows at random, which for a few
# hundred coefficients is as good as all; predictions are made in batches of so many.
MOST_CELLS = 20_000_000
# Limit of a standardised column in a kernel: x / sqrt(1 + (x / 3)^2) tends to 3.
_FARTHEST = 3.0
# Weak penalties need more, and gain nothing by them.
_MOST_ITERATIONS = 300


class _Penalised(BaseEstimator):  # type: ignore[misc]
    """Features of standardised columns, and a linear model of them."""

    alpha: float

    @abstractmethod
    def _features(self, rows: int, columns: int) -> tuple[Any, int]:
        """Return the transformer, and an upper bound on the number of its features."""

    def _limited(self, X: Array) -> Array:
        """Return columns whose extreme values are limited, where the features need it."""
        return X

    @abstractmethod
    def _linear(self) -> Any:
        """Return the linear model."""

    def _fit(self, X: Array, y: NDArray[Any], kept: NDArray[np.intp], weights: Any) -> None:
        transformer, features = self._features(*X.shape)
        self.batch_ = max(1, MOST_CELLS // features)
        if len(X) > self.batch_:
            drawn = np.random.default_rng(0).choice(len(X), self.batch_, replace=False)
            rows = np.union1d(drawn, kept)
            X, y = X[rows], y[rows]
            weights = None if weights is None else np.asarray(weights)[rows]
        self.model_ = Pipeline([("features", transformer), ("linear", self._linear())])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            features = self.model_[:-1].fit_transform(self._limited(X))
            self.model_[-1].fit(features, y, sample_weight=weights)

    def _batches(self, X: Any) -> Iterator[Array]:
        check_is_fitted(self, "model_")
        X = validate_data(self, X, reset=False)
        for start in range(0, len(X), self.batch_):
            yield self._limited(X[start : start + self.batch_])


class _PenalisedRegressor(RegressorMixin, _Penalised):  # type: ignore[misc]
    def _linear(self) -> Ridge:
        return Ridge(self.alpha)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit features and coefficients."""
        X, y = validate_data(self, X, y, y_numeric=True)
        self.low_, self.high_ = float(np.min(y)), float(np.max(y))
        self._fit(X, y, np.empty(0, np.intp), sample_weight)
        return self

    def predict(self, X: Any) -> Array:
        """Predict values within the range of the labels, as trees do."""
        found = np.concatenate([self.model_.predict(rows) for rows in self._batches(X)])
        return np.asarray(np.clip(found, self.low_, self.high_))


class _PenalisedClassifier(ClassifierMixin, _Penalised):  # type: ignore[misc]
    def _linear(self) -> LogisticRegression:
        return LogisticRegression(C=1 / self.alpha, max_iter=_MOST_ITERATIONS)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit features and coefficients."""
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        self.classes_, first = np.unique(y, return_index=True)
        self._fit(X, y, first, sample_weight)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Predict probabilities of shape (n, C), in the order of `classes_`."""
        return np.concatenate([self.model_.predict_proba(rows) for rows in self._batches(X)])

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict classes."""
        likeliest = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[likeliest])


class _Products:
    def __init__(self, alpha: float = 10.0, *, degree: int = 1) -> None:
        self.alpha = alpha
        self.degree = degree

    def _features(self, rows: int, columns: int) -> tuple[Any, int]:
        steps = [
            ("products", PolynomialFeatures(self.degree, include_bias=False)),
            ("limit", MinMaxScaler(clip=True)),
            ("scale", StandardScaler()),
        ]
        return Pipeline(steps), columns if self.degree == 1 else columns * (columns + 3) // 2


class ProductsRegressor(_Products, _PenalisedRegressor):
    """Ridge regression on columns and, with ``degree=2``, their squares and products.

    Values beyond those of the training rows count as the nearest of these: a target whose values
    lie outside gets no extrapolated effects (`benchmarks/arena/limits.py`).

    Parameters
    ----------
    alpha : float
        Penalty on the coefficients of standardised features.
    degree : 1 or 2

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> round(ProductsRegressor(0.1, degree=2).fit(X, X[:, 0] * X[:, 1]).score(X, X.prod(1)), 3)
    1.0
    """


class ProductsClassifier(_Products, _PenalisedClassifier):
    """Logistic regression on columns and, with ``degree=2``, their squares and products.

    Parameters as of `ProductsRegressor`; ``1 / alpha`` is scikit-learn's ``C``.
    """


class _Kernel:
    def __init__(
        self,
        gamma: float = 0.3,
        alpha: float = 0.1,
        *,
        n_components: int = 300,
        random_state: int | None = None,
    ) -> None:
        self.gamma = gamma
        self.alpha = alpha
        self.n_components = n_components
        self.random_state = random_state

    def _features(self, rows: int, columns: int) -> tuple[Any, int]:
        components = min(self.n_components, rows)
        kernel = Nystroem(
            gamma=self.gamma / columns, n_components=components, random_state=self.random_state
        )
        return kernel, components

    def _limited(self, X: Array) -> Array:
        return np.asarray(X / np.sqrt(1 + (X / _FARTHEST) ** 2))


class KernelRegressor(_Kernel, _PenalisedRegressor):
    r"""Ridge regression with the kernel :math:`\exp(-\gamma |x - z|^2 / d)` on d columns.

    The kernel is approximated by `n_components` features (Nystroem), so that the cost grows with
    the rows and not with their square. Columns have mean 0 and standard deviation 1; values
    beyond 3 are drawn in smoothly, since one column with outliers would decide all distances.

    Parameters
    ----------
    gamma : float
        Inverse squared width; 1 is the mean squared distance of standardised columns, halved.
    alpha : float
        Penalty on the coefficients.
    n_components : int
        Number of features; at most one per row.
    random_state : int or None
        Of the rows that the features are made of.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 1))
    >>> KernelRegressor(random_state=0).fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.95
    True
    """


class KernelClassifier(_Kernel, _PenalisedClassifier):
    """Logistic regression with the kernel of `KernelRegressor`, and its parameters.

    ``1 / alpha`` is scikit-learn's ``C``.
    """
