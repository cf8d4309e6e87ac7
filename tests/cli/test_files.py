"""Files of sites on the command line: the target apart, and a file per site."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from shiftune.cli._folder import ResultFolder


@pytest.fixture
def apart(visits, folder, monkeypatch):
    """The rows of ward A in a file of their own, without ward and cost."""
    monkeypatch.setattr(ResultFolder, "can_report", staticmethod(lambda: False))
    visits = visits.drop(columns="ill").assign(case=[f"{i:04}" for i in range(len(visits))])
    visits["ward"] = visits["ward"].where(visits.index % 2 == 0, visits["ward"].replace("B", "D"))
    inside = visits["ward"] == "A"
    visits[~inside].to_csv("sources.csv", index=False)
    visits[inside].drop(columns=["ward", "cost"]).to_csv("A.csv", index=False)
    args = ["--site", "ward", "--label", "cost", "--model", "ridge", "--trials", "2"]
    return ["sources.csv", "--target-file", "A.csv", *args, "--id", "case"], visits[inside]


def test_the_target_in_a_file_of_its_own(apart, run, folder):
    args, own = apart
    done = run("tune", *args)
    assert "sources.csv, and A.csv for the target" in done.output
    result = folder / "sources-A-ridge"
    found = pd.read_csv(result / "predictions.csv", dtype={"case": str})
    assert found["row"].tolist() == list(range(len(own)))
    assert found["case"].tolist() == own["case"].tolist()
    assert "already has 2 trials" in run("tune", *args).output


@pytest.mark.slow
def test_labels_for_a_target_in_a_file_of_its_own(apart, run, folder):
    args, own = apart
    run("tune", *args)
    result = folder / "sources-A-ridge"
    run("label-plan", result.name, "--n", 12, "--out", "plan.csv")
    plan = pd.read_csv("plan.csv", dtype={"case": str})
    truth = own.set_index("case")["cost"]
    plan.assign(cost=plan["case"].map(truth)).to_csv("plan.csv", index=False)
    (folder / "A.csv").rename(folder / "moved.csv")
    failed = run("update", result.name, "plan.csv", code=2)
    assert "(if it was moved, give --target-file FILE)" in " ".join(failed.output.split())
    run("update", result.name, "plan.csv", "--target-file", "moved.csv")
    unknown = plan[:1].assign(case="9999", cost=1.0, row=500)
    unknown[["row", "cost"]].to_csv("unknown.csv", index=False)
    failed = run("update", result.name, "unknown.csv", "--target-file", "moved.csv", code=2)
    assert "moved.csv has no row 500" in failed.output
    assert "counted from 0 to 79" in " ".join(failed.output.split())


def test_a_file_per_site(visits, run, folder):
    (folder / "wards").mkdir()
    for name, rows in visits.groupby("ward"):
        rows.drop(columns=["ward", "ill"]).to_csv(folder / "wards" / f"{name}.csv", index=False)
    done = run("diagnose", "wards/*.csv", "--target", "A", "--label", "cost", "--json")
    found = json.loads(done.output)
    assert [each["site"] for each in found["sources"]] == ["B", "C"]
    assert found["notes"][0].startswith("without --site, every file is a site")
    assert "is missing" in run("diagnose", "wards/A.csv", "--target", "A", code=2).output
    assert "is missing" in run("diagnose", "wards/A.csv", "--site", "ward", code=2).output
