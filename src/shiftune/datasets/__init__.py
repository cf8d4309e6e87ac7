"""Generated problems whose truth is known."""

from shiftune.datasets.gaussian import GaussianSites, gaussian_sites
from shiftune.datasets.hospitals import hospitals
from shiftune.datasets.toy import ConstantPrediction, ToyProblem, toy_problem

__all__ = [
    "ConstantPrediction",
    "GaussianSites",
    "ToyProblem",
    "gaussian_sites",
    "hospitals",
    "toy_problem",
]
