"""Linear models with a squared penalty, on products of columns or on kernel features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpstrf
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
# Centres whose kernel is a combination of others', up to this squared norm, are left out.
_REDUNDANT = 1e-6
# Of the trace of Gram matrices, added to their diagonal: columns may depend on each other.
_JITTER = 1e-13
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
    def _solve(self, Z: Array, y: NDArray[Any], w: Array, penalty: Array) -> tuple[Any, Array, Any]:
        """Return scikit-learn's model, coefficients of the centred features Z, and intercepts."""

    def _fit(self, X: Array, y: NDArray[Any], kept: NDArray[np.intp], weights: Any) -> None:
        transformer, features = self._features(*X.shape)
        w = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
        if not w.any():
            raise ValueError("the weights of all rows are zero")
        self.batch_ = max(1, MOST_CELLS // features)
        if len(X) > self.batch_:
            drawn = np.random.default_rng(0).choice(len(X), self.batch_, replace=False)
            rows = np.union1d(drawn, kept)
            X, y, w = X[rows], y[rows], w[rows]
        Z = transformer.fit_transform(self._limited(X))
        # Nystroem: the penalty on coefficients B of K(X, C) is that of B' K(C, C) B.
        kernel = isinstance(transformer, KernelValues)
        penalty = transformer.transform(transformer.centres_) if kernel else np.eye(Z.shape[1])
        mean = w @ Z / w.sum()
        Z = Z - mean
        if Z.shape[1] > len(Z):  # as many coordinates as rows: Z'v instead of B
            root = _root(Z.T, 1.0, 0.0)
            model, V, b = self._solve(root, y, w, np.eye(len(Z)))
            B = Z.T @ solve_triangular(root, V, lower=True, trans="T")
        else:
            model, B, b = self._solve(Z, y, w, penalty)
        model.coef_, model.intercept_ = B.T, b - mean @ B
        self.model_ = Pipeline([("features", transformer), ("linear", model)])

    def _batches(self, X: Any) -> Iterator[Array]:
        check_is_fitted(self, "model_")
        X = validate_data(self, X, reset=False)
        for start in range(0, len(X), self.batch_):
            yield self._limited(X[start : start + self.batch_])


def _root(Z: Array, w: Array | float, penalty: Array | float) -> Array:
    """Return the lower triangular L of Z'WZ + penalty = LL', nearly; W has the weights w."""
    weighted = Z if np.all(w == 1) else np.sqrt(w)[:, None] * Z
    gram = weighted.T @ weighted
    added = _JITTER * (np.trace(gram) or 1.0)
    gram += penalty
    gram[np.diag_indices_from(gram)] += added
    return np.asarray(cholesky(gram, lower=True, overwrite_a=True, check_finite=False))


def _logistic(Z: Array, Y: Array, w: Array, penalty: Array) -> tuple[Array, Array]:
    r"""Minimise the logistic loss of centred features plus B' penalty B / 2, over B and intercepts.

    Y is 1 for the class of a row, shape (n, K), or (n, 1) for two classes. The loss of coefficients
    B has about the curvature :math:`LL' = c Z'Z + P` everywhere, with P the penalty and c the
    curvature at the frequencies of the classes. L-BFGS in the coordinates U = L'B needs 3 to 40
    iterations where B needs 10 to 300 (`benchmarks/results/penalised.md`), and the penalty is
    :math:`|U|^2 - c |Z B|^2`.
    """
    several, total = Y.shape[1] > 1, w.sum()
    share = (w @ Y + 0.5) / (total + (0.5 * Y.shape[1] if several else 1.0))
    start = np.log(share) if several else np.log(share / (1 - share))
    curvature = float(np.mean(share * (1 - share)))
    root = _root(Z, w, penalty / curvature) * np.sqrt(curvature / total)
    scale, w = np.sqrt(curvature), w / total

    def mean_loss(flat: Array) -> tuple[float, Array]:
        U, b = np.split(flat.reshape(-1, Y.shape[1]), [-1])
        ZB = Z @ solve_triangular(root, U, lower=True, trans="T", check_finite=False)
        scores = ZB + start + b / scale
        if several:
            norm = logsumexp(scores, axis=1, keepdims=True)
            P = np.exp(scores - norm)
        else:
            norm, P = np.logaddexp(0.0, scores), expit(scores)
        losses = norm - (scores * Y).sum(axis=1, keepdims=True)
        losses -= curvature / 2 * np.square(ZB).sum(axis=1, keepdims=True)
        slopes = (P - Y) * w[:, None]
        slope = Z.T @ (slopes - curvature * w[:, None] * ZB)
        slope = U + solve_triangular(root, slope, lower=True, check_finite=False)
        gradient = np.vstack([slope, slopes.sum(axis=0) / scale])
        return float((w @ losses)[0]) + np.square(U).sum() / 2, gradient.ravel()

    begin = np.zeros((Z.shape[1] + 1) * Y.shape[1])
    optimum = minimize(mean_loss, begin, method="L-BFGS-B", jac=True, options=_OPTIONS)
    U, b = np.split(optimum.x.reshape(-1, Y.shape[1]), [-1])
    return solve_triangular(root, U, lower=True, trans="T"), start + b[0] / scale


class _PenalisedRegressor(RegressorMixin, _Penalised):  # type: ignore[misc]
    def _solve(
        self, Z: Array, y: NDArray[Any], w: Array, penalty: Array
    ) -> tuple[Ridge, Array, float]:
        root, level = _root(Z, w, self.alpha * penalty), float(w @ y / w.sum())
        B = solve_triangular(root, Z.T @ (w * (y - level)), lower=True)
        return Ridge(self.alpha), solve_triangular(root, B, lower=True, trans="T"), level

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit features and coefficients."""
        X, y = validate_data(self, X, y, y_numeric=True)
        self.low_, self.high_ = float(np.min(y)), float(np.max(y))
        self._fit(X, y, np.empty(0, np.intp), sample_weight)
        return self

    def predict(self, X: Any) -> Array:
        """Predict values within the range of the labels, as trees do."""
        values = np.concatenate([self.model_.predict(rows) for rows in self._batches(X)])
        return np.asarray(np.clip(values, self.low_, self.high_))


class _PenalisedClassifier(ClassifierMixin, _Penalised):  # type: ignore[misc]
    def _solve(
        self, Z: Array, y: NDArray[Any], w: Array, penalty: Array
    ) -> tuple[LogisticRegression, Array, Array]:
        if len(self.classes_) < 2:
            raise ValueError("a classifier needs rows of two classes, and all have one class")
        Y = (y[:, None] == self.classes_).astype(float)
        model = LogisticRegression(C=1 / self.alpha)
        model.classes_ = self.classes_
        return model, *_logistic(
            Z, Y if len(self.classes_) > 2 else Y[:, 1:], w, self.alpha * penalty
        )

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

    `alpha` is the penalty on the coefficients of standardised features.

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
        """Draw rows as centres, and leave out what the others can replace."""
        drawn = check_random_state(self.random_state).permutation(len(X))[: self.n_components]
        gram = rbf_kernel(X[drawn], gamma=self.gamma)
        _, order, rank, _ = dpstrf(gram, tol=_REDUNDANT, lower=1)  # a pivoted Cholesky root
        self.centres_ = X[drawn[order[:rank] - 1]]
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

    `gamma` is the inverse squared width (1: the mean squared distance of standardised columns,
    halved), `alpha` the penalty on the coefficients. At most one feature is made per row.

    >>> X = np.random.default_rng(0).normal(size=(200, 1))
    >>> KernelRegressor(random_state=0).fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.95
    True
    """


class KernelClassifier(_Kernel, _PenalisedClassifier):
    """Logistic regression with the kernel of `KernelRegressor`, and its parameters.

    ``1 / alpha`` is scikit-learn's ``C``.
    """
