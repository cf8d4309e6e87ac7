"""Lowest plausible value of the objective over the space, by the Gaussian process."""

from __future__ import annotations

import numpy as np
from optuna.search_space import intersection_search_space
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from threadpoolctl import threadpool_limits

from shiftune.search.gp.acquisition import Visited, minimise_lower_bound
from shiftune.search.gp.gaussian_process import Posterior, fit
from shiftune.search.gp.trial_history import TrialHistory
from shiftune.search.gp.unit_cube import UnitCube


def lowest_plausible_value(study: Study, beta: float = 2.0) -> float:
    """Minimum over the space of mean - beta sd, on the scale of the study's values.

    The process is fitted to the finished trials, whatever sampler proposed them. Of families of
    trials that have no parameter in common, each has a process and a space of its own; trials
    without parameters have their values alone.
    """
    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    with threadpool_limits(1, user_api="blas"):  # the same digits on every machine
        bounds = [_lowest(own, study, beta) for own in _families(trials)]
    return min(bounds, default=np.inf)


def _families(trials: list[FrozenTrial]) -> list[list[FrozenTrial]]:
    """Put trials together that have a parameter in common, directly or through others."""
    found: list[tuple[set[str], list[FrozenTrial]]] = []
    for trial in trials:
        names, own = set(trial.params), [trial]
        others = []
        for family in found:
            if family[0] & names or not (family[0] or names):
                names, own = names | family[0], family[1] + own
            else:
                others.append(family)
        found = [*others, (names, own)]
    return [own for _, own in found]


def _lowest(trials: list[FrozenTrial], study: Study, beta: float) -> float:
    values = np.array([t.value for t in trials], dtype=float)
    found = intersection_search_space(trials)
    space = {name: d for name, d in found.items() if not d.single()}
    if not space:
        return float(values.min())  # nothing else could have been tried
    if len(trials) < 2:
        return -np.inf
    cube = UnitCube(space)
    history = TrialHistory.read(trials, cube, space, study.direction, {})
    # The objective is the estimate itself, which is the same at the same point: no noise but the
    # fitted one.
    rows, y, variances = history.rows, history.y, np.zeros_like(history.variances)
    posterior = Posterior(rows, y, variances, cube.groups, fit(rows, y, variances, cube.groups))
    nothing = Visited(np.empty((0, rows.shape[1])))
    rng = np.random.default_rng(0)
    lowest = minimise_lower_bound(posterior, cube, beta, rng, rows, nothing)
    bound = float(posterior.lower_bound(lowest[None], beta)[0])
    return float(min(history.unscaled(bound), values.min()))
