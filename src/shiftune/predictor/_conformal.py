r"""Intervals and sets of classes that hold at a new site: conformal prediction over sites."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from shiftune.errors import SettingsError

Floats = NDArray[np.float64]

# Scores of a site that are kept; each stands for those below it, so that no interval gets shorter.
_MOST_SCORES = 200


@dataclass(frozen=True)
class SiteScores:
    r"""Scores of rows at sites that the model had not seen.

    A row's score is :math:`|y - \hat y|`, or :math:`1 - \hat p(y)` for classes. If the new site is
    drawn like the k sites of the scores, and its rows like theirs, the interval
    :math:`\hat y \pm q`, or the set of classes with :math:`1 - \hat p \le q`, has the true label of
    a new row with a probability of at least the level, where q is the level's quantile of

    .. math:: \sum_{j=1}^{k} \frac{1}{k + 1} \sum_{i=1}^{n_j} \frac{1}{n_j} \delta_{S_{ij}}
        + \frac{1}{k + 1} \delta_\infty ,

    so every site is one draw, however many rows it has [1]_, [2]_. Above k / (k + 1) the quantile
    is infinite. The theorem is for one model; here each score is of a model trained without the
    site, and the one that predicts was trained on all of them.

    Attributes
    ----------
    sites : list of k sorted arrays
        Scores, at most 200 of each site.
    obstacle : str
        Reason why there are none; empty otherwise.

    References
    ----------
    .. [1] Dunn, Wasserman and Ramdas (2023). Distribution-free prediction sets for two-layer
       hierarchical models. Journal of the American Statistical Association 118.
    .. [2] Lee, Barber and Willett (2023). Distribution-free inference with hierarchical data.
       arXiv:2306.06342.

    Examples
    --------
    >>> scores = SiteScores.of([np.arange(1.0, 5.0) + site for site in range(9)])
    >>> scores.quantile(0.5), scores.highest_level
    (7.0, 0.9)
    """

    sites: list[Floats]
    obstacle: str = ""

    @classmethod
    def of(cls, scores: Sequence[Floats]) -> Self:
        """Keep the scores of every site, or upper quantiles of them."""
        kept = []
        for ordered in map(np.sort, filter(len, scores)):
            if len(ordered) > _MOST_SCORES:
                ends = np.ceil(np.arange(1, _MOST_SCORES + 1) * len(ordered) / _MOST_SCORES)
                ordered = ordered[ends.astype(np.intp) - 1]
            kept.append(ordered)
        return cls(kept)

    @property
    def highest_level(self) -> float:
        """Level above which an interval would be infinite: k / (k + 1)."""
        return len(self.sites) / (len(self.sites) + 1)

    def quantile(self, level: float) -> float:
        """Return q; an error that names the reason where there are too few sites."""
        if not 0 < level < 1:
            raise SettingsError(f"the level of an interval must lie between 0 and 1, got {level}")
        if self.obstacle:
            raise SettingsError(f"there are no intervals for this model: {self.obstacle}")
        k = len(self.sites)
        if level > self.highest_level + 1e-12:
            needed = math.ceil(level / (1 - level) - 1e-9)
            raise SettingsError(
                f"an interval that holds at a new site with probability {level:g} needs at least "
                f"{needed} sites with labels, and there are {k}; with {k}, the highest level is "
                f"{math.floor(100 * self.highest_level) / 100:g}"
            )
        scores = np.concatenate(self.sites)
        weights = np.concatenate([np.full(len(site), 1 / len(site)) for site in self.sites])
        order = np.argsort(scores, kind="stable")
        reached = np.cumsum(weights[order]) / (k + 1)
        return float(scores[order][np.searchsorted(reached, level - 1e-12)])


def row_scores(y: NDArray[Any], predictions: NDArray[Any], classes: NDArray[Any] | None) -> Floats:
    """Return the score of every row: |y - value|, or 1 - probability of the true class."""
    if classes is None:
        return np.asarray(np.abs(y - predictions.reshape(len(y))), dtype=float)
    of_label = predictions[np.arange(len(y)), np.searchsorted(classes, y)]
    return np.asarray(1.0 - of_label, dtype=float)


def interval_around(values: NDArray[Any], q: float) -> Floats:
    """Return the ends of the intervals, shape (n, 2)."""
    return np.column_stack([values - q, values + q]).astype(float)


def class_sets(shares: Floats, q: float) -> NDArray[np.bool_]:
    """Return which classes belong to every row's set, shape (n, C); the likeliest always does."""
    inside = np.asarray(1 - shares <= q)
    inside[np.arange(len(shares)), np.argmax(shares, axis=1)] = True
    return inside
