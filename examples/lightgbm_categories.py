"""LightGBM on a table with categories, read by LightGBM itself or encoded in a pipeline.

Needs LightGBM: pip install '.[lightgbm]'
"""

from lightgbm import LGBMClassifier
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from shiftune import ShiftProblem, ShiftSearch, spaces
from shiftune.datasets import hospitals

if __name__ == "__main__":
    problem = ShiftProblem.from_frame(
        hospitals(150), site="hospital", label="readmitted", target="A", target_labels="oracle"
    )

    # Columns of pandas' type "category" are read by LightGBM itself.
    # One thread each: many small fits in a row are slower with more.
    model = LGBMClassifier(n_estimators=40, n_jobs=1, verbosity=-1)
    search = ShiftSearch(model, spaces.lightgbm_paper(), n_trials=8)
    search.fit(problem)
    print("categories read by LightGBM", search.risk_)

    # Parameter names in a pipeline begin with the name of the step.
    encode = ColumnTransformer(
        [("ward", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["ward"])],
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = Pipeline([("encode", encode), ("trees", model)])
    search = ShiftSearch(pipeline, spaces.lightgbm_paper(prefix="trees__"), n_trials=8)
    search.fit(problem)
    print("encoded in a pipeline      ", search.risk_)
    print(search.best_params_)
