"""Whether the same inputs have the same labels at every site."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shiftune.checks.check import MOST_NAMES, SIGNIFICANT, Check, chance, percent
from shiftune.wording import listed

if TYPE_CHECKING:
    import pandas as pd

    from shiftune.stability import LabelStability

# Estimated risks of real sites without labels are off by about 10 % (median) with the best
# estimators. Where the site explains a larger share of the error than that, what is not known of
# the new site's labels is the larger part of what is not known.
LARGE_GAIN = 0.1
# A difference that explains less of the error than this does not matter beside that. Nor can it be
# told from errors of the test's own models: labels drawn from one model for all sites of a real
# table give p values below 5 % too often, but gains below 1 % (benchmarks/stability.py).
SMALL_GAIN = 0.01

NAME = "same labels"


def labels_check(found: LabelStability | None, target: str = "") -> Check:
    """Say whether p(y|x) moves between the labelled sites.

    A caution: it does (5 % level) and a model that is told the site makes at least 1 % less
    squared error (Brier score), or no site can be compared with others. A problem: at least 10 %.

    Parameters
    ----------
    found : LabelStability or None
        None where there are too few sites or rows for the test.
    target : str
        Its name, if some of its rows have labels and so it was compared with the sources.
    """
    if found is None or found.compared == 0:
        reason = (
            "there are not two labelled sites with enough rows"
            if found is None
            else "the inputs tell the sites apart, so no two rows of different sites are alike"
        )
        return Check(
            NAME,
            "caution",
            f"Whether the same inputs have the same labels everywhere cannot be told: {reason}.",
            "The estimate assumes that they do; ask someone who knows the sites. Columns that only "
            "say which site a row comes from can be dropped.",
            {} if found is None else {"sites_compared": 0.0},
        )
    compared = found.compared
    moved = found.moved(SIGNIFICANT)
    figures = {
        "p_value": found.p_value,
        "gain": found.gain,
        "gain_stderr": found.gain_stderr,
        "explained": found.explained,
        "sites_compared": float(compared),
        "sites_that_differ": float(len(moved)),
    }
    if found.p_value < SIGNIFICANT and found.gain < SMALL_GAIN:
        most_of_all = f"; {listed(moved)} most of all" if moved else ""
        return Check(
            NAME,
            "ok",
            f"The same inputs have slightly other labels at other sites ({compared} sites "
            f"compared, {chance(found.p_value)}{most_of_all}), but too little to matter: a model "
            "that is told the site makes less than 1 % less squared error.",
            "Nothing to do.",
            figures,
        )
    if found.p_value >= SIGNIFICANT:
        most = max(found.gain, 0.0) + 2 * found.gain_stderr
        return Check(
            NAME,
            "ok",
            f"No sign that the same inputs have other labels at other sites ({compared} sites "
            f"compared, {chance(found.p_value)}); a model that is told the site would hardly make "
            f"more than {percent(max(most, 0.01))} less squared error.",
            "Nothing to do.",
            figures,
        )
    finding = "The same inputs do not have the same labels everywhere "
    finding += f"({chance(found.p_value)}; {compared} sites compared)"
    if moved:
        finding += ": " + "; ".join(_said(found.sites, site) for site in moved[:MOST_NAMES])
        if len(moved) > MOST_NAMES:
            finding += f"; {listed(moved[MOST_NAMES:])} differ as well"
    else:
        finding += ", though no single site stands out"
    finding += f". A model that is told the site makes {percent(found.gain)} less squared error."
    sources = [site for site in moved if site != target]
    without = ""
    if 0 < len(sources) <= compared / 2:  # most are alike, and there is a search without the others
        without = f"; compare with a search without {listed(sources)}"
    if target:
        known = "is one of them" if target in moved else "may differ as well"
        more = f"; trust {target!r}'s own labels, and add to them"
    else:
        known, more = "may differ as well", "; label some rows of the target and use them"
    return Check(
        NAME,
        "problem" if found.gain >= LARGE_GAIN else "caution",
        finding,
        f"The target {known}, and no correction repairs that: its true risk can lie outside the "
        "interval. Look for what differs (how labels are made, instruments, a missing column) and "
        f"add it as a column{without}{more}.",
        figures,
    )


def _said(sites: pd.DataFrame, name: str) -> str:
    row = sites.to_dict("index")[name]
    if not row["p_level"] < SIGNIFICANT:
        return f"at {name!r} the inputs act differently"
    if "class" in row:
        points = 100 * abs(row["shift"])
        more = "more" if row["shift"] > 0 else "less"
        return f"label {row['class']} is {points:.0f} percentage points {more} frequent at {name!r}"
    where = "above" if row["shift"] > 0 else "below"
    return f"labels at {name!r} lie {abs(row['shift']):.3g} {where} those of other sites"
