"""Generated hospitals: the same ones with other patients, and nothing but patients differs."""

from __future__ import annotations

import pandas as pd

from shiftune.datasets import hospitals


def test_other_patients_of_the_same_hospitals():
    first, second = (hospitals(500, random_state=1, rows_state=s) for s in (0, 1))
    assert not first["age"].equals(second["age"])
    means = [table.groupby("hospital")["age"].mean() for table in (first, second)]
    error = first.groupby("hospital")["age"].std() * (2 / 500) ** 0.5
    assert ((means[0] - means[1]).abs() < 4 * error).all()


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


def test_hospitals_differ_in_who_comes():
    ages = hospitals(500).groupby("hospital")["age"].mean()
    assert ages.std() > 3
