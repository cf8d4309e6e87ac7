"""`--subject`: visits of a patient belong together, from the first run to an update."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from shiftune.cli._folder import ResultFolder


@pytest.fixture
def patients(folder, monkeypatch):
    """Five wards of twelve patients with five visits each; a patient's costs are alike."""
    monkeypatch.setattr(ResultFolder, "can_report", staticmethod(lambda: False))
    rng = np.random.default_rng(0)
    number = np.arange(300) // 5
    df = pd.DataFrame({"ward": np.array(list("ABCDE"))[number // 12], "patient": number + 100})
    df["age"] = rng.normal(50, 8, 300).round(1)
    df["cost"] = (df["age"] + rng.normal(0, 10, 60)[number] + rng.normal(0, 2, 300)).round(2)
    df.to_csv("visits.csv", index=False)
    return df


def test_from_tune_to_update(patients, tune, run):
    done = tune("visits.csv", "--subject", "patient", "--out", "run", "--json", trials=1)
    found = json.loads(done.stdout)
    assert "the 240 rows of the sources form 48 subjects, which are never divided" in found["notes"]
    assert not any("give --subject" in note for note in found["notes"])
    (column,) = [each for each in found["columns"] if each["column"] == "patient"]
    assert column["remark"] == "left out: subject, as requested"
    assert next(iter(pd.read_csv("run/predictions.csv"))) == "patient"
    assert "subject: 'patient', now none" in tune("visits.csv", "--out", "run", code=2).output
    tune("visits.csv", "--subject", "patient", "--out", "run", trials=2)

    one = patients[patients["patient"] == 103].assign(row=lambda df: df.index)
    one[["row", "cost"]].to_csv("one.csv", index=False)
    updated = json.loads(run("update", "run", "one.csv", "--json").stdout)
    assert updated["first_estimate"]["agrees"] is None  # labels of one patient show nothing
    run("label-plan", "run", "--n", 6)
    plan = pd.read_csv("run-labels.csv")
    assert list(plan)[:2] == ["patient", "row"]
    plan.assign(cost=patients["cost"].iloc[plan["row"]].to_numpy()).to_csv("six.csv", index=False)
    updated = json.loads(run("update", "run", "six.csv", "--json").stdout)
    assert updated["labels"] == 11
    assert updated["first_estimate"]["agrees"] is not None


def test_mistakes(patients, tune, run):
    args = ["diagnose", "visits.csv", "--site", "ward", "--target", "A", "--label", "cost"]
    assert "give --subject patient" in " ".join(run(*args).output.split())
    assert "did you mean 'patient'" in tune("visits.csv", "--subject", "patint", code=2).output
    done = tune("visits.csv", "--subject", "patient", "--keep", "patient", code=2)
    assert "'patient' is the subject; leave it out of --keep" in " ".join(done.output.split())
    patients.loc[patients["ward"] == "B", "patient"] = 1
    patients.to_csv("visits.csv", index=False)
    done = tune("visits.csv", "--subject", "patient", code=2)
    assert "site 'B' has one subject, too few" in " ".join(done.output.split())
    assert "site 'B' has fewer than 2 subjects" in run(*args, "--subject", "patient", code=2).output
