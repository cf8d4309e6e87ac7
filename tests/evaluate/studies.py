"""Studies from arrays, for tests of fits."""

from __future__ import annotations

import numpy as np

from shiftune.evaluate import StudyData
from shiftune.evaluate._fits import assign_folds, fit_predict, losses_of_fits


def study(sites, *, folds=None, classes=None, **given) -> StudyData:
    """Return the study of sites (X, y) that are all trained on and judged, as "adjusted" has it."""
    X, y = (list(part) for part in zip(*sites, strict=True))
    sizes = np.array([len(own) for own in y])
    rows = np.repeat(assign_folds(sizes) if folds is None else folds, sizes)
    named = {"names": tuple(map(str, range(len(y)))), "training_weights": None, "weights": None}
    return StudyData(
        X_train=np.concatenate(X),
        y_train=np.concatenate(y),
        train_folds=rows,
        X_validation=np.concatenate(X),
        y_validation=tuple(y),
        folds=rows,
        classes=None if classes is None else np.array(list(classes)),
        **named | given,
    )


def predicted(model, data, needs="predict"):
    """Return the predictions of all fits by fold."""
    return {fold: fit_predict(model, data, int(fold), needs) for fold in np.unique(data.folds)}


def losses(model, data, loss):
    """Return losses and predictions of a trial."""
    return losses_of_fits(predicted(model, data, loss.needs), data, loss)
