"""The toy problem's estimated risk as a function of theta, in closed form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.optimize import minimize_scalar

from shiftune.risk._estimate import estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from reproduction.toy import ToyProblem
    from shiftune.risk._result import RiskEstimate

    Floats = NDArray[np.float64]

Method = Literal["unbiased", "variance_reduced"]

SPACE = (-8.0, 8.0)


class EstimatedRisk:
    r"""The estimated risk of the toy problem as a function of theta.

    .. math:: m_j(\theta) = t' a_j, \quad \mathrm{Div}_j(\theta) = t' C_j t, \qquad
              t = (\theta^2, \theta, 1),

    with mean :math:`a_j` and covariance :math:`C_j` of the rows
    :math:`w_i \cdot (1/2, -y_i, y_i^2/2)` of source j, because
    :math:`w L = w (\theta^2 - 2 \theta y + y^2) / 2`. The unbiased estimate is a parabola, the
    variance reduced one a quotient of polynomials.

    Parameters
    ----------
    toy : ToyProblem
    weights : k arrays of shape (n,)
        Density ratios at the first n rows of every source.
    method : {"unbiased", "variance_reduced"}

    Examples
    --------
    >>> from reproduction.toy import toy_problem
    >>> toy = toy_problem(2.0, n=100)
    >>> w = toy.ratio.fit(toy.problem.target.X, X := [s.X for s in toy.problem.sources]).weights(X)
    >>> risk = EstimatedRisk(toy, w, "variance_reduced")
    >>> bool(np.isclose(risk.values([1.0])[0], risk.at(1.0).value))
    True
    """

    def __init__(self, toy: ToyProblem, weights: Sequence[Floats], method: Method) -> None:
        self.method = method
        self.weights = weights
        self.y = [
            np.asarray(site.labels, dtype=float)[: len(w)]
            for site, w in zip(toy.problem.sources, weights, strict=True)
        ]
        self._losses = toy.losses
        rows = [
            w * np.stack([np.full_like(y, 0.5), -y, y**2 / 2])
            for y, w in zip(self.y, weights, strict=True)
        ]
        self._a = np.stack([r.mean(axis=1) for r in rows])
        self._C = np.stack([np.cov(r, bias=True) for r in rows])

    def at(self, theta: float) -> RiskEstimate:
        """Return the estimate at one theta, by `shiftune.risk._estimate`."""
        losses = [self._losses(theta, y) for y in self.y]
        return estimate(losses, self.weights, self.method, guard=False)

    def values(self, thetas: ArrayLike) -> Floats:
        """Return the estimated risks at many theta, from (G,) to (G,)."""
        theta = np.asarray(thetas, dtype=float)
        t = np.stack([theta**2, theta, np.ones_like(theta)], axis=-1)
        m = t @ self._a.T
        if self.method == "unbiased":  # all sources have n rows
            return np.asarray(m.mean(axis=-1))
        precision = 1 / np.einsum("gp,jpq,gq->gj", t, self._C, t)
        return np.asarray((precision * m).sum(axis=-1) / precision.sum(axis=-1))

    def minimiser(self) -> float:
        """Return the theta in [-8, 8] with the lowest estimate."""
        if self.method == "unbiased":
            square, linear, _ = self._a.mean(axis=0)
            return float(np.clip(-linear / (2 * square), *SPACE))
        # The quotient may have several minima, so a grid first; 2 * 8 / 2000 = 0.008 apart.
        grid = np.linspace(*SPACE, 2001)
        best = int(np.argmin(self.values(grid)))
        around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        found = minimize_scalar(
            lambda theta: self.values([theta])[0],
            bounds=around,
            method="bounded",
            options={"xatol": 1e-10},
        )
        candidates = np.array([found.x, grid[best]])  # such as the end of the range
        return float(candidates[np.argmin(self.values(candidates))])
