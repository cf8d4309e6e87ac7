"""GP-LCB: Bayesian optimisation with a Gaussian process, as an Optuna sampler."""

from shiftune.search.gp.sampler import GPLCBSampler
from shiftune.search.gp.trial_history import VARIANCE_KEY

__all__ = ["VARIANCE_KEY", "GPLCBSampler"]
