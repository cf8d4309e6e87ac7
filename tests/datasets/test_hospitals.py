"""Generated hospitals: the same ones with other patients, and nothing but patients differs."""

from __future__ import annotations

import pandas as pd
import pytest

from shiftune.datasets import hospitals
from shiftune.errors import ProblemError


def test_one_hospital_is_that_of_the_group():
    table = hospitals(30, random_state=4)
    alone = hospitals(30, random_state=4, only="C")
    group = table[table["hospital"] == "C"].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, group)


def test_other_patients_of_the_same_hospitals():
    first, second = (hospitals(4000, random_state=1, only="B", rows_state=s) for s in (0, 1))
    assert not first["age"].equals(second["age"])
    error = first["age"].std() * (2 / 4000) ** 0.5
    assert abs(first["age"].mean() - second["age"].mean()) < 4 * error


def test_codes_mean_something_else_at_every_hospital():
    table = hospitals(3000, coding_differs=1.0, outcomes_differ=0.0, random_state=2)
    plain = hospitals(3000, outcomes_differ=0.0, random_state=2)
    inputs = [name for name in plain if name != "readmitted"]
    pd.testing.assert_frame_equal(table[inputs], plain[inputs])  # the same patients otherwise
    ill = table.assign(ill=table["readmitted"] == "yes")
    by_code = ill.pivot_table("ill", "hospital", "code_a")
    difference = by_code[1] - by_code[0]
    assert difference.min() < -0.1 < 0.1 < difference.max()
    readings = table.groupby("hospital")["minutes_to_laboratory"]
    assert readings.mean().std() > 4 * readings.std().mean()  # they give the hospital away
    alone = hospitals(3000, coding_differs=1.0, outcomes_differ=0.0, random_state=2, only="C")
    group = table[table["hospital"] == "C"].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, group)


def test_hospitals_differ_in_who_comes():
    ages = hospitals(500).groupby("hospital")["age"].mean()
    assert ages.std() > 3


def test_a_hospital_that_is_not_there():
    with pytest.raises(ProblemError, match="no hospital 'Z'"):
        hospitals(10, only="Z")
