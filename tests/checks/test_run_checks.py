"""All checks of a fitted search."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from optuna.distributions import FloatDistribution
from sklearn.linear_model import Ridge

from shiftune import ShiftProblem, ShiftSearch
from shiftune.checks import run_checks
from shiftune.checks._checks import chance
from shiftune.errors import ProblemError


def fitted(rng, shift=0.0, **settings):
    means = {"A": 0.2, "B": 0.0, "C": 0.3, "D": -0.3}
    frames = []
    for name, mean in means.items():
        x = rng.normal(mean, 1, (200, 2))
        y = x[:, 0] + rng.normal(0, 0.5, 200) + shift * (name == "C")
        frames.append(pd.DataFrame({"site": name, "x": x[:, 0], "z": x[:, 1], "y": y}))
    problem = ShiftProblem.from_frame(
        pd.concat(frames, ignore_index=True),
        site="site",
        label="y",
        target="A",
        target_labels="oracle",
    )
    space = {"alpha": FloatDistribution(0.01, 1e4, log=True)}
    search = ShiftSearch(Ridge(), space, n_trials=6, sampler="random", **settings)
    return search.fit(problem)


def test_a_search_that_is_in_order():
    checks = fitted(np.random.default_rng(1)).checks()
    assert [check.name for check in checks] == [
        "better than a constant",
        "interval width",
        "label leakage",
        "overlap",
        "extrapolation",
        "site effects",
        "site heterogeneity",
        "no source decides alone",
        "enough sites and rows",
        "enough trials",
    ]
    assert [check.level for check in checks] == ["ok"] * 8 + ["caution", "ok"]  # three sources
    text = str(checks)
    assert text.count("Nothing to do.") >= 3
    assert max(map(len, text.splitlines())) <= 96


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"risk": "naive"},
        {"risk": "variance_reduced"},
    ],
)
def test_a_site_with_other_labels_is_named(settings, rng):
    checks = {check.name: check for check in fitted(rng, shift=1.5, **settings).checks()}
    between = "risk" not in settings  # the interval of the default includes it
    assert "disagree about the risk" in checks["site heterogeneity"].finding
    assert (checks["site heterogeneity"].level == "ok") == between
    assert ("site effects" in checks) == between
    if between:
        assert "most at 'C'" in checks["site effects"].finding


def test_an_oracle_assumes_nothing(rng):
    (check,) = run_checks(fitted(rng, risk="oracle").result_)
    assert check.level == "ok"


def test_before_fit():
    with pytest.raises(ProblemError, match="has not been fitted"):
        ShiftSearch(Ridge(), {}).checks()


def test_p_values():
    assert [chance(0.0000012), chance(0.0312)] == ["p < 0.001", "p = 0.031"]
