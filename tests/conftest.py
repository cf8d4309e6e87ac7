from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # In the background of a shell SIGINT is ignored, and so it would be by the processes that the
    # tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Scripts that tests start in other folders import the toy problem.
os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture
def hospitals(rng: np.random.Generator) -> pd.DataFrame:
    """Four hospitals with numbers, categories, text, booleans, dates and missing values."""
    n = 240
    age = rng.normal(55, 12, n)
    df = pd.DataFrame(
        {
            "hospital": np.repeat(["A", "B", "C", "D"], n // 4),
            "age": np.where(rng.random(n) < 0.1, np.nan, age),
            "ward": pd.Categorical(rng.choice(["surgery", "medicine", "icu"], n)),
            "drug": rng.choice(["x", "y", None], n),
            "smoker": rng.random(n) < 0.3,
            "admitted": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "visits": pd.array(rng.integers(0, 9, n), dtype="Int64"),
            "readmitted": np.where(rng.random(n) < 0.4, "yes", "no"),
        }
    )
    df.loc[df.hospital == "A", "readmitted"] = None
    return df
