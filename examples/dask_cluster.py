"""Trials on a Dask cluster: here two local processes; an address connects to any other cluster.

Needs Dask: pip install '.[dask]'
"""

from distributed import Client, LocalCluster
from sklearn.ensemble import HistGradientBoostingClassifier

from shiftune import ShiftProblem, ShiftSearch, spaces
from shiftune.datasets import hospitals

if __name__ == "__main__":
    problem = ShiftProblem.from_frame(
        hospitals(150), site="hospital", label="readmitted", target="A", target_labels="oracle"
    )
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=30)
    space = spaces.hist_gradient_boosting()
    del space["max_iter"]
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        search = ShiftSearch(model, space, n_trials=6, executor=client.get_executor)
        search.fit(problem)
    print(search.risk_)
    print(search.trials_[["risk", "seconds"]])
