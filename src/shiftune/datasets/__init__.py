"""Problems to try things on: generated ones whose truth is known, and the paper's patients."""

from shiftune.datasets.gaussian import GaussianSites, gaussian_sites
from shiftune.datasets.hospitals import hospitals
from shiftune.datasets.patients import load_gvhd, load_parkinson
from shiftune.datasets.toy import ConstantPrediction, ToyProblem, toy_problem

__all__ = [
    "ConstantPrediction",
    "GaussianSites",
    "ToyProblem",
    "gaussian_sites",
    "hospitals",
    "load_gvhd",
    "load_parkinson",
    "toy_problem",
]
