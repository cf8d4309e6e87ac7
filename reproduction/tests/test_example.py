from __future__ import annotations

import numpy as np
import pytest
from reproduction.example import WORKED_EXAMPLE

from shiftune.risk import unbiased_lambda


class TestWorkedExample:
    def test_to_four_digits(self):
        example = WORKED_EXAMPLE
        np.testing.assert_allclose(example.divergences, [252.81, 4.2711], atol=5e-5)
        np.testing.assert_allclose(example.lambdas, [0.0166, 0.9834], atol=5e-5)
        assert example.variances["unbiased"] == pytest.approx(64.2703, abs=5e-5)
        assert example.variances["first source dropped"] == pytest.approx(4.2711, abs=5e-5)
        assert example.variances["variance reduced"] == pytest.approx(4.2002, abs=5e-5)

    def test_by_simulation(self):
        """One row of each source, 400,000 times: means 8.2, variances as computed."""
        rng = np.random.default_rng(0)
        e = WORKED_EXAMPLE
        draws = []
        for p in e.sources:
            wL = np.array(e.target) / np.array(p) * np.array(e.loss)
            draws.append(rng.choice(wL, size=400_000, p=p))
        for lam, want in (
            (unbiased_lambda([1, 1]), e.variances["unbiased"]),
            (e.lambdas, e.variances["variance reduced"]),
        ):
            f = lam[0] * draws[0] + lam[1] * draws[1]
            assert abs(f.mean() - e.risk) < 4 * f.std() / np.sqrt(len(f))
            # Standard error of a sample variance from the sample's fourth moment.
            error = np.sqrt(np.var((f - f.mean()) ** 2) / len(f))
            assert abs(f.var() - want) < 4 * error
