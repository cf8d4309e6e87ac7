"""Whether the sources agree about the risk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtr

from shiftune.checks.check import SIGNIFICANT, Check, chance, percent
from shiftune.risk.heterogeneity import heterogeneity_of

if TYPE_CHECKING:
    from shiftune.risk.result import RiskEstimate

# "High" in the words of Higgins and others (2003), Measuring inconsistency in meta-analyses, BMJ
# 327: 25 % is low, 50 % moderate, 75 % high.
HIGH = 0.75

# From two sites a variance between sites is a guess.
FEWEST_SOURCES = 3

NAME = "risks agree"


def agreement_check(risk: RiskEstimate) -> Check:
    """Say whether the sources differ about the chosen model's risk by more than chance.

    A caution: they do (Cochran's Q, 5 % level), or fewer than two can be compared, or labelled rows
    of the target itself say something else than one more site would, by the sources. A problem: the
    sources differ, at least three quarters of the differences (I^2) are not chance, and the
    interval does not count them.
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
        level="problem" if check.level == "problem" else "caution",
        finding=f"{check.finding} But {target!r}'s own labelled rows say {own:.4g}, and the "
        f"sources {by_sources:.4g}: more than chance and the sites' differences explain "
        f"({chance(p_value)}).",
        advice=f"{target!r} is unlike the sources. Believe its own labels, of which more would "
        "help; what the sources add is in doubt.",
        figures=figures,
    )


def _own_labels(risk: RiskEstimate) -> tuple[float, float, float]:
    """What the target's labels say, what the sources say, and how likely so large a gap is."""
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
            "caution",
            "Whether the sources agree about the risk cannot be told: fewer than two have a say.",
            "The interval of the risk knows nothing of differences between sites; take it as the "
            "least that is uncertain.",
            {},
        )
    low, high = found.prediction_interval()
    low = max(low, 0.0) if risk.estimates.min() >= 0 else low
    figures = {
        "q": found.q,
        "q_expected": found.expected,
        "p_value": found.p_value,
        "i_squared": found.i_squared,
        "tau": found.tau_squared**0.5,
        "one_more_site_low": low,
        "one_more_site_high": high,
    }
    if found.p_value >= SIGNIFICANT and risk.between is not None and found.k < FEWEST_SOURCES:
        return Check(
            NAME,
            "caution",
            f"What the {found.k} sources say about the risk differs no more than by chance "
            f"({chance(found.p_value)}), but so few sites hardly tell how far one more may differ.",
            "Take the interval as the least that is uncertain. More sources, or a few labels of "
            "the target, would show more.",
            figures,
        )
    if found.p_value >= SIGNIFICANT:
        return Check(
            NAME,
            "ok",
            f"What the {found.k} sources say about the risk differs no more than by chance "
            f"({chance(found.p_value)}).",
            "Nothing to do.",
            figures,
        )
    finding = (
        f"The {found.k} sources disagree about the risk by more than chance "
        f"({chance(found.p_value)}); {percent(found.i_squared)} of their differences are real "
        "(that is I²). "
    )
    if risk.between is not None:
        return Check(
            NAME,
            "caution",
            f"{finding}From site to site the risk varies by about {figures['tau']:.4g} (standard "
            "deviation), which the interval counts: it is for one more site.",
            "Take the interval seriously. Labels of the target narrow it, and so does knowing why "
            "sites differ: see 'same labels'; search.plot_sources() shows who disagrees.",
            figures,
        )
    otherwise = (
        "other inputs are harder (an estimate with weights takes care of that)"
        if risk.method == "naive"
        else "the density ratios are off (try ratio='auto')"
    )
    return Check(
        NAME,
        "problem" if found.i_squared >= HIGH else "caution",
        f"{finding}Going by them, the risk of one more site may be anything from {low:.4g} to "
        f"{high:.4g}.",
        "Take that range instead of the interval of the risk. Either the same inputs have other "
        f"labels (see 'same labels'), or {otherwise}; search.plot_sources() shows who disagrees.",
        figures,
    )
