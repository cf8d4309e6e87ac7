"""Check that similar cases have the same outcomes at every site."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shiftune.checks.check import MOST_NAMES, NOTHING_TO_DO, SIGNIFICANT, Check, chance
from shiftune.level import Level
from shiftune.wording import listed, number, percent

if TYPE_CHECKING:
    import pandas as pd

    from shiftune.stability import LabelStability

# Estimated risks of real sites without labels are off by about 10 % (median) with the best
# estimators. Where the site explains a larger share of the error than that, the unknown outcomes of
# the new site are the larger part of the uncertainty.
LARGE_GAIN = 0.1
# A difference that explains less of the error than this does not matter beside that. Nor can it be
# distinguished from errors of the test's own models: labels drawn from one model for all sites of a
# real table give p values below 5 % too often, but gains below 1 % (benchmarks/stability.py).
SMALL_GAIN = 0.01

NAME = "same labels"


def labels_check(
    found: LabelStability | None, target: str = "", *, included: bool = False
) -> Check:
    """Check whether p(y|x) differs between the labelled sites.

    A caution: it does (5 % level) and a model that knows the site makes at least 1 % less squared
    error (Brier score), or no site can be compared with others. A problem: at least 10 %. Where
    the interval of the risk includes differences between sites, the first is in order and the
    second a caution.

    Parameters
    ----------
    found : LabelStability or None
        None where there are too few sites or rows for the test.
    target : str
        Its name, if some of its rows have labels and so it was compared with the sources.
    included : bool
        Whether the interval of the risk includes differences between sites.
    """
    if found is None or found.compared == 0:
        return _not_tested(found)
    moved = found.moved(SIGNIFICANT)
    figures = {
        "p_value": found.p_value,
        "gain": found.gain,
        "gain_stderr": found.gain_stderr,
        "explained": found.explained,
        "sites_compared": float(found.compared),
        "sites_that_differ": float(len(moved)),
    }
    if found.p_value >= SIGNIFICANT or found.gain < SMALL_GAIN:
        return Check(NAME, Level.OK, _small(found, moved), NOTHING_TO_DO, figures)
    levels = (Level.OK, Level.CAUTION) if included else (Level.CAUTION, Level.PROBLEM)
    level = levels[found.gain >= LARGE_GAIN]
    advice = _advice(found, moved, target, included=included)
    headline = "" if level is Level.OK else "similar cases have different outcomes at other sites"
    return Check(NAME, level, _large(found, moved), advice, figures, headline)


def _not_tested(found: LabelStability | None) -> Check:
    reason = (
        "fewer than two labelled sites have enough rows"
        if found is None
        else "the columns identify the site, so no rows of different sites are alike"
    )
    return Check(
        NAME,
        Level.CAUTION,
        f"Whether similar cases have the same outcomes at every site cannot be tested: {reason}.",
        "Ask someone who knows the sites whether they do, which the estimate assumes. Columns that "
        "only identify the site can be dropped.",
        {} if found is None else {"sites_compared": 0.0},
        "whether outcomes differ between sites cannot be tested",
    )


def _extent(found: LabelStability) -> str:
    """Number of sites that were compared and, where some were drawn, of their rows."""
    sites, rows = found.compared, int(found.sites["n"].sum())
    if found.rows_read == rows:
        return f"{sites} sites compared"
    every = f" of {len(found.sites):,}" if sites < len(found.sites) else ""
    return f"{sites}{every} sites compared by {found.rows_read:,} of {rows:,} rows"


def _small(found: LabelStability, moved: list[str]) -> str:
    tested = f"{_extent(found)}, {chance(found.p_value)}"
    if found.p_value < SIGNIFICANT:
        most_of_all = f"; most of all at {listed(moved, MOST_NAMES)}" if moved else ""
        return (
            f"Similar cases have slightly different outcomes at different sites ({tested}"
            f"{most_of_all}), but too little to matter: knowing the site would reduce the squared "
            "error by less than 1 %."
        )
    most = max(found.gain, 0.0) + 2 * found.gain_stderr
    return (
        f"No evidence that similar cases have different outcomes at different sites ({tested}); "
        f"knowing the site is unlikely to reduce the squared error by more than "
        f"{percent(max(most, 0.01))}."
    )


def _large(found: LabelStability, moved: list[str]) -> str:
    finding = (
        "Similar cases have different outcomes at different sites "
        f"({chance(found.p_value)}; {_extent(found)})"
    )
    if moved:
        finding += ": " + "; ".join(_difference(found.sites, site) for site in moved[:MOST_NAMES])
        if len(moved) > MOST_NAMES:
            finding += f"; {listed(moved[MOST_NAMES:], MOST_NAMES)} differ as well"
    else:
        finding += ", though no single site stands out"
    return f"{finding}. Knowing the site would reduce the squared error by {percent(found.gain)}."


def _advice(found: LabelStability, moved: list[str], target: str, *, included: bool) -> str:
    sources = [site for site in moved if site != target]
    without = ""
    # Only if most sites are alike: the search without the others then has enough sources.
    if 0 < len(sources) <= found.compared / 2:
        without = f"; compare with a search without {listed(sources, MOST_NAMES)}"
    known = "is one of them" if target and target in moved else "may differ as well"
    more = (
        f"; trust the labels of {target!r} itself, and add more"
        if target
        else "; label some target rows and use them"
    )
    interval = (
        "the interval includes it, if the target differs as the sources do"
        if included
        else "its true risk can lie outside the interval"
    )
    return (
        "Look for the cause (how labels are made, instruments, a missing column) and add it as a "
        f"column{without}{more}. The target {known}, and no correction repairs that: {interval}."
    )


def _difference(sites: pd.DataFrame, name: str) -> str:
    row = sites.to_dict("index")[name]
    if not row["p_level"] < SIGNIFICANT:
        return f"at {name!r} the columns act differently"
    if "class" in row:
        points = 100 * abs(row["shift"])
        more = "more" if row["shift"] > 0 else "less"
        return f"label {row['class']} is {points:.0f} percentage points {more} frequent at {name!r}"
    where = "above" if row["shift"] > 0 else "below"
    return f"labels at {name!r} lie {number(abs(row['shift']))} {where} those of other sites"
