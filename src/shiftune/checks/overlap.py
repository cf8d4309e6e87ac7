"""Whether the sources cover the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shiftune.checks.check import Check, percent, verb
from shiftune.ratio.overlap import MANY_OUT_OF_REACH, SOME_OUT_OF_REACH
from shiftune.wording import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shiftune.checks.check import Level
    from shiftune.risk.result import RiskEstimate

# Below this a RiskEstimate, too, says how much of the target is covered.
COVERED = 0.9

NAME = "overlap"


def overlap_check(
    risk: RiskEstimate,
    out_of_reach: float,
    *,
    weighted: bool,
    doubtful: Sequence[str] = (),
) -> Check:
    """Say who covers the target, and how much of it nobody covers.

    A problem: no source overlaps enough, so that the estimate fell back, or more than a quarter
    of the target's rows are out of reach of all sources that speak (`ratio.overlap`). A caution:
    more than a tenth of them are, or the weights say that the sources stand for less than 90 % of
    the target, or one source of several is left to speak, or, for an estimate without weights,
    no source overlaps by itself.

    Parameters
    ----------
    risk : RiskEstimate
        Of the chosen trial.
    out_of_reach : float
        Share of target rows unlike any row of the sources that have a say.
    weighted : bool
        Whether the estimate weighs rows by how typical they are of the target.
    doubtful : sequence of names
        Sources that hardly overlap with the target by themselves (`ratio.diagnose`).
    """
    names, few = list(risk.source_names), list(doubtful)
    speak = [name for name, lam in zip(names, risk.lam, strict=False) if lam > 0]
    silent = [name for name, said in zip(risk.names, risk.left_out, strict=True) if said]
    rows = float(risk.ess[risk.lam > 0].sum())
    coverage = risk.coverage if weighted and not risk.fallback else 1.0
    figures = {
        "sources": float(len(names)),
        "sources_that_speak": float(len(speak)),
        "effective_rows": rows,
        "coverage": coverage,
        "out_of_reach": out_of_reach,
    }
    unlike = f"{percent(out_of_reach)} of the target's rows are unlike any row of the sources"
    if risk.fallback:
        rough = "the plain mean loss" if risk.method == "naive" else "a rough one"
        return Check(
            NAME,
            "problem",
            f"No source overlaps enough with the target ({listed(silent)} "
            f"{verb(silent, 'does', 'do')} not), so the estimate is {rough}; {unlike}.",
            "Do not rely on the estimated risk. problem.diagnose() has the reasons; drop columns "
            "that tell the sites apart but do not matter, try ratio='auto', or label some rows of "
            "the target.",
            figures,
        )
    who = "The estimate takes the sources as they come, without weights"
    if risk.method == "adjusted":
        who = "The estimate is adjusted to the target's rows from all sources together"
    if not weighted and few:
        alone = verb(few, f"By itself {listed(few)} has", f"By themselves {listed(few)} have")
        who += f". {alone} few rows like the target's"
    if weighted:
        who = f"{listed(speak)} {verb(speak, 'overlaps', 'overlap')} with the target"
        if silent:
            who += f", {listed(silent)} {verb(silent, 'was', 'were')} left out"
        who += f". In all they are worth about {rows:.0f} labelled rows of the target"
    if coverage < COVERED:
        unlike += f", and the weights stand for about {percent(coverage)} of the target only"
    level: Level = "ok"
    advice = "Nothing to do."
    if out_of_reach > SOME_OUT_OF_REACH or coverage < COVERED:
        level = "problem" if out_of_reach > MANY_OUT_OF_REACH else "caution"
        advice = (
            "About the rest of the target the estimate says nothing, and the model has to guess "
            "there. Find out what is special about those rows; add a source that has such rows, "
            "or label some of them."
        )
    elif not weighted and few and len(few) == len(names):
        level = "caution"
        advice = (
            "The estimate has to reach beyond what every single source shows. problem.diagnose() "
            "has the figures; drop columns that tell the sites apart but do not matter, or label "
            "some rows of the target."
        )
    elif weighted and len(speak) == 1 < len(names):
        level = "caution"
        advice = (
            f"All rests on {speak[0]!r}. problem.diagnose() says why the others are left out; drop "
            "columns that tell the sites apart but do not matter."
        )
    return Check(NAME, level, f"{who}; {unlike}.", advice, figures)
