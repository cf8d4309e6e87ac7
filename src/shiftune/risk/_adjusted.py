"""The regression estimator: source losses adjusted to the target's rows.

First the estimator, then how far its adjustment is trusted when models are compared, then the share
of the target's few labelled rows.
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
from shiftune.evaluate._plan import FitPlan, LeaveSourcesOut
from shiftune.ratio._base import target_and_sources
from shiftune.ratio._overlap import Guard
from shiftune.risk._estimate import read_sample
from shiftune.risk._estimator import Arrays, RiskEstimator
from shiftune.risk._new_site import NewSiteVariance, variance_between
from shiftune.risk._result import RiskEstimate
from shiftune.risk._ridge import RidgeSystem, directions
from shiftune.rows._moments import MomentRows, Moments

Floats = NDArray[np.float64]

# A site with this many rows has half the share of a very large one. Losses differ between sites
# by more than chance, so a hundred times the rows do not carry a hundred times the information.
ROWS_FOR_HALF_SHARE = 10.0
# Prior of m_0: number of labelled target rows that carry as much information as all sources, for
# comparing models. It counts as much as five sites.
SOURCE_PSEUDO_ROWS = 100.0
_PRIOR_SITES = 5
# The variance of the sources' rows counts as much as this many rows of the target.
_PRIOR_ROWS = 10
# Leverage of a row beyond which its residual is not inflated further.
MOST_LEVERAGE = 0.9
# Beyond it the sites' columns explain so much of their differences that the rest is unknown, and
# no factor can mend it.
MOST_STRETCH = 10.0
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
    :math:`\sigma_\beta^2 = V / (\alpha p) + \mathrm{var}(z^\top \hat\beta) / p` is the prior's
    variance of a slope plus that of the slopes found, with V the variance of one row's loss. Two
    more terms are the sampling error of :math:`\bar z_T`, and :math:`b^2 V` with b the share of the
    target's rows that have a value beyond all sources.

    Labelled rows of the target itself enter as its own mean loss, with the share
    :math:`m / (m + m_0)` for m rows; the sources keep the rest. :math:`m_0` is 100 until the end of
    a study, when it is estimated from the differences between sites.

    Parameters
    ----------
    prior_r2 : float
        Share of the losses' variance that the columns are expected to explain, before any loss is
        seen: the penalty is :math:`\alpha = (1 - R^2) / R^2` per number in z.

    Notes
    -----
    `prior_r2`, the 100 and the shares of the sources were chosen in `benchmarks/arena`, which has
    the alternatives.

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

    def __init__(self, *, prior_r2: float = 0.1) -> None:
        self.prior_r2 = prior_r2

    def default_plan(self) -> FitPlan:
        """Five models: one of all sources, four without some of them."""
        return LeaveSourcesOut()

    def fit(
        self, X_target: Any, X_sources: Sequence[Any], sample_weight: Sequence[Floats] | None = None
    ) -> Self:
        """Learn how the sources' rows, whose losses will be given, differ from the target's."""
        if not 0 < self.prior_r2 < 1:
            raise SettingsError(f"prior_r2 must lie between 0 and 1, got {self.prior_r2!r}")
        target, *sources = target_and_sources(X_target, X_sources)
        self.n_ = np.array([len(X) for X in sources], dtype=np.intp)
        moments = Moments().fit(target, sources)
        own, rows = moments.target, moments.sources
        if sample_weight is not None:
            own, rows = own.linearised(sample_weight[:1]), rows.linearised(sample_weight[1:])
            mean = rows.sums(np.ones(len(rows))) / len(rows)  # 0 without weights
            own, rows = own.less(mean), rows.less(mean)
        p, k, starts = rows.width, len(self.n_), np.cumsum(self.n_) - self.n_
        shares = self.n_ / (self.n_ + ROWS_FOR_HALF_SHARE)
        self.shares_ = shares / shares.sum()
        self.ridge_ = RidgeSystem.of(rows, _penalty(self.prior_r2, p))
        sums = _sums_by_site(rows, self.n_)
        mean = own.sums(np.ones(len(own))) / len(own)
        self.gaps_ = mean - sums / self.n_[:, None]
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
            own, mean, self.ridge_, held_back / len(rows) / max(p, 1), _MOST_DIRECTIONS
        )
        self.noise_ = held_back / self.ridge_.penalty + moments.beyond**2
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
        sample = read_sample(losses, None, names)
        k = len(self.n_)
        if len(sample.n) not in (k, k + 1) or not np.array_equal(sample.n[:k], self.n_):
            raise DataError(
                f"there are losses of {sample.n.tolist()} rows, but the estimator was fitted on "
                f"{self.n_.tolist()}; only losses of labelled target rows may follow"
            )
        sources = sample if len(sample.n) == k else sample.only(np.arange(k + 1) < k)
        own = sample.L[len(sources.L) :]
        share = len(own) / (len(own) + SOURCE_PSEUDO_ROWS)
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
        return sample.estimate(
            value=float((lam * sample.n) @ estimates),
            variance=variance,
            dof=dof,
            method="adjusted",
            estimates=estimates,
            divergences=divergences,
            lam=lam,
            mean_weights=np.ones(len(sample.n)),
            ess=ess,
            influence=influence,
            new_site=site,
            labelled_target=len(own) > 0,
        )

    def least_and_most_adjusted(self, losses: Sequence[Floats]) -> tuple[float, float]:
        """Mean over the sites, and the same adjusted as if columns explained half of the losses."""
        rows = self.ridge_.rows
        of_sources = np.concatenate(losses)[: len(rows)]
        plain = float(self._plain() @ of_sources)
        ridge = self.ridge_.with_penalty(_penalty(_MOST_R2, rows.width))
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
        (`trust_in_adjustment`): across families of models it can otherwise prefer one whose loss
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
        """Give the target's labelled rows a share that depends on their number and noise.

        Estimates without labelled rows of the target are returned as they are.
        """
        if not risks or not all(risk.labelled_target for risk in risks):
            return list(risks)
        m = int(risks[0].n[-1])
        share = m / (m + source_pseudo_rows(risks))
        return [with_share(risk, share) for risk in risks]


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
    variance = (m * own.var() + _PRIOR_ROWS * one_row) / (m + _PRIOR_ROWS)
    if own.var() > 0:
        return np.asarray(centred * np.sqrt(variance / own.var()))
    # The first half against the second: adjacent rows may belong to one group, and must not cancel.
    return np.asarray(np.sqrt(variance) * np.where(np.arange(m) < m / 2, 1.0, -1.0))


def trust_in_adjustment(
    losses: Floats, ridge: RidgeSystem, n: NDArray[np.intp], shares: Floats
) -> float:
    r"""Share of the adjustment that would have compared the models best at the sources.

    .. math:: \gamma = \frac{\sum_j a_j^\top b_j}{\sum_j a_j^\top a_j}, \quad 0 \le \gamma \le 1

    Every source j takes the target's role. Over the models, :math:`b_j` is the mean loss at j less
    the mean over the other sources, and :math:`a_j` what the adjustment of the other sources to the
    rows of j adds to that mean; both less their means over the models, since only differences
    between models matter. :math:`\gamma a_j` is the least-squares fit to :math:`b_j`. Where only
    the rows' distributions differ it is near 1, where p(y|x) does it is often near 0, and an
    adjustment that extrapolates wildly is ignored.

    `losses` of P models have shape (P, n); the rows n of the sources, and their shares, which add
    up to 1, have shape (k,).
    """
    if len(n) < 2:
        return 0.5  # a single source shows nothing about the adjustment
    losses = losses - losses[0]  # models that do not differ must not differ by rounding errors
    starts, rows = np.cumsum(n) - n, len(ridge.rows)
    parts = [ridge.rows.part(start, start + m) for start, m in zip(starts, n, strict=True)]
    sums = np.array([part.sums(np.ones(len(part))) for part in parts])
    means, weighted = sums / n[:, None], shares @ (sums / n[:, None])
    losses_by_site = np.add.reduceat(losses, starts, axis=1) / n
    weighted_losses = losses_by_site @ shares
    products = _products(losses, ridge.rows)
    fitted = explained = 0.0
    for j, part in enumerate(parts):
        start, stop, rest = starts[j], starts[j] + n[j], 1 - shares[j]
        gap = means[j] - (weighted - shares[j] * means[j]) / rest
        move = ridge.solve_without(start, stop, gap)
        # Losses of the other sources' rows times these rows, which are centred without those of j.
        others = products - _products(losses[:, start:stop], part)
        total = losses_by_site @ n - losses_by_site[:, j] * n[j]
        mean = (ridge.total - sums[j]) / (rows - n[j])
        a = (others - np.outer(total, mean)) @ move
        b = losses_by_site[:, j] - (weighted_losses - shares[j] * losses_by_site[:, j]) / rest
        a, b = a - a.mean(), b - b.mean()
        fitted, explained = fitted + float(a @ b), explained + float(a @ a)
    return float(np.clip(fitted / explained, 0, 1)) if explained > 0 else 0.0


def _products(losses: Floats, rows: MomentRows) -> Floats:
    """Sums over rows of losses times numbers: (P, n) and (n, p) -> (P, p)."""
    found = np.zeros((len(losses), rows.width))
    for some, Z in rows.chunks():
        found += losses[:, some] @ Z
    return found


def source_pseudo_rows(risks: Sequence[RiskEstimate]) -> float:
    r"""Number of labelled target rows that carry as much information as all sources.

    .. math:: m_0 = \frac{V}{T}, \qquad T = \frac{k\, \hat T + \hat T_0 + 5\, V / 100}{k + 1 + 5}

    Models are compared by the differences of their risks. V is the variance of one row's loss at
    the target (with the sources' as a prior of ten rows), T that of the sites' own risks around
    their mean, both of what differs between the models: the mean of m rows has the variance V / m,
    that of the sources, for a new site, T. Labelled rows of the target show its own distance from
    the sources' estimate; the square of it, less the sampling error of the rows of both and never
    below 0, is :math:`\hat T_0`, and the target counts as one of the sites. Without labels that
    term and the 1 in the denominator are dropped. The prior is :math:`m_0 = 100`.

    All are averaged over the better half of the models, in the order of the prior: differences
    among the worse half do not matter for the choice. `risks` are those of several models on the
    same rows, by `RegressionAdjusted`.
    """
    n, own_rows = risks[0].n, risks[0].labelled_target
    k = len(n) - own_rows
    if len(risks) < 2 or k < 2:
        return SOURCE_PSEUDO_ROWS
    risks = _better_half(risks)
    # Effects of blocks of rows on their own source's estimate, of what differs between models, and
    # from them the sampling variance of the estimates of every source.
    effects = np.array([risk.new_site.row_effects for risk in risks if risk.new_site])
    effects = effects - effects.mean(axis=0)
    by_source = np.split(effects, np.cumsum(risks[0].block_counts)[:-1], axis=1)
    chance = np.array([np.mean(np.sum(part**2, axis=1)) for part in by_source])
    one_row = float(np.average((chance * n)[:k], weights=n[:k]))
    if own_rows:
        one_row = (n[-1] * (chance * n)[-1] + _PRIOR_ROWS * one_row) / (n[-1] + _PRIOR_ROWS)
    if one_row == 0:
        return SOURCE_PSEUDO_ROWS
    estimates = np.array([risk.estimates[:k] for risk in risks])
    apart = estimates - estimates.mean(axis=1, keepdims=True)
    seen = float(np.mean((apart - apart.mean(axis=0)) ** 2) * k / (k - 1))
    stretch = 1.0 if risks[0].new_site is None else risks[0].new_site.stretch
    between = k * stretch * max(0.0, seen - float(chance[:k].mean()))
    sites = k + _PRIOR_SITES
    if own_rows:
        away = np.array([risk.estimates[-1] - _from_sources(risk) for risk in risks])
        of_sources = float(_shares_of_sources(risks[0]) ** 2 @ chance[:k])
        between += max(0.0, float(away.var()) - one_row / n[-1] - of_sources)
        sites += 1
    return float(one_row * sites / (between + _PRIOR_SITES * one_row / SOURCE_PSEUDO_ROWS))


def _better_half(risks: Sequence[RiskEstimate]) -> list[RiskEstimate]:
    """Return the better half of the models, at least two, whatever share the labels have now."""
    values = np.array([_from_sources(risk) for risk in risks])
    if risks[0].labelled_target:
        own, m = np.array([risk.estimates[-1] for risk in risks]), risks[0].n[-1]
        values = values + (own - values) * m / (m + SOURCE_PSEUDO_ROWS)
    kept = max(2, (len(risks) + 1) // 2)
    return [risks[i] for i in np.argsort(values, kind="stable")[:kept]]


def _from_sources(risk: RiskEstimate) -> float:
    """Estimate from the sources alone."""
    shares = _shares_of_sources(risk)
    return float(shares @ risk.estimates[: len(shares)])


def _shares_of_sources(risk: RiskEstimate) -> Floats:
    """Shares of the sources among themselves, shape (k,)."""
    k = len(risk.n) - risk.labelled_target
    shares = (risk.lam * risk.n)[:k]
    return np.asarray(shares / shares.sum())


def with_share(risk: RiskEstimate, share: float) -> RiskEstimate:
    """Give the target's own rows this share of the estimate."""
    before = float(risk.lam[-1] * risk.n[-1])
    change = np.full(len(risk.n), (1 - share) / (1 - before))
    change[-1] = share / before
    return risk.with_shares(change)


def shared_alike(risk: RiskEstimate, like: RiskEstimate) -> RiskEstimate:
    """Give the target's own rows, if there are any, the share they have in another estimate."""
    if not (risk.labelled_target and like.labelled_target):
        return risk
    return with_share(risk, float(like.lam[-1] * like.n[-1]))


def combined(risk: RiskEstimate, of_sources: RiskEstimate) -> RiskEstimate:
    """Give the target's labelled rows a share by the variances of their mean and of the sources.

    Where the two are farther apart than chance explains, the target differs from the sources by
    more than these do from each other: the excess of the squared distance is a part of the
    variance of the sources' estimate, which other shares scale and differences of models pair.
    """
    m, one_row = int(risk.n[-1]), float(risk.divergences[-1])
    apart = float(risk.estimates[-1]) - of_sources.value
    excess = max(0.0, apart**2 - one_row / m - of_sources.variance)
    site = risk.new_site
    if site is not None:
        distance = float(site.leverage.sum()) * np.copysign(np.sqrt(excess), apart)
        site = replace(site, extrapolation=np.append(site.extrapolation, distance))
    units = float(risk.units[-1])  # ten labels of three patients show no more than three
    share = share_of_labels(units, one_row * units / m, of_sources.variance + excess)
    return with_share(replace(risk, new_site=site), share)


def share_of_labels(m: float, one_row: float, of_sources: float) -> float:
    """Share of m labelled rows by variances: of one row, and of the sources' estimate.

    At most m / (m + 10), since few rows do not show their own variance.
    """
    total = of_sources + one_row / m
    most = m / (m + _PRIOR_ROWS)
    return min(of_sources / total, most) if total > 0 else most
