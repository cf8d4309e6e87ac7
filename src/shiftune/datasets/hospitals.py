"""Generated hospitals with different patients and slightly different outcomes."""

from __future__ import annotations

import numpy as np
import pandas as pd

from shiftune.spelling import check_choice

NAMES = ("A", "B", "C", "D", "E", "F", "G", "H")
WARDS = ("medicine", "surgery", "intensive care")
CODES = tuple(f"code_{letter}" for letter in "abcdefgh")
EQUIPMENT = ("analyser_temperature", "minutes_to_laboratory", "beds_per_nurse")
# Mean, and standard deviation between hospitals; within one it is 15 % of that.
READINGS = np.array([[21.0, 2.0], [18.0, 4.0], [8.0, 1.5]])
WITHIN = 0.15


def hospitals(
    n: int = 300,
    *,
    outcomes_differ: float = 0.2,
    coding_differs: float = 0.0,
    random_state: int = 0,
    only: str | None = None,
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
    only : str, optional
        Draw patients of this hospital alone.
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
    if only is not None:
        check_choice(only, NAMES, "hospital")
    rng = np.random.default_rng(random_state)
    shifts = rng.normal(0, 0.6, (len(NAMES), 5))
    wards = rng.dirichlet([6, 4, 2], len(NAMES))
    concept = rng.normal(0, outcomes_differ, len(NAMES))
    meanings = rng.normal(0, coding_differs, (len(NAMES), len(CODES)))
    shares = rng.uniform(0.25, 0.6, (len(NAMES), len(CODES)))
    equipment = rng.standard_normal((len(NAMES), len(EQUIPMENT)))
    frames = []
    for j, name in enumerate(NAMES):
        if only in (None, name):
            rows = np.random.default_rng([random_state, rows_state, j])
            coded = (
                _codes([random_state, rows_state, j, 1], n, shares[j]) if coding_differs else None
            )
            odds = concept[j] if coded is None else concept[j] + (coded - shares[j]) @ meanings[j]
            own = _patients(rows, n, shifts[j], wards[j], odds)
            if coded is not None:
                own[list(CODES)] = coded.astype(int)
                own[list(EQUIPMENT)] = _readings(rows, n, equipment[j])
            frames.append(own.assign(hospital=name))
    return pd.concat(frames, ignore_index=True)


def _patients(
    rng: np.random.Generator,
    n: int,
    shift: np.ndarray,
    wards: np.ndarray,
    concept: float | np.ndarray,
) -> pd.DataFrame:
    age, severity, lactate, creatinine, pressure = (rng.standard_normal((n, 5)) + shift).T
    stays = rng.poisson(np.exp(0.3 * severity))
    ward = rng.choice(WARDS, n, p=wards)
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
            "ward": pd.Categorical(ward, WARDS),
            "readmitted": np.where(sick, "yes", "no"),
        }
    )


def _codes(seed: list[int], n: int, shares: np.ndarray) -> np.ndarray:
    """Return which codes patients have, shape (n, 8)."""
    return np.asarray(np.random.default_rng(seed).random((n, len(CODES))) < shares)


def _readings(rng: np.random.Generator, n: int, hospital: np.ndarray) -> np.ndarray:
    """Return readings of a hospital's equipment, shape (n, 3)."""
    mean, spread = READINGS.T
    own = hospital + WITHIN * rng.standard_normal((n, len(EQUIPMENT)))
    return np.asarray(np.round(mean + spread * own, 2))
