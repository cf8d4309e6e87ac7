"""A search as a run of MLflow: parameters, metrics, report and model; needs mlflow."""

import os
from pathlib import Path

import mlflow
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftune import ShiftProblem, ShiftSearch
from shiftune.datasets._generated import hospitals
from shiftune.models import TRUSTED


def log_trial(study, trial):
    """Log the mean loss of a finished trial, which Optuna's callbacks receive."""
    if trial.value is not None:
        mlflow.log_metric("trial_loss", trial.value, step=trial.number)


if __name__ == "__main__":
    # A folder of files, which MLflow wants to be asked for; mlflow.set_tracking_uri("http://...")
    # is a server.
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    mlflow.set_tracking_uri(Path("mlruns").absolute().as_uri())
    mlflow.set_experiment("readmission")

    df = hospitals(n=80)[["hospital", "age", "severity", "readmitted"]]
    df.loc[df["hospital"] == "A", "readmitted"] = None
    problem = ShiftProblem.from_frame(df, site="hospital", label="readmitted", target="A")

    with mlflow.start_run(run_name="for A"):
        model = make_pipeline(StandardScaler(), LogisticRegression())
        space = {"logisticregression__C": (0.001, 10.0, "log")}
        search = ShiftSearch(model, space, n_trials=6, callbacks=[log_trial])
        search.fit(problem)

        mlflow.log_params(search.result_.options)
        mlflow.log_params({f"best_{name}": value for name, value in search.best_params_.items()})
        low, high = search.risk_.interval()
        mlflow.log_metrics({"risk": search.risk_.value, "risk_low": low, "risk_high": high})
        mlflow.log_metrics(search.metrics_["estimate"].dropna().to_dict())
        mlflow.set_tags({"target": "A", "verdict": search.verdict_.trust.value})
        mlflow.log_text(search.trials_.to_csv(), "trials.csv")
        mlflow.log_artifact(str(search.report("report.html")))
        stored = mlflow.sklearn.log_model(
            search.predictor_, name="model", skops_trusted_types=sorted(TRUSTED)
        )

    loaded = mlflow.sklearn.load_model(stored.model_uri)
    print(search.risk_)
    print(loaded.predict_proba(problem.target.X)[:3])
