"""Visits of generated hospitals: numbers, categories, dates with points, missing values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

HOSPITALS = "ABCDEFGH"
ROWS_AT_ONCE = 100_000


def visits(n: int, seed: int = 0, hospitals: str = HOSPITALS) -> pd.DataFrame:
    """Return n visits; hospitals differ in age and in the frequency of outcomes."""
    rng = np.random.default_rng(seed)
    site = rng.integers(0, len(hospitals), n)
    age = rng.normal(55 + 2 * (site - 3), 12, n).round(1)
    severity = rng.gamma(2 + 0.1 * site, 1.5, n).round(2)
    ward = rng.choice(["surgery", "medicine", "children", "heart"], n)
    day = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D")
    lean = -3 + 0.03 * (age - 55) + 0.35 * severity + 0.4 * (ward == "heart") + 0.05 * site
    return pd.DataFrame(
        {
            "case": [f"{seed % 1000:03}{i:08}" for i in range(n)],
            "hospital": np.array(list(hospitals))[site],
            "age": age,
            "severity": np.where(rng.random(n) < 0.05, np.nan, severity),
            "ward": ward,
            "sex": rng.choice(["f", "m"], n),
            "admitted": day.strftime("%d.%m.%Y"),
            "pulse": rng.normal(75, 10, n).round(),
            "pressure": rng.normal(130, 15, n).round(),
            "sodium": rng.normal(140, 4, n).round(1),
            "creatinine": rng.lognormal(0, 0.3, n).round(2),
            "haemoglobin": rng.normal(13, 1.5, n).round(1),
            "readmitted": np.where(rng.random(n) < 1 / (1 + np.exp(-lean)), "yes", "no"),
        }
    )


def write_visits(path: Path, n: int) -> None:
    """Write n visits of hospital A, without outcomes, in parts."""
    with path.open("w") as file:
        for part, start in enumerate(range(0, n, ROWS_AT_ONCE)):
            rows = visits(min(ROWS_AT_ONCE, n - start), part + 1, "A")
            rows.drop(columns="readmitted").to_csv(file, index=False, header=part == 0)
