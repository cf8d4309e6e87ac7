"""Scores of what a search hands over, at sites that its models had not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shiftune.effects.scale import from_scale
from shiftune.predictor.conformal import SiteScores, row_scores

if TYPE_CHECKING:
    from shiftune.search.result import SearchResult

Floats = NDArray[np.float64]


def site_scores(result: SearchResult, labels: int = 0) -> SiteScores:
    """Return the scores of the validation rows of all sources.

    Parameters
    ----------
    result : SearchResult
    labels : int
        Number of labels of the target that have updated the predictor: every source is then
        updated by as many of its own, and its other rows have scores.
    """
    answers, data, updater = result.choice.answers, result.context.data, result.updater
    classes = data.classes
    if answers is None or not answers.unseen_share:
        return SiteScores(
            [],
            "all its trials had models that were trained on all sites; search with risk='adjusted' "
            "and its own plan of fits",
        )
    if classes is not None and result.loss.needs == "predict":
        return SiteScores(
            [],
            f"the loss {result.loss.name} is of predicted classes, and a set of classes needs "
            "probabilities; search with loss='log_loss' or 'brier'",
        )
    if labels:
        limits = updater.effects.limits

        def of_scaled(y: NDArray[Any], scaled: Floats) -> Floats:
            limited = scaled if limits is None else np.clip(scaled, *limits)
            return row_scores(y, from_scale(limited), classes)

        return SiteScores.of(updater.effects.source_losses(labels, of_scaled))
    rows = [data.validation_rows([name]) for name in updater.names]
    labels_of = dict(zip(data.names, data.y_validation, strict=True))
    return SiteScores.of(
        [
            row_scores(labels_of[name], answers.unseen[own], classes)
            for name, own in zip(updater.names, rows, strict=True)
        ]
    )
