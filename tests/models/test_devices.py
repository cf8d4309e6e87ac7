"""The device of a model reaches its fits untouched."""

from __future__ import annotations

import numpy as np
import pytest
from optuna.distributions import IntDistribution
from sklearn.base import BaseEstimator, RegressorMixin

from shiftune import ShiftProblem, ShiftSearch

FITTED: list[tuple[str, str]] = []


class OnDevice(RegressorMixin, BaseEstimator):
    """The parameters that boosted trees name their device with; it notes those of every fit."""

    def __init__(self, depth=1, device="cpu", task_type="CPU"):
        self.depth, self.device, self.task_type = depth, device, task_type

    def fit(self, X, y):
        FITTED.append((self.device, self.task_type))
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


@pytest.mark.parametrize("final", ["best", "ensemble"])
def test_the_device_reaches_every_fit(final, rng):
    sites = {name: (rng.normal(size=(30, 2)), rng.normal(size=30)) for name in "BCDE"}
    problem = ShiftProblem.from_sites(sites, rng.normal(size=(30, 2)))
    FITTED.clear()
    model = OnDevice(device="cuda:0", task_type="GPU")
    search = ShiftSearch(model, {"depth": IntDistribution(1, 3)}, n_trials=2, final=final)
    search.fit(problem)
    assert len(FITTED) > 2 * 4
    assert set(FITTED) == {("cuda:0", "GPU")}


def test_lightgbm_keeps_its_device():
    """Its version on PyPI cannot fit with it, so the models of the fits are looked at."""
    lightgbm = pytest.importorskip("lightgbm")
    search = ShiftSearch(lightgbm.LGBMRegressor(device="cuda"), {"num_leaves": [4, 8]})
    assert search.get_params()["estimator__device"] == "cuda"
