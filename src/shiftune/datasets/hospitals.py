"""Generated hospitals with different patients and slightly different outcomes."""

from __future__ import annotations

import numpy as np
import pandas as pd

from shiftune.spelling import check_choice

NAMES = ("A", "B", "C", "D", "E", "F", "G", "H")
WARDS = ("medicine", "surgery", "intensive care")


def hospitals(
    n: int = 300,
    *,
    outcomes_differ: float = 0.2,
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
    random_state : int
        Seed of the hospitals.
    only : str, optional
        Draw patients of this hospital alone.
    rows_state : int
        Seed of the patients: another number draws other patients at the same hospitals.

    Returns
    -------
    DataFrame
        Columns hospital, readmitted ("yes" or "no") and eight inputs.

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
    frames = []
    for j, name in enumerate(NAMES):
        if only in (None, name):
            rows = np.random.default_rng([random_state, rows_state, j])
            frames.append(_patients(rows, n, shifts[j], wards[j], concept[j]).assign(hospital=name))
    return pd.concat(frames, ignore_index=True)


def _patients(
    rng: np.random.Generator,
    n: int,
    shift: np.ndarray,
    wards: np.ndarray,
    concept: float,
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
