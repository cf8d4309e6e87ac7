"""One of several processes that share the trials of a search: start this script many times."""

import os

from sklearn.linear_model import Ridge

from shiftune import ShiftSearch
from shiftune.datasets import toy_problem

STORAGE = os.environ.get("STORAGE", "joined.journal")

problem = toy_problem(1.0, n=100).problem
search = ShiftSearch(
    Ridge(),
    {"alpha": (1e-3, 1e3, "log")},
    n_trials=12,
    storage=STORAGE,  # or "postgresql+psycopg://user:password@host/database"
    join=True,
    answers="answers",  # a shared folder, too; a journal needs none
)
search.fit(problem)
print(search.trials_[["state", "risk", "stderr"]])
print(search.risk_)
