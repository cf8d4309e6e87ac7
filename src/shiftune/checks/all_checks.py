"""All checks of a result."""

from __future__ import annotations

from shiftune.checks.agreement import agreement_check
from shiftune.checks.check import NOTHING_TO_DO, Check, Checks
from shiftune.checks.influence import influence_check
from shiftune.checks.labels import labels_check
from shiftune.checks.overlap import overlap_check
from shiftune.errors import ProblemError
from shiftune.level import Level
from shiftune.problem import ShiftProblem, pooled
from shiftune.ratio.overlap import is_doubtful, uncovered_shares
from shiftune.risk.result import RiskEstimate
from shiftune.search.result import SearchResult
from shiftune.stability import LabelStability, label_stability


def run_checks(result: SearchResult) -> Checks:
    """Check the assumptions behind a result; they print as text.

    - "overlap": do the sources cover the target?
    - "same labels": is p(y|x) the same at all labelled sites?
      (`shiftune.stability.label_stability`; takes seconds);
    - "risks agree": do the sources agree about the chosen model's risk?
      (`shiftune.risk.heterogeneity_of`);
    - "no source decides alone": estimate and choice without each source
      (`shiftune.risk.without_source`).
    """
    if result.settings.risk.uses_target_labels:
        finding = "The target's own labels were used, so nothing is assumed."
        return Checks([Check("overlap", Level.OK, finding, NOTHING_TO_DO, {})])
    risk, problem, seen = result.risk, result.problem, result.overlap
    few = problem.labelled_target
    return Checks(
        [
            overlap_check(
                risk,
                _out_of_reach(problem, risk),
                weighted=seen.used,
                doubtful=list(seen.table.index[is_doubtful(seen.table)]),
            ),
            labels_check(
                _label_stability(problem, result.settings.random_state), few.name if few else ""
            ),
            agreement_check(risk),
            influence_check(list(result.risks.values()), list(result.risks).index(result.chosen)),
        ]
    )


def _out_of_reach(problem: ShiftProblem, risk: RiskEstimate) -> float:
    """Share of target rows that are unlike any row of the sources in the estimate."""
    counted = {name for name, lam in zip(risk.names, risk.lam, strict=True) if lam > 0}
    X, _ = pooled([site for site in problem.labelled_sites if site.name in counted])
    return float(uncovered_shares(problem.target.X, [X])[0])


def _label_stability(problem: ShiftProblem, random_state: int) -> LabelStability | None:
    try:
        return label_stability(problem.labelled_sites, task=problem.task, random_state=random_state)
    except ProblemError:  # too few sites or rows
        return None
