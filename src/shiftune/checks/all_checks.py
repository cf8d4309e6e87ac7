"""All checks of a result."""

from __future__ import annotations

from shiftune._names import Level
from shiftune.checks._checks import NOTHING_TO_DO, Check, Checks
from shiftune.checks._of_data import (
    labels_check,
    leakage_check,
    overlap_check,
    prevalence_check,
    reach_check,
)
from shiftune.checks._of_result import agreement_check, enough_check, influence_check, skill_check
from shiftune.errors import ProblemError
from shiftune.problem import ShiftProblem, pooled
from shiftune.ratio._overlap import is_doubtful, uncovered_shares
from shiftune.risk._result import RiskEstimate
from shiftune.search._result import SearchResult
from shiftune.stability import LabelStability, label_shift, label_stability


def run_checks(result: SearchResult) -> Checks:
    """Check what can make a result worthless; the checks print as text.

    - "better than a constant": has what is handed over any skill at sites it has not seen?
    - "no column gives the label away": is one column alone nearly as good as the model?
    - "overlap": do the sources cover the target?
    - "within reach": does the estimate depend on how it is continued beyond the sources?
    - "frequency of the classes": would another frequency explain the target's rows?
      (`shiftune.stability._label_shift`);
    - "risks agree": do the sources agree about the chosen model's risk?
      (`shiftune.risk.heterogeneity_of`);
    - "no source decides alone": estimate and choice without each source
      (`shiftune.risk.without_source`);
    - "enough sites and rows": few sites, rare classes, one giant site, heavy tails;
    - "same labels": is p(y|x) the same at all labelled sites?
      (`shiftune.stability.label_stability`; takes seconds).

    `judgement` sums them up.
    """
    if result.settings.risk.uses_target_labels:
        finding = "The target's own labels were used, so nothing is assumed."
        return Checks([Check("overlap", Level.OK, finding, NOTHING_TO_DO, {})])
    problem, few = result.problem, result.problem.labelled_target
    stability = labels_check(
        _label_stability(problem, result.settings.random_state),
        few.name if few else "",
        included=result.risk.between is not None,
    )
    return Checks([*quick_checks(result), stability])


def quick_checks(result: SearchResult) -> Checks:
    """Return all checks but "same labels", which takes seconds."""
    risk, problem, seen = result.risk, result.problem, result.overlap
    return Checks(
        [
            skill_check(result),
            leakage_check(result),
            overlap_check(
                risk,
                _out_of_reach(problem, risk),
                weighted=seen.used,
                doubtful=list(seen.table.index[is_doubtful(seen.table)]),
            ),
            reach_check(result),
            *_prevalence(problem),
            agreement_check(result.choice.risk),
            influence_check(list(result.risks.values()), list(result.risks).index(result.chosen)),
            enough_check(result),
        ]
    )


def _out_of_reach(problem: ShiftProblem, risk: RiskEstimate) -> float:
    """Share of target rows that are unlike any row of the sources in the estimate."""
    counted = {name for name, lam in zip(risk.names, risk.lam, strict=True) if lam > 0}
    X, _ = pooled([site for site in problem.labelled_sites if site.name in counted])
    return float(uncovered_shares(problem.target.X, [X])[0])


def _prevalence(problem: ShiftProblem) -> list[Check]:
    """Return the check of the classes' frequencies, where there are classes and no labels."""
    if problem.task == "regression" or problem.labelled_target is not None:
        return []
    try:
        return [prevalence_check(label_shift(problem.sources, problem.target.X))]
    except ProblemError:  # too few sources or classes
        return []


def _label_stability(problem: ShiftProblem, random_state: int) -> LabelStability | None:
    try:
        return label_stability(problem.labelled_sites, task=problem.task, random_state=random_state)
    except ProblemError:  # too few sites or rows
        return None
