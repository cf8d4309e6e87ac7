"""Generated problems whose truth is known."""

from shiftune.datasets._generated import (
    ConstantPrediction,
    GaussianSites,
    ToyProblem,
    gaussian_sites,
    hospitals,
    toy_problem,
)

__all__ = [
    "ConstantPrediction",
    "GaussianSites",
    "ToyProblem",
    "gaussian_sites",
    "hospitals",
    "toy_problem",
]
