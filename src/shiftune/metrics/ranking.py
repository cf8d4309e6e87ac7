"""Metrics of ranks: area under the ROC curve, average precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shiftune.metrics.metric import Floats, Metric

Labels = NDArray[Any]
Sites = NDArray[np.intp]


class _Ranked(NamedTuple):
    """Different scores of every site, the lowest of the first site first.

    `place` is the place of every row's score, shape (n,); `site` that of every score's site.
    """

    place: NDArray[np.intp]
    site: Sites

    @classmethod
    def of(cls, p: Floats, sites: Sites) -> _Ranked:
        order = np.lexsort((p, sites))
        different = np.diff(p[order], prepend=np.nan) != 0
        different |= np.diff(sites[order], prepend=-1) != 0
        place = np.empty(len(p), dtype=np.intp)
        place[order] = np.cumsum(different) - 1
        return cls(place, sites[order][different])

    def sums(self, weights: Floats) -> Floats:
        """Sum over the rows of a score."""
        return np.bincount(self.place, weights, len(self.site)).astype(float)

    def totals(self, sums: Floats) -> Floats:
        """Sum over the scores of every site."""
        return np.bincount(self.site, sums).astype(float)

    def up_to(self, sums: Floats) -> Floats:
        """Sum over this score and the lower ones of its site."""
        totals = self.totals(sums)
        return np.asarray(sums.cumsum() - (totals.cumsum() - totals)[self.site])


def _placements(y: Labels, p: Floats, w: Floats, sites: Sites) -> Floats:
    """Of a positive the share of negatives below it, of a negative that of positives above it.

    Rows of the same score count half (DeLong 1988).
    """
    ranked = _Ranked.of(p, sites)

    def below(weights: Floats) -> Floats:
        own = ranked.sums(weights)
        shares = (ranked.up_to(own) - own / 2) / ranked.totals(own)[ranked.site]
        return np.asarray(shares[ranked.place])

    return np.where(y == 1, below(w * (y != 1)), 1 - below(w * (y == 1)))


def _auc(y: Labels, p: Floats, w: Floats) -> float:
    placements = _placements(y, p, w, np.zeros(len(y), dtype=np.intp))
    return float(np.average(placements[y == 1], weights=w[y == 1]))


def _auc_by_site(y: Labels, p: Floats, sites: Sites) -> Floats:
    positive, n = y == 1, np.bincount(sites)
    placements, positives = _placements(y, p, np.ones(len(y)), sites), np.bincount(sites, positive)
    area = (np.bincount(sites, positive * placements) / positives)[sites]
    share = np.where(positive, (positives / n)[sites], (1 - positives / n)[sites])
    return np.asarray(area + (placements - area) / share)


def _average_precision(y: Labels, p: Floats, w: Floats) -> float:
    ranked = _Ranked.of(-p, np.zeros(len(y), dtype=np.intp))
    positives, rows = ranked.sums(w * y), ranked.sums(w)
    precision = ranked.up_to(positives) / ranked.up_to(rows)
    return float(positives @ precision / positives.sum())


def _average_precision_by_site(y: Labels, p: Floats, sites: Sites) -> Floats:
    r"""Derivative of :math:`\sum_i y_i A_i / B_i \big/ \sum_i y_i` by the weights of the rows.

    A and B are the positives and all rows that score at least as high as row i.
    """
    ranked = _Ranked.of(-p, sites)
    positives, rows = ranked.sums(1.0 * y), ranked.sums(np.ones(len(y)))
    A, B = ranked.up_to(positives), ranked.up_to(rows)
    total, n = ranked.totals(positives), ranked.totals(rows)
    value = ranked.totals(positives * A / B) / total

    def from_here(sums: Floats) -> Floats:
        return np.asarray((ranked.totals(sums)[ranked.site] - ranked.up_to(sums) + sums)[place])

    place = ranked.place
    gained = (A / B)[place] + from_here(positives / B) - value[sites]
    moved = y * gained - from_here(positives * A / B**2)
    return np.asarray(value[sites] + (n / total)[sites] * moved)


def _one_vs_rest(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mean over the classes that some rows have and others have not; NaN if there are none."""

    def averaged(y: Labels, p: Floats, w: Floats) -> Any:
        each = {1: p} if p.ndim == 1 else dict(enumerate(p.T))
        found = [
            function((y == c).astype(int), own, w)
            for c, own in each.items()
            if 0 < np.sum(y == c) < len(y)
        ]
        return np.mean(found) if found else np.nan

    return averaged


def _one_vs_rest_by_site(function: Callable[..., Floats]) -> Callable[..., Floats]:
    """The same at every site."""

    def averaged(y: Labels, p: Floats, sites: Sites) -> Floats:
        total, count, n = np.zeros(len(y)), np.zeros(len(y)), np.bincount(sites)
        for c, own in ({1: p} if p.ndim == 1 else dict(enumerate(p.T))).items():
            rows = np.bincount(sites, y == c)
            defined = ((rows > 0) & (rows < n))[sites]
            values = function((y == c).astype(int), own, sites)
            total, count = total + np.where(defined, values, 0.0), count + defined
        return np.asarray(total / count)

    return averaged


AUC = Metric(
    "auc",
    _one_vs_rest(_auc),
    "probabilities",
    scale="logit",
    by_site=_one_vs_rest_by_site(_auc_by_site),
)
AVERAGE_PRECISION = Metric(
    "average_precision",
    _one_vs_rest(_average_precision),
    "probabilities",
    scale="logit",
    by_site=_one_vs_rest_by_site(_average_precision_by_site),
)
