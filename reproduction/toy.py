"""The paper's toy problem, whose density ratios and true risks are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin

from shiftune import ShiftProblem
from shiftune.datasets import GaussianSites
from shiftune.ratio import DensityRatio

Floats = NDArray[np.float64]


class KnownRatio(DensityRatio):
    """Density ratios given as functions of rows, one per source.

    >>> ratio = KnownRatio([lambda X: np.full(len(X), 2.0)])
    >>> ratio.fit(np.zeros((3, 1)), [np.zeros((2, 1))]).weights([np.zeros((2, 1))])
    [array([2., 2.])]
    """

    def __init__(self, functions: Sequence[Callable[[Any], Floats]]) -> None:
        self.functions = functions

    def fit(self, X_target: Any, X_sources: Sequence[Any]) -> Self:
        """Learn nothing."""
        self.n_sources_ = len(X_sources)
        return self

    def weights(self, X_sources: Sequence[Any]) -> list[Floats]:
        """Return the functions' values, k arrays of shape (n_j,)."""
        return [w(X) for w, X in zip(self.functions, X_sources, strict=True)]


class ConstantPrediction(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The toy problem's "model": predicts its hyperparameter for every row.

    >>> ConstantPrediction(0.3).fit([[1.0]], [5.0]).predict([[1.0], [2.0]])
    array([0.3, 0.3])
    """

    def __init__(self, theta: float = 0.0) -> None:
        self.theta = theta

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn nothing."""
        return self

    def predict(self, X: Any) -> Floats:
        """Return theta for every row."""
        return np.full(len(X), self.theta)


@dataclass(frozen=True, slots=True)
class ToyProblem:
    r"""Data of the toy problem, with its true density ratios and risks.

    :math:`x \sim N(\mu_j, 1)`, :math:`y \sim N(0.7 x + 0.3, 1)`; the "model",
    `ConstantPrediction`, predicts the hyperparameter :math:`\theta` whatever x is, with loss
    :math:`(\theta - y)^2 / 2` (``loss="half_squared"``).

    Attributes
    ----------
    problem : ShiftProblem
        With the target's labels as oracle.
    sites : GaussianSites
        The true distributions of x.
    """

    problem: ShiftProblem
    sites: GaussianSites

    @property
    def ratio(self) -> KnownRatio:
        """The true density ratios."""
        return KnownRatio([self.sites.ratio(j) for j in range(1, self.sites.k + 1)])

    @property
    def best_theta(self) -> float:
        r"""The :math:`\theta` with the smallest true risk, :math:`0.7 \mu_T + 0.3`."""
        return float(0.7 * self.sites.means[0, 0] + 0.3)

    def true_risk(self, theta: float) -> float:
        r"""Return the risk at the target, :math:`((\theta - 0.7\mu_T - 0.3)^2 + 1.49) / 2`."""
        return ((theta - self.best_theta) ** 2 + 1 + 0.7**2) / 2

    def divergences(self, theta: float) -> Floats:
        r"""Return the true divergences of the sources from the target, shape (k,).

        .. math:: \mathrm{Div}_j(\theta) = e^{(\mu_T - \mu_j)^2}\,
                  \frac{d_j^4 + 6 d_j^2 s^2 + 3 s^4}{4} - f(\theta)^2, \qquad
                  d_j = \theta - 0.7 (2\mu_T - \mu_j) - 0.3, \quad s^2 = 1.49 .

        It is :math:`E_j[w_j^2 L^2] - f^2`, the variance of one weighted loss: with unit variances
        :math:`p_T^2 / p_j` is :math:`e^{(\mu_T - \mu_j)^2}` times the density of
        :math:`N(2\mu_T - \mu_j, 1)`, under which :math:`\theta - y \sim N(d_j, s^2)`, and the
        rest is a Gaussian's fourth moment. Finite for every shift, but enormous for large ones:
        the factor is 7 at a shift of 1.4, and 8103 at 3.

        >>> toy = toy_problem(1.0)
        >>> toy.divergences(toy.best_theta).round(2)
        array([ 3.34, 13.28])
        """
        mu_T, mu_j = self.sites.means[0, 0], self.sites.means[1:, 0]
        d2, s2 = (theta - 0.7 * (2 * mu_T - mu_j) - 0.3) ** 2, 1 + 0.7**2
        square = np.exp((mu_T - mu_j) ** 2) * (d2**2 + 6 * d2 * s2 + 3 * s2**2) / 4
        return np.asarray(square - self.true_risk(theta) ** 2)

    @staticmethod
    def losses(theta: float, y: Floats) -> Floats:
        """Loss of every row, shape (n,)."""
        return np.asarray((theta - y) ** 2 / 2)


def toy_problem(c: float, *, k: int = 2, n: int = 1000, random_state: int = 0) -> ToyProblem:
    r"""Draw a toy problem, with source means :math:`\mu_j` uniform in (-c, c).

    The target's mean is uniform in (-1, 1).

    Parameters
    ----------
    c : float
        How far the sources may lie from 0.
    k, n : int
        Number of sources, and rows of every site.

    Examples
    --------
    >>> toy = toy_problem(5.0)
    >>> len(toy.problem.sources), round(toy.true_risk(toy.best_theta), 3)
    (2, 0.745)
    """
    rng = np.random.default_rng(random_state)
    means = np.concatenate([rng.uniform(-1.0, 1.0, 1), rng.uniform(-c, c, k)])
    sites = GaussianSites(means[:, None])
    X = [sites.draw(site, n, rng) for site in range(k + 1)]
    y = [0.7 * x[:, 0] + 0.3 + rng.standard_normal(n) for x in X]
    problem = ShiftProblem.from_sites(
        list(zip(X[1:], y[1:], strict=True)), X[0], oracle_labels=y[0], task="regression"
    )
    return ToyProblem(problem, sites)
