"""scikit-learn's checks of estimators, all but those of a table of reasons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from shiftune import ShiftSearch

WORDS = "an error of our own words, which name site and column"

# Also in docs/how-to/grid-search.md.
DO_NOT_APPLY = {
    "check_n_features_in_after_fitting": WORDS,
    "check_complex_data": WORDS,
    "check_dtype_object": WORDS,
    "check_fit2d_1sample": WORDS,
    "check_estimators_empty_data_messages": WORDS,
    "check_regressors_train": "asks for R2 > 0.5, but score is a negated loss",
    "check_supervised_y_2d": "labels of shape (n, 1) are read without a warning",
}


@dataclass(eq=False, repr=False)
class OneTable(ShiftSearch):
    """A search that takes every other row for a site, and all rows for the target."""

    def fit(self, X, y=None):  # type: ignore[override]
        if y is None:
            return super().fit(X)
        n = X.shape[0] if hasattr(X, "shape") else len(np.asarray(X))
        return super().fit(X, y, groups=np.arange(n) % 2, X_target=X)


def searches():
    options = {"n_trials": 1, "sampler": "random", "final": "best"}
    yield OneTable(Ridge(), {"alpha": (0.1, 1.0)}, **options)
    yield OneTable(LogisticRegression(), {"C": (0.1, 1.0)}, **options)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(list(searches()), expected_failed_checks=lambda _: DO_NOT_APPLY)
def test_check(estimator, check):
    check(estimator)
