"""How low the objective may still be anywhere in the space, by the Gaussian process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from optuna.search_space import intersection_search_space
from optuna.trial import TrialState

from shiftune.search.gp.acquisition import Visited, minimise_lower_bound
from shiftune.search.gp.gaussian_process import Posterior, fit
from shiftune.search.gp.trial_history import TrialHistory
from shiftune.search.gp.unit_cube import UnitCube

if TYPE_CHECKING:
    from optuna.study import Study


def lowest_plausible_value(study: Study, beta: float = 2.0) -> float:
    """Minimum over the space of mean - beta sd, on the scale of the study's values.

    The process is fitted to the finished trials, whatever sampler proposed them.
    """
    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    values = np.array([t.value for t in trials], dtype=float)
    found = intersection_search_space(trials)
    space = {name: d for name, d in found.items() if not d.single()}
    if len(trials) < 2 or not space or np.ptp(values) == 0:
        return float(values.min())
    cube = UnitCube(space)
    history = TrialHistory.read(trials, cube, space, study.direction, {})
    rows, y, variances = history.rows, history.y, history.variances
    posterior = Posterior(rows, y, variances, cube.groups, fit(rows, y, variances, cube.groups))
    nothing = Visited(np.empty((0, rows.shape[1])))
    rng = np.random.default_rng(0)
    lowest = minimise_lower_bound(posterior, cube, beta, rng, rows, nothing)
    bound = float(posterior.lower_bound(lowest[None], beta)[0])
    return float(min(history.unscaled(bound), values.min()))
