"""Frequencies of the classes at the target; what the check makes of them is in tests/checks."""

import numpy as np

from shiftune.checks._label_shift import frequencies


def test_frequencies_by_hand():
    """Of 10 rows 3 look like the first class: 0.3 = 0.9 p + 0.1 (1 - p)."""
    P = np.array([[0.9, 0.1]] * 3 + [[0.1, 0.9]] * 7)  # as if with equal frequencies
    np.testing.assert_allclose(frequencies(P, np.array([0.5, 0.5])), [0.25, 0.75], atol=1e-4)
