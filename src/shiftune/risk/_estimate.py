r"""From losses and weights to the estimated target risk, by the paper's estimators.

The paper is Nomura and Saito, "Efficient Hyperparameter Optimization under Multi-Source Covariate
Shift", CIKM 2021. Notation: source j has the losses L_ij and weights w_ij of n_j rows, and the
divergence :math:`\mathrm{Div}_j = E_j[w_j^2 L^2] - f_T^2` from the target, the variance of one
weighted loss. All rows lie end to end, source after source, in arrays of shape (n,); figures of
the sources have shape (k,).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from shiftune._wording import check_choice
from shiftune.errors import DataError, OverlapWarning, SettingsError
from shiftune.evaluate._losses import LARGEST_LOSS
from shiftune.ratio._overlap import NEGLIGIBLE, Guard, effective_rows
from shiftune.risk._new_site import pooled_variance
from shiftune.risk._result import RiskEstimate

Floats = NDArray[np.float64]
# One array per source.
Arrays = Sequence[ArrayLike]

Method = Literal["naive", "unbiased", "lambda", "variance_reduced", "oracle"]
METHODS: tuple[Method, ...] = get_args(Method)

Divergence = Literal["plug_in", "cross_fitted"]

_CROSS_FIT_FOLDS = 5
# Share of a source's weight that its other rows must have for a mean without one row.
_SMALLEST_REST = 1e-6


class RiskEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """Estimator of the risk at the target from losses at the sources.

    A subclass writes `estimate`; the defaults of everything else are those of an estimator that
    weights losses by density ratios. Run `shiftune.testing.check_risk_estimator` on it and pass it
    as `risk=` to `ShiftSearch`.

    Attributes
    ----------
    needs_ratio : bool
        Whether `estimate` reads density ratios.
    corrects : bool
        Whether the estimate accounts for differences between the sources' rows and the target's.
    uses_target_labels : bool
        Whether the losses are those of the target's rows, whose labels were kept aside
        (experiments only).
    out_of_site : bool
        Whether the losses are of all rows of the sources, each predicted by a model that has not
        seen its site, and those of the target's few labelled rows, which train no trial. Otherwise
        every source is split into training and validation rows, for one model per trial.
    """

    needs_ratio = True
    corrects = True
    uses_target_labels = False
    out_of_site = False

    def fit(
        self, X_target: Any, X_sources: Sequence[Any], sample_weight: Sequence[Floats] | None = None
    ) -> Self:
        """Read the rows, once per study; by default nothing is learned.

        Parameters
        ----------
        X_target : array or DataFrame of shape (n_T, d)
        X_sources : k arrays or DataFrames of shape (n_j, d)
            The rows whose losses `estimate` will receive, in the same order.
        sample_weight : k + 1 arrays, of shape (n_T,) and (n_j,), optional
            Weights of the rows, where they have any; those of the target first. The losses are
            then such that their means are weighted ones (`shiftune.rows.Moments`).
        """
        return self

    @abstractmethod
    def estimate(
        self, losses: Arrays, weights: Arrays | None = None, *, names: Sequence[str] | None = None
    ) -> RiskEstimate:
        """Estimate the target risk of one model.

        Parameters
        ----------
        losses : k arrays of shape (n_j,), and one more if rows of the target have labels
        weights : density ratios at the same rows, or None if `needs_ratio` is False
        names : names of the sources, optional
        """


def estimate(
    losses: Sequence[ArrayLike],
    weights: Sequence[ArrayLike] | None = None,
    method: Method = "variance_reduced",
    *,
    guard: bool | Guard = True,
    divergence: Divergence = "plug_in",
    lam: ArrayLike | None = None,
    names: Sequence[str] | None = None,
) -> RiskEstimate:
    r"""Estimate the risk of a model at the target from its losses at the sources.

    .. math:: \hat f = \sum_j \lambda_j \sum_i w_{ij} L_{ij}, \qquad \sum_j \lambda_j n_j = 1

    A pure function: no model, no data frame, no random numbers. Read as a meta-analysis, source
    j reports :math:`m_j = \mathrm{mean}(wL)` with variance :math:`\mathrm{Div}_j / n_j`.

    Parameters
    ----------
    losses : k arrays of shape (n_j,)
        Loss of the model on every row of every source.
    weights : k arrays of shape (n_j,), optional
        Density ratios at the same rows. Not read by "naive" and "oracle". Labelled rows of the
        target itself are an additional source with weights 1.
    method : str
        - "naive": mean loss over all rows, no correction;
        - "unbiased": :math:`\lambda_j = 1/n`;
        - "lambda": the weights `lam`;
        - "variance_reduced": the paper's estimator, the inverse-variance mean of the sources;
        - "oracle": `losses` are those on labelled target rows (experiments only).
    guard : bool or Guard
        Leave out sources whose weights show that they do not overlap with the target, and shrink
        the divergences of small sources (`Guard.prior_rows`). False gives the published
        estimator exactly. Where no source can be used by itself, the estimate falls back, with an
        `OverlapWarning`: on self-normalised weights if together the sources have
        `Guard.min_ess_together` effective rows, else on "naive".
    divergence : {"plug_in", "cross_fitted"}
        Where "variance_reduced" takes the divergences from. "plug_in": the rows themselves, as
        published; a small loss then makes a small divergence and a large lambda, so the estimate
        is low in small samples. "cross_fitted": for a row of fold f (row number modulo 5), the
        other folds.
    lam : k numbers, for method "lambda"
    names : k names of the sources, optional

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> losses = [rng.exponential(size=200), rng.exponential(size=200)]
    >>> weights = [np.ones(200), rng.exponential(size=200)]
    >>> risk = estimate(losses, weights, names=["B", "C"])
    >>> low, high = risk.interval(0.95)
    >>> bool(low < 1 < high), risk.sources["share"].round(2).to_list()
    (True, [0.7, 0.3])
    """
    check_choice(method, METHODS, "risk estimator")
    if method in ("naive", "oracle"):
        sample = read_losses(losses, None, names)
        return _weighted(sample, sample.rows(unbiased_lambda(sample.n)), method)
    if weights is None:
        raise SettingsError(f"method={method!r} needs weights, one array per source")
    sample = read_losses(losses, weights, names)
    limits = Guard() if guard is True else guard or None
    reasons = ("",) * len(sample.n)
    if limits:
        means, ess = sample.means(sample.w), effective_rows(sample.w, sample.starts)
        figures = zip(sample.n.tolist(), means.tolist(), ess.tolist(), strict=True)
        reasons = tuple(str(limits.objection(*of_source) or "") for of_source in figures)
    counts = np.array([not reason for reason in reasons])
    if not counts.any():
        return _fallback(sample, reasons, method, limits)
    if not limits and not sample.w.any():
        raise DataError("all weights of all sources are 0; the density ratio has failed")
    used = sample if counts.all() else sample.only(counts)
    if method == "unbiased":
        lam_used = used.rows(unbiased_lambda(used.n))
    elif method == "lambda":
        everyone = _given_lambda(sample, lam)[sample.rows(counts)]
        if everyone.sum() == 0:
            return _fallback(sample, reasons, method, limits)
        lam_used = everyone / everyone.sum()
    else:
        lam_used = _variance_reduced(used, divergence, limits.prior_rows if limits else 0.0)
    lam_rows = np.zeros(len(sample.L))
    lam_rows[sample.rows(counts)] = lam_used
    return replace(_weighted(sample, lam_rows, method), left_out=reasons)


def unbiased_lambda(n: ArrayLike) -> Floats:
    r"""Weights of the unbiased estimator, :math:`\lambda_j = 1/n`, shape (k,).

    The text of the paper has :math:`n_j/n` in one place; only :math:`1/n`, as in its formula,
    satisfies :math:`\sum_j \lambda_j n_j = 1`.

    >>> unbiased_lambda([1, 3])
    array([0.25, 0.25])
    """
    rows = np.asarray(n, dtype=float)
    return np.full(len(rows), 1 / rows.sum())


def optimal_lambda(n: ArrayLike, div: ArrayLike) -> Floats:
    r"""Weights of the variance reduced estimator, shape (k,).

    .. math:: \lambda^\star_j = \Big( \mathrm{Div}_j \sum_l \frac{n_l}{\mathrm{Div}_l} \Big)^{-1}

    Divergences of 0 are infinitely precise, and share all the mass among them.

    >>> optimal_lambda([1, 1], [252.81, 4.27111111]).round(4)
    array([0.0166, 0.9834])
    """
    rows, d = np.asarray(n, dtype=float), np.asarray(div, dtype=float)
    if np.any(d < 0):
        raise DataError("a divergence cannot be negative")
    if np.any(d == 0):  # the limit of the formula: those sources share all the mass
        return np.where(d == 0, 1 / rows[d == 0].sum(), 0.0)
    # Relative to the smallest, so that divergences of 1e-200 neither overflow nor vanish.
    precision = d.min() / d
    return np.asarray(precision / (rows * precision).sum())


def _weighted(sample: RowLosses, lam_rows: Floats, method: str) -> RiskEstimate:
    """Sum of lambda w L over all rows; `lam_rows` has shape (n,)."""
    z = sample.w * sample.L
    estimates = sample.means(z)
    risk = _combined(sample, lam_rows, estimates, z - sample.rows(estimates), method)
    return replace(risk, value=float(lam_rows @ z))


def _combined(
    sample: RowLosses, lam_rows: Floats, estimates: Floats, centred: Floats, method: str
) -> RiskEstimate:
    """Combine the sources' estimates, (k,), and the centred contributions of their rows, (n,)."""
    ess = effective_rows(sample.w, sample.starts)
    influence = lam_rows * centred
    variance, dof = pooled_variance(influence, sample.n, ess)
    lam = sample.means(lam_rows)
    return sample.estimate(
        value=float((lam * sample.n) @ estimates),
        variance=variance,
        dof=dof,
        method=method,
        estimates=estimates,
        divergences=sample.means(centred**2),
        lam=lam,
        mean_weights=sample.means(sample.w),
        ess=ess,
        influence=influence,
    )


def _fallback(
    sample: RowLosses, reasons: tuple[str, ...], method: str, limits: Guard | None
) -> RiskEstimate:
    """Return a rougher estimate where no source overlaps enough with the target by itself."""
    ess = effective_rows(sample.w, sample.starts)
    together = np.where(sample.means(sample.w) >= NEGLIGIBLE, ess, 0.0)
    if limits and together.sum() >= limits.min_ess_together:
        risk = _normalised_by_source(sample, together / together.sum())
        instead = f"self-normalised weights with {together.sum():.0f} effective rows in all"
    else:
        uncorrected = replace(sample, w=np.ones(len(sample.L)))
        risk = _weighted(uncorrected, sample.rows(unbiased_lambda(sample.n)), "naive")
        risk = replace(risk, mean_weights=sample.means(sample.w), ess=ess)
        instead = "naive, the uncorrected mean loss of all sources"
    objections = "; ".join(
        f"{name!r}: {reason}" for name, reason in zip(sample.names, reasons, strict=True) if reason
    )
    warnings.warn(
        f"no source overlaps enough with the target, so '{method}' falls back on {instead}; that "
        f"is a rough guess ({objections})",
        OverlapWarning,
        stacklevel=3,
    )
    return replace(
        risk,
        left_out=reasons,
        fallback=f"no source overlaps enough, so {method} fell back on {instead}",
    )


def _given_lambda(sample: RowLosses, lam: ArrayLike | None) -> Floats:
    """Check the user's lambda and give every row that of its source, shape (n,)."""
    if lam is None:
        raise SettingsError("method='lambda' needs lam=, one number per source")
    values = np.asarray(lam, dtype=float)
    if values.shape != sample.n.shape or not np.all(np.isfinite(values)) or np.any(values < 0):
        raise SettingsError(
            f"lam must hold {len(sample.n)} finite numbers >= 0, one per source, got {lam!r}"
        )
    total = float(values @ sample.n)
    if not np.isclose(total, 1.0, rtol=1e-6):
        raise SettingsError(
            f"lam must satisfy sum_j lam_j n_j = 1 to be unbiased, got {total:.6g}; divide by it"
        )
    return sample.rows(values)


def _variance_reduced(sample: RowLosses, divergence: Divergence, prior_rows: float) -> Floats:
    """Return the optimal lambda of every row, shape (n,); with 0 prior rows it is as published."""
    if divergence == "plug_in":
        return sample.rows(optimal_lambda(sample.n, _divergences(sample, prior_rows)))
    if divergence != "cross_fitted":
        raise SettingsError(f"divergence must be 'plug_in' or 'cross_fitted', got {divergence!r}")
    if sample.n.min() < 2:
        j = int(np.argmin(sample.n))
        raise DataError(
            f"source {sample.names[j]!r} has 1 row; cross-fitting needs at least 2 in every source"
        )
    folds = min(_CROSS_FIT_FOLDS, int(sample.n.min()))
    # Row number modulo the number of folds: also even where a site's rows are sorted by label.
    fold = np.concatenate([np.arange(n) % folds for n in sample.n])
    lam = np.empty(len(sample.L))
    for f in range(folds):
        inside = fold == f
        size = np.add.reduceat(inside, sample.starts, dtype=np.intp)
        others = RowLosses(sample.L[~inside], sample.w[~inside], sample.n - size, sample.names)
        optimal = optimal_lambda(sample.n, _divergences(others, prior_rows))
        # Within a fold the sources keep their shares, lambda_j n_j, whatever its size.
        lam[inside] = sample.rows(optimal * sample.n / (size * folds))[inside]
    return lam


def _divergences(sample: RowLosses, prior_rows: float) -> Floats:
    z = sample.w * sample.L
    div = sample.means((z - sample.rows(sample.means(z))) ** 2)
    if prior_rows == 0:
        return div
    square = sample.means(sample.w**2)
    return shrink_divergences(sample.n, div, square, sample.means(sample.w), prior_rows)


def shrink_divergences(
    n: NDArray[np.intp], div: Floats, square: Floats, mean_weights: Floats, prior_rows: float
) -> Floats:
    r"""Mix the divergences with a prior, as if it had been seen on m = `prior_rows` rows.

    .. math:: \mathrm{Div}_j \leftarrow \frac{n_j \mathrm{Div}_j / \bar w_j^2
              + m\, r\, \mathrm{mean}_j(w^2) / \bar w_j^2}{n_j + m}

    The prior takes the same noise r per unit of squared weight in every source (the mean of
    :math:`\mathrm{Div}_l / \mathrm{mean}_l(w^2)` over all rows). Both are taken of weights with
    mean 1: a source whose weights are all too low would otherwise seem precise. A divergence of
    0 (one row; a model without a single error there) is replaced by the prior. `square` holds the
    mean squared weights; all arrays have shape (k,).
    """
    varied = div > 0
    if not varied.any():
        return square
    noise = np.average(div[varied] / square[varied], weights=n[varied])
    mixed = (n * div + prior_rows * noise * square) / (n + prior_rows)
    return np.asarray(np.where(varied, mixed, noise * square) / mean_weights**2)


def _normalised_by_source(sample: RowLosses, shares: Floats) -> RiskEstimate:
    r"""Mean of the sources' self-normalised means, with the given shares, shape (k,).

    .. math:: m_j = \sum_i p_{ij} L_{ij}, \quad p_{ij} = w_{ij} / \textstyle\sum_i w_{ij}, \qquad
              \psi_{ij} = \mathrm{share}_j\, \frac{p_{ij} (L_{ij} - m_j)}{1 - p_{ij}}

    Weights that are all too low or too high by some factor, as they are where a source hardly
    overlaps, then do no harm: only their ratios within a source matter. The influence values are
    those of leaving a row out. Without the 1 - p, a source with nearly all its weight on one row
    would have an estimated variance near 0, as its mean is that row's loss.
    """
    sums = sample.sums(sample.w)
    total = np.where(sums > 0, sums, 1.0)
    # Of a source without any weight its plain mean.
    weighted = sample.sums(sample.w * sample.L) / total
    estimates = np.where(sums > 0, weighted, sample.means(sample.L))
    p = sample.w / sample.rows(total)
    gap = sample.L - sample.rows(estimates)
    others = 1.0 - p
    # A row with all the weight can be compared with the other sources only.
    alone = others < _SMALLEST_REST
    gap[alone] = sample.L[alone] - shares @ estimates
    others[alone] = 1.0
    centred = sample.rows(sample.n) * p * gap / others
    return _combined(sample, sample.rows(shares / sample.n), estimates, centred, "self-normalised")


@dataclass(frozen=True, slots=True)
class RowLosses:
    """Losses L and weights w of all rows, (n,), with the rows n of each source, (k,)."""

    L: Floats
    w: Floats
    n: NDArray[np.intp]
    names: tuple[str, ...]

    @property
    def starts(self) -> NDArray[np.intp]:
        """Where each source begins, (k,)."""
        return np.cumsum(self.n) - self.n

    def sums(self, values: Floats) -> Floats:
        """Sum over the rows of each source: (n,) -> (k,)."""
        return np.asarray(np.add.reduceat(values, self.starts))

    def means(self, values: Floats) -> Floats:
        """Mean over the rows of each source: (n,) -> (k,)."""
        return self.sums(values) / self.n

    def rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """Give every row the value of its source: (k,) -> (n,)."""
        return np.repeat(values, self.n)

    def only(self, chosen: NDArray[np.bool_]) -> RowLosses:
        """Keep some of the sources."""
        rows = self.rows(chosen)
        names = tuple(name for name, yes in zip(self.names, chosen, strict=True) if yes)
        return RowLosses(self.L[rows], self.w[rows], self.n[chosen], names)

    def estimate(self, **figures: Any) -> RiskEstimate:
        """Return an estimate from all of these rows, as independent ones."""
        return RiskEstimate(
            names=self.names,
            n=self.n,
            left_out=("",) * len(self.n),
            block_counts=self.n.copy(),
            units=self.n.astype(float),
            nonnegative=bool(self.L.min() >= 0),
            **figures,
        )


def read_losses(
    losses: Sequence[Any], weights: Sequence[Any] | None, names: Sequence[str] | None
) -> RowLosses:
    """Check losses and weights, one array per source, and lay them end to end."""
    k = len(losses)
    if k == 0:
        raise DataError("there are no losses; give one array per source")
    labels = tuple(str(j) for j in range(1, k + 1)) if names is None else tuple(map(str, names))
    if len(labels) != k:
        raise DataError(f"there are {len(labels)} names for {k} sources")
    if len(set(labels)) < k:
        raise DataError(f"the names of the sources must differ, got {list(labels)}")
    L = [_column(values, "loss", name) for values, name in zip(losses, labels, strict=True)]
    for values, name in zip(L, labels, strict=True):
        if (most := np.abs(values).max()) > LARGEST_LOSS:
            raise DataError(
                f"source {name!r} has losses of up to {most:.0e}, too large to compute with; "
                "divide them, or the labels they come from"
            )
    n = np.array([len(values) for values in L], dtype=np.intp)
    if weights is None:
        return RowLosses(np.concatenate(L), np.ones(n.sum()), n, labels)
    if len(weights) != k:
        raise DataError(f"there are losses of {k} sources but weights of {len(weights)}")
    w = [_column(values, "weight", name) for values, name in zip(weights, labels, strict=True)]
    for name, l_j, w_j in zip(labels, L, w, strict=True):
        if len(l_j) != len(w_j):
            raise DataError(f"source {name!r} has {len(l_j)} losses but {len(w_j)} weights")
    sample = RowLosses(np.concatenate(L), np.concatenate(w), n, labels)
    if sample.w.min() < 0:
        j = int(np.argmax(np.minimum.reduceat(sample.w, sample.starts) < 0))
        raise DataError(
            f"source {labels[j]!r} has negative weights; a density ratio is never negative"
        )
    return sample


def _column(values: Any, what: str, name: str) -> NDArray[np.float64]:
    try:
        column = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"source {name!r}: the {what}es are not numbers ({error})") from error
    if column.ndim != 1:
        raise DataError(
            f"source {name!r}: one {what} per row is needed, shape (n,), got {column.shape}"
        )
    if len(column) == 0:
        raise DataError(f"source {name!r} has no rows; leave it out")
    if not np.isfinite(column).all():
        bad = int((~np.isfinite(column)).sum())
        raise DataError(f"source {name!r}: {bad} {what}(s) are not finite (NaN or infinite)")
    return column
