"""SHAP values: what each column adds to the predictions of single rows (pip install shap)."""

import numpy as np
import pandas as pd
import shap
from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch
from shiftune.datasets import hospitals


def to_numbers(rows, categories):
    """Write categories as their numbers, since SHAP mixes rows of numbers."""
    codes = {c: pd.Categorical(rows[c], names).codes for c, names in categories.items()}
    return rows.assign(**codes).to_numpy(float)


def to_rows(Z, columns, categories):
    """Read what to_numbers wrote."""
    rows = pd.DataFrame(Z, columns=columns)
    for c, names in categories.items():
        rows[c] = np.array([*names, None], dtype=object)[rows[c].astype(int)]
    return rows


if __name__ == "__main__":
    threadpool_limits(1)  # many small fits in a row are fastest with one thread each
    table = hospitals(150)
    table.loc[table["hospital"] == "A", "readmitted"] = None
    problem = ShiftProblem.from_frame(table, site="hospital", target="A", label="readmitted")
    search = ShiftSearch("linear", n_trials=4, progress=False).fit(problem)
    print(search.risk_)

    X = pd.concat([site.X for site in problem.sources])
    categories = {c: sorted(X[c].dropna().unique()) for c in problem.columns.categories}
    explainer = shap.Explainer(
        lambda Z: search.predictor_.predict_proba(to_rows(Z, X.columns, categories))[:, 1],
        to_numbers(X.sample(100, random_state=0), categories),  # the background
        feature_names=list(X),
    )
    values = explainer(to_numbers(problem.target.X.head(2), categories))
    print(pd.DataFrame(values.values, columns=list(X)).round(3))  # a row of A per line
