"""A custom loss: a readmission without a call costs as much as five needless calls."""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch, spaces
from shiftune.datasets import hospitals
from shiftune.evaluate import Loss


def cost(labels, probabilities, classes):
    """Return the cost of every row if every patient with a risk above 1 in 6 is called."""
    readmitted = labels == "yes"
    called = probabilities[:, list(classes).index("yes")] > 1 / 6
    return np.where(readmitted & ~called, 5.0, np.where(called & ~readmitted, 1.0, 0.0))


if __name__ == "__main__":
    threadpool_limits(1)  # many small fits in a row are fastest with one thread each
    problem = ShiftProblem.from_frame(
        hospitals(150), site="hospital", label="readmitted", target="A", target_labels="oracle"
    )
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=20)
    space = spaces.hist_gradient_boosting()
    del space["max_iter"]
    loss = Loss(cost, "cost of calls", needs="predict_proba")
    search = ShiftSearch(model, space, loss=loss, n_trials=6)
    search.fit(problem)
    print(search.risk_)  # in units of a needless call, per patient
