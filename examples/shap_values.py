"""SHAP values: what each column adds to the predictions of single rows (pip install shap)."""

import numpy as np
import pandas as pd
import shap
from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch
from shiftune.datasets import hospitals

if __name__ == "__main__":
    threadpool_limits(1)  # many small fits in a row are fastest with one thread each
    table = hospitals(150)
    table.loc[table["hospital"] == "A", "readmitted"] = None
    problem = ShiftProblem.from_frame(table, site="hospital", target="A", label="readmitted")
    search = ShiftSearch("linear", n_trials=4, progress=False).fit(problem)
    print(search.risk_)

    X = pd.concat([site.X for site in problem.sources])
    background = X.sample(100, random_state=0)  # rows of the sources
    categories = {c: sorted(X[c].dropna().unique()) for c in problem.columns.categories}

    def numbers(rows):
        """Write categories as their numbers, since SHAP mixes rows of numbers."""
        codes = {c: pd.Categorical(rows[c], names).codes for c, names in categories.items()}
        return rows.assign(**codes).to_numpy(float)

    def probability(Z):
        """Predict rows of numbers."""
        rows = pd.DataFrame(Z, columns=X.columns)
        for c, names in categories.items():
            rows[c] = np.array([*names, None], dtype=object)[rows[c].astype(int)]
        return search.predictor_.predict_proba(rows)[:, 1]

    explainer = shap.Explainer(probability, numbers(background), feature_names=list(X))
    values = explainer(numbers(problem.target.X.head(2)))
    print(pd.DataFrame(values.values, columns=list(X)).round(3))  # a row of A per line
