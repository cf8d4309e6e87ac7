"""Effects of sites, learned from the sources' answers, and the update that labels bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from shiftune.effects.playing import (
    MOST_LABELLED,
    Role,
    RowLosses,
    learn_spread,
    played_answers,
    played_losses,
)
from shiftune.effects.posterior import huber_weights, posterior_deviation
from shiftune.effects.scale import from_scale, to_scale
from shiftune.effects.terms import Spread, Terms
from shiftune.evaluate.losses import Loss
from shiftune.problem.site import Features, stacked
from shiftune.ratio.guard import effective_rows
from shiftune.tables import Schema

Floats = NDArray[np.float64]
Limits = tuple[float, float] | None

# Updated values stay within the range of the sources' labels, widened by so much of it.
WIDENED = 0.25
# Of the variance of all residuals: labels without any noise must not make effects impossible.
LEAST_NOISE = 1e-4
# Labelled rows are left out of their own effect in at most so many groups.
MOST_FOLDS = 20


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """What the labels of a site change.

    Attributes
    ----------
    spread : Spread
        How far sites differ, as far as so many labels can use it.
    effect : array of shape (K, p)
        Coefficients of the site's terms.
    deviation : array of shape (K, p)
        Their posterior standard deviations.
    limits : (low, high) or None
        Of updated values.
    own_losses, own_losses_before : arrays of shape (m,)
        Of the labelled rows: each with the effect that the others show, and without any.
    source_losses : k arrays of shape (n_j,)
        Of the sources' rows, with as many labels of other rows of their site.
    source_answers : k arrays of shape (D, n_j) or (D, n_j, C)
        Likewise, for every draw of labels, with NaN for the rows that it labels.
    """

    spread: Spread
    effect: Floats
    deviation: Floats
    limits: Limits
    own_losses: Floats
    own_losses_before: Floats
    source_losses: list[Floats]
    source_answers: list[Floats]


class SiteEffects:
    """How sites differ in p(y|x), learned from answers of models that have not seen them.

    Parameters
    ----------
    answers : k arrays of shape (n_j,) or (n_j, C)
        Of every source, by models that were trained without it.
    X : k tables of n_j rows
    y : k arrays of shape (n_j,)
    loss : Loss
    classes : array of shape (C,), or None for values
    schema : Schema or None
        Of the columns; None for arrays of numbers.
    seed : int
        Of the rows that are labelled where a source plays the target.

    Examples
    --------
    Sites whose labels lie some way above or below what the model expects:

    >>> from shiftune.evaluate.losses import loss_named
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(size=(60, 1)) for _ in range(8)]
    >>> y = [x[:, 0] + rng.normal(0, 1) + rng.normal(0, 0.2, 60) for x in X]
    >>> effects = SiteEffects([x[:, 0] for x in X], X, y, loss_named("squared"), None)
    >>> new = rng.normal(size=(10, 1))
    >>> update = effects.update(new, new[:, 0], new[:, 0] + 1.0)
    >>> update.effect.round(1)[0, 0]
    np.float64(1.0)
    """

    def __init__(
        self,
        answers: Sequence[NDArray[Any]],
        X: Sequence[Features],
        y: Sequence[NDArray[Any]],
        loss: Loss,
        classes: NDArray[Any] | None,
        schema: Schema | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self.loss, self.classes, self.seed = loss, classes, seed
        scaled = [to_scale(own) for own in answers]
        rows, every = stacked(X), np.concatenate(scaled)
        self.terms = Terms(schema).fit(rows, every)
        self.limits: Limits = None
        self.noise, self.shift = 1.0, 0.0
        if classes is None:
            self._learn_values(scaled, y)
        # All at once: a thousand small tables take a hundred times as long.
        Z = np.split(self.terms.transform(rows, every), np.cumsum([len(own) for own in X])[:-1])
        self.sources = [self._role(*each) for each in zip(scaled, Z, y, strict=True)]
        self._spreads: dict[int, Spread] = {}

    def _learn_values(self, scaled: Sequence[Floats], y: Sequence[NDArray[Any]]) -> None:
        """Learn the labels' range, the noise, and what the loss prefers to the centre.

        A quantile lies beside the centre of its residuals by design; this distance, `shift`, is
        no effect of a site.
        """
        labels = np.concatenate(list(y)).astype(float)
        low, high = float(labels.min()), float(labels.max())
        wider = WIDENED * (high - low)
        self.limits = (low - wider, high + wider)
        residuals = [own - answer[:, 0] for own, answer in zip(y, scaled, strict=True)]
        least = LEAST_NOISE * float(np.concatenate(residuals).var())
        self.noise = max(float(np.mean([own.var() for own in residuals])), least) or 1.0
        within = np.concatenate([own - _centre(own, self.noise) for own in residuals])
        if within.min() < within.max():
            best = minimize_scalar(
                lambda added: float(self.loss(labels, labels - within + added).mean()),
                bounds=(within.min(), within.max()),
                method="bounded",
            )
            self.shift = -float(best.x)

    def role(self, X: Features, answers: NDArray[Any], y: NDArray[Any]) -> Role:
        """Return labelled rows of a site with their terms."""
        scaled = to_scale(answers)
        return self._role(scaled, self.terms.transform(X, scaled), y)

    def _role(self, scaled: Floats, Z: Floats, y: NDArray[Any]) -> Role:
        observed = y - self.shift if self.classes is None else np.searchsorted(self.classes, y)
        return Role(scaled, Z, y, observed, self.noise)

    def row_losses(self, y: NDArray[Any], scaled: Floats, limits: Limits = None) -> Floats:
        """Return the losses of answers on the scale of the effects, shape (n,)."""
        limits = limits or self.limits
        limited = scaled if limits is None else np.clip(scaled, *limits)
        return self.loss(y, from_scale(limited), self.classes)

    def spread(self, labels: int) -> Spread:
        """Return how far sites differ, as far as so many labels can use it."""
        # More labels than the largest source can play change nothing.
        labels = min(labels, max(int(MOST_LABELLED * len(source)) for source in self.sources))
        if labels not in self._spreads:
            found = learn_spread(self.sources, labels, self.row_losses, self.seed)
            self._spreads[labels] = found
        return self._spreads[labels]

    def source_losses(self, labels: int, of: RowLosses | None = None) -> list[Floats]:
        """Return the losses of the sources' rows with so many labels of their site.

        Parameters
        ----------
        labels : int
        of : function, optional
            From labels and answers on the scale of the effects to losses; default `row_losses`.
        """
        losses = of or self.row_losses
        spread = self.spread(labels) if labels else Spread()
        if spread == Spread():
            return [losses(source.y, source.scaled) for source in self.sources]
        return played_losses(self.sources, labels, spread, losses, self.seed)

    def source_answers(self, labels: int) -> list[Floats]:
        """Return the answers to the sources' rows with so many labels of their site, by draw."""
        played = played_answers(self.sources, labels, self.spread(labels), self.seed)
        if self.limits is not None:
            played = [np.clip(own, *self.limits) for own in played]
        return [np.stack([from_scale(draw) for draw in own]) for own in played]

    def update(
        self,
        X: Features,
        answers: NDArray[Any],
        y: NDArray[Any],
        groups: NDArray[np.intp] | None = None,
    ) -> Update:
        """Return the effect of a site from some labelled rows, and losses that judge it.

        Rows of a group are left out together where a row is judged by the effect that the others
        show, and count as one label where the number of labels decides how far they are trusted.
        """
        role, rows = self.role(X, answers, y), np.arange(len(y))
        group = rows if groups is None else np.unique(groups, return_inverse=True)[1]
        labels = round(float(effective_rows(np.bincount(group).astype(float))[0]))
        spread, limits = self.spread(labels), self.limits
        if limits is not None:  # what the site's own labels show is possible
            limits = min(limits[0], float(np.min(y))), max(limits[1], float(np.max(y)))
        losses = partial(self.row_losses, limits=limits)
        own = np.empty(len(y))
        for fold in range(min(group.max() + 1, MOST_FOLDS)):
            left_out = group % MOST_FOLDS == fold
            own[left_out] = role.losses(rows[~left_out], rows[left_out], spread, losses)
        effect, known = role.effect(rows, spread), role.known(rows, spread)
        deviation = posterior_deviation(*known, effect)
        before = self.row_losses(y, role.scaled)
        losses_there, answers_there = self.source_losses(labels), self.source_answers(labels)
        return Update(spread, effect, deviation, limits, own, before, losses_there, answers_there)


def _centre(residuals: Floats, noise: float) -> float:
    """Return Huber's centre of residuals."""
    weights = np.ones(len(residuals))
    for _ in range(10):
        centre = float(np.average(residuals, weights=weights))
        weights = huber_weights(residuals - centre, noise)
    return centre
