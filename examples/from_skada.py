"""Coming from skada: X, y and sample_domain, with source domains >= 0 and target domains < 0."""

import numpy as np
from sklearn.svm import SVC

from shiftune import ShiftProblem, ShiftSearch, spaces

if __name__ == "__main__":
    # Arrays as skada's generators and pack functions return them; the target's y is masked by -1.
    rng = np.random.default_rng(0)
    sample_domain = np.repeat([1, 2, 3, -4], 150)
    centre = np.repeat([[0.0, 0.0], [1.0, 0.5], [-0.5, 1.0], [0.7, 0.9]], 150, axis=0)
    X = rng.normal(centre, 1.0)
    y = (X[:, 0] * X[:, 1] + rng.normal(0, 0.5, len(X)) > 0.3).astype(int)
    y[sample_domain < 0] = -1

    problem = ShiftProblem.from_sample_domain(X, y, sample_domain)
    print(problem)
    search = ShiftSearch(SVC(), spaces.svm(), loss="zero_one", n_trials=12)
    search.fit(problem)
    print(search.risk_)
    print(search.best_params_)
