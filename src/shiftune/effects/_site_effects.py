r"""Effects of sites, learned from the sources' answers, and the update that labels bring.

From the ground up: the scale of the effects, their terms, the posterior given labels, how far sites
differ (learned where sources play the target), and `SiteEffects`, which puts these together.

Notation: answers f of n rows have K columns on the scale of the effects (one for values, the log
probabilities of C classes otherwise); z are the p terms of a row, and the effect b, (K, p), adds
:math:`z^\top b_k` to column k, with the standard deviations s between sites.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.compose import ColumnTransformer

from shiftune import _interrupts
from shiftune.evaluate._losses import SMALLEST_LOSS, Loss
from shiftune.models._by_name import preparation
from shiftune.problem._site import Features, stacked
from shiftune.ratio._overlap import effective_rows
from shiftune.tables import Schema

Floats = NDArray[np.float64]
Limits = tuple[float, float] | None
# Loss of every row: from labels and answers on the scale of the effects.
RowLosses = Callable[[NDArray[Any], Floats], Floats]
# Answers, terms, labels, spread and noise.
Known = tuple[Floats, Floats, NDArray[Any], Floats, float]

# Smallest probability whose logarithm is taken.
_SMALLEST_PROBABILITY = 1e-12
# Where effects are learned, no class counts as less likely than this: one answer of 0 would
# outweigh all labels.
LEAST_LIKELY = 1e-4


def to_scale(answers: NDArray[Any]) -> Floats:
    """Return values of shape (n,) as (n, 1), and probabilities of shape (n, C) as centred logs."""
    if answers.ndim == 1:
        return np.asarray(answers, dtype=float)[:, None]
    return _centred(np.log(np.maximum(answers.astype(float), _SMALLEST_PROBABILITY)))


def from_scale(scaled: Floats) -> Floats:
    """Return values of shape (n,), or probabilities of shape (n, C)."""
    if scaled.shape[1] == 1:
        return scaled[:, 0]
    return np.asarray(softmax(scaled, axis=1))


def moderate(scaled: Floats) -> Floats:
    """Return answers in which no class is less likely than 1 to 10,000; values as they are."""
    if scaled.shape[1] == 1:
        return scaled
    return _centred(np.maximum(scaled, scaled.max(axis=1, keepdims=True) + np.log(LEAST_LIKELY)))


def strength(scaled: Floats) -> Floats:
    """Return one number per row that the slope multiplies, shape (n,).

    The value; of two classes the log odds; of more the log of the likeliest one, centred.
    """
    if scaled.shape[1] == 1:
        return scaled[:, 0]
    if scaled.shape[1] == 2:
        return np.asarray(scaled[:, 1] - scaled[:, 0])
    return np.asarray(scaled.max(axis=1))


def _centred(logs: Floats) -> Floats:
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))


# Rows x columns of the sources, 160 MB, and coefficients of columns (for every class), beyond which
# columns are no terms: the intercept and the slope remain.
MOST_CELLS = 20_000_000
_MOST_COEFFICIENTS = 300
# Columns and answers beyond so many units count as this: ten labels must not extrapolate.
_MOST_UNITS = 4.0


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations of the effects between sites.

    Attributes
    ----------
    intercept : float
        On the scale of the effects: the label's unit, or that of a class's log probability (log
        odds of two classes have 1.4 times as much).
    slope : float
        Of one standard deviation of the answer.
    columns : float
        Of all columns together, at a row that is one unit from the centre in each.
    """

    intercept: float = 0.0
    slope: float = 0.0
    columns: float = 0.0

    def by_term(self, terms: int) -> Floats:
        """Return the standard deviation of every term, shape (terms,)."""
        return np.concatenate([[self.intercept, self.slope], np.full(terms - 2, self.columns)])


class Terms:
    """Terms of the effect for rows of any site: 1, the answer, the columns as numbers.

    Parameters
    ----------
    schema : Schema or None
        Of the columns; None for arrays of numbers.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> Terms(None).fit(X, X).transform(X, X).round(2)
    array([[ 1.  , -1.34, -1.34],
           [ 1.  , -0.45, -0.45],
           [ 1.  ,  0.45,  0.45],
           [ 1.  ,  1.34,  1.34]])
    """

    centre_: float
    width_: float
    with_columns_: bool

    def __init__(self, schema: Schema | None) -> None:
        self.preparation = preparation(schema)

    @property
    def names(self) -> list[str]:
        """Names of the terms."""
        names = ["intercept", "slope"]
        if not self.with_columns_:
            return names
        encode = self.preparation[-1]
        prefixed = isinstance(encode, ColumnTransformer)  # by the name of the transformer
        columns = [str(name) for name in encode.get_feature_names_out()]
        return names + [name.split("__", 1)[1] if prefixed else name for name in columns]

    def fit(self, X: Features, scaled: Floats) -> Self:
        """Learn units from the rows of all sources and their answers."""
        columns = self.preparation.fit(X).transform(X[:1]).shape[1]
        coefficients = columns * scaled.shape[1]
        self.with_columns_ = len(X) * columns <= MOST_CELLS and coefficients <= _MOST_COEFFICIENTS
        answers = strength(moderate(scaled))
        self.centre_, self.width_ = float(answers.mean()), float(answers.std())
        return self

    def transform(self, X: Features, scaled: Floats) -> Floats:
        """Return the terms of rows with these answers, shape (n, 2 + columns)."""
        Z = np.empty((len(X), 0))
        if self.with_columns_:
            Z = np.asarray(self.preparation.transform(X), dtype=float)
        slope = (strength(moderate(scaled)) - self.centre_) / (self.width_ or 1.0)
        both = np.clip(np.column_stack([slope, Z]), -_MOST_UNITS, _MOST_UNITS)
        both[:, 1:] /= np.sqrt(max(Z.shape[1], 1))
        return np.column_stack([np.ones(len(Z)), both])


# Residuals beyond so many standard deviations count less (Huber), so that one outlier among ten
# labels does not decide.
_HUBER_THRESHOLD = 2.0
_MOST_REWEIGHTED = 20
_MOST_STEPS = 60
_MOST_HALVED = 20
_TOLERANCE = 1e-4


def posterior_mean(
    scaled: Floats, Z: Floats, y: NDArray[Any], spread: Floats, noise: float
) -> Floats:
    r"""Return the posterior mean of the effects of m labelled rows, shape (K, p).

    Values: :math:`y = f + z^\top b + e`, with :math:`e` of variance `noise` and residuals beyond
    two standard deviations weighted down. Classes: :math:`P(y = c) \propto
    \exp(f_c + z^\top b_c)`, and the mode instead of the mean. In both cases
    :math:`b \sim N(0, \mathrm{diag}(s^2))`.

    Parameters
    ----------
    scaled : array of shape (m, K)
        Answers f on the scale of the effects.
    Z : array of shape (m, p)
    y : array of shape (m,)
        Values, or the numbers of the classes.
    spread : array of shape (p,)
        s.
    noise : float
        Variance of a value around its answer; not used for classes.

    Examples
    --------
    Three values that lie 2 above their answers, and sites that differ by 1 as a rule:

    >>> posterior_mean(np.zeros((3, 1)), np.ones((3, 1)), np.full(3, 2.0), np.ones(1), 3.0)
    array([[1.]])
    """
    design, back = _reduced(Z, spread)
    if scaled.shape[1] == 1:
        return _of_values(y - scaled[:, 0], design, noise)[None] @ back.T
    return _of_classes(scaled, design, y) @ back.T


def posterior_deviation(
    scaled: Floats, Z: Floats, y: NDArray[Any], spread: Floats, noise: float, mean: Floats
) -> Floats:
    """Return the posterior standard deviations at the mean, shape (K, p).

    Those of classes are of the difference from the mean over all classes, since adding the same
    to all of them changes nothing.
    """
    design, back = _reduced(Z, spread)
    r, classes = design.shape[1], scaled.shape[1]
    outside = np.maximum(spread**2 - np.sum(back**2, axis=1), 0.0)
    if classes == 1:
        weights = _huber_weights(y - scaled[:, 0] - Z @ mean[0], noise)
        covariance = np.linalg.inv((design.T * weights) @ design / noise + np.eye(r))
        return np.asarray(np.sqrt(outside + np.sum((back @ covariance) * back, axis=1)))[None]
    P = softmax(scaled + Z @ mean.T, axis=1)
    curvature = P[:, :, None] * (np.eye(classes) - P[:, None, :])  # (m, C, C)
    hessian = np.einsum("mr,mkl,ms->krls", design, curvature, design)
    hessian = hessian.reshape(classes * r, classes * r)
    covariance = np.linalg.inv(hessian + np.eye(classes * r)).reshape(classes, r, classes, r)
    centred = np.eye(classes) - 1 / classes
    of_classes = np.einsum("kl,lrms,km->krs", centred, covariance, centred)
    inside = np.sum((back @ of_classes) * back, axis=2)
    return np.asarray(np.sqrt(outside * (1 - 1 / classes) + inside))


def _reduced(Z: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Return the design of standard normal effects, (m, r), and the way back to terms, (p, r).

    r is the smaller of m and p: labels know nothing of directions that their rows do not have.
    """
    live = np.flatnonzero(spread > 0)
    back = np.zeros((len(spread), len(live)))
    back[live, np.arange(len(live))] = spread[live]
    design = Z @ back
    if len(live) <= len(Z):
        return design, back
    Q, R = np.linalg.qr(design.T)
    return R.T, back @ Q


def _huber_weights(residuals: Floats, noise: float) -> Floats:
    """Weights of residuals: 1, less beyond the threshold."""
    return np.asarray(
        _HUBER_THRESHOLD / np.maximum(np.abs(residuals) / np.sqrt(noise), _HUBER_THRESHOLD)
    )


def _of_values(residuals: Floats, design: Floats, noise: float) -> Floats:
    """Posterior mean of standard normal effects, shape (r,)."""
    weights, prior = np.ones(len(residuals)), np.eye(design.shape[1])
    for _ in range(_MOST_REWEIGHTED):
        weighted = design.T * weights
        precision = weighted @ design / noise + prior
        mean = np.linalg.solve(precision, weighted @ residuals / noise)
        before, weights = weights, _huber_weights(residuals - design @ mean, noise)
        if np.max(np.abs(weights - before), initial=0.0) < _TOLERANCE:
            break
    return np.asarray(mean)


def _of_classes(scaled: Floats, design: Floats, y: NDArray[np.intp]) -> Floats:
    """Posterior mode of standard normal effects by class, shape (C, r).

    Newton's direction of every class, shortened until the posterior grows.
    """
    r, classes = design.shape[1], scaled.shape[1]
    effects, truth, prior = np.zeros((classes, r)), np.eye(classes)[y], np.eye(r)

    def at(b: Floats) -> tuple[float, Floats]:
        """Log posterior and probabilities (m, C); SciPy's functions take three times as long."""
        eta = scaled + design @ b.T
        top = eta.max(axis=1, keepdims=True)
        shares = np.exp(eta - top)
        total = shares.sum(axis=1, keepdims=True)
        height = (truth * eta).sum() - (np.log(total) + top).sum() - (b**2).sum() / 2
        return float(height), shares / total

    reached, P = at(effects)
    for _ in range(_MOST_STEPS):
        W = (P * (1 - P)).T
        slopes = (truth - P).T @ design - effects
        steps = np.linalg.solve(prior + (design.T * W[:, None]) @ design, slopes[..., None])
        for halved in range(_MOST_HALVED):
            step = steps[..., 0] / 2**halved
            height, tried = at(effects + step)
            if height > reached:
                break
        else:
            break
        effects, reached, P = effects + step, height, tried
        if np.max(np.abs(step), initial=0.0) < _TOLERANCE:
            break
    return np.asarray(effects)


_DRAWS = 5
# From more sources than so many. With 60 % labelled, at least three draws leave every row out once.
_MANY_SOURCES, _FEWEST_DRAWS = 200, 3
# Of a source's rows that are labelled; the others are predicted.
_MOST_LABELLED = 0.6
# Labels with which a source has a say in how far sites differ.
_FEWEST_LABELS = 3
# Sources, and rows of each, on which the spread is learned.
_MOST_SOURCES = 40
MOST_ROWS = 1000
# Standard errors by which a term must lower the losses. With less, ten labels cost some tables 2 %;
# with more, they gain 1 % less on average (`benchmarks/results/updates.md`).
_STANDARD_ERRORS = 1.5
# Standard deviations that are tried, in units of a row's own noise.
_INTERCEPTS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 12.8)
_SLOPES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)
_COLUMNS = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6)


@dataclass(frozen=True, slots=True, eq=False)
class Role:
    """Rows of one site, answered by models that have not seen it."""

    scaled: Floats  # answers on the scale of the effects, (n, K)
    Z: Floats  # terms, (n, p)
    y: NDArray[Any]  # labels, (n,)
    observed: NDArray[Any]  # labels as the effect sees them: values, or numbers of classes, (n,)
    noise: float  # variance of a value around its answer

    def __len__(self) -> int:
        return len(self.y)

    def thinned(self, most: int) -> Role:
        """Return at most so many rows, spread evenly."""
        if len(self) <= most:
            return self
        kept = np.linspace(0, len(self) - 1, most).astype(np.intp)
        return Role(self.scaled[kept], self.Z[kept], self.y[kept], self.observed[kept], self.noise)

    def known(self, rows: NDArray[np.intp], spread: Spread) -> Known:
        """Return what the posterior of an effect depends on."""
        scaled, by_term = moderate(self.scaled[rows]), spread.by_term(self.Z.shape[1])
        return scaled, self.Z[rows], self.observed[rows], by_term, self.noise

    def effect(self, rows: NDArray[np.intp], spread: Spread) -> Floats:
        """Return the coefficients that some of the rows show, shape (K, p)."""
        return posterior_mean(*self.known(rows, spread))

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

    Fewer times from many sources, among which the luck of a draw averages out.
    """
    order = np.random.default_rng(seed).permutation(rows)
    labels = min(labels, int(_MOST_LABELLED * rows))
    draws = _DRAWS if sources <= _MANY_SOURCES else _FEWEST_DRAWS
    turned = [np.roll(order, -(draw * rows // draws)) for draw in range(draws)]
    return [(own[:labels], own[labels:]) for own in turned]


def _played_losses(
    sources: Sequence[Role], labels: int, spread: Spread, losses: RowLosses, seed: int = 0
) -> list[Floats]:
    """Return every row's loss with an effect from labels of other rows of its site.

    k arrays of shape (n_j,): means over the draws in which the row was not labelled. A source
    that is too small for so many labels gets 60 % of its rows labelled.
    """
    _interrupts.check()
    found = []
    for j, source in enumerate(sources):
        total, times = np.zeros(len(source)), np.zeros(len(source))
        for labelled, others in drawn(len(source), labels, seed + j, len(sources)):
            total[others] += losses(source.y[others], source.updated(labelled, others, spread))
            times[others] += 1
        found.append(total / times)
    return found


def _played_answers(
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
        draws = drawn(len(source), labels, seed + j, len(sources))
        own = np.full((len(draws), *source.scaled.shape), np.nan)
        for d, (labelled, others) in enumerate(draws):
            own[d, others] = source.updated(labelled, others, spread)
        found.append(own)
    return found


def learn_spread(sources: Sequence[Role], labels: int, losses: RowLosses, seed: int = 0) -> Spread:
    """Learn how far sites differ: the spread with which so many labels help the sources most.

    Intercept, slope and columns are added in turn. Each is taken only where it lowers the losses
    of the sources, relative to what they are, by more than 1.5 standard errors of the mean.
    """
    kept = np.unique(np.linspace(0, len(sources) - 1, _MOST_SOURCES).astype(np.intp))
    thinned = [sources[j].thinned(MOST_ROWS) for j in kept]
    eligible = [s for s in thinned if min(labels, _MOST_LABELLED * len(s)) >= _FEWEST_LABELS]
    best = Spread()
    if len(eligible) < 2:
        return best
    unit = float(np.sqrt(np.mean([source.noise for source in eligible])))
    known: dict[Spread, Floats] = {}

    def means(spread: Spread) -> Floats:
        if spread not in known:
            played = _played_losses(eligible, labels, spread, losses, seed)
            known[spread] = np.array([own.mean() for own in played])
        return known[spread]

    size = np.maximum(np.abs(means(best)), SMALLEST_LOSS)
    for name, sizes in (
        ("intercept", _INTERCEPTS),
        ("slope", _SLOPES),
        ("columns", _COLUMNS),
        ("intercept", _INTERCEPTS),
    ):
        tried = [replace(best, **{name: times * unit}) for times in sizes]
        winner = min(tried, key=lambda spread: float(np.mean(means(spread) / size)))
        gains = (means(best) - means(winner)) / size
        if gains.mean() > _STANDARD_ERRORS * gains.std(ddof=1) / np.sqrt(len(gains)):
            best = winner
    return best


# Updated values stay within the range of the sources' labels, widened by so much of it.
_WIDENED = 0.25
# Of the variance of all residuals: labels without any noise must not make effects impossible.
_LEAST_NOISE = 1e-4
# Labelled rows are left out of their own effect in at most so many groups.
_MOST_FOLDS = 20


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

    >>> from shiftune.evaluate import loss_named
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
        # As the risk has them: without an effect, predictions are not limited.
        self._plain = [loss(own, p, classes) for own, p in zip(y, answers, strict=True)]
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
        wider = _WIDENED * (high - low)
        self.limits = (low - wider, high + wider)
        residuals = [own - answer[:, 0] for own, answer in zip(y, scaled, strict=True)]
        least = _LEAST_NOISE * float(np.concatenate(residuals).var())
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
        labels = min(labels, max(int(_MOST_LABELLED * len(source)) for source in self.sources))
        if labels not in self._spreads:
            self._spreads[labels] = learn_spread(self.sources, labels, self.row_losses, self.seed)
        return self._spreads[labels]

    def source_losses(self, labels: int, of: RowLosses | None = None) -> list[Floats]:
        """Return the losses of the sources' rows with so many labels of their site.

        `of` is a function from labels and answers on the scale of the effects to losses; by
        default `row_losses`.
        """
        spread = self.spread(labels) if labels else Spread()
        if spread == Spread() and of is None:
            return self._plain
        losses = of or self.row_losses
        if spread == Spread():
            return [losses(source.y, source.scaled) for source in self.sources]
        return _played_losses(self.sources, labels, spread, losses, self.seed)

    def source_answers(self, labels: int) -> list[Floats]:
        """Return the answers to the sources' rows with so many labels of their site, by draw."""
        played = _played_answers(self.sources, labels, self.spread(labels), self.seed)
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
        for fold in range(min(group.max() + 1, _MOST_FOLDS)):
            left_out = group % _MOST_FOLDS == fold
            updated = role.updated(rows[~left_out], rows[left_out], spread)
            own[left_out] = losses(y[left_out], updated)
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
        weights = _huber_weights(residuals - centre, noise)
    return centre
