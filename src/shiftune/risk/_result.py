"""RiskEstimate: an estimated target risk, its variance and every source's contribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from shiftune._wording import percent
from shiftune.errors import DataError, SettingsError
from shiftune.ratio._overlap import effective_rows
from shiftune.risk._new_site import (
    NewSiteVariance,
    packed,
    pooled_variance,
    squares_by_source,
    unpacked,
)

Floats = NDArray[np.float64]

# Arrays of shape (k,).
_BY_SOURCE = (
    "n",
    "estimates",
    "divergences",
    "lam",
    "mean_weights",
    "ess",
    "block_counts",
    "units",
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated number, with its variance and the degrees of freedom of the variance."""

    value: float
    variance: float
    dof: float

    @property
    def stderr(self) -> float:
        """Standard error."""
        return float(np.sqrt(self.variance))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Interval that covers the truth with probability `level`, from Student's t.

        >>> low, high = Estimate(1.0, 0.01, dof=1e6).interval(0.95)
        >>> round(low, 3), round(high, 3)
        (0.804, 1.196)
        """
        if not 0 < level < 1:
            raise SettingsError(f"the level of an interval lies between 0 and 1, got {level}")
        half = float(stdtrit(self.dof, 0.5 + level / 2)) * self.stderr
        return self.value - half, self.value + half


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RiskEstimate(Estimate):
    r"""Estimated target risk, :math:`\hat f = \sum_j \lambda_j \sum_i w_{ij} L_{ij}`.

    The variance takes the weights as given: it is that of the sample of labelled rows, and does
    not include errors of the density ratios. Where `between` is a number, the variance is for a
    new site, and includes the differences of p(y|x) between sites.

    Where `method` is "self-normalised" (see `fallback`), each source's weights are divided by their
    mean first: `estimates` and `lam` are of these, `influence` of leaving a row out.

    Attributes
    ----------
    value, variance : float
        :math:`\hat f` and :math:`\sum_j \lambda_j^2 n_j \mathrm{Div}_j`; for a new site the squared
        scale of Student's t (`NewSiteVariance.variance`).
    dof : float
        Degrees of freedom of the variance (Welch and Satterthwaite), for the interval.
    method : str
        The estimator's name.
    names : tuple of k names
    n : array of shape (k,)
    estimates : array of shape (k,)
        Each source's own estimate, :math:`m_j = \mathrm{mean}_i\, w_{ij} L_{ij}`.
    divergences : array of shape (k,)
        :math:`\mathrm{Div}_j`, the variance of one weighted loss of source j; where rows belong to
        groups, n times that of the source's mean.
    lam : array of shape (k,)
        :math:`\lambda_j`; :math:`\lambda_j n_j` is the source's share in the estimate.
    mean_weights, ess : arrays of shape (k,)
    left_out : tuple of k strings
        Why a source was left out; empty where it was not.
    influence : array of shape (n,)
        :math:`\psi_{ij} = \lambda_j (w_{ij} L_{ij} - m_j)`, source after source: how far each
        row moves the estimate. Variance of the estimate and of differences of two estimates on
        the same rows follow from their squares.
    fallback : str
        Why another estimate than the chosen one was computed; empty otherwise.
    block_counts : array of shape (k,)
        Entries of `influence` that belong to each source: n, or fewer once `condensed`, or where
        rows belong to groups.
    units : array of shape (k,)
        Independent units of each source: its rows, or its groups (`shiftune.risk.by_group`; of
        different sizes they count as fewer).
    means : array of shape (k,), or None
        Mean loss of every source, where `estimates` are adjusted to the target's rows.
    new_site : NewSiteVariance or None
        Parts of the variance besides the sampling error of the rows; None where the estimator
        takes the sources' true values to be the same.
    labelled_target : bool
        Whether the last source is the target itself, with its few labelled rows.
    nonnegative : bool
        Whether no loss is below 0; the risk then is not, and neither is its interval.
    """

    method: str
    names: tuple[str, ...]
    n: NDArray[np.intp]
    estimates: Floats
    divergences: Floats
    lam: Floats
    mean_weights: Floats
    ess: Floats
    left_out: tuple[str, ...]
    influence: Floats
    block_counts: NDArray[np.intp]
    units: Floats
    fallback: str = ""
    means: Floats | None = None
    new_site: NewSiteVariance | None = None
    labelled_target: bool = False
    nonnegative: bool = False

    def __post_init__(self) -> None:
        for name in (*_BY_SOURCE, "influence", *([] if self.means is None else ["means"])):
            getattr(self, name).flags.writeable = False

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        r"""Interval that covers the truth with probability `level`, from Student's t.

        For a new site the loss, if it is never negative, has an interval that is symmetric on the
        scale of its root, since the losses of sites are skewed and spread in proportion to their
        size. With h the half width of the other interval,

        .. math:: c \pm h + \frac{h^2}{4 f}, \qquad c = f\, \Big[1 - s + s\,
                  \frac{(\sum_j q_j \sqrt{L_j / E_j})^2}{\sum_j q_j L_j / E_j}\Big],

        where f is the estimate (in :math:`h^2 / 4 f` the sources' mean, if that is larger), and c
        the centre of the sites' losses, which have the share s: a typical site has less than the
        mean. (On a log scale, two or three sources give intervals without end.)
        """
        low, high = Estimate.interval(self, level)
        if not self.nonnegative:
            return low, high
        size, half = max(self.value, self.criterion), (high - low) / 2
        if self.new_site is None or self.means is None or size <= 0:
            return max(low, 0.0), max(high, 0.0)
        ratio, shares = self._observed_to_expected()
        skewness = 1 - float(shares @ np.sqrt(ratio)) ** 2 / float(shares @ ratio)
        share = float(np.sum((self.lam * self.n)[: len(ratio)]))
        centre = max(self.value, 0.0) * (1 - share * skewness) + half**2 / size / 4
        return max(centre - half, 0.0) if half < 2 * size else 0.0, centre + half

    def _observed_to_expected(self) -> tuple[Floats, Floats]:
        r"""Mean loss of every source over what its columns let expect, and its share; (k,).

        The adjustment moves a mean by the difference of its columns to the target's, so that the
        target's estimate less this move is expected at the source. Below half the mean of all
        sources, h, it falls like :math:`h \exp(x / h - 1)`, and never to 0.
        """
        k = len(self.source_names)
        assert self.means is not None  # of an adjusted estimate
        means, estimates = self.means[:k], self.estimates[:k]
        shares = (self.lam * self.n)[:k] / (self.lam * self.n)[:k].sum()
        expected, half = shares @ estimates + means - estimates, shares @ means / 2
        falling = half * np.exp(np.minimum(expected / half - 1, 0.0))
        expected = np.where(expected < half, falling, expected)
        return np.maximum(means, 0.0) / expected, shares  # rounding may leave a mean below 0

    def signed(self, *, nonnegative: bool) -> RiskEstimate:
        """Return the estimate of losses that are never negative, or of those that may be."""
        risk = replace(self, nonnegative=nonnegative)
        return risk if self.new_site is None else risk.with_variance(risk._between())

    def _between(self) -> NewSiteVariance | None:
        r"""Return the parts of the variance with the variance between these sources.

        The deviation of a source whose losses are never negative is
        :math:`2 f_0 \sqrt{L_j / E_j}`, in units of the sources' mean or of the estimate, whichever
        is larger; where the estimate is smaller, so are the differences between sites.
        """
        site, rows = self.new_site, (self.block_counts, self.n)
        if site is None or not self.nonnegative or self.means is None:
            return site and site.with_between(self.estimates, *rows)
        k = len(self.source_names)
        if (self.lam * self.n)[:k].sum() <= 0 or self.means[:k].sum() <= 0:
            return replace(site, between=0.0, uncertainty=0.0)
        ratio, shares = self._observed_to_expected()
        value = float(shares @ self.estimates[:k])
        size = max(value, float(shares @ self.means[:k]))
        site = site.with_between(2 * size * np.sqrt(ratio), *rows)
        factor = (max(value, 0.0) / size) ** 2
        return replace(
            site, between=factor * site.between, uncertainty=factor**2 * site.uncertainty
        )

    @property
    def criterion(self) -> float:
        """Value by which models are compared: the mean loss over the sources, or the risk.

        The adjustment to the target's rows is for the estimate, not for the choice: choices by
        adjusted losses are no better at hidden targets (+1.3 % of the loss, 0.0 to +2.6), and where
        it extrapolates it may prefer a model whose loss is high at every source
        (`benchmarks/results/judge.md`).
        """
        return self.value if self.means is None else float((self.lam * self.n) @ self.means)

    @property
    def between(self) -> float | None:
        """Variance between the sites; None where the estimate does not include it."""
        return None if self.new_site is None else self.new_site.between

    @property
    def sources(self) -> pd.DataFrame:
        """One row per source: n, estimate, 95 % interval, share, mean weight, ESS, reason, ...

        The interval is from Student's t with one degree of freedom less than the source has
        effective rows, or groups (at least 1).
        """
        stderr = np.sqrt(self.divergences / self.n)
        half = stdtrit(np.maximum(np.minimum(self.ess, self.units) - 1, 1), 0.975) * stderr
        return pd.DataFrame(
            {
                "n": self.n,
                "estimate": self.estimates,
                "stderr": stderr,
                "low": self.estimates - half,
                "high": self.estimates + half,
                "divergence": self.divergences,
                "lambda": self.lam,
                "share": self.lam * self.n,
                "mean_weight": self.mean_weights,
                "ess": self.ess,
                "left_out": self.left_out,
            },
            index=pd.Index(self.names, name="site"),
        )

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names without the target's own, whose few labelled rows come last."""
        return self.names[: len(self.names) - self.labelled_target]

    @property
    def coverage(self) -> float:
        r"""Share of the target that the sources cover, :math:`\sum_j \lambda_j n_j \bar w_j`.

        The mean weight of a source is the share of the target that its rows stand for. Below 1
        the rest of the target is not in the estimate, which is then too low.
        """
        return float(np.sum(self.lam * self.n * self.mean_weights))

    def minus(self, other: RiskEstimate) -> Estimate:
        """Difference to another estimate on the same rows, with the paired standard error.

        Rows on which both models err alike cancel, so two models can often be distinguished
        even where their intervals overlap.

        >>> from shiftune.risk import estimate
        >>> rng = np.random.default_rng(0)
        >>> hard = rng.exponential(size=100)
        >>> a, b = estimate([hard], method="naive"), estimate([hard + 0.1], method="naive")
        >>> d = b.minus(a)
        >>> round(d.value, 3), bool(d.stderr < a.stderr / 100)
        (0.1, True)
        """
        same_rows = np.array_equal(self.n, other.n) and np.array_equal(
            self.block_counts, other.block_counts
        )
        if self.names != other.names or not same_rows:
            raise DataError(
                "two estimates can be compared only on the same rows of the same sources"
            )
        site = None
        if self.new_site is not None and other.new_site is not None:
            apart = self.estimates - other.estimates
            site = self.new_site.minus(other.new_site, apart, self.block_counts, self.n)
        variance, dof = self._variance(self.influence - other.influence, site)
        return Estimate(self.value - other.value, variance, dof)

    @property
    def row_variance(self) -> float:
        """Variance by the sampling error of the rows alone."""
        return float(np.sum(self.influence**2))

    @property
    def criterion_variance(self) -> float:
        """Variance of the criterion by the sampling error of the rows, for the sampler."""
        if self.means is None:
            return self.row_variance
        return float((self.lam * self.n) ** 2 @ (self.divergences / self.n))

    def with_shares(self, change: Floats) -> RiskEstimate:
        r"""Return the estimate with every source's share multiplied by a factor, shape (k,).

        The shares that result must add up to 1. The sources' own estimates do not change.

        >>> from shiftune.risk import estimate
        >>> risk = estimate([[1.0, 2.0], [3.0, 5.0]], method="naive")
        >>> risk.with_shares(np.array([0.0, 2.0])).value
        4.0
        """
        lam, k, site = self.lam * change, len(self.source_names), self.new_site
        if site is not None:
            before, after = ((per_row * self.n)[:k].sum() for per_row in (self.lam, lam))
            site = site.scaled(change[:k], float(after / before) if before else 0.0)
        risk = replace(
            self,
            value=float((lam * self.n) @ self.estimates),
            lam=lam,
            influence=self.influence * np.repeat(change, self.block_counts),
            new_site=site,
        )
        return risk.with_variance(risk._between())

    def with_variance(self, site: NewSiteVariance | None) -> RiskEstimate:
        """Return the estimate with the variance that its influence values and `site` give."""
        variance, dof = self._variance(self.influence, site)
        return replace(self, variance=variance, dof=dof, new_site=site)

    def _variance(self, influence: Floats, site: NewSiteVariance | None) -> tuple[float, float]:
        if site is not None:
            return site.variance(influence)
        # Effective rows, blocks or groups of every source, whichever are fewest.
        effective = np.minimum(np.minimum(self.ess, self.block_counts), self.units)
        return pooled_variance(influence, self.block_counts, effective)

    def condensed(self, most: int = 2000) -> RiskEstimate:
        r"""Return the same estimate with about `most` influence values.

        Rows of a source are assigned to b blocks in turn, in proportion to its size but at least 8,
        and their influence values added up. Rows are independent, so the squares of the blocks
        still estimate the variance of the estimate and of differences, to a relative error of
        about :math:`\sqrt{2/b}` for a single source. The values of a source add up to 0, which
        makes their squares too small by (b - 1)/b; the blocks are scaled up for it.
        """
        share = np.ceil(most * self.block_counts / self.block_counts.sum()).astype(np.intp)
        blocks = np.minimum(self.block_counts, np.maximum(share, 8))
        if np.array_equal(blocks, self.block_counts):
            return self
        block = [np.arange(n) % b for n, b in zip(self.block_counts, blocks, strict=True)]
        scale = np.where(
            blocks < self.block_counts, np.sqrt(blocks / np.maximum(blocks - 1, 1)), 1.0
        )
        site = self.new_site
        if site is not None:
            site = replace(site, row_effects=_summed(site.row_effects, block, blocks, scale))
        return replace(
            self,
            influence=_summed(self.influence, block, blocks, scale),
            block_counts=blocks,
            new_site=site,
        )

    def to_record(self) -> dict[str, Any]:
        """Return the estimate as text and numbers that JSON can hold."""
        record: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        record |= {name: record[name].tolist() for name in _BY_SOURCE}
        return record | {
            "new_site": self.new_site and self.new_site.to_record(),
            "means": None if self.means is None else self.means.tolist(),
            "influence": packed(self.influence),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RiskEstimate:
        """Read what `to_record` wrote (influence values to single precision).

        >>> from shiftune.risk import estimate
        >>> risk = estimate([[1.0, 2.0], [3.0, 5.0]], method="naive")
        >>> RiskEstimate.from_record(risk.to_record()).value
        2.75
        """
        values = {**record, **{name: np.array(record[name]) for name in _BY_SOURCE}}
        values |= {name: tuple(values[name]) for name in ("names", "left_out")}
        values["influence"] = unpacked(values["influence"])
        if values["means"] is not None:
            values["means"] = np.array(values["means"])
        if values["new_site"] is not None:
            values["new_site"] = NewSiteVariance.from_record(values["new_site"])
        return cls(**values)

    def __reduce__(self) -> tuple[type[RiskEstimate], tuple[Any, ...]]:
        # Through the constructor, so that the arrays are read-only again.
        return type(self), tuple(getattr(self, f.name) for f in fields(self))

    def __repr__(self) -> str:
        low, high = self.interval()
        words = f"{self.value:.4g} (95 % interval {low:.4g} to {high:.4g}), {self.method}"
        used = self.left_out.count("")
        if len(self.n) > 1 and not self.fallback:
            words += f", {used} of {len(self.n)} sources"
        if not self.fallback and self.coverage < 0.9:
            words += f", about {percent(self.coverage)} of the target covered"
        return f"<RiskEstimate {words}{'; ' + self.fallback if self.fallback else ''}>"


def by_group(risk: RiskEstimate, groups: Sequence[NDArray[np.intp]]) -> RiskEstimate:
    r"""Return the same estimate, with a variance in which groups are independent, not rows.

    .. math:: V_j = c_j \sum_g \Big(\sum_{i \in g} \psi_{ij}\Big)^2, \qquad
              c_j = \frac{G_j}{G_j - 1} \cdot \frac{n_j - 1}{n_j},

    the cluster-robust variance: influence values are added up within a group before they are
    squared. The divergences, hence each source's own sampling variance and the variance between
    sites, follow from the same sums. Groups of one row change nothing. The degrees of freedom are
    those of :math:`(\sum_g m_g)^2 / \sum_g m_g^2` groups, for groups of :math:`m_g` rows.

    A group of a source with a single one shows no sampling error: its divergence is the mean of
    the others'.

    Parameters
    ----------
    risk : RiskEstimate
        Not condensed.
    groups : k arrays of shape (n_j,)
        Codes of the groups.

    Examples
    --------
    Every loss is there twice, so half of the rows carry all information:

    >>> from shiftune.risk import estimate
    >>> losses = np.random.default_rng(0).exponential(size=50)
    >>> once = estimate([losses], method="naive")
    >>> twice = by_group(estimate([np.repeat(losses, 2)], method="naive"), [np.arange(100) // 2])
    >>> bool(abs(twice.stderr / once.stderr - 1) < 0.01), float(twice.units[0])
    (True, 50.0)
    """
    if not np.array_equal([len(site) for site in groups], risk.block_counts):
        raise DataError(
            f"there are groups of {[len(site) for site in groups]} rows, but influence values of "
            f"{risk.block_counts.tolist()}"
        )
    codes = [np.unique(site, return_inverse=True)[1] for site in groups]
    G = np.array([site.max() + 1 for site in codes], dtype=np.intp)
    scale = np.sqrt(np.where(G > 1, G * (risk.n - 1) / np.maximum((G - 1) * risk.n, 1), 1.0))
    if risk.new_site is None:  # effects of the rows on their own source's estimate, up to a factor
        means = np.add.reduceat(risk.influence, np.cumsum(risk.n) - risk.n) / risk.n
        effects = np.asarray(risk.influence - np.repeat(means, risk.n))
    else:
        effects = risk.new_site.row_effects
    group_effects = _summed(effects, codes, G, scale)
    of_rows, of_groups = squares_by_source(effects, risk.n), squares_by_source(group_effects, G)
    divergences = risk.divergences * np.divide(
        of_groups, of_rows, out=np.ones(len(G)), where=of_rows > 0
    )
    unknown = (G == 1) & (risk.n > 1)
    if unknown.all():
        divergences = risk.divergences
    elif unknown.any():
        divergences[unknown] = np.average(divergences[~unknown], weights=risk.n[~unknown])
    sizes = np.concatenate([np.bincount(site) for site in codes]).astype(float)
    by_groups = replace(
        risk,
        divergences=divergences,
        influence=_summed(risk.influence, codes, G, scale),
        block_counts=G,
        units=effective_rows(sizes, np.cumsum(G) - G),
    )
    if risk.new_site is None:
        return by_groups.with_variance(None)
    k = len(risk.source_names)
    before, after = (float(risk.n[:k] ** 2 @ squares[:k]) for squares in (of_rows, of_groups))
    design = after / before if before > 0 and after > 0 else 1.0
    site = replace(risk.new_site, row_effects=group_effects, design=design)
    by_groups = replace(by_groups, new_site=site)
    return by_groups.with_variance(by_groups._between())


def _summed(
    rows: Floats, block: list[NDArray[np.intp]], counts: NDArray[np.intp], scale: Floats
) -> Floats:
    """Add up (n,) within blocks 0..counts_j - 1 of each source, times its scale: (sum counts,)."""
    place = np.concatenate(block) + np.repeat(np.cumsum(counts) - counts, [len(b) for b in block])
    sums = np.bincount(place, rows, int(counts.sum())).astype(float)
    return np.asarray(sums * np.repeat(scale, counts))
