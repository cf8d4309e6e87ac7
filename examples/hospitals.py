"""A generated table of visits to hospitals, for the other examples. Yours comes from a file."""

from __future__ import annotations

import numpy as np
import pandas as pd

# Mean age of the patients, and what is special about the hospital itself.
HOSPITALS = {"A": (62, 0.2), "B": (55, 0.0), "C": (70, -0.2), "D": (48, 0.3), "E": (66, -0.1)}


def visits(label: str = "readmitted", *, rows: int = 250, hidden: bool = True) -> pd.DataFrame:
    """Return visits to five hospitals, `rows` to each.

    The label is "readmitted" (0 or 1) or "days", the length of the stay. The hospitals differ in
    who comes (age, earlier visits) and a little in what then happens, as real ones do. Hospital A
    has no labels, unless they are not to be `hidden`.
    """
    rng = np.random.default_rng(0)
    tables = []
    for name, (age, own) in HOSPITALS.items():
        table = pd.DataFrame(
            {
                "hospital": name,
                "age": rng.normal(age, 11, rows).round(),
                "pulse": rng.normal(80, 14, rows).round(),
                "earlier_visits": rng.poisson(age / 30, rows),
                "ward": pd.Categorical(
                    rng.choice(["surgery", "medicine", "icu"], rows, p=[0.4, 0.5, 0.1]),
                    categories=["surgery", "medicine", "icu"],
                ),
            }
        )
        table.loc[rng.random(rows) < 0.05, "pulse"] = np.nan
        effort = (
            0.04 * (table["age"] - 60)
            + 0.03 * np.maximum(table["pulse"].fillna(80) - 85, 0)
            + 0.4 * table["earlier_visits"]
            + (table["ward"] == "icu")
            - 1.3
            + own
        )
        if label == "days":
            table["days"] = np.exp(0.5 * effort + rng.normal(1, 0.4, rows)).round(1)
        else:
            table["readmitted"] = (rng.random(rows) < 1 / (1 + np.exp(-effort))).astype(float)
        tables.append(table)
    df = pd.concat(tables, ignore_index=True)
    if hidden:
        df.loc[df["hospital"] == "A", label] = np.nan
    return df
