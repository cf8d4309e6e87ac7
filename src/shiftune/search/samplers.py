"""Samplers by name, and Optuna's own."""

from __future__ import annotations

import copy
import sys

import numpy as np
from optuna.samplers import BaseSampler, NSGAIIISampler, NSGAIISampler, TPESampler

from shiftune.errors import SettingsError
from shiftune.search.gp import GPLCBSampler
from shiftune.spelling import check_choice

NAMES = ("gp_lcb", "random", "tpe")


def sampler_named(
    sampler: str | BaseSampler, random_state: int, finished: int = 0, driver: int | None = None
) -> BaseSampler:
    """Return a sampler from its name, or a copy of the user's own, which is left as it is.

    Parameters
    ----------
    sampler : "gp_lcb", "random", "tpe" or an Optuna sampler
    random_state : int
        Seeds the samplers known by name.
    finished : int
        Trials of the study that is continued.
    driver : int, optional
        Number of the driver, where several share the study: each needs proposals of its own.

    Examples
    --------
    >>> type(sampler_named("gp_lcb", 0)).__name__
    'GPLCBSampler'
    """
    if isinstance(sampler, NSGAIISampler | NSGAIIISampler):
        raise SettingsError(
            f"{type(sampler).__name__} is for several objectives, and the target risk is one; "
            "use 'gp_lcb', 'tpe' or 'random'"
        )
    if isinstance(sampler, BaseSampler):
        own = copy.deepcopy(sampler)
        if driver is not None and not isinstance(own, GPLCBSampler):
            own.reseed_rng()
        return own
    check_choice(sampler, NAMES, "sampler")
    if sampler == "gp_lcb":
        return GPLCBSampler(seed=random_state)
    if sampler == "random":
        # Draws by seed and trial number, so that a continued study does not repeat itself.
        return GPLCBSampler(seed=random_state, n_startup_trials=sys.maxsize)
    # TPE's stream begins anew with every object: with the same seed a continued study would repeat
    # its first trials.
    entropy = [random_state, finished] if driver is None else [random_state, finished, driver]
    seed = np.random.SeedSequence(entropy).generate_state(1)
    return TPESampler(seed=int(seed[0]))
