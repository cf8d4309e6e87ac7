"""Many numbers as a short text, in single precision whatever their size."""

from __future__ import annotations

from base64 import b64decode, b64encode

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def packed(values: Floats) -> str:
    """Write an array of shape (n,), seven digits of each, on the scale of the largest.

    >>> packed(np.array([0.0, -0.5]))
    '0:AAAAAAAAAL8='
    """
    exponent = int(np.frexp(np.max(np.abs(values), initial=0.0))[1])
    scaled = np.ldexp(values, -exponent).astype("<f4")
    return f"{exponent}:{b64encode(scaled.tobytes()).decode()}"


def unpacked(text: str) -> Floats:
    """Read what `packed` wrote.

    >>> bool(np.isclose(unpacked(packed(np.array([0.0, 1 / 3e200])))[1], 1 / 3e200, rtol=1e-7))
    True
    """
    exponent, numbers = text.split(":")
    scaled = np.frombuffer(b64decode(numbers), dtype="<f4").astype(float)
    return np.asarray(np.ldexp(scaled, int(exponent)))
