"""How frequent the classes are at the target, if rows of a class look alike everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from shiftune.errors import DataError
from shiftune.problem._site import Features, Site
from shiftune.rows._encoding import RowEncoder, drawn_rows, subsample

Floats = NDArray[np.float64]

# Rows of all sources, and of the target, that are read.
_MOST_ROWS = 10_000
# Sources take the target's role in at most so many groups.
_MOST_GROUPS = 8
_MOST_STEPS, _CONVERGED = 500, 1e-6
_PENALTY = 10.0
# Differences of the likely from the expected frequency; the same as a factor, for rare classes.
_SMALL, _TWICE = 0.05, 2.0
# One wild row would otherwise decide a linear fit.
_MOST_SDS_FROM_MEAN = 3.0


@dataclass(frozen=True, slots=True)
class LabelShift:
    """Frequency of the class that may be more frequent than expected; see `label_shift`."""

    label: str
    expected: float  # mean probability over the target's rows: its frequency, if p(y|x) is the same
    mixed: float  # if p(x|y) is the same: the target's rows are a mixture of the classes'
    lowest: float  # at the sources
    highest: float
    sources: int
    # Share of the step from `expected` to `mixed` that would have been right at the sources; 1
    # where the whole step would not matter.
    trust: float

    @property
    def likely(self) -> float:
        """Its frequency by both: the second as far as it would have been right at the sources."""
        return self.expected + self.trust * (self.mixed - self.expected)


def far_apart(expected: float, likely: float) -> bool:
    """Whether a frequency is so much higher than expected that a caution is due."""
    return likely - expected >= _SMALL or likely >= _TWICE * expected


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def label_shift(sources: Sequence[Site], X_target: Features) -> LabelShift:
    r"""Estimate how frequent the classes are at the target, in two ways.

    With :math:`\hat p(y|x)` of a logistic regression on all sources (values and squares of the
    columns), and :math:`\pi` the frequencies in its training rows: the mean of
    :math:`\hat p(y|x)` over the target's rows; and the fixed point of

    .. math:: \pi'_y = \mathrm{mean}_{x \in T}
              \frac{\hat p(y|x)\, \pi'_y / \pi_y}{\sum_c \hat p(c|x)\, \pi'_c / \pi_c} ,

    the most likely frequencies where only they have changed [1]_. Without labels it is unknown
    which of the two is right, but not for the sources in the target's role: with :math:`b_j` the
    step from the first to the second at source j, and :math:`a_j` that from the first to the truth,

    .. math:: \gamma = \frac{\sum_j a_j^\top b_j}{\sum_j b_j^\top b_j},
              \quad 0 \le \gamma \le 1 .

    It takes most of the time, and is computed where the frequencies are `far_apart`.

    References
    ----------
    .. [1] M. Saerens, P. Latinne, C. Decaestecker (2002). Adjusting the outputs of a classifier to
       new a priori probabilities. Neural Computation 14.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def rows(share, n=400):
    ...     y = (rng.random(n) < share).astype(int)
    ...     return rng.normal(1.5 * y[:, None], 1, (n, 2)), y
    >>> found = label_shift([Site(f"{s}", *rows(s)) for s in (.1, .2, .3)], rows(.75)[0])
    >>> bool(found.expected < 0.7 < found.mixed), bool(found.trust > 0.5), found.highest < 0.4
    (True, True, True)
    """
    if len(sources) < 2:
        raise DataError(f"label shift needs at least two sources, got {len(sources)}")
    most = max(_MOST_ROWS // len(sources), 1)
    read = [site.take(drawn_rows(len(site), most)) for site in sources]
    Z_target, *Z = RowEncoder().fit_transform(
        [subsample(X_target, _MOST_ROWS), *[s.X for s in read]]
    )
    scaled = _standardised(np.vstack([Z_target, *Z]))
    scaled = np.hstack([scaled, _standardised(scaled**2)])
    if not scaled.shape[1]:  # nothing distinguishes the rows
        scaled = np.zeros((len(scaled), 1))
    Z_target, Z_all = scaled[: len(Z_target)], scaled[len(Z_target) :]
    y = np.concatenate([site.labels for site in read])
    classes = np.unique(y)
    if len(classes) < 2:
        raise DataError(f"label shift needs at least two classes, got {classes.tolist()}")
    site = np.repeat(np.arange(len(read)), [len(s) for s in read])
    shares = np.array([[np.mean(s.labels == c) for c in classes] for s in sources])
    model, prior = _model(Z_all, y, classes)
    P = model.predict_proba(Z_target)
    expected, mixed = P.mean(axis=0), frequencies(P, prior)
    c = int(np.argmax(mixed - expected))
    matters = far_apart(float(expected[c]), float(mixed[c]))
    right = steps = 0.0
    for group in range(min(len(read), _MOST_GROUPS)) if matters else ():
        held = site % _MOST_GROUPS == group
        if len(np.unique(y[~held])) < len(classes):
            continue
        model, prior = _model(Z_all[~held], y[~held], classes)
        for j in np.unique(site[held]):
            P = model.predict_proba(Z_all[site == j])
            step = frequencies(P, prior) - P.mean(axis=0)
            right += float(step @ (shares[j] - P.mean(axis=0)))
            steps += float(step @ step)
    return LabelShift(
        str(classes[c]),
        float(expected[c]),
        float(mixed[c]),
        float(shares[:, c].min()),
        float(shares[:, c].max()),
        len(sources),
        (float(np.clip(right / steps, 0, 1)) if steps > 0 else 0.0) if matters else 1.0,
    )


def frequencies(P: Floats, prior: Floats) -> Floats:
    """Most likely class frequencies of rows with these probabilities under other frequencies.

    Probabilities have shape (n, C), frequencies (C,).
    """
    shares = prior
    for _ in range(_MOST_STEPS):
        weighted = P * (shares / prior)
        new = (weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0)
        if np.abs(new - shares).max() < _CONVERGED:
            return np.asarray(new)
        shares = new
    return np.asarray(shares)


def _model(Z: Floats, y: NDArray[Any], classes: NDArray[Any]) -> tuple[LogisticRegression, Floats]:
    model = LogisticRegression(C=1 / _PENALTY, max_iter=300).fit(Z, y)
    return model, np.array([np.mean(y == c) for c in classes])


def _standardised(Z: Floats) -> Floats:
    """Columns with mean 0 and standard deviation 1, cut at 3; constant ones become 0."""
    spread = Z.std(axis=0)
    scaled = (Z - Z.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return np.asarray(scaled.clip(-_MOST_SDS_FROM_MEAN, _MOST_SDS_FROM_MEAN))
