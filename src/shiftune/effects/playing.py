"""Sources in the target's role: what labels would have done there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftune import interrupts
from shiftune.effects.posterior import posterior_mean
from shiftune.effects.scale import moderate
from shiftune.effects.terms import Spread
from shiftune.evaluate.losses import SMALLEST_LOSS

Floats = NDArray[np.float64]

# Loss of every row: from labels and answers on the scale of the effects.
RowLosses = Callable[[NDArray[Any], Floats], Floats]

# Answers, terms, labels, spread and noise.
Known = tuple[Floats, Floats, NDArray[Any], Floats, float]

DRAWS = 5
# From more sources than so many. With 60 % labelled, at least three draws leave every row out once.
MANY_SOURCES, FEWEST_DRAWS = 200, 3
# Of a source's rows that are labelled; the others are predicted.
MOST_LABELLED = 0.6
# Labels with which a source has a say in how far sites differ.
FEWEST_LABELS = 3
# Sources, and rows of each, on which the spread is learned.
MOST_SOURCES = 40
MOST_ROWS = 1000
# Standard errors by which a term must lower the losses. With less, ten labels cost some tables 2 %;
# with more, they gain 1 % less on average (`benchmarks/results/updates.md`).
STANDARD_ERRORS = 1.5
# Standard deviations that are tried, in units of a row's own noise.
INTERCEPTS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 12.8)
SLOPES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)
COLUMNS = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6)


@dataclass(frozen=True, slots=True, eq=False)
class Role:
    """Rows of one site, answered by models that have not seen it.

    Attributes
    ----------
    scaled : array of shape (n, K)
        Answers on the scale of the effects.
    Z : array of shape (n, p)
        Terms.
    y : array of shape (n,)
        Labels.
    observed : array of shape (n,)
        Labels as the effect sees them: values, or the numbers of the classes.
    noise : float
        Variance of a value around its answer.
    """

    scaled: Floats
    Z: Floats
    y: NDArray[Any]
    observed: NDArray[Any]
    noise: float = 1.0

    def __len__(self) -> int:
        return len(self.y)

    def thinned(self, most: int) -> Role:
        """Return at most so many rows, spread evenly."""
        if len(self) <= most:
            return self
        kept = np.linspace(0, len(self) - 1, most).astype(np.intp)
        return replace(
            self,
            scaled=self.scaled[kept],
            Z=self.Z[kept],
            y=self.y[kept],
            observed=self.observed[kept],
        )

    def known(self, rows: NDArray[np.intp], spread: Spread) -> Known:
        """Return what the posterior of an effect depends on."""
        scaled, by_term = moderate(self.scaled[rows]), spread.by_term(self.Z.shape[1])
        return scaled, self.Z[rows], self.observed[rows], by_term, self.noise

    def effect(self, rows: NDArray[np.intp], spread: Spread) -> Floats:
        """Return the coefficients that some of the rows show, shape (K, p)."""
        return posterior_mean(*self.known(rows, spread))

    def losses(
        self,
        labelled: NDArray[np.intp],
        others: NDArray[np.intp],
        spread: Spread,
        losses: RowLosses,
    ) -> Floats:
        """Return the losses of some rows, with the effect that the labelled ones show."""
        return losses(self.y[others], self.updated(labelled, others, spread))

    def updated(
        self, labelled: NDArray[np.intp], others: NDArray[np.intp], spread: Spread
    ) -> Floats:
        """Return the answers to some rows, with the effect that the labelled ones show."""
        if not any(astuple(spread)):
            return self.scaled[others]
        return np.asarray(self.scaled[others] + self.Z[others] @ self.effect(labelled, spread).T)


def drawn(
    rows: int, labels: int, seed: int, sources: int = 1
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Draw labelled rows and the others, several times; every row is among the others.

    >>> [sorted(map(int, labelled)) for labelled, _ in drawn(5, 1, 0)]
    [[2], [4], [3], [0], [1]]
    """
    order = np.random.default_rng(seed).permutation(rows)
    labels = min(labels, int(MOST_LABELLED * rows))
    found = []
    draws = draws_of(sources)
    for draw in range(draws):
        turned = np.roll(order, -(draw * rows // draws))
        found.append((turned[:labels], turned[labels:]))
    return found


def draws_of(sources: int) -> int:
    """Number of draws: fewer from many sources, among which the luck of a draw averages out."""
    return DRAWS if sources <= MANY_SOURCES else FEWEST_DRAWS


def played_losses(
    sources: Sequence[Role], labels: int, spread: Spread, losses: RowLosses, seed: int = 0
) -> list[Floats]:
    """Return every row's loss with an effect from labels of other rows of its site.

    k arrays of shape (n_j,): means over the draws in which the row was not labelled. A source
    that is too small for so many labels gets 60 % of its rows labelled.
    """
    interrupts.check()
    found = []
    for j, source in enumerate(sources):
        total, times = np.zeros(len(source)), np.zeros(len(source))
        for labelled, others in drawn(len(source), labels, seed + j, len(sources)):
            total[others] += source.losses(labelled, others, spread, losses)
            times[others] += 1
        found.append(total / times)
    return found


def played_answers(
    sources: Sequence[Role], labels: int, spread: Spread, seed: int = 0
) -> list[Floats]:
    """Return every row's answers with effects from labels of other rows of its site.

    k arrays of shape (D, n_j, K), on the scale of the effects: one for every draw, with NaN for the
    rows that it labels; a single one where the sites have no effect.
    """
    if not any(astuple(spread)):
        return [source.scaled[None] for source in sources]
    found = []
    for j, source in enumerate(sources):
        own = np.full((draws_of(len(sources)), *source.scaled.shape), np.nan)
        for d, (labelled, others) in enumerate(drawn(len(source), labels, seed + j, len(sources))):
            own[d, others] = source.updated(labelled, others, spread)
        found.append(own)
    return found


def learn_spread(sources: Sequence[Role], labels: int, losses: RowLosses, seed: int = 0) -> Spread:
    """Learn how far sites differ: the spread with which so many labels help the sources most.

    Intercept, slope and columns are added in turn. Each is taken only where it lowers the losses
    of the sources, relative to what they are, by more than 1.5 standard errors of the mean.
    """
    kept = np.unique(np.linspace(0, len(sources) - 1, MOST_SOURCES).astype(np.intp))
    thinned = [sources[j].thinned(MOST_ROWS) for j in kept]
    eligible = [s for s in thinned if min(labels, MOST_LABELLED * len(s)) >= FEWEST_LABELS]
    best = Spread()
    if len(eligible) < 2:
        return best
    unit = float(np.sqrt(np.mean([source.noise for source in eligible])))
    known: dict[Spread, Floats] = {}

    def means(spread: Spread) -> Floats:
        if spread not in known:
            played = played_losses(eligible, labels, spread, losses, seed)
            known[spread] = np.array([own.mean() for own in played])
        return known[spread]

    size = np.maximum(np.abs(means(best)), SMALLEST_LOSS)
    for name, sizes in (
        ("intercept", INTERCEPTS),
        ("slope", SLOPES),
        ("columns", COLUMNS),
        ("intercept", INTERCEPTS),
    ):
        tried = [replace(best, **{name: times * unit}) for times in sizes]
        winner = min(tried, key=lambda spread: float(np.mean(means(spread) / size)))
        gains = (means(best) - means(winner)) / size
        if gains.mean() > STANDARD_ERRORS * gains.std(ddof=1) / np.sqrt(len(gains)):
            best = winner
    return best
