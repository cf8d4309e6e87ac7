"""Another Optuna sampler, a define-by-run space, and Optuna's own study afterwards."""

from optuna.samplers import TPESampler
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from shiftune import ShiftProblem, ShiftSearch
from shiftune.datasets import hospitals


def space(trial):
    """Return the model's parameters, suggested by the trial."""
    names = {"penalised": "lbfgs", "sparse": "liblinear"}
    kind = trial.suggest_categorical("kind", list(names))
    C = trial.suggest_float("C", 1e-3, 10, log=True)
    return {
        "logisticregression__C": C / 2 if kind == "sparse" else C,
        "logisticregression__solver": names[kind],
    }


if __name__ == "__main__":
    problem = ShiftProblem.from_frame(
        hospitals(150), site="hospital", label="readmitted", target="A", target_labels="oracle"
    )
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = make_column_transformer((OneHotEncoder(), ["ward"]), remainder=numbers)
    model = make_pipeline(columns, LogisticRegression())
    search = ShiftSearch(
        model, space, sampler=TPESampler(seed=0), n_trials=10, storage="tpe.journal"
    )
    search.fit(problem)
    print(search.risk_, search.best_params_)

    study = search.study_  # an ordinary Optuna study; `optuna-dashboard tpe.journal` shows it
    print(study.trials_dataframe()[["number", "value", "params_kind", "params_C"]].tail(3))
