"""Rules for an interval: variance between sites and degrees of freedom, from parts of an estimate.

A rule is a function from a table of parts (`parts_of`, one row per estimate) to the ends of the
intervals. With k sources, S^2 the variance of their estimates (``spread``), v the mean of their
sampling variances (``chance``) and V the variance of one row's loss (``one_row``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri, stdtrit
from scipy.stats import chi2

from shiftune.risk import RiskEstimate
from shiftune.risk._heterogeneity import heterogeneity
from shiftune.risk._new_site import FEWEST_ROWS, pooled_variance, squares_by_source

LEVEL = 0.9
# A prior counts where there are fewer sources than this.
MANY = 5
# Values of tau^2 / V, and standard deviations of their logarithm, that a prior may have.
RATIOS = np.geomspace(1e-6, 30, 121)
SPREADS = np.linspace(0.3, 3.0, 10)

Ends = tuple[pd.Series, pd.Series]
Rule = Callable[[pd.DataFrame], Ends]


def parts_of(risk: RiskEstimate) -> dict[str, float]:
    """Take an estimate apart."""
    site = risk.new_site
    k = len(site.leverage)
    n, estimates = risk.n[:k], risk.estimates[:k]
    divergences = squares_by_source(site.row_effects, risk.block_counts)[:k] * n
    large = n >= FEWEST_ROWS if np.sum(n >= FEWEST_ROWS) > 1 else n > 0
    chance = divergences[large] / np.maximum(n[large] - 1, 1)
    known = large.sum() > 1
    tau_squared = 0.0
    if known and (chance > 0).all():
        tau_squared = heterogeneity(estimates[large], chance).tau_squared
    rows, rows_dof = pooled_variance(risk.influence, risk.block_counts, risk.ess)
    noise = site.noise * float(np.average(divergences, weights=n))
    low, high = risk.interval(LEVEL)
    return {
        "estimate": risk.value,
        "nonnegative": risk.nonnegative,
        "sources": k,
        "large": int(large.sum()),
        "spread": float(estimates[large].var(ddof=1)) if known else 0.0,
        "chance": float(chance.mean()),
        "paule_mandel": tau_squared,
        "one_row": float(np.average(divergences[large], weights=n[large])),
        "stretch": site.stretch,
        "leverage": float(site.leverage @ site.leverage + site.leverage.sum() ** 2),
        "rows": rows,
        "rows_dof": rows_dof,
        "besides": float(site.extrapolation @ site.extrapolation) + noise,
        "package_low": low,
        "package_high": high,
    }


# ---------------------------------------------------------------- the variance between sites


def paule_mandel(p: pd.DataFrame) -> Ends:
    """Paule and Mandel's variance; where it is 0 only the rows' degrees of freedom count."""
    return _interval(p, p["stretch"] * p["paule_mandel"], p["sources"] - 1)


def moments(part: float, of_one_row: float, **how: bool) -> Rule:
    """S^2 - v, but at least a part of S^2 and a share of V; `how` is that of `_interval`."""

    def rule(p: pd.DataFrame) -> Ends:
        between = np.maximum(p["stretch"] * _seen(p, part), of_one_row * p["one_row"])
        return _interval(p, between, p["sources"] - 1, **how)

    return rule


def with_sites(of_one_row: float, sites: float, everywhere: bool = False) -> Rule:
    """Mean of max(S^2 - v, S^2 / 2) and of a prior that counts as so many sites."""

    def rule(p: pd.DataFrame) -> Ends:
        own = p["large"] - 1
        seen = p["stretch"] * _seen(p, 1 / 2)
        between = (own * seen + sites * of_one_row * p["one_row"]) / (own + sites)
        ends = _interval(p, between, p["sources"] - 1 + sites)
        return ends if everywhere else _with_few_sources(p, ends)

    return rule


def learnt(everywhere: bool) -> Rule:
    """Bayesian interval with the log-normal prior of tau^2 / V in ``prior_mean``, ``prior_sd``.

    The posterior of tau^2 / V on a grid makes a mixture of normal distributions, whose quantiles
    are the ends.
    """

    def rule(p: pd.DataFrame) -> Ends:
        weights = _likelihood(p) * _log_normal(p["prior_mean"], p["prior_sd"])
        weights = weights / weights.sum(axis=1, keepdims=True)
        sites = RATIOS * (p["one_row"] * p["leverage"]).to_numpy()[:, None]
        sd = np.sqrt((p["rows"] + p["besides"]).to_numpy()[:, None] + sites)
        low, high = np.zeros(len(p)), sd.max(axis=1) * ndtri(0.5 + LEVEL / 2)
        for _ in range(50):
            half = (low + high) / 2
            inside = (weights * (2 * ndtr(half[:, None] / sd) - 1)).sum(axis=1)
            low, high = np.where(inside < LEVEL, half, low), np.where(inside < LEVEL, high, half)
        ends = _ends(p, high)
        return ends if everywhere else _with_few_sources(p, ends)

    return rule


def fit_prior(p: pd.DataFrame) -> tuple[float, float]:
    """Mean and standard deviation of log(tau^2 / V) of greatest likelihood; tables count alike."""
    own = _likelihood(p)
    count = p.groupby("dataset")["dataset"].transform("size").to_numpy()
    best = (-np.inf, 0.0, 0.0)
    for mean in np.log(RATIOS[::2]):
        for sd in SPREADS:
            prior = np.exp(-(((np.log(RATIOS) - mean) / sd) ** 2) / 2)
            likely = np.maximum(own @ (prior / prior.sum()), 1e-300)
            found = float(np.sum(np.log(likely) / count))
            best = max(best, (found, float(mean), float(sd)))
    return best[1:]


def _seen(p: pd.DataFrame, part: float) -> pd.Series:
    return np.maximum(p["spread"] - p["chance"], part * p["spread"])


def _likelihood(p: pd.DataFrame) -> np.ndarray:
    """Density of S^2 for every value of tau^2 / V, (rows, ratios), highest 1."""
    one_row, stretch, chance = (p[c].to_numpy()[:, None] for c in ("one_row", "stretch", "chance"))
    dof, spread = p["large"].to_numpy()[:, None] - 1, p["spread"].to_numpy()[:, None]
    expected = np.maximum(RATIOS * one_row / stretch + chance, 1e-300)
    log = np.where(
        dof > 0, chi2.logpdf(dof * spread / expected, np.maximum(dof, 1)) - np.log(expected), 0.0
    )
    return np.exp(log - log.max(axis=1, keepdims=True))


def _log_normal(mean: pd.Series, sd: pd.Series) -> np.ndarray:
    apart = (np.log(RATIOS) - mean.to_numpy()[:, None]) / sd.to_numpy()[:, None]
    return np.exp(-(apart**2) / 2)


# ---------------------------------------------------------------- the interval


def _interval(
    p: pd.DataFrame,
    between: pd.Series,
    dof: pd.Series,
    *,
    whole: bool = False,
    unseen: bool = False,
    log: bool = False,
) -> Ends:
    """Return the interval with a variance between sites and its degrees of freedom.

    `whole`: the whole variance has k - 1. `unseen`: plus the square of how far the estimate moves
    if only models count that do not know the site. `log`: for the logarithm of the risk.
    """
    sites = between * p["leverage"]
    total = p["rows"] + sites + p["besides"]
    spread = p["rows"] ** 2 / p["rows_dof"] + sites**2 / dof.clip(lower=1)
    degrees = (total**2 / spread).where(spread > 0, 1.0)
    degrees = (p["sources"] - 1 if whole else degrees).clip(lower=1)
    if unseen:
        total = total + (p["by_unseen"] - p["estimate"]) ** 2
    return _ends(p, stdtrit(degrees, 0.5 + LEVEL / 2) * np.sqrt(total), log)


def _ends(p: pd.DataFrame, half: pd.Series | np.ndarray, log: bool = False) -> Ends:
    value = p["estimate"]
    if log:
        factor = np.exp(np.minimum(half / value, 50))
        return value / factor, value * factor
    low = value - half
    return low.clip(lower=0).where(p["nonnegative"], low), value + half


def _with_few_sources(p: pd.DataFrame, ends: Ends) -> Ends:
    few = p["sources"] < MANY
    low, high = RULES[BEFORE](p)
    return ends[0].where(few, low), ends[1].where(few, high)


OLD, BEFORE, PACKAGE = "Paule and Mandel", "S^2/2 and V/200", "V/30 as 1 site, few sources"
RULES: dict[str, Rule] = {
    OLD: paule_mandel,
    "0": moments(0, 0),
    "V/200": moments(0, 1 / 200),
    "S^2/2": moments(1 / 2, 0),
    BEFORE: moments(1 / 2, 1 / 200),
    "S^2/2 and V/100": moments(1 / 2, 1 / 100),
    "3 S^2/4 and V/200": moments(3 / 4, 1 / 200),
    "S^2": moments(1, 0),
    "S^2/2, k - 1": moments(1 / 2, 0, whole=True),
    f"{BEFORE}, unseen": moments(1 / 2, 1 / 200, unseen=True),
    "S^2/2, k - 1, unseen": moments(1 / 2, 0, whole=True, unseen=True),
    f"{BEFORE}, log scale": moments(1 / 2, 1 / 200, log=True),
    "learnt prior": learnt(everywhere=True),
    "learnt prior, few sources": learnt(everywhere=False),
    "V/100 as 1 site, few sources": with_sites(1 / 100, 1),
    "V/50 as 1 site, few sources": with_sites(1 / 50, 1),
    PACKAGE: with_sites(1 / 30, 1),
    "V/20 as 1 site, few sources": with_sites(1 / 20, 1),
    "V/50 as 2 sites, few sources": with_sites(1 / 50, 2),
    "V/50 as 5 sites, few sources": with_sites(1 / 50, 5),
    "V/30 as 1 site": with_sites(1 / 30, 1, everywhere=True),
}
