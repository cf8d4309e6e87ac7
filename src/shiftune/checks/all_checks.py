"""All checks of a fitted search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shiftune.checks.agreement import agreement_check
from shiftune.checks.check import Check, Checks
from shiftune.checks.influence import influence_check
from shiftune.checks.labels import labels_check
from shiftune.checks.overlap import overlap_check
from shiftune.errors import ProblemError
from shiftune.problem import pooled
from shiftune.ratio.overlap import is_doubtful, uncovered_shares
from shiftune.report.tables import overlap_of
from shiftune.stability import LabelStability, label_stability

if TYPE_CHECKING:
    from shiftune.problem import ShiftProblem
    from shiftune.risk.result import RiskEstimate
    from shiftune.search import ShiftSearch


def run_checks(search: ShiftSearch) -> Checks:
    """Check what the results of a fitted search rest on, and say it in sentences.

    - "overlap": who covers the target;
    - "same labels": whether p(y|x) is the same at all labelled sites
      (`shiftune.stability.label_stability`; takes seconds);
    - "risks agree": whether the sources say the same about the chosen model's risk
      (`shiftune.risk.heterogeneity_of`);
    - "no source decides alone": estimate and choice without each source
      (`shiftune.risk.without_source`).

    Parameters
    ----------
    search : ShiftSearch
        Fitted.

    Returns
    -------
    list of Check
        Printed, it is a text to read.
    """
    if search._judging().risk.uses_target_labels:
        said = "The target's own labels were used, so nothing is assumed."
        return Checks([Check("overlap", "ok", said, "Nothing to do: an experiment.", {})])
    risk, problem = search.risk_, search.problem_
    trials, risks = search._judged()
    chosen = [trial.number for trial in trials].index(search.best_index_)
    seen = overlap_of(search)
    doubtful = list(seen.table.index[is_doubtful(seen.table)])
    return Checks(
        [
            overlap_check(
                risk, _out_of_reach(problem, risk), weighted=seen.used, doubtful=doubtful
            ),
            labels_check(
                _label_stability(problem, search.random_state),
                "" if problem.labelled_target is None else problem.labelled_target.name,
            ),
            agreement_check(risk),
            influence_check(risks, chosen),
        ]
    )


def _out_of_reach(problem: ShiftProblem, risk: RiskEstimate) -> float:
    """Share of target rows that are unlike any row of the sources that have a say."""
    speaks = {name for name, lam in zip(risk.names, risk.lam, strict=True) if lam > 0}
    X, _ = pooled([site for site in problem.labelled_sites if site.name in speaks])
    return float(uncovered_shares(problem.target.X, [X])[0])


def _label_stability(problem: ShiftProblem, random_state: int) -> LabelStability | None:
    try:
        return label_stability(problem.labelled_sites, task=problem.task, random_state=random_state)
    except ProblemError:  # too few sites or rows
        return None
