"""A loss of one's own: a stay that is planned too short costs three times one too long."""

import numpy as np
from hospitals import visits
from sklearn.ensemble import HistGradientBoostingRegressor

from shiftune import ShiftProblem, ShiftSearch, spaces


def cost(days, planned):
    """Return the cost of every row."""
    late = days - planned
    return np.where(late > 0, 3 * late, -late)


if __name__ == "__main__":
    problem = ShiftProblem.from_frame(visits("days"), site="hospital", label="days", target="A")
    model = HistGradientBoostingRegressor(
        loss="quantile", quantile=0.75, categorical_features="from_dtype", max_iter=30
    )
    space = spaces.hist_gradient_boosting()
    del space["max_iter"]
    search = ShiftSearch(model, space, loss=cost, n_trials=6)
    search.fit(problem)
    print(search.risk_)  # in units of the cost
    print("planned at A, on average:", search.predict(problem.target.X).mean().round(2), "days")
