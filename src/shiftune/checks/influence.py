"""Check that no single source decides the estimate or the choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from shiftune.checks.check import MOST_NAMES, NOTHING_TO_DO, SIGNIFICANT, Check
from shiftune.level import Level
from shiftune.risk.influence import (
    ALL,
    leave_one_source_out,
    values_without,
    without_source,
)
from shiftune.risk.result import RiskEstimate
from shiftune.search.comparison import paired_difference
from shiftune.wording import listed, number, percent

# Effective number of sources, 1 / sum of their squared shares: nearer to one than to two. (Of two
# sources, one with a share of 79 %; of three or more, one with some 80 %.)
NEARER_TO_ONE = 1.5

NAME = "no source decides alone"


def influence_check(risks: Sequence[RiskEstimate], chosen: int) -> Check:
    """Check how far estimate and choice depend on one source.

    A problem: only one source is in the estimate; or without some source another trial would be
    chosen, and by the remaining sources the chosen one is worse (95 % interval of the paired
    difference, widened for the number of trials and sources). A caution: without some source the
    risk lies outside its 95 % interval, or one source has so large a share that the estimate is
    nearer to that of one source than of two.

    Parameters
    ----------
    risks : sequence of RiskEstimate
        Of all evaluated trials.
    chosen : int
        Position of the chosen one.
    """
    risk = risks[chosen]
    table = leave_one_source_out(risk)
    heaviest, share = str(table["share"].idxmax()), float(table["share"].max())
    if share >= ALL:
        return Check(
            NAME,
            Level.PROBLEM,
            f"Estimate and choice rest on {heaviest!r} alone.",
            "Add another source that overlaps with the target, or label some target rows: if "
            f"{heaviest!r} differs from the target in a way that matters, both are wrong.",
            {"largest_share": 1.0, "sources": 1.0},
            f"all rests on {heaviest!r} alone",
        )
    other, worse = _choices(risks, chosen, {str(name) for name in table.index})
    low, high = risk.interval()
    away = [str(s) for s in table.index[(table["without"] < low) | (table["without"] > high)]]
    figures = {
        "largest_share": share,
        "effective_sources": float(table["share"].sum() ** 2 / np.sum(table["share"] ** 2)),
        "largest_change": float(table["change"].abs().max()),
        "largest_change_in_stderr": float(np.nan_to_num(table["change_in_stderr"].abs().max())),
        "sources": float(len(table)),
        "sources_that_change_the_choice": float(len(other)),
        "sources_that_decide_the_choice": float(len(worse)),
    }
    finding = f"{_about_estimate(risk, table, outside=bool(away))}. {_about_choice(other, worse)}."
    if worse:
        some = listed(worse, MOST_NAMES)
        advice = (
            f"Find out whether {some} or the other sources are more like the target. If in doubt, "
            f"run the search without {some}, and compare best_params_."
        )
        headline = f"without {some} another choice would be better"
        return Check(NAME, Level.PROBLEM, finding, advice, figures, headline)
    if away:
        advice = (
            f"Find out what is special about {listed(away, MOST_NAMES)}: the interval is too "
            "narrow for the influence of one source."
        )
        headline = f"{listed(away, MOST_NAMES)} moves the estimate out of its interval"
        return Check(NAME, Level.CAUTION, finding, advice, figures, headline)
    if figures["effective_sources"] < NEARER_TO_ONE:
        advice = f"Make sure that {heaviest!r} is like the target beyond what the table shows"
        if risk.method == "variance_reduced":
            advice += "; risk='unbiased' gives the other sources larger shares"
        finding += f" {heaviest!r} has {percent(share)} of the weight in the estimate."
        headline = f"{heaviest!r} has most of the weight"
        return Check(NAME, Level.CAUTION, finding, f"{advice}.", figures, headline)
    return Check(NAME, Level.OK, finding, NOTHING_TO_DO, figures)


def _choices(
    risks: Sequence[RiskEstimate], chosen: int, sources: set[str]
) -> tuple[list[str], list[str]]:
    """Sources without which another trial wins; those of them without which the chosen is worse."""
    # The rival is the best of all other trials, once for every source.
    level = 1 - SIGNIFICANT / (len(sources) * max(len(risks) - 1, 1))
    other: list[str] = []
    worse: list[str] = []
    values = np.array([values_without(risk) for risk in risks])
    # Where there is no estimate without a source, the trial cannot win.
    winners = np.argmin(np.where(np.isnan(values), np.inf, values), axis=0)
    for name, rival in zip(risks[chosen].names, winners, strict=True):
        if name in sources and rival != chosen:
            other.append(name)
            apart = paired_difference(*(_without(risks[i], name) for i in (chosen, rival)))
            if apart.interval(level)[0] > 0:
                worse.append(name)
    return other, worse


def _about_estimate(risk: RiskEstimate, table: pd.DataFrame, *, outside: bool) -> str:
    farthest = str(table["change"].abs().idxmax())
    value = float(table["without"].to_dict()[farthest])
    text = (
        f"Without {farthest!r}, the most influential source, the risk would be "
        f"{number(value, 4)} instead of {number(risk.value, 4)}"
    )
    if outside:
        low, high = risk.interval()
        text += f", outside its 95 % interval ({number(low, 4)} to {number(high, 4)})"
    return text


def _about_choice(other: list[str], worse: list[str]) -> str:
    if worse:
        return (
            f"Without {_one_of(worse)} other parameters would be chosen, and by the "
            "remaining sources the chosen ones are worse than those"
        )
    if other:
        return (
            f"Without {_one_of(other)} other parameters would be chosen, but they cannot "
            "be distinguished from the chosen ones"
        )
    return "No single source changes the choice of parameters"


def _one_of(sites: list[str]) -> str:
    """Name sites that are left out one at a time.

    >>> _one_of(["B"]), _one_of(["B", "C"])
    ("'B'", "'B' and 'C', one at a time,")
    """
    named = listed(sites, MOST_NAMES)
    return named if len(sites) == 1 else f"{named}, one at a time,"


def _without(risk: RiskEstimate, site: str) -> RiskEstimate:
    """The estimate without a source; infinite, so that it cannot win, where there is none."""
    j = risk.names.index(site)
    alone = risk.lam[j] * risk.n[j] >= ALL
    return replace(risk, value=np.inf) if alone else without_source(risk, site)
