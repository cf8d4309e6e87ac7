"""A search that is killed and then continues where it stopped."""

import subprocess
import sys
import time
from pathlib import Path

from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch, spaces
from shiftune.datasets import hospitals

JOURNAL = Path("study.journal")


def search(n_trials):
    """Start or continue the search; `n_trials` includes the trials of earlier runs."""
    problem = ShiftProblem.from_frame(
        hospitals(150), site="hospital", label="readmitted", target="A", target_labels="oracle"
    )
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=30)
    space = spaces.hist_gradient_boosting()
    del space["max_iter"]
    tuned = ShiftSearch(model, space, n_trials=n_trials, storage=JOURNAL)
    return tuned.fit(problem)


if __name__ == "__main__":
    threadpool_limits(1)  # many small fits in a row are fastest with one thread each
    if "--begin" in sys.argv:
        search(n_trials=1000)
        sys.exit()
    JOURNAL.unlink(missing_ok=True)
    process = subprocess.Popen([sys.executable, __file__, "--begin"])
    while not (JOURNAL.exists() and JOURNAL.read_text().count('"risk_variance"') >= 2):
        time.sleep(0.2)
    process.kill()  # no time to clean up
    process.wait()

    result = search(n_trials=6)
    print(result.trials_[["state", "risk", "stderr"]])
    print(result.risk_)
