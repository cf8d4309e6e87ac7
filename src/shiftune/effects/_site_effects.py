r"""A hierarchical model of site effects, integrated over its spreads.

From the ground up: the scale of the effects, their terms, the evidence of labelled rows under every
spread, the posterior, and `SiteEffects`, which puts these together.

Notation: the n rows of a site have predictions f, (n, K), on the scale of the effects: values, or
the log odds of K classes. With the terms z = (1, the prediction, the columns) of a row, p numbers,

.. math:: y_i = f_i + z_i^\top b + e_i, \quad e_i \sim N(0, \sigma^2 / w_i), \quad
          b \sim N(0, \sigma^2\, \mathrm{diag}(s^2)), \quad
          \sigma^2 \sim \mathrm{Inv}\text{-}\chi^2(\nu, \sigma_0^2).

The spread s has one number for the intercept, one for the slope of the prediction and one for all
columns; a grid of spreads has the shape (I, S, C). All is in units of :math:`\sigma_0`, a typical
row's noise at the sources. Residuals beyond two standard deviations count as two (Huber). For
classes, each against the others, y and w are the working responses and weights of logistic
regression, and :math:`\sigma = 1`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit, logsumexp
from sklearn.compose import ColumnTransformer

from shiftune import _interrupts
from shiftune.columns import Columns
from shiftune.evaluate._losses import Loss
from shiftune.models._by_name import preparation
from shiftune.problem._site import Features, stacked

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

# No class counts as less likely than this: one prediction of 0 would outweigh all labels.
_LEAST_LIKELY = 1e-4


def to_scale(predictions: NDArray[Any]) -> Floats:
    """Return values as (n, 1), or log odds: of the second of two classes, or of each of more.

    >>> to_scale(np.array([[0.5, 0.5], [0.1, 0.9]])).round(2)
    array([[0. ],
           [2.2]])
    """
    if predictions.ndim == 1:
        return np.asarray(predictions, dtype=float)[:, None]
    P = predictions[:, 1:] if predictions.shape[1] == 2 else predictions
    return np.asarray(logit(np.clip(P.astype(float), _LEAST_LIKELY, 1 - _LEAST_LIKELY)))


def from_scale(scaled: Floats, classes: NDArray[Any] | None) -> Floats:
    """Return values of shape (n,), or probabilities of shape (n, C)."""
    if classes is None:
        return scaled[:, 0]
    P = expit(scaled)
    return np.column_stack([1 - P, P]) if len(classes) == 2 else P / P.sum(axis=1, keepdims=True)


# ---------------------------------------------------------------- terms

# Rows x columns of the sources, 160 MB, and coefficients of columns (for every class), beyond which
# columns are not terms: the intercept and the slope remain.
MOST_CELLS = 20_000_000
_MOST_COEFFICIENTS = 300
# Columns and predictions beyond so many units count as this: ten labels must not extrapolate.
_MOST_UNITS = 4.0


class Terms:
    """Terms of the effect for rows of any site: 1, the prediction, the columns as numbers.

    Parameters
    ----------
    columns : Columns or None
        None for arrays of numbers.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> slopes, columns = Terms(None).fit(X, X).transform(X, X)
    >>> np.column_stack([slopes, columns]).round(2)
    array([[-1.34, -1.34],
           [-0.45, -0.45],
           [ 0.45,  0.45],
           [ 1.34,  1.34]])
    """

    centre_: Floats  # of the predictions, (K,)
    width_: Floats  # (K,)
    with_columns_: bool

    def __init__(self, columns: Columns | None) -> None:
        self.preparation = preparation(columns)

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
        """Learn units from the rows of all sources and their predictions."""
        columns = self.preparation.fit(X).transform(X[:1]).shape[1]
        coefficients = columns * scaled.shape[1]
        self.with_columns_ = len(X) * columns <= MOST_CELLS and coefficients <= _MOST_COEFFICIENTS
        self.centre_, width = scaled.mean(axis=0), scaled.std(axis=0)
        # Predictions that are all alike, up to rounding, have no slope.
        self.width_ = np.where(width > 1e-9 * np.abs(scaled).max(), width, np.inf)
        return self

    def transform(self, X: Features, scaled: Floats) -> tuple[Floats, Floats]:
        """Return the predictions in their units, (n, K), and the columns as numbers, (n, q)."""
        slopes = (scaled - self.centre_) / self.width_
        columns = np.empty((len(X), 0))
        if self.with_columns_:
            columns = np.asarray(self.preparation.transform(X), dtype=float)
        columns = columns.clip(-_MOST_UNITS, _MOST_UNITS) / np.sqrt(max(columns.shape[1], 1))
        return slopes.clip(-_MOST_UNITS, _MOST_UNITS), columns


def added(slopes: Floats, columns: Floats, effect: Floats) -> Floats:
    """What an effect (K, p) adds to the predictions of rows with these terms, (n, K)."""
    return np.asarray(effect[:, 0] + slopes * effect[:, 1] + columns @ effect[:, 2:].T)


@dataclass(frozen=True, slots=True, eq=False)
class SiteRows:
    """Labelled rows of one site, predicted by models that have not seen it."""

    scaled: Floats  # predictions on the scale of the effects, (n, K)
    slopes: Floats  # terms, (n, K)
    columns: Floats  # terms, (n, q)
    y: NDArray[Any]  # labels, (n,)
    observed: Floats  # labels as the effect sees them: values, or 0 and 1 for every class, (n, K)
    groups: Rows | None = None  # codes of rows that belong together, (n,)
    sample_weight: Floats | None = None  # (n,)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Rows) -> SiteRows:
        """Return some of the rows."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{n: v[rows] for n, v in arrays.items() if v is not None})

    def with_effect(self, effect: Floats) -> Floats:
        """Return the predictions with an effect of the site, (n, K)."""
        return np.asarray(self.scaled + added(self.slopes, self.columns, effect))

    def terms(self, k: int) -> Floats:
        """Return all terms of column k of the predictions, (n, p)."""
        return np.column_stack([np.ones(len(self)), self.slopes[:, k], self.columns])

    @property
    def counts(self) -> Floats:
        """How many independent rows each row counts for, (n,).

        Weighted rows add up to their effective number, and all rows of a group count as one.
        """
        counts, w = np.ones(len(self)), self.sample_weight
        if w is not None and len(w):
            counts = w * (w.sum() / (w @ w))
        return counts / np.bincount(self.cluster)[self.cluster] if len(self) else counts

    @property
    def effective(self) -> int:
        """Number of independent rows, at least 1."""
        return max(round(float(self.counts.sum())), 1)

    @property
    def cluster(self) -> Rows:
        """Numbers of the rows, or of their groups, from 0, (n,)."""
        if self.groups is None:
            return np.arange(len(self))
        return np.unique(self.groups, return_inverse=True)[1]

    @property
    def most_labels(self) -> int:
        """Rows, or groups, that are labelled where the site is treated as the target."""
        return int(_MOST_LABELLED * (self.cluster.max() + 1))


# ---------------------------------------------------------------- evidence and posterior

# Spreads, in units of a row's noise or of log odds, and prior probabilities of 0; the others share
# the rest (`benchmarks/results/labels.md`).
_INTERCEPTS = np.array([0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4])
_SLOPES = np.array([0.0, 0.05, 0.1, 0.2, 0.4, 0.8])
_COLUMNS = np.array([0.0, 0.1, 0.2, 0.4, 0.8, 1.6])
_GRIDS, _ZERO = (_INTERCEPTS, _SLOPES, _COLUMNS), (0.2, 0.6, 0.7)
# Probability that the target differs from the sources by more, or less, than these do from each
# other: its spread then has the prior of the grid, whatever the sources show.
_UNLIKE_SOURCES = 0.1
# Rows that the noise of the sources counts for at a site (nu).
_PRIOR_ROWS = 10.0
# Residuals beyond so many standard deviations count as many (Huber), so that one outlier among ten
# labels does not decide: without, one run in twenty had 1.3 times the loss under Student's t(3).
_HUBER_THRESHOLD = 2.0
# Least weight of a label of classes: p (1 - p) is next to nothing for a confident prediction, and
# one label that contradicts it would decide.
_LEAST_WEIGHT = 0.02
# A step of classes may overshoot: it moves no row's log odds by more than this, later
# ones go half way.
_FAR, _MOST_STEPS, _FULL_STEPS, _TOLERANCE = 2.0, 25, 12, 1e-3


_PRIORS = [
    np.array([zero, *np.full(len(grid) - 1, (1 - zero) / (len(grid) - 1))])
    for grid, zero in zip(_GRIDS, _ZERO, strict=True)
]
LOG_PRIOR = np.log(_PRIORS[0][:, None, None] * _PRIORS[1][:, None] * _PRIORS[2])


class Evidence(NamedTuple):
    """What residuals of one column of predictions show under every spread of the grid."""

    log_likelihood: Floats  # marginal, up to a constant, (I, S, C)
    intercepts: Floats  # posterior means, (I, S, C)
    slopes: Floats
    values: Floats  # eigenvalues of the columns' cross products, (q,)
    vectors: Floats  # their eigenvectors, (q, q)
    products: Floats  # of the rotated columns with residuals, 1 and slopes, (q, 3)

    def effect(self, weights: Floats) -> Floats:
        """Posterior mean of the effect, averaged over spreads with these weights, (p,)."""
        intercept = (weights * self.intercepts).sum(axis=(0, 1))
        slope = (weights * self.slopes).sum(axis=(0, 1))
        left = np.stack([weights.sum(axis=(0, 1)), -intercept, -slope], axis=1) @ self.products.T
        columns = self.vectors @ np.sum(_ridge(self.values) * left, axis=0)
        return np.concatenate([[intercept.sum(), slope.sum()], columns])


def _ridge(values: Floats) -> Floats:
    """Posterior variances of rotated columns that alone explain the residuals, (C, q)."""
    s = _COLUMNS[:, None] ** 2
    return np.asarray(s / (1 + s * values))


def evidence(r: Floats, w: Floats, slopes: Floats, columns: Floats, noise_known: bool) -> Evidence:
    r"""Integrate the effect, and the noise unless it is known, out under every spread.

    The columns are integrated out first, along the eigenvectors of their cross products: what is
    left of the products of r, 1 and slope is :math:`Q = B^\top V^{-1} B`, (C, 3, 3), with
    :math:`V = I + s^2 X X^\top`, where the rows of B and X are multiplied by the roots of their
    weights. Intercept and slope then are a regression on two terms. Residuals r, their weights w
    and `slopes` have shape (m,), `columns` (m, q).
    """
    root = np.sqrt(w)[:, None]
    B, X = np.column_stack([r, np.ones(len(r)), slopes]) * root, columns * root
    values, vectors = np.linalg.eigh(X.T @ X)
    values = values.clip(0)
    products = vectors.T @ (X.T @ B)
    Q = B.T @ B - np.einsum("cq,qi,qj->cij", _ridge(values), products, products)
    log_det = np.log1p(_COLUMNS[:, None] ** 2 * values).sum(axis=1)
    a, b = _INTERCEPTS[:, None, None] ** 2, _SLOPES[:, None] ** 2
    (rr, r1, rs), (_, g11, g1s), (_, _, gss) = Q.transpose(1, 2, 0)
    det = (1 + a * g11) * (1 + b * gss) - a * b * g1s**2
    intercept = a * ((1 + b * gss) * r1 - b * g1s * rs) / det
    slope = b * ((1 + a * g11) * rs - a * g1s * r1) / det
    left = np.maximum(rr - intercept * r1 - slope * rs, 0.0)
    log = -(log_det + np.log(det)) / 2
    if noise_known:
        log -= left / 2
    else:
        log -= (w.sum() + _PRIOR_ROWS) / 2 * np.log(_PRIOR_ROWS + left)
    return Evidence(log, intercept, slope, values, vectors, products)


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Posterior of a site's effect, in units of the noise."""

    effect: Floats  # mean, (K, p)
    weights: Floats  # of the spreads, (I, S, C)
    log_likelihood: Floats  # of the labels under every spread, (I, S, C)
    log_evidence: float  # of the labels
    counts: Floats  # weights of the labels, (m, K)
    noise: float  # variance of a row around its prediction; 1 for classes

    def deviations(self, site: SiteRows) -> tuple[Floats, Floats]:
        """Standard deviations under the mean spread: of the effect, (K, p), and between sites."""
        s = _mean_spread(self.weights, self.effect.shape[1])
        of_columns = [
            s * np.sqrt(np.diag(np.linalg.inv(np.eye(len(s)) + _scaled_gram(site.terms(k), w, s))))
            for k, w in enumerate(self.counts.T)
        ]
        return np.sqrt(self.noise) * np.array(of_columns), np.sqrt(self.noise) * s


def _mean_spread(weights: Floats, p: int) -> Floats:
    """Root of the mean square of the spreads, for every term, (p,)."""
    means = [np.sum(weights.sum(axis=tuple({0, 1, 2} - {i})) * g**2) for i, g in enumerate(_GRIDS)]
    return np.sqrt([means[0], means[1], *np.full(p - 2, means[2])])


def _scaled_gram(Z: Floats, w: Floats, s: Floats) -> Floats:
    r""":math:`S Z^\top W Z S` of terms (m, p), weights (m,) and a spread (p,)."""
    return np.asarray(s[:, None] * ((Z.T * w) @ Z) * s)


def posterior(site: SiteRows, log_prior: Floats, unit: float | None) -> Posterior:
    """Posterior of the effect, given labelled rows and the log prior of the spreads (I, S, C).

    `unit` is the noise of a row, None for classes. What is regressed depends on the effect, and is
    computed again at its mean: residuals of values without outliers, working responses and weights
    of classes.
    """
    K, counts = site.scaled.shape[1], site.counts[:, None]
    effect, noise, most = np.zeros((K, 2 + site.columns.shape[1])), 1.0, _HUBER_THRESHOLD
    # Probabilities add up to 1: K > 1 classes show as much as K - 1.
    share = max(K - 1, 1) / K
    raw = (site.observed - site.scaled) / (unit or 1.0)
    for step in range(_MOST_STEPS):
        shift = added(site.slopes, site.columns, effect)
        if unit is None:
            P = expit(site.scaled + shift)
            w = np.maximum(P * (1 - P), _LEAST_WEIGHT)
            r, w = shift + (site.observed - P) / w, counts * w
        else:
            centre = shift if step or not len(raw) else np.median(raw)
            r, w = centre + (raw - centre).clip(-most, most), counts
        shown = [
            evidence(r[:, k], w[:, k], site.slopes[:, k], site.columns, noise_known=unit is None)
            for k in range(K)
        ]
        log = share * np.sum([rows.log_likelihood for rows in shown], axis=0)
        total = float(logsumexp(log + log_prior))
        weights = np.exp(log + log_prior - total)
        before, effect = effect, np.array([rows.effect(weights) for rows in shown])
        if unit is None:
            move = np.abs(added(site.slopes, site.columns, effect - before)).max(initial=_FAR)
            effect = before + (effect - before) * (_FAR / move if step < _FULL_STEPS else 0.5)
        if unit is not None:
            left = (raw - added(site.slopes, site.columns, effect)).clip(-most, most)
            noise = (_PRIOR_ROWS + float(np.sum(counts * left**2))) / (_PRIOR_ROWS + counts.sum())
            most = _HUBER_THRESHOLD * np.sqrt(noise)
        if np.max(np.abs(effect - before), initial=0.0) < _TOLERANCE:
            break
    return Posterior(effect, weights, log, total, w, noise)


# ---------------------------------------------------------------- sites

# Draws of labels of a source, and the part of its rows that are labelled; the others are predicted.
_DRAWS, _MOST_LABELLED = 5, 0.6
# Residuals beyond this quantile of their size count as it for the noise, which is at least this
# part of the deviation of the sites' medians.
_NO_OUTLIERS, _LEAST_NOISE = 0.975, 0.01
# Labelled rows are left out of their own effect in at most so many groups.
_MOST_FOLDS = 20


def draw_labels(site: SiteRows, labels: int, seed: int) -> list[tuple[Rows, Rows]]:
    """Draw labelled rows, or whole groups, and the others; each is among these at least once."""
    cluster, labels = site.cluster, min(labels, site.most_labels)
    order = np.random.default_rng(seed).permutation(cluster.max() + 1)
    turned = [np.roll(order, -(draw * len(order) // _DRAWS))[:labels] for draw in range(_DRAWS)]
    marked = [np.isin(cluster, clusters) for clusters in turned]
    return [(np.flatnonzero(labelled), np.flatnonzero(~labelled)) for labelled in marked]


class Update(NamedTuple):
    """What the labels of a site show."""

    effect: Floats  # posterior mean of the coefficients of the terms, (K, p)
    deviation: Floats  # their posterior standard deviations, (K, p)
    between: Floats  # standard deviation of each between sites, given sources and labels, (p,)
    own_losses: Floats  # of the labelled rows, each with the effect that the others show, (m,)
    # How much surer the labels make it that the site differs from the sources by more, or less,
    # than these do from each other: 0 if not at all, 1 if it is certain.
    unlike: float


class SiteEffects:
    """How sites differ in p(y|x), learned from predictions by models that have not seen them.

    Every source, and the target with its labels, is a draw from the same hierarchical model. The
    spreads have a posterior given the sources; at the target it is mixed with the prior, and the
    target's labels update both: the more they contradict the sources, the less these decide.

    Parameters
    ----------
    predictions : k arrays of shape (n_j,) or (n_j, C)
        Of every source, by models that were trained without it.
    X : k tables of n_j rows
    y : k arrays of shape (n_j,)
    loss : Loss
    classes : array of shape (C,), or None for values
    columns : Columns or None
        None for arrays of numbers.
    groups, sample_weight : k arrays of shape (n_j,), optional
        Codes of rows that belong together; weights of the rows.
    out_of_site : bool
        Whether the models have not seen the sites. Those of a single source have; it then shows
        nothing of how sites differ, and labels of the target decide alone.
    seed : int
        Of the rows that are labelled where a source is treated as the target.

    Examples
    --------
    Sites whose labels lie some way above or below what the model expects:

    >>> from shiftune.evaluate import loss_named
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(size=(60, 1)) for _ in range(8)]
    >>> y = [x[:, 0] + rng.normal(0, 1) + rng.normal(0, 0.2, 60) for x in X]
    >>> effects = SiteEffects([x[:, 0] for x in X], X, y, loss_named("squared"), None)
    >>> new = rng.normal(size=(10, 1))
    >>> update = effects.update(effects.rows(new, new[:, 0], new[:, 0] + 1.0))
    >>> update.effect.round(1)[0, 0]
    np.float64(1.0)
    """

    def __init__(
        self,
        predictions: Sequence[NDArray[Any]],
        X: Sequence[Features],
        y: Sequence[NDArray[Any]],
        loss: Loss,
        classes: NDArray[Any] | None,
        columns: Columns | None = None,
        *,
        groups: Sequence[Rows] | None = None,
        sample_weight: Sequence[Floats] | None = None,
        out_of_site: bool = True,
        seed: int = 0,
    ) -> None:
        self.loss, self.classes, self.seed = loss, classes, seed
        self.out_of_site = out_of_site
        scaled = [to_scale(p) for p in predictions]
        rows, every = stacked(X), np.concatenate(scaled)
        self.terms = Terms(columns).fit(rows, every)
        self._plain = [loss(labels, p, classes) for labels, p in zip(y, predictions, strict=True)]
        self.unit: float | None = None
        self.shift = 0.0
        if classes is None:
            self._learn_values(scaled, y)
        # All at once: a thousand small tables take a hundred times as long.
        slopes, numbers = self.terms.transform(rows, every)
        ends = np.cumsum([len(labels) for labels in y])[:-1]
        nothing = [None] * len(y)
        self.sources = [
            SiteRows(f, own_slopes, own_columns, labels, self._observed(labels), group, weight)
            for f, own_slopes, own_columns, labels, group, weight in zip(
                scaled,
                np.split(slopes, ends),
                np.split(numbers, ends),
                y,
                groups or nothing,
                sample_weight or nothing,
                strict=True,
            )
        ]
        self._drawn: dict[int, list[list[tuple[Rows, Floats]]]] = {}
        self._losses: dict[int, list[Floats]] = {}

    def _learn_values(self, scaled: Sequence[Floats], y: Sequence[NDArray[Any]]) -> None:
        """Learn the noise, and what the loss prefers to the centre.

        A quantile lies beside the centre of its residuals by design; this distance, `shift`, is
        no effect of a site.
        """
        labels = np.concatenate(list(y)).astype(float)
        residuals = [labels - f[:, 0] for labels, f in zip(y, scaled, strict=True)]
        medians = [np.median(residual) for residual in residuals]
        pairs = list(zip(residuals, medians, strict=True))
        # One prediction that explodes must not make all labels look alike, and labels without any
        # noise must not make effects impossible.
        within = np.concatenate([residual - median for residual, median in pairs])
        most = float(np.quantile(np.abs(within), _NO_OUTLIERS))
        noise = max(float(within.clip(-most, most).std()), _LEAST_NOISE * float(np.std(medians)))
        self.unit = noise or 1.0
        unit, centred, far = self.unit, [], _HUBER_THRESHOLD * self.unit
        for residual, median in pairs:
            centre = median
            for _ in range(10):
                centre = residual.clip(centre - far, centre + far).mean()
            centred.append(residual - centre)
        within = np.concatenate(centred).clip(-most, most)
        if within.min() < within.max():
            best = minimize_scalar(
                lambda times: float(self.loss(labels, labels - within + times * unit).mean()),
                bounds=(within.min() / unit, within.max() / unit),
                method="bounded",
            )
            self.shift = -float(best.x) * unit

    def _observed(self, y: NDArray[Any]) -> Floats:
        """Labels as the effect sees them, (n, K)."""
        if self.classes is None:
            return np.asarray(y, dtype=float)[:, None] - self.shift
        of_class = self.classes[1:] if len(self.classes) == 2 else self.classes
        return np.asarray(y[:, None] == of_class, dtype=float)

    def rows(
        self,
        X: Features,
        predictions: NDArray[Any],
        y: NDArray[Any],
        groups: Rows | None = None,
        sample_weight: Floats | None = None,
    ) -> SiteRows:
        """Return labelled rows of a site with their terms."""
        scaled = to_scale(predictions)
        terms = self.terms.transform(X, scaled)
        return SiteRows(scaled, *terms, y, self._observed(y), groups, sample_weight)

    def losses(self, y: NDArray[Any], scaled: Floats) -> Floats:
        """Return the losses of predictions on the scale of the effects, shape (n,)."""
        return self.loss(y, from_scale(scaled, self.classes), self.classes)

    def without_outliers(self, residuals: Floats) -> Floats:
        """Return residuals of values, those beyond Huber's threshold as far as that."""
        most = _HUBER_THRESHOLD * (self.unit or 1.0)
        return np.asarray(residuals.clip(self.shift - most, self.shift + most))

    # ------------------------------------------------------------ how far sites differ

    @cached_property
    def _evidence(self) -> Floats:
        """Log likelihood of every source under every spread, (k, I, S, C)."""
        log_likelihood = np.zeros((len(self.sources), *LOG_PRIOR.shape))
        if self.out_of_site:
            for j, source in enumerate(self.sources):
                _interrupts.check()
                log_likelihood[j] = posterior(source, LOG_PRIOR, self.unit).log_likelihood
        return log_likelihood

    def spreads(self, without: int | None = None) -> Floats:
        """Log posterior of the spreads given the sources, or all but one, (I, S, C)."""
        log = LOG_PRIOR + self._evidence.sum(axis=0)
        if without is not None:
            log -= self._evidence[without]
        return np.asarray(log - logsumexp(log))

    def _posterior(self, site: SiteRows, without: int | None = None) -> Posterior:
        """Posterior of the effect of a new site, or of a source that plays it."""
        mixed = np.logaddexp(
            np.log1p(-_UNLIKE_SOURCES) + self.spreads(without), np.log(_UNLIKE_SOURCES) + LOG_PRIOR
        )
        return posterior(site, mixed, self.unit)

    def update(self, site: SiteRows) -> Update:
        """Return the effect of a site from labelled rows, and their losses without their group."""
        y, group, unit = site.y, site.cluster, self.unit or 1.0
        crossed = np.empty(len(y))
        for fold in range(min(group.max() + 1, _MOST_FOLDS)):
            out = group % _MOST_FOLDS == fold
            left, rest = site.take(np.flatnonzero(out)), site.take(np.flatnonzero(~out))
            crossed[out] = self.losses(left.y, left.with_effect(self.effect(rest)))
        of_labels = self._posterior(site)
        deviation, between = of_labels.deviations(site)
        prior = np.log(_UNLIKE_SOURCES) + LOG_PRIOR
        unlike = float(np.exp(logsumexp(of_labels.log_likelihood + prior) - of_labels.log_evidence))
        return Update(
            unit * of_labels.effect,
            unit * deviation,
            unit * between,
            crossed,
            max(unlike - _UNLIKE_SOURCES, 0.0) / (1 - _UNLIKE_SOURCES),
        )

    def effect(self, site: SiteRows, without: int | None = None) -> Floats:
        """Posterior mean of the effect of a new site, or of a source treated as new, (K, p)."""
        _interrupts.check()
        return (self.unit or 1.0) * self._posterior(site, without).effect

    # ------------------------------------------------------------ sources treated as the target

    def _draw(self, labels: int) -> list[list[tuple[Rows, Floats]]]:
        """For every source and draw of labels: the other rows, and the effect of the labels."""
        labels = min(labels, max(source.most_labels for source in self.sources))
        if labels not in self._drawn:
            self._drawn[labels] = [
                [
                    (others, self.effect(source.take(labelled), j))
                    for labelled, others in draw_labels(source, labels, self.seed + j)
                ]
                for j, source in enumerate(self.sources)
            ]
        return self._drawn[labels]

    def source_losses(self, labels: int) -> list[Floats]:
        """Return the losses of the sources' rows with so many labels of their site, k times (n_j,).

        A source that is too small has 60 % of its rows labelled, and its gain is extrapolated.
        """
        if not labels or not self.out_of_site:
            return self._plain
        if labels not in self._losses:
            losses = self.source_values(labels, lambda y, p: self.loss(y, p, self.classes))
            self._losses[labels] = [
                self._extrapolated(source, plain, updated, labels)
                for source, plain, updated in zip(self.sources, self._plain, losses, strict=True)
            ]
        return self._losses[labels]

    def source_values(
        self, labels: int, of: Callable[[NDArray[Any], Floats], Floats]
    ) -> list[Floats]:
        """Return a function of labels and updated predictions for every row, k times (n_j,)."""
        values = []
        for source, draws in zip(self.sources, self.source_predictions(labels), strict=True):
            unlabelled = ~np.asarray(np.isnan(draws).reshape(*draws.shape[:2], -1).any(axis=2))
            total = np.zeros(len(source))
            for d, rows in enumerate(unlabelled):
                total[rows] += of(source.y[rows], draws[d, rows])
            values.append(total / unlabelled.sum(axis=0))
        return values

    def source_predictions(self, labels: int) -> list[Floats]:
        """Return the sources' predictions with so many labels of their site, for every draw.

        k arrays of shape (D, n_j) or (D, n_j, C), with NaN for the rows that a draw labels.
        """
        predictions = []
        for source, draws in zip(self.sources, self._draw(labels), strict=True):
            classes = () if self.classes is None else (len(self.classes),)
            updated = np.full((len(draws), len(source), *classes), np.nan)
            for d, (others, effect) in enumerate(draws):
                scaled = source.take(others).with_effect(effect)
                updated[d, others] = from_scale(scaled, self.classes)
            predictions.append(updated)
        return predictions

    def _extrapolated(self, source: SiteRows, plain: Floats, drawn: Floats, labels: int) -> Floats:
        r"""Losses of a source with more labels than it can spare.

        To second order a loss falls with the variance of the effect that labels leave,
        :math:`v(m) = \mathrm{tr}\, G S (I + m S G S)^{-1} S` with G the mean of
        :math:`w z z^\top`: the gain is multiplied by :math:`(v(0) - v(m)) / (v(0) - v(m_0))`.
        """
        most = source.most_labels
        before, after = float(plain.mean()), float(drawn.mean())
        if labels <= most or most < 1 or not 0 < after < before:
            return drawn
        s, gains = _mean_spread(np.exp(self.spreads()), 2 + source.columns.shape[1]), np.zeros(2)
        for k in range(source.scaled.shape[1]):
            w = source.counts
            if self.unit is None:
                P = expit(source.scaled[:, k])
                w = w * np.maximum(P * (1 - P), _LEAST_WEIGHT)
            G = _scaled_gram(source.terms(k), w, s) / source.effective
            for i, m in enumerate((most, labels)):
                gains[i] += np.trace(G - np.linalg.solve(np.eye(len(s)) + m * G, G))
        ratio = gains[1] / gains[0] if gains[0] > 0 else 1.0
        return np.asarray(drawn * max(before - ratio * (before - after), after / 2) / after)
