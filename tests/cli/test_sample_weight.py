"""`--sample-weight`: a column of weights, which is not a feature."""

from __future__ import annotations

import json

import pandas as pd

from shiftune.cli._folder import ResultFolder


def test_from_tune_to_predict(visits, tune, run, monkeypatch):
    monkeypatch.setattr(ResultFolder, "can_report", staticmethod(lambda: False))
    weighted = visits.drop(columns="ill").assign(w=[1, 2] * 120)
    weighted.to_csv("visits.csv", index=False)
    done = tune("visits.csv", "--sample-weight", "w", "--out", "run", "--json", trials=1)
    found = json.loads(done.stdout)
    assert any(note.startswith("rows have weights from 1 to 2") for note in found["notes"])
    (column,) = [each for each in found["columns"] if each["column"] == "w"]
    assert column["remark"] == "left out: weight, as requested"
    assert "w" not in pd.read_csv("run/predictions.csv")
    assert "sample_weight: 'w', now none" in tune("visits.csv", "--out", "run", code=2).output
    weighted.drop(columns="w").to_csv("new.csv", index=False)
    run("predict", "run", "new.csv", "--out", "new-predictions.csv")

    weighted.assign(w=["a", "b"] * 120).to_csv("visits.csv", index=False)
    done = tune("visits.csv", "--sample-weight", "w", code=2)
    assert "'w' has the weights of rows, but is not numeric" in " ".join(done.output.split())
