"""From a table with a site column to predictions, their error at the new site, and a report.

The report needs two more packages: pip install '.[report]'
"""

from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch
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

    search = ShiftSearch("auto", n_trials=12)  # linear, kernel and boosted trees, four trials each
    search.fit(problem)
    print(search.members_[["model", "weight", "risk"]])  # their weighted mean predicts
    print(search.risk_)  # its log loss at A, with an interval
    print(search.checks())
    print("written to", search.report("report.html"))

    chances = search.predict_proba(problem.target.X)[:, 1]
    print(f"mean chance of readmission at A: {chances.mean():.3f}")
