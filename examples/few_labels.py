"""What labelling some rows of the target would buy; then a search that has them."""

from hospitals import visits
from sklearn.ensemble import HistGradientBoostingClassifier

from shiftune import ShiftProblem, ShiftSearch, spaces

if __name__ == "__main__":
    df = visits()
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=20)
    space = spaces.hist_gradient_boosting()
    del space["max_iter"]
    problem = ShiftProblem.from_frame(df, site="hospital", label="readmitted", target="A")
    search = ShiftSearch(model, space, n_trials=8).fit(problem)
    print(search.risk_)
    print(search.label_worth())  # before anybody has been paid for labelling

    # Somebody looks up 30 rows of A. Those with a label are used, the others stay the target.
    truth = visits(hidden=False)
    looked_up = df.index[df["hospital"] == "A"][:30]
    df.loc[looked_up, "readmitted"] = truth.loc[looked_up, "readmitted"]
    problem = ShiftProblem.from_frame(
        df, site="hospital", label="readmitted", target="A", target_labels="use"
    )
    search = ShiftSearch(model, space, n_trials=8).fit(problem)
    print(search.risk_)
    print(search.risk_.sources[["n", "estimate", "share"]])
