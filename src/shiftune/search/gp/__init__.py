"""The GP-LCB sampler: Bayesian optimisation as an Optuna sampler of its own."""

from shiftune.search.gp.sampler import GPLCBSampler
from shiftune.search.gp.trial_history import VARIANCE_KEY

__all__ = ["VARIANCE_KEY", "GPLCBSampler"]
