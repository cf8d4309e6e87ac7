"""One of several processes that share the trials of a search: start this script many times."""

import os

import numpy as np
from sklearn.linear_model import Ridge

from shiftune import ShiftProblem, ShiftSearch

STORAGE = os.environ.get("STORAGE", "joined.journal")

X = np.random.default_rng(0).normal(size=(3, 100, 2))  # the target and two sources
problem = ShiftProblem.from_sites([(rows, rows.sum(axis=1)) for rows in X[1:]], X[0])
search = ShiftSearch(
    Ridge(),
    {"alpha": (1e-3, 1e3, "log")},
    n_trials=12,
    storage=STORAGE,  # or "postgresql+psycopg://user:password@host/database"
    join=True,
    predictions_folder="predictions",  # a shared folder, too; a journal needs none
)
search.fit(problem)
print(search.trials_[["state", "risk", "stderr"]])
print(search.risk_)
