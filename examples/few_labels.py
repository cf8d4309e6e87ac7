"""The gain from labelling some rows of the target, and a search that uses those labels."""

from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch, spaces
from shiftune.datasets import hospitals

if __name__ == "__main__":
    threadpool_limits(1)  # many small fits in a row are fastest with one thread each
    df = hospitals(150)
    df["readmitted"] = df["readmitted"].where(df["hospital"] != "A")  # A has no labels
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=20)
    space = spaces.hist_gradient_boosting()
    del space["max_iter"]
    problem = ShiftProblem.from_frame(df, site="hospital", label="readmitted", target="A")
    search = ShiftSearch(model, space, n_trials=8).fit(problem)
    print(search.risk_)
    print(search.label_worth())  # before anybody has been paid for labelling

    # Somebody looks up the labels of 30 rows of A; the search then uses them.
    answers = hospitals(150)["readmitted"]  # known here, because the hospitals are generated
    looked_up = df.index[df["hospital"] == "A"][:30]
    df.loc[looked_up, "readmitted"] = answers[looked_up]
    problem = ShiftProblem.from_frame(
        df, site="hospital", label="readmitted", target="A", target_labels="use"
    )
    search = ShiftSearch(model, space, n_trials=8).fit(problem)
    print(search.risk_)
    print(search.risk_.sources[["n", "estimate", "share"]])
