"""Check that the sources cover the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shiftune.checks.check import NOTHING_TO_DO, Check, verb
from shiftune.level import Level
from shiftune.ratio.overlap import MANY_OUT_OF_REACH, SOME_OUT_OF_REACH
from shiftune.risk.result import RiskEstimate
from shiftune.wording import listed, percent

# Below this a RiskEstimate, too, mentions the share of the target that is covered.
COVERED = 0.9

NAME = "overlap"
DIAGNOSE = "problem.diagnose() or the command shiftune diagnose"


@dataclass(frozen=True, slots=True)
class _Seen:
    """Figures that the sentences need."""

    risk: RiskEstimate
    out_of_reach: float
    weighted: bool
    doubtful: list[str]

    @property
    def names(self) -> list[str]:
        return list(self.risk.source_names)

    @property
    def counted(self) -> list[str]:
        return [name for name, lam in zip(self.names, self.risk.lam, strict=False) if lam > 0]

    @property
    def left_out(self) -> list[str]:
        return [n for n, why in zip(self.risk.names, self.risk.left_out, strict=True) if why]

    @property
    def rows(self) -> float:
        return float(self.risk.ess[self.risk.lam > 0].sum())

    @property
    def coverage(self) -> float:
        return self.risk.coverage if self.weighted and not self.risk.fallback else 1.0


def overlap_check(
    risk: RiskEstimate,
    out_of_reach: float,
    *,
    weighted: bool,
    doubtful: Sequence[str] = (),
) -> Check:
    """Check which sources cover the target, and how much of it none covers.

    A problem: no source overlaps enough, so the estimate fell back, or more than a quarter of the
    target's rows are out of reach of all sources in an estimate with weights (`ratio.overlap`;
    for an adjusted one "within reach" finds whether it matters). A caution: more than a tenth of
    them are, or the weights cover less than 90 % of the target, or one source of
    several is left, or, for an estimate without weights, no source overlaps on its own.

    Parameters
    ----------
    risk : RiskEstimate
        Of the chosen trial.
    out_of_reach : float
        Share of target rows unlike any row of the sources in the estimate.
    weighted : bool
        Whether the estimate weights rows by their similarity to the target.
    doubtful : sequence of names
        Sources that hardly overlap with the target on their own (`ratio.diagnose`).
    """
    seen = _Seen(risk, out_of_reach, weighted, list(doubtful))
    level, advice = _level_and_advice(seen)
    figures = {
        "sources": float(len(seen.names)),
        "sources_used": float(len(seen.counted)),
        "effective_rows": seen.rows,
        "coverage": seen.coverage,
        "out_of_reach": out_of_reach,
    }
    headline = "" if level is Level.OK else _headline(seen)
    return Check(NAME, level, _finding(seen), advice, figures, headline)


def _headline(seen: _Seen) -> str:
    if seen.risk.fallback:
        return "no source overlaps enough with the target"
    if seen.out_of_reach > SOME_OUT_OF_REACH:
        return (
            f"{percent(seen.out_of_reach)} of the target's rows are unlike any row of the sources"
        )
    if seen.coverage < COVERED:
        return f"the weights cover only {percent(seen.coverage)} of the target"
    if not seen.weighted:
        return "no source on its own has many rows like the target's"
    return f"the estimate rests on {seen.counted[0]!r} alone"


def _finding(seen: _Seen) -> str:
    unlike = f"{percent(seen.out_of_reach)} of the target's rows are unlike any row of the sources"
    if seen.coverage < COVERED:
        unlike += f", and the weights cover only about {percent(seen.coverage)} of the target"
    return f"{_estimate(seen)}; {unlike}."


def _estimate(seen: _Seen) -> str:
    risk, counted, out = seen.risk, seen.counted, seen.left_out
    if risk.fallback:
        instead = "uncorrected mean loss" if risk.method == "naive" else "self-normalised mean"
        return (
            f"No source overlaps enough with the target ({listed(out)} {verb(out, 'does', 'do')} "
            f"not), so the estimate is the {instead}"
        )
    if seen.weighted:
        who = f"{listed(counted)} {verb(counted, 'overlaps', 'overlap')} with the target"
        if out:
            who += f", {listed(out)} {verb(out, 'is', 'are')} left out"
        return f"{who}. Together they are worth about {seen.rows:.0f} labelled target rows"
    how = "The estimate uses all sources as they are, without weights"
    if risk.method == "adjusted":
        how = "The estimate is adjusted to the target's rows, from all sources together"
    if not (few := seen.doubtful):
        return how
    return f"{how}. {verb(few, 'On its own', 'On their own')}, {listed(few)} " + verb(
        few, "has few rows like the target's", "have few rows like the target's"
    )


def _level_and_advice(seen: _Seen) -> tuple[Level, str]:
    if seen.risk.fallback:
        return Level.PROBLEM, (
            f"Do not rely on the estimated risk; {DIAGNOSE} has the reasons. Drop columns that "
            "identify the site but do not matter, try ratio='auto', or label some target rows."
        )
    if seen.out_of_reach > SOME_OUT_OF_REACH or seen.coverage < COVERED:
        many = seen.out_of_reach > MANY_OUT_OF_REACH and seen.risk.method != "adjusted"
        return Level.PROBLEM if many else Level.CAUTION, (
            "Find out what is special about target rows that no source covers; add a source that "
            "has such rows, or label some of them. The estimate does not cover them, and the model "
            "has to extrapolate."
        )
    if not seen.weighted and seen.doubtful and len(seen.doubtful) == len(seen.names):
        return Level.CAUTION, (
            "Drop columns that identify the site but do not matter, or label some target rows: the "
            f"estimate extrapolates beyond every single source. Figures: {DIAGNOSE}."
        )
    if seen.weighted and len(seen.counted) == 1 < len(seen.names):
        return Level.CAUTION, (
            "Drop columns that identify the site but do not matter: the estimate rests on "
            f"{seen.counted[0]!r} alone. Why others are left out: {DIAGNOSE}."
        )
    return Level.OK, NOTHING_TO_DO
