"""From a table with a site column to a model, its error at the new site, and a report.

The report needs two more packages: pip install 'shiftune[report]'
"""

from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch, spaces
from shiftune.datasets import hospitals

if __name__ == "__main__":
    threadpool_limits(1)  # many small fits in a row are fastest with one thread each
    df = hospitals(150)  # generated; yours comes from pandas.read_csv
    # The labels of A are known here, and set aside; in your table A has none.
    problem = ShiftProblem.from_frame(
        df, site="hospital", label="readmitted", target="A", target_labels="oracle"
    )
    print(problem)
    print(problem.diagnose()[["mean_weight", "uncovered", "verdict"]])

    model = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=30)
    space = spaces.hist_gradient_boosting()
    del space["max_iter"]
    search = ShiftSearch(model, space, n_trials=8)
    search.fit(problem)
    print(search.risk_)  # log loss at A, with its interval
    print(search.best_params_)
    print(search.checks())
    print("written to", search.report("report.html"))

    chances = search.predict_proba(problem.target.X)[:, 1]
    print(f"mean chance of readmission at A: {chances.mean():.3f}")
