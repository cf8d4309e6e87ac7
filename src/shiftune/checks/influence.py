"""Whether one source decides the estimate, or the choice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from shiftune.checks.check import SIGNIFICANT, Check, percent
from shiftune.risk.influence import ALL, leave_one_source_out, without_source
from shiftune.search.selection import paired_difference, winner
from shiftune.wording import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shiftune.risk.result import RiskEstimate

# Effective number of sources, 1 / sum of their squared shares: nearer to one than to two. (Of two
# sources, one with 79 % of the say; of three or more, one with some 80 %.)
NEARER_TO_ONE = 1.5

NAME = "no source decides alone"


def influence_check(risks: Sequence[RiskEstimate], chosen: int) -> Check:
    """Say how far estimate and choice depend on one source.

    A problem: there is but one source with a say; or without some source another trial would be
    chosen, and by what the others say the chosen one is worse (95 % interval of the paired
    difference, widened for the number of trials and sources that were tried). A caution: without
    some source the risk lies outside its 95 % interval, or one source has so much of the say that
    the estimate is nearer to that of one source than of two.

    Parameters
    ----------
    risks : sequence of RiskEstimate
        Of all trials that came to an end.
    chosen : int
        Position of the chosen one.
    """
    risk = risks[chosen]
    table = leave_one_source_out(risk)
    heaviest = str(table["share"].idxmax())
    share = float(table["share"].max())
    effective = float(table["share"].sum() ** 2 / np.sum(table["share"] ** 2))
    if share >= ALL:
        return Check(
            NAME,
            "problem",
            f"Estimate and choice rest on {heaviest!r} alone.",
            "If that source is unlike the target in what matters, all is wrong. Bring in another "
            "source that overlaps with the target, or label some rows of the target.",
            {"largest_share": 1.0, "sources": 1.0},
        )
    low, high = risk.interval()
    away = table[(table["without"] < low) | (table["without"] > high)]
    farthest = str(table["change"].abs().idxmax())
    value = float(table["without"].to_dict()[farthest])
    # The rival is the best of all other trials, once for every source.
    level = 1 - SIGNIFICANT / (len(table) * max(len(risks) - 1, 1))
    other_choice, worse = [], []
    for site in map(str, table.index):
        rest = [_without(r, site) for r in risks]
        rival = rest[winner(rest)]
        if rival is not rest[chosen]:
            other_choice.append(site)
            if paired_difference(rest[chosen], rival).interval(level)[0] > 0:
                worse.append(site)
    figures = {
        "largest_share": share,
        "effective_sources": effective,
        "largest_change": float(table["change"].abs().max()),
        "largest_change_in_stderr": float(np.nan_to_num(table["change_in_stderr"].abs().max())),
        "sources": float(len(table)),
        "sources_that_change_the_choice": float(len(other_choice)),
        "sources_that_decide_the_choice": float(len(worse)),
    }
    finding = (
        f"Without {farthest!r}, the source that matters most, the risk would be {value:.4g} "
        f"instead of {risk.value:.4g}"
    )
    if len(away):
        finding += f", outside its 95 % interval ({low:.4g} to {high:.4g})"
    if worse:
        return Check(
            NAME,
            "problem",
            f"{finding}. Without {_one_of(worse)} other parameters would be chosen, and by the "
            "other sources the chosen ones are worse than those.",
            f"Find out whether {listed(worse)} or the others are more like the target. If in "
            "doubt, run the search without, and compare best_params_.",
            figures,
        )
    if other_choice:
        finding += (
            f". Without {_one_of(other_choice)} other parameters would be chosen, but they cannot "
            "be told apart from the chosen ones"
        )
    else:
        finding += ". Whichever source is set aside, the same parameters would be chosen"
    if len(away):
        special = listed([str(site) for site in away.index])
        return Check(
            NAME,
            "caution",
            f"{finding}.",
            "The interval is too narrow for what one source more or less can do. Find out what is "
            f"special about {special}.",
            figures,
        )
    if effective < NEARER_TO_ONE:
        advice = f"Make sure that {heaviest!r} is like the target in what is not in the table, too"
        if risk.method == "variance_reduced":
            advice += "; risk='unbiased' gives the others more of a say"
        return Check(
            NAME,
            "caution",
            f"{finding}. {heaviest!r} has {percent(share)} of the say.",
            f"{advice}.",
            figures,
        )
    return Check(NAME, "ok", f"{finding}.", "Nothing to do.", figures)


def _one_of(sites: list[str]) -> str:
    """Name sites of which one at a time is set aside.

    >>> _one_of(["B"]), _one_of(["B", "C"])
    ("'B'", "'B' and 'C', one at a time,")
    """
    return listed(sites) if len(sites) == 1 else f"{listed(sites)}, one at a time,"


def _without(risk: RiskEstimate, site: str) -> RiskEstimate:
    """The estimate without a source; infinite, so that it cannot win, where there is none."""
    j = risk.names.index(site)
    alone = risk.lam[j] * risk.n[j] >= ALL
    return replace(risk, value=np.inf) if alone else without_source(risk, site)
