"""Linear models with a squared penalty, on products of columns or on kernel features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

Array = NDArray[np.float64]

# Rows x features held at a time, 160 MB. A fit draws so many rows at random, which for a few
# hundred coefficients is as good as all; predictions are made in batches of so many.
MOST_CELLS = 20_000_000
# Limit of a standardised column in a kernel: x / sqrt(1 + (x / 3)^2) tends to 3.
_FARTHEST = 3.0
# Of the trace of Gram matrices, added to their diagonal: equal rows make them singular.
_JITTER = 1e-12
# A logistic fit ends where no coordinate, of curvature about 1, has a larger gradient of the mean
# loss; smaller ones change no loss of unseen rows in the third digit.
_OPTIONS: Any = {"gtol": 5e-4, "ftol": 0.0, "maxiter": 300, "maxcor": 20}


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
    def _linear(self, Z: Array, y: NDArray[Any], weights: Any) -> Any:
        """Return the linear model of features Z."""

    def _fit(self, X: Array, y: NDArray[Any], kept: NDArray[np.intp], weights: Any) -> None:
        transformer, features = self._features(*X.shape)
        self.batch_ = max(1, MOST_CELLS // features)
        if len(X) > self.batch_:
            drawn = np.random.default_rng(0).choice(len(X), self.batch_, replace=False)
            rows = np.union1d(drawn, kept)
            X, y = X[rows], y[rows]
            weights = None if weights is None else np.asarray(weights)[rows]
        Z = transformer.fit_transform(self._limited(X))
        if isinstance(transformer, KernelValues):
            # Nystroem's features K(X, C) L^-T, with K(C, C) = L L'; the model keeps K(X, C).
            root = _root(transformer.transform(transformer.centres_), _JITTER * features)
            linear = self._linear(solve_triangular(root, Z.T, lower=True).T, y, weights)
            linear.coef_ = solve_triangular(root, linear.coef_.T, lower=True, trans="T").T
        else:
            linear = self._linear(Z, y, weights)
        self.model_ = Pipeline([("features", transformer), ("linear", linear)])

    def _batches(self, X: Any) -> Iterator[Array]:
        check_is_fitted(self, "model_")
        X = validate_data(self, X, reset=False)
        for start in range(0, len(X), self.batch_):
            yield self._limited(X[start : start + self.batch_])


def _root(gram: Array, added: float) -> Array:
    """Return the lower triangular L of gram + added I = LL'; overwrites `gram`."""
    gram[np.diag_indices_from(gram)] += added
    return np.asarray(cholesky(gram, lower=True, overwrite_a=True, check_finite=False))


def _logistic(Z: Array, y: NDArray[Any], alpha: float, weights: Any) -> LogisticRegression:
    r"""Fit scikit-learn's logistic regression with ``C = 1 / alpha``, in coordinates that suit it.

    The loss of coefficients B, shape (m, K), has about the curvature :math:`LL' = c Z'Z + \alpha I`
    everywhere, with c that of the frequencies of the classes. L-BFGS in the coordinates L'B needs 3
    to 40 iterations where B needs 10 to 300 (`benchmarks/results/penalised.md`).
    """
    classes, codes = np.unique(y, return_inverse=True)
    w = np.ones(len(Z)) if weights is None else np.asarray(weights, dtype=float)
    total = w.sum()
    if not total or len(classes) < 2:
        return LogisticRegression().fit(Z, y, weights)  # raises scikit-learn's own error
    Y = np.eye(len(classes))[codes] if len(classes) > 2 else codes[:, None].astype(float)
    share = (w @ Y + 0.5) / (total + 0.5 * len(classes))
    mean, basis = w @ Z / total, None
    Z = Z - mean
    if Z.shape[1] > len(Z):  # as many coordinates as rows: Z'v instead of B
        basis, Z = Z, _root(Z @ Z.T, _JITTER * np.square(Z).sum())
    curvature = float(np.mean(share * (1 - share)))
    weighted = np.sqrt(curvature * w)[:, None] * Z
    root = _root(weighted.T @ weighted, alpha) / np.sqrt(total)
    scale = np.sqrt(curvature)
    start = np.log(share) if len(classes) > 2 else np.log(share / (1 - share))

    def coefficients(flat: Array) -> tuple[Array, Array]:
        own = flat.reshape(-1, Y.shape[1])
        return solve_triangular(root, own[:-1], lower=True, trans="T"), start + own[-1] / scale

    def mean_loss(flat: Array) -> tuple[float, Array]:
        B, b = coefficients(flat)
        scores = Z @ B + b
        if len(classes) > 2:
            norm = logsumexp(scores, axis=1, keepdims=True)
            P = np.exp(scores - norm)
        else:
            norm, P = np.logaddexp(0.0, scores), expit(scores)
        loss = w @ (norm - (scores * Y).sum(axis=1, keepdims=True))
        slopes = (P - Y) * w[:, None]
        slope = solve_triangular(root, Z.T @ slopes + alpha * B, lower=True)
        gradient = np.vstack([slope, slopes.sum(axis=0) / scale])
        return (float(loss[0]) + alpha / 2 * np.square(B).sum()) / total, gradient.ravel() / total

    begin = np.zeros((Z.shape[1] + 1) * Y.shape[1])
    found = minimize(mean_loss, begin, method="L-BFGS-B", jac=True, options=_OPTIONS)
    B, b = coefficients(found.x)
    if basis is not None:
        B = basis.T @ solve_triangular(Z, B, lower=True, trans="T")
    model = LogisticRegression(C=1 / alpha)
    model.classes_, model.coef_, model.intercept_ = classes, B.T, b - mean @ B
    return model


class _PenalisedRegressor(RegressorMixin, _Penalised):  # type: ignore[misc]
    def _linear(self, Z: Array, y: NDArray[Any], weights: Any) -> Ridge:
        return Ridge(self.alpha).fit(Z, y, weights)

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
    def _linear(self, Z: Array, y: NDArray[Any], weights: Any) -> LogisticRegression:
        return _logistic(Z, y, self.alpha, weights)

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


class KernelValues(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scikit-learn transformer to the kernel between rows and some of the training rows."""

    def __init__(self, gamma: float, n_components: int, random_state: int | None = None) -> None:
        self.gamma = gamma
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Array, y: Any = None) -> Self:
        """Draw rows as centres."""
        drawn = check_random_state(self.random_state).permutation(len(X))
        self.centres_ = X[drawn[: self.n_components]]
        return self

    def transform(self, X: Array) -> Array:
        """Return the kernel, shape (n, n_components)."""
        return np.asarray(rbf_kernel(X, self.centres_, self.gamma))


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
        return KernelValues(self.gamma / columns, components, self.random_state), components

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
