"""RiskEstimate: an estimated target risk that says how sure it is and who said what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from shiftune.errors import ProblemError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Uncertain:
    """A number with a variance and the degrees of freedom that stand behind it."""

    value: float
    variance: float
    dof: float

    @property
    def stderr(self) -> float:
        """Standard error."""
        return float(np.sqrt(self.variance))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Interval that covers the truth with probability `level`, from Student's t.

        >>> low, high = Uncertain(1.0, 0.01, dof=1e6).interval(0.95)
        >>> round(low, 3), round(high, 3)
        (0.804, 1.196)
        """
        if not 0 < level < 1:
            raise ProblemError(f"the level of an interval lies between 0 and 1, got {level}")
        half = float(stdtrit(self.dof, 0.5 + level / 2)) * self.stderr
        return self.value - half, self.value + half


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RiskEstimate(Uncertain):
    r"""Estimated target risk, :math:`\hat f = \sum_j \lambda_j \sum_i w_{ij} L_{ij}`.

    The variance takes the weights as given: it is that of the sample of labelled rows, not of
    the density ratios' own errors, nor of a p(y|x) that moves between sites.

    Attributes
    ----------
    value, variance : float
        :math:`\hat f` and :math:`\sum_j \lambda_j^2 n_j \mathrm{Div}_j`.
    dof : float
        Degrees of freedom of the variance (Welch and Satterthwaite), for the interval.
    method : str
        The estimator's name.
    names : tuple of k names
    n : array of shape (k,)
    estimates : array of shape (k,)
        What each source says by itself, :math:`m_j = \mathrm{mean}_i\, w_{ij} L_{ij}`.
    divergences : array of shape (k,)
        :math:`\mathrm{Div}_j`, the variance of one weighted loss of source j.
    lam : array of shape (k,)
        :math:`\lambda_j`; :math:`\lambda_j n_j` is the source's share in the estimate.
    mean_weights, ess : arrays of shape (k,)
    left_out : tuple of k texts
        Why a source was left out; empty where it was not.
    influence : array of shape (n,)
        :math:`\psi_{ij} = \lambda_j (w_{ij} L_{ij} - m_j)`, source after source: how far each
        row moves the estimate. Variance of the estimate and of differences of two estimates on
        the same rows follow from their squares.
    fallback : str
        Why something else was computed than what was asked for; empty otherwise.
    """

    method: str
    names: tuple[str, ...]
    n: NDArray[np.intp]
    estimates: Floats
    divergences: Floats
    lam: Floats
    mean_weights: Floats
    ess: Floats
    left_out: tuple[str, ...]
    influence: Floats
    fallback: str = ""

    def __post_init__(self) -> None:
        for values in (self.n, self.estimates, self.divergences, self.lam, self.mean_weights):
            values.flags.writeable = False
        self.ess.flags.writeable = False
        self.influence.flags.writeable = False

    @property
    def sources(self) -> pd.DataFrame:
        """One row per source: n, estimate, divergence, lambda, share, mean weight, ESS, reason."""
        return pd.DataFrame(
            {
                "n": self.n,
                "estimate": self.estimates,
                "stderr": np.sqrt(self.divergences / self.n),
                "divergence": self.divergences,
                "lambda": self.lam,
                "share": self.lam * self.n,
                "mean_weight": self.mean_weights,
                "ess": self.ess,
                "left_out": self.left_out,
            },
            index=pd.Index(self.names, name="site"),
        )

    def minus(self, other: RiskEstimate) -> Uncertain:
        """Difference to another estimate on the same rows, with the paired standard error.

        Rows on which both models err alike cancel, so two models can often be told apart even
        where their intervals overlap.

        >>> from shiftune.risk import estimate
        >>> rng = np.random.default_rng(0)
        >>> hard = rng.exponential(size=100)
        >>> a, b = estimate([hard], method="naive"), estimate([hard + 0.1], method="naive")
        >>> d = b.minus(a)
        >>> round(d.value, 3), bool(d.stderr < a.stderr / 100)
        (0.1, True)
        """
        if self.names != other.names or not np.array_equal(self.n, other.n):
            raise ProblemError(
                "two estimates can be compared only on the same rows of the same sources"
            )
        variance, dof = pooled_variance(self.influence - other.influence, self.n, self.ess)
        return Uncertain(self.value - other.value, variance, dof)

    def __repr__(self) -> str:
        low, high = self.interval()
        said = f"{self.value:.4g} (95 % interval {low:.4g} to {high:.4g}), {self.method}"
        gone = sum(bool(reason) for reason in self.left_out)
        said += f", {len(self.n) - gone} of {len(self.n)} sources" if len(self.n) > 1 else ""
        return f"<RiskEstimate {said}{'; ' + self.fallback if self.fallback else ''}>"


def pooled_variance(
    influence: Floats, n: NDArray[np.intp], effective: Floats
) -> tuple[float, float]:
    r"""Variance of a sum of centred row contributions, and its degrees of freedom.

    .. math:: V = \sum_j V_j, \quad V_j = \sum_i \psi_{ij}^2 = \lambda_j^2 n_j \mathrm{Div}_j,
              \qquad \nu = \frac{V^2}{\sum_j V_j^2 / (m_j - 1)},

    with :math:`m_j` the effective rows of source j: of 300 rows of which 8 carry the weight, 8
    speak about the spread.
    """
    starts = np.concatenate([[0], np.cumsum(n)[:-1]])
    by_source = np.add.reduceat(influence**2, starts)
    total = float(by_source.sum())
    if total == 0:
        return 0.0, 1.0
    shares = by_source / total
    return total, float(max(1 / np.sum(shares**2 / np.maximum(effective - 1, 1)), 1.0))
