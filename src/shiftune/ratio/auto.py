"""The density ratio that chooses, for every source, the estimator that does best held out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn.base import clone

from shiftune.errors import ProblemError
from shiftune.ratio.base import DensityRatio
from shiftune.ratio.classifier import ClassifierRatio
from shiftune.ratio.least_squares import RULSIF, ULSIF
from shiftune.ratio.score import held_out_scores

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# Standard errors by which a source's own best candidate must win.
DEPARTURE = 2.0


class AutoRatio(DensityRatio):
    """Choose among density ratios by their held-out least-squares score, source by source.

    The score of one source is noisy: its squared weights have heavy tails. So the candidate that
    is least behind the best in the median source is taken, except for sources whose own best
    candidate beats it by more than two standard errors of the paired difference over the
    folds. (What else was tried is in benchmarks/ratios.py.)

    Parameters
    ----------
    candidates : mapping from names to DensityRatio, optional
        Default: uLSIF, RuLSIF, a logistic and a boosted-tree classifier.
    n_folds : int
        Folds of the held-out score.
    max_rows : int
        At most this many rows of the target, and of each source, take part in the choice; the
        chosen estimators are then fitted on all rows.
    random_state : int

    Attributes
    ----------
    choice_ : list of str
        The name of the chosen candidate, one per source.
    scores_ : DataFrame of shape (k, number of candidates)
        Mean held-out score; lower is better.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> target, source = rng.normal(0, 1, (1000, 7)), rng.normal(0.3, 1, (1000, 7))
    >>> AutoRatio().fit(target, [source]).choice_
    ['logistic']
    """

    def __init__(
        self,
        candidates: Mapping[str, DensityRatio] | None = None,
        *,
        n_folds: int = 5,
        max_rows: int = 5_000,
        random_state: int = 0,
    ) -> None:
        self.candidates = candidates
        self.n_folds = n_folds
        self.max_rows = max_rows
        self.random_state = random_state

    def _fit_encoded(
        self, Z_target: NDArray[np.float64], Z_sources: list[NDArray[np.float64]]
    ) -> None:
        # Candidates encode what they are given: rows that are encoded already stay, up to a
        # scale, as they are.
        candidates = dict(self.candidates or default_candidates(self.random_state))
        if not candidates:
            raise ProblemError("AutoRatio needs at least one candidate")
        names = list(candidates)
        self.scores_ = pd.DataFrame(0.0, index=range(len(Z_sources)), columns=names)
        self.choice_ = names[:1] * len(Z_sources)
        smallest = min(len(Z) for Z in (Z_target, *Z_sources))
        if len(names) > 1 and smallest >= 2:
            few_T, *few = [self._drawn(Z) for Z in (Z_target, *Z_sources)]
            scores = np.stack(
                [
                    held_out_scores(
                        candidate, few_T, few, n_folds=self.n_folds, random_state=self.random_state
                    )
                    for candidate in candidates.values()
                ]
            )
            self.scores_[:] = scores.mean(axis=1).T
            self.choice_ = [names[c] for c in chosen(scores)]
        self.fitted_: list[tuple[DensityRatio, int]] = [None] * len(Z_sources)  # type: ignore[list-item]
        for name in names:
            sources = [j for j, choice in enumerate(self.choice_) if choice == name]
            if sources:
                ratio = clone(candidates[name]).fit(Z_target, [Z_sources[j] for j in sources])
                for position, j in enumerate(sources):
                    self.fitted_[j] = ratio, position

    def _weights_encoded(self, source: int, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        ratio, position = self.fitted_[source]
        return ratio.weights_at(Z, source=position)

    def _drawn(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        if len(Z) <= self.max_rows:
            return Z
        return Z[np.random.default_rng(self.random_state).permutation(len(Z))[: self.max_rows]]


def chosen(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Choose a candidate for every source from scores of shape (candidates, folds, k)."""
    means = scores.mean(axis=1)
    behind = np.median(means - means.min(axis=0), axis=1)
    overall = int(np.argmin(behind))
    own = np.argmin(means, axis=0)
    gain = scores[overall] - np.take_along_axis(scores, own[None, None, :], axis=0)[0]
    error = gain.std(axis=0, ddof=1) / np.sqrt(len(gain))
    return np.where(gain.mean(axis=0) > DEPARTURE * error, own, overall)


def default_candidates(random_state: int = 0) -> dict[str, DensityRatio]:
    """Return the candidates among which `AutoRatio` chooses."""
    return {
        "ulsif": ULSIF(random_state=random_state),
        "rulsif": RULSIF(random_state=random_state),
        "logistic": ClassifierRatio("logistic", random_state=random_state),
        "boosting": ClassifierRatio("boosting", random_state=random_state),
    }


def ratio_named(ratio: str | DensityRatio, random_state: int = 0) -> DensityRatio:
    """Return a density ratio from its name, or as it is.

    >>> ratio_named("logistic")
    ClassifierRatio()
    """
    if isinstance(ratio, DensityRatio):
        return ratio
    choices = {**default_candidates(random_state), "auto": AutoRatio(random_state=random_state)}
    if ratio not in choices:
        raise ProblemError(
            f"there is no density ratio {ratio!r}; there are {sorted(choices)}, and KnownRatio "
            "for ratios given as functions"
        )
    return choices[ratio]
