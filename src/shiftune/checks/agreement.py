"""Check that the sources agree about the risk."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import stdtr

from shiftune.checks.check import NOTHING_TO_DO, SIGNIFICANT, Check, chance
from shiftune.level import Level
from shiftune.risk.heterogeneity import Heterogeneity, heterogeneity_of
from shiftune.risk.result import RiskEstimate
from shiftune.wording import number, percent

# "High" in the words of Higgins and others (2003), Measuring inconsistency in meta-analyses, BMJ
# 327: 25 % is low, 50 % moderate, 75 % high.
HIGH = 0.75

NAME = "risks agree"


def agreement_check(risk: RiskEstimate) -> Check:
    """Check whether the sources' estimates of the chosen model's risk differ significantly.

    A caution: they do (Cochran's Q, 5 % level) and the interval does not include it, or fewer than
    two can be compared, or labelled rows of the target contradict the sources. A problem: at least
    three quarters of the variation (I^2) are not sampling error, and the interval does not include
    it. (Intervals that do include it cover no less often where sources disagree;
    `benchmarks/results/alarms.md`.)
    """
    check = _among_sources(risk)
    if not risk.labelled_target:
        return check
    own, by_sources, p_value = _own_labels(risk)
    figures = check.figures | {"own_labels": own, "by_sources": by_sources, "own_p_value": p_value}
    if p_value >= SIGNIFICANT:
        return replace(check, figures=figures)
    target = risk.names[-1]
    return replace(
        check,
        headline=f"labels of {target!r} contradict the sources",
        level=Level.PROBLEM if check.level is Level.PROBLEM else Level.CAUTION,
        finding=f"{check.finding} But the labelled rows of {target!r} itself give "
        f"{number(own, 4)} and the sources {number(by_sources, 4)}: sampling error and "
        f"site-to-site variation do not explain the difference ({chance(p_value)}).",
        advice=f"Trust the labels of {target!r} and add more: it is unlike the sources, which help "
        "little.",
        figures=figures,
    )


def _own_labels(risk: RiskEstimate) -> tuple[float, float, float]:
    """Risk by the target's labels, risk by the sources, and p value of the difference."""
    own, share = float(risk.estimates[-1]), float(risk.lam[-1] * risk.n[-1])
    change = np.full(len(risk.n), 1 / (1 - share))
    change[-1] = 0.0
    sources = risk.with_shares(change)
    spread = np.sqrt(sources.variance + risk.divergences[-1] / risk.n[-1])
    if spread == 0:
        return own, sources.value, float(own == sources.value)
    p_value = 2 * stdtr(sources.dof, -abs(own - sources.value) / spread)
    return own, sources.value, float(p_value)


def _among_sources(risk: RiskEstimate) -> Check:
    found = heterogeneity_of(risk)
    if found is None:
        return Check(
            NAME,
            Level.CAUTION,
            "Agreement of the sources cannot be tested: fewer than two are in the estimate.",
            "Add sources, or label some target rows: how far sites differ is unknown, and the "
            "interval may be too narrow.",
            {},
            "only one source is in the estimate",
        )
    low, high = found.prediction_interval()
    low = max(low, 0.0) if risk.estimates.min() >= 0 else low
    figures = {
        "q": found.q,
        "q_expected": found.expected,
        "p_value": found.p_value,
        "i_squared": found.i_squared,
        "tau": found.tau_squared**0.5,
        "new_site_low": low,
        "new_site_high": high,
    }
    if found.p_value >= SIGNIFICANT:
        return _agreed(found, figures)
    return _disagreed(found, risk, figures)


def _agreed(found: Heterogeneity, figures: dict[str, float]) -> Check:
    finding = (
        f"The {found.k} sources agree about the risk within sampling error "
        f"({chance(found.p_value)})."
    )
    return Check(NAME, Level.OK, finding, NOTHING_TO_DO, figures)


def _disagreed(found: Heterogeneity, risk: RiskEstimate, figures: dict[str, float]) -> Check:
    finding = (
        f"The {found.k} sources disagree about the risk by more than sampling error "
        f"({chance(found.p_value)}); {percent(found.i_squared)} of the variation between them is "
        "real (I²)."
    )
    if risk.between is not None:
        return Check(
            NAME,
            Level.OK,
            f"{finding} The risk varies from site to site by about "
            f"{number(figures['tau'], 4)} (standard deviation); the interval includes this "
            "variation.",
            "Target labels narrow the interval, and so does a column that explains the "
            "differences: see 'same labels'. search.plot_sources() shows which sources disagree.",
            figures,
        )
    otherwise = (
        "some sites have harder cases (an estimate with weights corrects for that)"
        if risk.method == "naive"
        else "the density ratios are off (try ratio='auto')"
    )
    ends = f"{number(figures['new_site_low'], 4)} to {number(figures['new_site_high'], 4)}"
    return Check(
        NAME,
        Level.PROBLEM if found.i_squared >= HIGH else Level.CAUTION,
        f"{finding} By their differences, the risk at a new site may lie anywhere from {ends}.",
        f"Use {ends} instead of the interval of the risk. Either similar cases have different "
        f"outcomes (see 'same labels'), or {otherwise}; search.plot_sources() shows which sources "
        "disagree.",
        figures,
        "the sources disagree about the risk",
    )
