"""The regression estimator: source losses adjusted to the target's rows.

First the estimator, then the share of the target's few labelled rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from shiftune._wording import percent
from shiftune.errors import DataError, OverlapWarning, SettingsError
from shiftune.problem._site import Features
from shiftune.ratio._density import target_and_sources
from shiftune.ratio._overlap import Guard
from shiftune.risk._estimate import Arrays, RiskEstimator, read_losses
from shiftune.risk._new_site import OF_ONE_ROW, NewSiteVariance
from shiftune.risk._result import RiskEstimate
from shiftune.risk._ridge import RidgeSystem, directions
from shiftune.rows._moments import MomentRows, Moments

Floats = NDArray[np.float64]

# A site with this many rows has half the share of a very large one. Losses differ between sites
# by more than chance, so a hundred times the rows do not carry a hundred times the information.
ROWS_FOR_HALF_SHARE = 10.0
# Labelled target rows that carry as much information as all sources, for comparing models.
SOURCE_PSEUDO_ROWS = 100.0
# Share of the target's rows with a value that no source has, below which no warning is raised.
_MOST_BEYOND = 0.1
# Share of the losses' variance that columns explain at most, where the adjustment is doubted.
_MOST_R2 = 0.5
# Directions in which the variance of the adjustment is kept.
_MOST_DIRECTIONS = 64


class RegressionAdjusted(RiskEstimator):
    r"""Regression estimator of survey sampling: mean losses adjusted to the target's rows.

    .. math:: \hat f = \sum_j q_j m_j, \qquad
              m_j = \bar L_j + (\bar z_T - \bar z_j)^\top \hat\beta, \qquad
              \hat\beta = (Z^\top Z + \alpha p I)^{-1} Z^\top L,

    where z are values, squares and products of the columns (`Moments`), the losses are regressed
    on them by ridge over the rows of all sources, centred, and a source of n rows has the share
    :math:`q_j \propto n_j / (n_j + 10)`. It is also a weighted mean :math:`\sum_i c_i L_i` whose
    coefficients bring the sources' means of z close to the target's. The coefficients do not
    depend on the losses, so all trials of a study are compared with the same ones. No density
    ratio is needed, the sources need to cover the target only together, and where nothing is
    learned from the columns it is the mean over the sites.

    The interval is for a new site. It includes the sampling error of the rows; the variance
    :math:`\tau^2` between the sources that remains after the adjustment, since the target's own
    p(y|x) may differ from the sources' as they differ from each other; and the possible bias of
    :math:`g^\top \beta` by the penalty, with g the difference of z between sources and target,
    :math:`\sigma_\beta^2\, \alpha^2 p^2\, \lVert (Z^\top Z + \alpha p I)^{-1} g \rVert^2`, which is
    small where sources and target are alike and large where the estimate extrapolates.
    :math:`\sigma_\beta^2 = \mathrm{var}(z^\top \hat\beta) / p` is the variance of the slopes found.
    Two more terms are the sampling error of :math:`\bar z_T`, and :math:`b^2 V` with b the share of
    the target's rows that have a value beyond all sources, and V the variance of one row's loss.
    `RiskEstimate.interval` has the ends of the interval.

    Labelled rows of the target itself enter as its own mean loss, with the share
    :math:`m / (m + 100)` for m rows; the sources keep the rest.

    Parameters
    ----------
    prior_r2 : float
        Share of the losses' variance that the columns are expected to explain, before any loss is
        seen: the penalty is :math:`\alpha = (1 - R^2) / R^2` per number in z.

    Examples
    --------
    A source whose rows are harder than the target's:

    >>> rng = np.random.default_rng(0)
    >>> x = [rng.normal(centre, 1, (400, 1)) for centre in (1.0, 1.5)]
    >>> losses = [(1 + xj[:, 0]) ** 2 for xj in x]
    >>> target = rng.normal(0, 1, (400, 1))
    >>> risk = RegressionAdjusted().fit(target, x).estimate(losses)
    >>> truth = float(np.mean((1 + target[:, 0]) ** 2))
    >>> bool(abs(risk.value - truth) < 0.4 < abs(np.concatenate(losses).mean() - truth))
    True
    """

    needs_ratio = False
    out_of_site = True

    def __init__(self, *, prior_r2: float = 0.1) -> None:
        self.prior_r2 = prior_r2

    def fit(
        self, X_target: Any, X_sources: Sequence[Any], sample_weight: Sequence[Floats] | None = None
    ) -> Self:
        """Learn how the sources' rows, whose losses will be given, differ from the target's."""
        return self.fit_checked(target_and_sources(X_target, X_sources), sample_weight)

    def fit_checked(
        self, tables: Sequence[Features], sample_weight: Sequence[Floats] | None = None
    ) -> Self:
        """Learn it from rows of the target and of the sources that have the same columns."""
        if not 0 < self.prior_r2 < 1:
            raise SettingsError(f"prior_r2 must lie between 0 and 1, got {self.prior_r2!r}")
        target, *sources = tables
        self.n_ = np.array([len(X) for X in sources], dtype=np.intp)
        moments = Moments().fit(target, sources)
        target_rows, rows = moments.target, moments.sources
        if sample_weight is not None:
            target_rows = replace(target_rows, weights=sample_weight[:1])
            rows = replace(rows, weights=sample_weight[1:])
            mean = rows.sums(np.ones(len(rows))) / len(rows)  # 0 without weights
            target_rows, rows = target_rows.less(mean), rows.less(mean)
        p, k, starts = rows.width, len(self.n_), np.cumsum(self.n_) - self.n_
        shares = self.n_ / (self.n_ + ROWS_FOR_HALF_SHARE)
        self.shares_ = shares / shares.sum()
        self.ridge_ = RidgeSystem.of(rows, _penalty(self.prior_r2, p))
        sums = _sums_by_site(rows, self.n_)
        mean = target_rows.sums(np.ones(len(target_rows))) / len(target_rows)
        self.gaps_ = mean - sums / self.n_[:, None]
        self.beyond_ = moments.beyond
        move = self.ridge_.solve(self.shares_ @ self.gaps_)
        self.coefficients_ = self._plain() + rows.times(move)
        effective = 1 / float(self.coefficients_ @ self.coefficients_)
        if moments.beyond > _MOST_BEYOND or effective < min(Guard().min_ess, len(rows) / 4):
            far = (
                f"{percent(moments.beyond)} of its rows have a value that is far from every source"
            )
            warnings.warn(
                "the target lies outside the range of the sources "
                f"({far if moments.beyond else 'in its columns taken together'}), so the adjusted "
                "estimate extrapolates and is unreliable; problem.diagnose() or the command "
                "shiftune diagnose shows which sources are near the target: look for sites "
                "that are more like it",
                OverlapWarning,
                stacklevel=3,
            )
        c = np.abs(self.coefficients_)
        self.ess_ = np.add.reduceat(c, starts) ** 2 / np.add.reduceat(c**2, starts)
        # How deviations of the sites enter the estimate, and the sources' own estimates.
        self.leverage_ = np.add.reduceat(self.coefficients_, starts)
        moved = np.eye(k) + self.gaps_ @ self.ridge_.solve(sums.T)
        apart = float(np.sum((moved - moved.mean(axis=0)) ** 2))
        self.deflation_ = apart / (k - 1) if k > 1 else 1.0
        # Bias of the penalty and sampling error of the target's rows, as squares of numbers.
        held_back = self.ridge_.penalty**2 * float(move @ move)
        self.extrapolation_ = directions(
            target_rows, mean, self.ridge_, held_back / len(rows) / max(p, 1), _MOST_DIRECTIONS
        )
        return self

    def _plain(self) -> Floats:
        """Coefficients of the rows in the mean over the sites, shape (n,)."""
        return np.repeat(self.shares_ / self.n_, self.n_)

    def estimate(
        self, losses: Arrays, weights: Arrays | None = None, *, names: Sequence[str] | None = None
    ) -> RiskEstimate:
        """Estimate the target risk of one model; weights are not used."""
        if not hasattr(self, "ridge_"):
            raise SettingsError("this RegressionAdjusted is not fitted; call fit first")
        sample = read_losses(losses, None, names)
        k = len(self.n_)
        if len(sample.n) not in (k, k + 1) or not np.array_equal(sample.n[:k], self.n_):
            raise DataError(
                f"there are losses of {sample.n.tolist()} rows, but the estimator was fitted on "
                f"{self.n_.tolist()}; only losses of labelled target rows may follow"
            )
        sources = sample if len(sample.n) == k else sample.only(np.arange(k + 1) < k)
        target = sample.L[len(sources.L) :]
        share = len(target) / (len(target) + SOURCE_PSEUDO_ROWS)
        mean = sources.L.mean()
        slope = self.ridge_.slope(sources.L - mean)
        residuals = sources.L - mean - self.ridge_.rows.times(slope)
        centred = residuals - sources.rows(sources.means(residuals))
        estimates = sources.means(sources.L) + self.gaps_ @ slope
        divergences = sources.means(centred**2)
        kept = 1 - share
        influence = kept * self.coefficients_ * centred
        row_effects = centred / sources.rows(self.n_)
        ess, lam = self.ess_, kept * self.shares_ / self.n_
        one_row = float(np.average(divergences, weights=self.n_))
        beyond = self.beyond_ * np.sqrt(one_row)
        site = NewSiteVariance(
            leverage=kept * self.leverage_,
            deflation=self.deflation_,
            row_effects=row_effects,
            extrapolation=kept * np.append(self.extrapolation_ @ slope, beyond),
        )
        if len(target):
            deviations = _wide_deviations(target, one_row) / len(target)
            estimates = np.append(estimates, target.mean())
            divergences = np.append(divergences, np.mean((deviations * len(target)) ** 2))
            influence = np.append(influence, share * deviations)
            ess, lam = np.append(ess, len(target)), np.append(lam, share / len(target))
            site = replace(site, row_effects=np.append(row_effects, deviations))
        if divergences.any():  # a single row has no variance of its own: take that of the others
            one_row = float(np.average(divergences, weights=sample.n * (divergences > 0)))
            divergences = np.where(sample.n == 1, one_row, divergences)
        risk = sample.estimate(
            value=float((lam * sample.n) @ estimates),
            variance=0.0,
            dof=1.0,
            method="adjusted",
            estimates=estimates,
            divergences=divergences,
            lam=lam,
            mean_weights=np.ones(len(sample.n)),
            ess=ess,
            influence=influence,
            means=sample.means(sample.L),
            new_site=site,
            labelled_target=len(target) > 0,
        )
        return risk.signed(nonnegative=risk.nonnegative)

    def least_and_most_adjusted(self, losses: Sequence[Floats]) -> tuple[float, float]:
        """Mean over the sites, and the same adjusted as if columns explained half of the losses."""
        rows = self.ridge_.rows
        of_sources = np.concatenate(losses)[: len(rows)]
        plain = float(self._plain() @ of_sources)
        ridge = self.ridge_.with_penalty(_penalty(_MOST_R2, rows.width))
        move = ridge.solve(self.shares_ @ self.gaps_)
        return plain, plain + float(rows.times(move) @ of_sources)


def _penalty(prior_r2: float, p: int) -> float:
    """Penalty under which p numbers explain a share of the losses' variance."""
    return (1 - prior_r2) / prior_r2 * max(p, 1)


def _sums_by_site(rows: MomentRows, n: NDArray[np.intp]) -> Floats:
    """Sums of the rows of every source, shape (k, p)."""
    site, sums = np.repeat(np.arange(len(n)), n), np.zeros((len(n), rows.width))
    for some, Z in rows.chunks():
        starts = np.unique(site[some], return_index=True)[1]
        sums[site[some][starts]] += np.add.reduceat(Z, starts)
    return sums


def _wide_deviations(losses: Floats, one_row: float) -> Floats:
    """Deviations of the target's few losses from their mean, with a variance that is not too small.

    It is at least that of the sources' rows: few losses rarely have their own outliers among them.
    With less, nominal 90 % intervals cover 0.81 with 100 labels (`benchmarks/results/labels.md`).
    """
    m, centred = len(losses), losses - losses.mean()
    variance = max(losses.var() * m / max(m - 1, 1), one_row)
    if losses.var() > 0:
        return np.asarray(centred * np.sqrt(variance / losses.var()))
    # The first half against the second: adjacent rows may belong to one group, and must not cancel.
    return np.asarray(np.sqrt(variance) * np.where(np.arange(m) < m / 2, 1.0, -1.0))


def with_share(risk: RiskEstimate, share: float) -> RiskEstimate:
    """Give the target's own rows this share of the estimate."""
    before = float(risk.lam[-1] * risk.n[-1])
    change = np.full(len(risk.n), (1 - share) / (1 - before))
    change[-1] = share / before
    return risk.with_shares(change)


def combined(risk: RiskEstimate, of_sources: RiskEstimate, unlike: float = 0.0) -> RiskEstimate:
    """Give the target's labelled rows a share by the variances of their mean and of the sources.

    Labels can show that the sources' estimate is of little use. Its variance grows by the excess of
    the squared distance of the two over what chance explains; or, if that is more, by the variance
    between sites before any source is seen, as far as the target is `unlike` the sources (from 0 to
    1). It also grows by the squared adjustment to the target's rows, which extrapolates.
    """
    m, one_row = int(risk.n[-1]), float(risk.divergences[-1])
    apart = float(risk.estimates[-1]) - of_sources.value
    site = risk.new_site
    of_prior = unlike * OF_ONE_ROW**2 * one_row / (1.0 if site is None else site.design)
    excess = max(apart**2 - one_row / m - of_sources.variance, of_prior, 0.0)
    excess += (of_sources.value - of_sources.criterion) ** 2
    if site is not None:
        distance = float(site.leverage.sum()) * np.copysign(np.sqrt(excess), apart)
        site = replace(site, extrapolation=np.append(site.extrapolation, distance))
    units = float(risk.units[-1])  # ten labels of three patients show no more than three
    share = share_of_labels(units, one_row * units / m, of_sources.variance + excess)
    return with_share(replace(risk, new_site=site), share)


def share_of_labels(m: float, one_row: float, of_sources: float) -> float:
    """Share of m labelled rows by variances: of one row, and of the sources' estimate.

    At most m / (m + 10), since few rows, or groups, do not show their own variance.
    """
    total = of_sources + one_row / m
    most = m / (m + 10)
    return min(of_sources / total, most) if total > 0 else most
