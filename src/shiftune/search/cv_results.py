"""Trials in the form of scikit-learn's `cv_results_`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from shiftune.search.families import family_of
from shiftune.search.records import finished_trials

if TYPE_CHECKING:
    from shiftune.search.result import SearchResult


def cv_results(result: SearchResult) -> dict[str, Any]:
    """Return the finished trials as a dict of arrays; scores are negated risks.

    `mean_test_score` is the negated estimate at the target and `std_test_score` its standard
    error. Every site is a split: `split0_test_score` is the negated estimate of the first source.
    `rank_test_score` is 1 for `best_index_`. Scores of trials that failed are NaN.
    """
    trials = result.trials
    by_number = {trial.number: trial for trial in finished_trials(result.study)}
    found: dict[str, Any] = {"mean_fit_time": trials["seconds"].to_numpy(float)}
    params = [name for name in trials if str(name).startswith("param_")]
    for name in params:
        values = trials[name]
        found[str(name)] = np.ma.array(values.to_numpy(object), mask=values.isna().to_numpy())
    found["params"] = [
        family_of(result.families, by_number[number]).plain_params(by_number[number])
        for number in trials.index
    ]
    for place, name in enumerate(result.choice.risk.names):
        found[f"split{place}_test_score"] = -trials[f"risk_{name}"].to_numpy(float)
    found["mean_test_score"] = -trials["risk"].to_numpy(float)
    found["std_test_score"] = trials["stderr"].to_numpy(float)
    compared: pd.Series = trials.get("compared_by", trials["risk"])
    ranks = compared.rank(method="min", na_option="bottom")
    found["rank_test_score"] = ranks.to_numpy(np.int32)
    return found
