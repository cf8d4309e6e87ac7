"""Lowest value of the estimated risk that is plausible under the Gaussian process of a search."""

from __future__ import annotations

import numpy as np
from optuna.search_space import intersection_search_space
from optuna.study import Study
from threadpoolctl import threadpool_limits

from shiftune.search.gp._acquisition import UnitCube, minimise_lower_bound
from shiftune.search.gp._gaussian_process import Posterior, fit
from shiftune.search.gp._sampler import TrialHistory, reported_variance, standardise, tame


def lowest_plausible_value(study: Study, beta: float = 2.0) -> float:
    """Minimum over the space of mean - beta sd, on the scale of the study's values.

    The process is fitted to the finished trials, whatever sampler proposed them.
    """
    trials = study.get_trials(deepcopy=False)
    values = np.array([trial.value for trial in trials], dtype=float)
    if len(trials) < 2:
        return -np.inf
    space = intersection_search_space(trials)
    cube = UnitCube(space)
    history = TrialHistory.read(trials, cube, space, study.direction, {})
    # The objective is the estimate itself, which is the same at the same point: no noise but the
    # fitted one.
    rows, y, variances = history.rows, history.y, np.zeros_like(history.variances)
    with threadpool_limits(1, user_api="blas"):  # the same digits on every machine
        fitted = fit(rows, y, variances, cube.groups)
        posterior = Posterior(rows, y, variances, cube.groups, fitted)
        lowest = minimise_lower_bound(posterior, cube, beta, np.random.default_rng(0), rows)
        bound = float(posterior.lower_bound(lowest[None], beta)[0])
    known = np.array([reported_variance(trial) for trial in trials])
    mean, unit = standardise(tame(values, known, np.zeros(len(values), dtype=bool)), known)[2:]
    return float(min(mean + unit * bound, values.min()))
