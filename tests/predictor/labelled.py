"""Labels of sites, without rows to train on."""

import numpy as np

from shiftune.evaluate import StudyData


def labelled(y, **given) -> StudyData:
    """Return a study of labels by site."""
    none = np.zeros(0)
    named = {"names": tuple(f"S{j}" for j in range(len(y)))} | given
    return StudyData(none, none, none.astype(str), None, none, tuple(y), None, **named)
