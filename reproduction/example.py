"""The paper's worked example: two points, two sources, every figure by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from reproduction.markdown import pipe_table
from reproduction.theory import optimal_variance, variance_of_lambda, variance_of_unbiased
from shiftune.risk._estimate import optimal_lambda


@dataclass(frozen=True, slots=True)
class WorkedExample:
    r"""A target and sources on finitely many points, one row from each source.

    Attributes
    ----------
    loss : loss at each point
    target : probability of each point at the target
    sources : probability of each point at each source

    Examples
    --------
    >>> [round(d, 4) for d in WORKED_EXAMPLE.divergences]
    [252.81, 4.2711]
    >>> WORKED_EXAMPLE.lambdas.round(4), round(WORKED_EXAMPLE.variances["variance reduced"], 4)
    (array([0.0166, 0.9834]), 4.2002)
    """

    loss: tuple[float, ...]
    target: tuple[float, ...]
    sources: tuple[tuple[float, ...], ...]

    @property
    def risk(self) -> float:
        """True target risk :math:`f_T = E_T[L]`."""
        return float(np.dot(self.target, self.loss))

    @property
    def divergences(self) -> list[float]:
        r""":math:`\mathrm{Div}_j = E_j[w^2 L^2] - f_T^2` of every source."""
        p_T, L = np.array(self.target), np.array(self.loss)
        return [float((p_T**2 / np.array(p) * L**2).sum() - self.risk**2) for p in self.sources]

    @property
    def lambdas(self) -> np.ndarray:
        """Weights of the variance reduced estimator."""
        return optimal_lambda([1] * len(self.sources), self.divergences)

    @property
    def variances(self) -> dict[str, float]:
        """Variance of the three estimators that the paper compares."""
        n, div = [1] * len(self.sources), self.divergences
        return {
            "unbiased": variance_of_unbiased(n, div),
            "first source dropped": variance_of_lambda([0, 1], n, div),
            "variance reduced": optimal_variance(n, div),
        }


WORKED_EXAMPLE = WorkedExample(
    loss=(10.0, 1.0), target=(0.8, 0.2), sources=((0.2, 0.8), (0.9, 0.1))
)


def worked_example() -> str:
    """Return the paper's worked example as a Markdown table, beside the printed values.

    >>> print(worked_example())
    |                                | here   | paper  |
    | ------------------------------ | ------ | ------ |
    | divergence of source 1         | 252.81 | 252.81 |
    | divergence of source 2         | 4.27   | 4.27   |
    | weight of source 1             | 0.017  | 0.017  |
    | weight of source 2             | 0.983  | 0.983  |
    | variance, unbiased             | 64.27  | 64.27  |
    | variance, first source dropped | 4.27   | 4.27   |
    | variance, variance reduced     | 4.20   | 4.21   |
    """
    one, two = WORKED_EXAMPLE.divergences
    first, second = WORKED_EXAMPLE.lambdas
    variances = WORKED_EXAMPLE.variances
    rows = {
        "divergence of source 1": (f"{one:.2f}", "252.81"),
        "divergence of source 2": (f"{two:.2f}", "4.27"),
        "weight of source 1": (f"{first:.3f}", "0.017"),
        "weight of source 2": (f"{second:.3f}", "0.983"),
        "variance, unbiased": (f"{variances['unbiased']:.2f}", "64.27"),
        "variance, first source dropped": (f"{variances['first source dropped']:.2f}", "4.27"),
        "variance, variance reduced": (f"{variances['variance reduced']:.2f}", "4.21"),
    }
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["here", "paper"])
    return pipe_table(frame.rename_axis(""))
