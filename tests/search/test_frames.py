"""From a public call to the work there are few steps of our own: a reader can follow them."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from reproduction.toy import toy_problem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import shiftune
from shiftune import ShiftSearch

OURS = str(Path(shiftune.__file__).parent)


class Traced(Ridge):
    """Notes the functions of the package on the way to `fit`."""

    stacks: list[list[str]] = []  # noqa: RUF012 - shared by clones

    def fit(self, X, y, sample_weight=None):
        frames = [f for f in traceback.extract_stack() if f.filename.startswith(OURS)]
        self.stacks.append([f"{Path(f.filename).name}:{f.name}" for f in frames])
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("risk", ["adjusted", "variance_reduced"])
@pytest.mark.parametrize("prefix", ["", "traced__"])
def test_at_most_eight_from_fit_to_the_models_fit(risk, prefix):
    Traced.stacks.clear()
    model = make_pipeline(StandardScaler(), Traced()) if prefix else Traced()
    search = ShiftSearch(
        model, {f"{prefix}alpha": (0.1, 10.0)}, risk=risk, n_trials=3, progress=False
    )
    search.fit(toy_problem(1.0, n=60).problem)
    assert len(Traced.stacks) > 3
    for stack in Traced.stacks:
        assert stack[0] == "_search.py:fit"
        assert len(stack) <= 8, stack
