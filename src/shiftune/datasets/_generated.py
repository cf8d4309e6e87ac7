"""Generated multi-site problems whose density ratios and true risks are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class GaussianSites:
    r"""Sites whose columns are independent Gaussians, so that every density ratio is known.

    .. math:: w_j(x) = \prod_c \frac{s_{jc}}{s_{Tc}} \exp\!\left(
              \frac{(x_c - m_{jc})^2}{2 s_{jc}^2} - \frac{(x_c - m_{Tc})^2}{2 s_{Tc}^2} \right)

    Parameters
    ----------
    means : array of shape (k + 1, d)
        Of the target (first) and of the k sources.
    sds : array of shape (k + 1, d), or a number

    Examples
    --------
    >>> sites = GaussianSites([[0.0], [1.0]])
    >>> sites.ratio(1)(np.array([[0.5]]))  # half-way between the two means
    array([1.])
    """

    def __init__(self, means: ArrayLike, sds: ArrayLike = 1.0) -> None:
        self.means = np.atleast_2d(np.asarray(means, dtype=float))
        self.sds = np.broadcast_to(np.asarray(sds, dtype=float), self.means.shape)

    def draw(self, site: int, n: int, rng: np.random.Generator) -> Floats:
        """Draw n rows of a site (0 is the target), shape (n, d)."""
        noise = rng.standard_normal((n, self.means.shape[1]))
        return np.asarray(self.means[site] + self.sds[site] * noise)

    def ratio(self, source: int) -> Callable[[Floats], Floats]:
        """Return w_j as a function of rows, for source j = 1..k."""

        def w(X: Floats) -> Floats:
            z_T = (X - self.means[0]) / self.sds[0]
            z_j = (X - self.means[source]) / self.sds[source]
            log_sd = np.log(self.sds[source] / self.sds[0]).sum()
            return np.asarray(np.exp(log_sd + 0.5 * (z_j**2 - z_T**2).sum(axis=1)))

        return w

    @property
    def k(self) -> int:
        """Number of sources."""
        return len(self.means) - 1


_NAMES = ("A", "B", "C", "D", "E", "F", "G", "H")
_WARDS = ("medicine", "surgery", "intensive care")
_CODES = tuple(f"code_{letter}" for letter in "abcdefgh")
_EQUIPMENT = ("analyser_temperature", "minutes_to_laboratory", "beds_per_nurse")
# Mean, and standard deviation between hospitals; within one it is 15 % of that.
_READINGS = np.array([[21.0, 2.0], [18.0, 4.0], [8.0, 1.5]])
_WITHIN = 0.15


def hospitals(
    n: int = 300,
    *,
    outcomes_differ: float = 0.2,
    coding_differs: float = 0.0,
    random_state: int = 0,
    rows_state: int = 0,
) -> pd.DataFrame:
    r"""Draw patients of eight hospitals, with the outcome of all of them.

    The hospitals differ in their patients (age, severity and laboratory values are shifted by about
    0.6 standard deviations, wards have other shares), and slightly in the outcomes of similar
    patients: the log-odds of a readmission are shifted by a normal amount of sd `outcomes_differ`.
    The outcome depends on the columns in a way that is neither additive nor linear.

    Parameters
    ----------
    n : int
        Patients of every hospital.
    outcomes_differ : float
        How far the hospitals differ in the outcomes of similar patients.
    coding_differs : float
        How far the hospitals differ in the meaning of codes: above 0, the table has eight codes,
        each of which changes the log-odds by a normal amount of this sd at each hospital, and three
        readings of equipment, which nearly identify the hospital. What a flexible model learns
        from them about known hospitals is wrong at a new one.
    random_state : int
        Seed of the hospitals.
    rows_state : int
        Seed of the patients: another number draws other patients at the same hospitals.

    Returns
    -------
    DataFrame
        Columns hospital, readmitted ("yes" or "no") and eight inputs, or nineteen.

    Examples
    --------
    >>> table = hospitals(50)
    >>> table.shape, sorted(table["hospital"].unique())[:3]
    ((400, 10), ['A', 'B', 'C'])
    """
    rng = np.random.default_rng(random_state)
    shifts = rng.normal(0, 0.6, (len(_NAMES), 5))
    wards = rng.dirichlet([6, 4, 2], len(_NAMES))
    concept = rng.normal(0, outcomes_differ, len(_NAMES))
    meanings = rng.normal(0, coding_differs, (len(_NAMES), len(_CODES)))
    shares = rng.uniform(0.25, 0.6, (len(_NAMES), len(_CODES)))
    equipment = rng.standard_normal((len(_NAMES), len(_EQUIPMENT)))
    frames = []
    for j, name in enumerate(_NAMES):
        rng = np.random.default_rng([random_state, rows_state, j])
        odds: Any = concept[j]
        if coding_differs:
            other = np.random.default_rng([random_state, rows_state, j, 1])
            coded = other.random((n, len(_CODES))) < shares[j]
            odds = odds + (coded - shares[j]) @ meanings[j]
        patients = _patients(rng, n, shifts[j], wards[j], odds)
        if coding_differs:
            patients[list(_CODES)] = coded.astype(int)
            mean, spread = _READINGS.T
            units = equipment[j] + _WITHIN * rng.standard_normal((n, len(_EQUIPMENT)))
            patients[list(_EQUIPMENT)] = np.round(mean + spread * units, 2)
        frames.append(patients.assign(hospital=name))
    return pd.concat(frames, ignore_index=True)


def _patients(
    rng: np.random.Generator, n: int, shift: Floats, wards: Floats, concept: Any
) -> pd.DataFrame:
    age, severity, lactate, creatinine, pressure = (rng.standard_normal((n, 5)) + shift).T
    stays = rng.poisson(np.exp(0.3 * severity))
    ward = rng.choice(_WARDS, n, p=wards)
    emergency = rng.random(n) < 1 / (1 + np.exp(-severity))
    odds = (
        concept
        - 0.6
        + 0.8 * age * (severity > 0)
        + 0.7 * np.abs(lactate)
        - 0.6 * np.tanh(creatinine * pressure)
        + 0.4 * np.minimum(stays, 3)
        + 0.8 * (ward == "intensive care") * emergency
    )
    sick = rng.random(n) < 1 / (1 + np.exp(-odds))
    return pd.DataFrame(
        {
            "age": np.round(65 + 12 * age),
            "severity": np.round(10 + 3 * severity, 1),
            "lactate": np.round(np.exp(0.4 + 0.5 * lactate), 2),
            "creatinine": np.round(np.exp(0.3 * creatinine), 2),
            "systolic_pressure": np.round(125 + 18 * pressure),
            "earlier_stays": stays,
            "emergency": emergency,
            "ward": pd.Categorical(ward, _WARDS),
            "readmitted": np.where(sick, "yes", "no"),
        }
    )
