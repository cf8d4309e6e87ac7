"""GP-LCB: Bayesian optimisation with a Gaussian process, as an Optuna sampler."""

from shiftune.search.gp._sampler import VARIANCE_KEY, GPLCBSampler

__all__ = ["VARIANCE_KEY", "GPLCBSampler"]
