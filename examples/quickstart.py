"""From a table with a site column to a model, its error at the new site, and a report."""

from hospitals import visits
from sklearn.ensemble import HistGradientBoostingClassifier

from shiftune import ShiftProblem, ShiftSearch, spaces

if __name__ == "__main__":
    df = visits()  # hospital A has no labels
    problem = ShiftProblem.from_frame(df, site="hospital", label="readmitted", target="A")
    print(problem)
    print(problem.diagnose()[["mean_weight", "uncovered", "verdict"]])

    search = ShiftSearch(
        HistGradientBoostingClassifier(categorical_features="from_dtype"),
        spaces.hist_gradient_boosting(),
        n_trials=8,
    )
    search.fit(problem)
    print(search.risk_)  # log loss at A, with its interval
    print(search.best_params_)
    print(search.checks())
    print("written to", search.report("report.html"))

    chances = search.predict_proba(problem.target.X)[:, 1]
    print(f"mean chance of readmission at A: {chances.mean():.3f}")
