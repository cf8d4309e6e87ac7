"""The regression estimator: source losses adjusted to the target's rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from shiftune.errors import DataError, OverlapWarning, SettingsError
from shiftune.evaluate.plan import FitPlan
from shiftune.evaluate.site_shares import site_shares
from shiftune.evaluate.unseen_sites import LeaveSourcesOut
from shiftune.ratio.base import target_and_sources
from shiftune.ratio.guard import Guard
from shiftune.risk.estimator import Arrays, RiskEstimator
from shiftune.risk.extrapolation import directions
from shiftune.risk.few_labels import PRIOR_ROWS, trusting_labels
from shiftune.risk.new_site import NewSiteVariance
from shiftune.risk.result import RiskEstimate
from shiftune.risk.ridge import RidgeSystem
from shiftune.risk.sample import Sample, read_sample
from shiftune.risk.trust import trust_in_adjustment
from shiftune.risk.variance import variance_between
from shiftune.rows.moments import MomentRows, Moments
from shiftune.wording import percent

Floats = NDArray[np.float64]

# Leverage of a row beyond which its residual is not inflated further.
MOST_LEVERAGE = 0.9
# Beyond it the sites' columns explain so much of their differences that the rest is unknown, and
# no factor can mend it.
MOST_STRETCH = 10.0
# Share of the target's rows with a value that no source has, below which no warning is raised.
MOST_BEYOND = 0.1
# Share of the losses' variance that columns explain at most, where the adjustment is doubted.
MOST_R2 = 0.5
# Directions in which the variance of the adjustment is kept.
MOST_DIRECTIONS = 64


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
    :math:`\sigma_\beta^2 = V / (\alpha p) + \mathrm{var}(z^\top \hat\beta) / p` is the prior's
    variance of a slope plus that of the slopes found, with V the variance of one row's loss. Two
    more terms are the sampling error of :math:`\bar z_T`, and :math:`b^2 V` with b the share of the
    target's rows that have a value beyond all sources.

    Labelled rows of the target itself enter as its own mean loss, with the share
    :math:`m / (m + m_0)` for m rows; the sources keep the rest. At the end of a study
    :math:`m_0` is estimated from the differences between sites (`shiftune.risk.few_labels`).

    Parameters
    ----------
    prior_r2 : float
        Share of the losses' variance that the columns are expected to explain, before any loss is
        seen: the penalty is :math:`\alpha = (1 - R^2) / R^2` per number in z.
    source_pseudo_rows : float
        Prior of :math:`m_0`: number of labelled target rows that carry as much information as all
        sources, for comparing models.

    Notes
    -----
    `prior_r2`, `source_pseudo_rows` and the shares of the sources were chosen in
    `benchmarks/arena`, which has the alternatives.

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
    default_final = "ensemble"
    target_trains = False  # ten labels are worth more for evaluating than for training

    def __init__(self, *, prior_r2: float = 0.1, source_pseudo_rows: float = 100.0) -> None:
        self.prior_r2 = prior_r2
        self.source_pseudo_rows = source_pseudo_rows

    def default_plan(self) -> FitPlan:
        """Five models: one of all sources, four without some of them."""
        return LeaveSourcesOut()

    def fit(
        self, X_target: Any, X_sources: Sequence[Any], sample_weight: Sequence[Floats] | None = None
    ) -> Self:
        """Learn how the sources' rows, whose losses will be given, differ from the target's."""
        if not 0 < self.prior_r2 < 1:
            raise SettingsError(f"prior_r2 must lie between 0 and 1, got {self.prior_r2!r}")
        if not self.source_pseudo_rows > 0:
            raise SettingsError(
                f"source_pseudo_rows must be above 0, got {self.source_pseudo_rows!r}"
            )
        target, *sources = target_and_sources(X_target, X_sources)
        self.n_ = np.array([len(X) for X in sources], dtype=np.intp)
        moments = Moments().fit(target, sources)
        own, rows = moments.target, moments.sources
        if sample_weight is not None:
            own, rows = own.linearised(sample_weight[:1]), rows.linearised(sample_weight[1:])
            mean = rows.sums(np.ones(len(rows))) / len(rows)  # 0 without weights
            own, rows = own.less(mean), rows.less(mean)
        self._learn(rows, own, moments.beyond)
        return self

    def _learn(self, rows: MomentRows, own: MomentRows, beyond: float) -> None:
        p, k, starts = rows.width, len(self.n_), np.cumsum(self.n_) - self.n_
        self.shares_ = site_shares(self.n_)
        self.ridge_ = RidgeSystem.of(rows, _penalty(self.prior_r2, p))
        sums = _sums_by_site(rows, self.n_)
        mean = own.sums(np.ones(len(own))) / len(own)
        self.gaps_ = mean - sums / self.n_[:, None]
        move = self.ridge_.solve(self.shares_ @ self.gaps_)
        self.coefficients_ = self._plain() + rows.times(move)
        self._warn_of_extrapolation(beyond)
        leverage = self.ridge_.leverage() + np.repeat(1 / self.n_, self.n_)
        self.inflation_ = 1 / (1 - np.minimum(leverage, MOST_LEVERAGE))
        c = np.abs(self.coefficients_)
        self.ess_ = np.add.reduceat(c, starts) ** 2 / np.add.reduceat(c**2, starts)
        # How deviations of the sites enter the estimate, and the sources' own estimates.
        self.leverage_ = np.add.reduceat(self.coefficients_, starts)
        moved = np.eye(k) + self.gaps_ @ self.ridge_.solve(sums.T)
        left = float(np.sum((moved - moved.mean(axis=0)) ** 2))
        self.stretch_ = min((k - 1) / left, MOST_STRETCH) if k > 1 and left > 0 else 1.0
        # Bias of the penalty and sampling error of the target's rows, as squares of numbers.
        held_back = self.ridge_.penalty**2 * float(move @ move)
        self.extrapolation_ = directions(
            own, mean, self.ridge_, held_back / len(rows) / max(p, 1), MOST_DIRECTIONS
        )
        self.noise_ = held_back / self.ridge_.penalty + beyond**2

    def _plain(self) -> Floats:
        """Coefficients of the rows in the mean over the sites, shape (n,)."""
        return np.repeat(self.shares_ / self.n_, self.n_)

    def _warn_of_extrapolation(self, beyond: float) -> None:
        rows = int(self.n_.sum())
        effective = 1 / float(self.coefficients_ @ self.coefficients_)
        if beyond > MOST_BEYOND or effective < min(Guard().min_ess, rows / 4):
            far = f"{percent(beyond)} of its rows have a value that is far from every source"
            warnings.warn(
                "the target lies outside the range of the sources "
                f"({far if beyond else 'in its columns taken together'}), so the adjusted "
                "estimate extrapolates and is unreliable; problem.diagnose() or the command "
                "shiftune diagnose shows which sources are near the target: look for sites "
                "that are more like it",
                OverlapWarning,
                stacklevel=5,
            )

    def estimate(
        self, losses: Arrays, weights: Arrays | None = None, *, names: Sequence[str] | None = None
    ) -> RiskEstimate:
        """Estimate the target risk of one model; weights are not used."""
        if not hasattr(self, "ridge_"):
            raise SettingsError("this RegressionAdjusted is not fitted; call fit first")
        sample = read_sample(losses, None, names)
        k = len(self.n_)
        if len(sample.n) not in (k, k + 1) or not np.array_equal(sample.n[:k], self.n_):
            raise DataError(
                f"there are losses of {sample.n.tolist()} rows, but the estimator was fitted on "
                f"{self.n_.tolist()}; only losses of labelled target rows may follow"
            )
        return self._estimated(sample)

    def least_and_most_adjusted(self, losses: Sequence[Floats]) -> tuple[float, float]:
        """Mean over the sites, and the same adjusted as if columns explained half of the losses."""
        rows = self.ridge_.rows
        of_sources = np.concatenate(losses)[: len(rows)]
        plain = float(self._plain() @ of_sources)
        ridge = self.ridge_.with_penalty(_penalty(MOST_R2, rows.width))
        move = ridge.solve(self.shares_ @ self.gaps_)
        return plain, plain + float(rows.times(move) @ of_sources)

    def across_families(self, risk: RiskEstimate, losses: Sequence[Floats]) -> float:
        """Mean of the risk and of the mean loss over the sites, without adjustment.

        Families err in different places, and where an adjustment extrapolates it may prefer one
        whose loss is high at every source (`benchmarks/results/ensembles.md`).
        """
        plain = float((risk.lam * risk.n) @ [own.mean() for own in losses])
        return (risk.value + plain) / 2

    def row_shares(self, losses: Floats, best: RiskEstimate) -> Floats:
        """Coefficients of the rows' losses by which ensembles are compared, shape (n,).

        The adjustment counts as far as it would have helped at the sources
        (`shiftune.risk.trust`): across families of models it can otherwise prefer one whose loss
        is high at every source.
        """
        of_sources = losses[:, : int(self.n_.sum())]
        gamma = trust_in_adjustment(of_sources, self.ridge_, self.n_, self.shares_)
        shares = (1 - gamma) * self._plain() + gamma * self.coefficients_
        if not best.labelled_target:
            return np.asarray(shares)
        own, m = float(best.lam[-1] * best.n[-1]), int(best.n[-1])
        return np.append((1 - own) * shares, np.full(m, own / m))

    def finish(self, risks: Sequence[RiskEstimate]) -> list[RiskEstimate]:
        """Give the target's labelled rows a share that depends on their number and noise."""
        return trusting_labels(risks, self.source_pseudo_rows)

    def _estimated(self, sample: Sample) -> RiskEstimate:
        k = len(self.n_)
        sources = sample if len(sample.n) == k else sample.only(np.arange(k + 1) < k)
        own = sample.L[len(sources.L) :]
        share = len(own) / (len(own) + self.source_pseudo_rows)
        mean = sources.L.mean()
        slope = self.ridge_.slope(sources.L - mean)
        residuals = sources.L - mean - self.ridge_.rows.times(slope)
        centred = residuals - sources.rows(sources.means(residuals))
        estimates = sources.means(sources.L) + self.gaps_ @ slope
        divergences = sources.means(centred**2)
        kept = 1 - share
        influence = kept * self.coefficients_ * centred * self.inflation_
        row_effects = centred / sources.rows(self.n_)
        ess, lam = self.ess_, kept * self.shares_ / self.n_
        site = NewSiteVariance(
            between=variance_between(estimates, divergences, self.n_, self.stretch_),
            leverage=kept * self.leverage_,
            stretch=self.stretch_,
            row_effects=row_effects,
            extrapolation=kept * self.extrapolation_ @ slope,
            noise=kept**2 * self.noise_,
        )
        if len(own):
            one_row = float(np.average(divergences, weights=self.n_))
            deviations = _shrunk_deviations(own, one_row) / len(own)
            estimates = np.append(estimates, own.mean())
            divergences = np.append(divergences, np.mean((deviations * len(own)) ** 2))
            influence = np.append(influence, share * deviations)
            ess, lam = np.append(ess, len(own)), np.append(lam, share / len(own))
            site = replace(site, row_effects=np.append(row_effects, deviations))
        variance, dof = site.variance(influence, sample.n, sample.n, ess)
        if divergences.any():  # a single row has no variance of its own: take that of the others
            one_row = float(np.average(divergences, weights=sample.n * (divergences > 0)))
            divergences = np.where(sample.n == 1, one_row, divergences)
        return RiskEstimate(
            value=float((lam * sample.n) @ estimates),
            variance=variance,
            dof=dof,
            method="adjusted",
            names=sample.names,
            n=sample.n,
            estimates=estimates,
            divergences=divergences,
            lam=lam,
            mean_weights=np.ones(len(sample.n)),
            ess=ess,
            left_out=(None,) * len(sample.n),
            influence=influence,
            block_counts=sample.n.copy(),
            units=sample.n.astype(float),
            new_site=site,
            labelled_target=len(own) > 0,
            nonnegative=bool(sample.L.min() >= 0),
        )


def _penalty(prior_r2: float, p: int) -> float:
    """Penalty under which p numbers explain a share of the losses' variance."""
    return (1 - prior_r2) / prior_r2 * max(p, 1)


def _sums_by_site(rows: MomentRows, n: NDArray[np.intp]) -> Floats:
    """Sums of the rows of every source, shape (k, p)."""
    site, found = np.repeat(np.arange(len(n)), n), np.zeros((len(n), rows.width))
    for some, Z in rows.chunks():
        starts = np.unique(site[some], return_index=True)[1]
        found[site[some][starts]] += np.add.reduceat(Z, starts)
    return found


def _shrunk_deviations(own: Floats, one_row: float) -> Floats:
    """Deviations of the target's few losses from their mean, with a shrunk variance.

    Their own variance is mixed with that of the sources' rows, which counts as ten rows.
    """
    m, centred = len(own), own - own.mean()
    variance = (m * own.var() + PRIOR_ROWS * one_row) / (m + PRIOR_ROWS)
    if own.var() > 0:
        return np.asarray(centred * np.sqrt(variance / own.var()))
    # The first half against the second: adjacent rows may belong to one group, and must not cancel.
    return np.asarray(np.sqrt(variance) * np.where(np.arange(m) < m / 2, 1.0, -1.0))
