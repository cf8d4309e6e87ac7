"""Tables with more rows than are read, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SAMPLE = ["--most-rows", "120"]


@pytest.mark.slow
def test_a_sample_is_drawn_and_stated(visits, tune, run, folder):
    visits["case"] = [f"{i:04}" for i in range(len(visits))]
    visits["ward"] = np.resize(list("ABCD"), len(visits))
    visits.drop(columns="ill").assign(cost=visits["cost"].where(visits["ward"] != "A")).to_csv(
        "visits.csv", index=False
    )
    shown = " ".join(tune("visits.csv", *SAMPLE, "--out", "run").output.split())
    stated = "120 of 240 rows are read, drawn at random: at most 30 of a site"
    assert stated in shown
    assert "predictions.csv has the 30 rows of A that were read" in shown
    assert "times as large at the largest site" in shown
    assert stated in Path("run/model-card.md").read_text()
    best = json.loads(Path("run/best.json").read_text())
    assert best["sample"]["rows_drawn"] == 120
    predicted = pd.read_csv("run/predictions.csv", dtype={"case": str})
    assert len(predicted) == 30
    assert predicted["case"].tolist() == visits["case"].iloc[predicted["row"]].tolist()
    assert set(visits["ward"].iloc[predicted["row"]]) == {"A"}
    # The row numbers are those of the file for other commands, too.
    run("label-plan", "run", "--n", "5", "--out", "plan.csv")
    plan = pd.read_csv("plan.csv", dtype={"case": str})
    assert plan["age"].tolist() == visits["age"].iloc[plan["row"]].tolist()
    plan.assign(cost=100.0).to_csv("plan.csv", index=False)
    run("update", "run", "plan.csv")
    other = next(i for i in visits.index[visits["ward"] == "A"] if i not in set(predicted["row"]))
    pd.DataFrame({"row": [other], "cost": [1.0]}).to_csv("other.csv", index=False)
    assert (
        "was not among the rows that were drawn" in run("update", "run", "other.csv", code=2).output
    )


def test_diagnose_draws_too(visits, run, folder):
    visits.to_csv("visits.csv", index=False)
    options = ["--site", "ward", "--target", "A", "--label", "ill", "--json"]
    found = json.loads(run("diagnose", "visits.csv", *options, *SAMPLE).stdout)
    assert found["target_rows"] == 40
    assert found["notes"][0].startswith("120 of 240 rows")
