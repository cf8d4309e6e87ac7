"""Serve a model that `shiftune tune` has stored, over HTTP, and ask it for predictions.

Needs two more packages: pip install fastapi httpx2 (and uvicorn to serve for others).
"""

import subprocess
import sys
import warnings

import pandas as pd
from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient

from shiftune import load_model
from shiftune.datasets import hospitals
from shiftune.errors import DataError, DataWarning

Rows = list[dict[str, bool | float | str | None]]


def service(path="run/model.skops"):
    """Return the application, with the model of a result folder."""
    model = load_model(path)  # executes no code from the file
    warnings.simplefilter("ignore", DataWarning)  # the response has them as notes
    app = FastAPI(title=f"Predictions of {model.label}")

    @app.get("/columns")
    def columns() -> dict[str, str]:
        return {name: column.kind for name, column in model.columns.items()}

    @app.post("/predict")
    def predict(rows: Rows, strict: bool = False) -> dict:
        table = pd.DataFrame(rows)
        try:
            findings = model.findings(table)
        except DataError as error:  # a column is missing
            raise HTTPException(422, str(error)) from error
        notes = [str(finding) for finding in findings]
        if strict and any(finding.serious for finding in findings):
            raise HTTPException(422, notes)
        chances = pd.DataFrame(model.predict_proba(table), columns=model.classes_)
        return {"predictions": chances.round(4).to_dict("records"), "notes": notes}

    return app


if __name__ == "__main__":
    table = hospitals(60)
    table.loc[table["hospital"] == "A", "readmitted"] = None
    table.to_csv("visits.csv", index=False)
    options = "--site hospital --target A --label readmitted --model linear --trials 2 --out run"
    tune = [sys.executable, "-m", "shiftune", "tune", "visits.csv", *options.split()]
    subprocess.run(tune, check=True, capture_output=True)

    client = TestClient(service())
    print(client.get("/columns").json())
    row = table.drop(columns=["hospital", "readmitted"]).fillna(0).iloc[0].to_dict()
    print(client.post("/predict", json=[row]).json())
    odd = row | {"ward": "roof", "age": "old"}
    print(client.post("/predict", json=[odd]).json()["notes"])
    print(client.post("/predict?strict=true", json=[odd]).status_code)
    del row["age"]
    print(client.post("/predict", json=[row]).json())
