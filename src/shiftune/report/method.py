"""How the risk was estimated, and what that takes for granted, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shiftune.evaluate.unseen_sites import LeaveSourcesOut
from shiftune.wording import count

if TYPE_CHECKING:
    from shiftune.search import ShiftSearch


def how_estimated(search: ShiftSearch) -> str:
    """Say where the estimated risk of a fitted search comes from."""
    risk, problem = search.risk_, search.problem_
    target = problem.target.name
    judging = search._judging()
    if judging.risk.uses_target_labels:
        return f"This was estimated with the labels of {target} itself, as experiments can."
    said = []
    plan = judging.plan
    if isinstance(plan, LeaveSourcesOut) and plan.unseen > 0 and len(problem.sources) > 1:
        known = problem.labelled_target is not None
        alike = f"{target} but for its few labels" if known else target
        said.append(_about_unseen_sites(plan, alike))
    if not judging.risk.corrects:
        said.append(
            "This is the mean over rows of the sources that the model was not trained on. Nothing "
            f"was corrected for {target} being different."
        )
    elif not judging.risk.needs_ratio:
        said.append(
            f"What the sites say was adjusted for how their rows differ from those of {target}."
        )
    else:
        said.append(
            f"Each labelled row was weighted by how typical it is of {target}; sites close to it "
            "speak louder."
        )
    if problem.labelled_target is not None and problem.labelled_target.name in risk.names:
        j = risk.names.index(problem.labelled_target.name)
        own, have = count(int(risk.n[j]), "labelled row"), "has" if risk.n[j] == 1 else "have"
        said.append(
            f"{target}'s own {own} {have} {risk.lam[j] * risk.n[j]:.0%} of the say in judging."
        )
    if risk.between is not None:
        said.append(
            "The interval is for one more site: besides the chance in the rows it counts how much "
            "the sites differ from each other."
            if len(problem.sources) > 1
            else "The interval counts the chance in the rows, but not how much sites differ, of "
            "which one source tells nothing; it is too narrow."
        )
    return " ".join(said)


def taken_for_granted(search: ShiftSearch) -> str:
    """Say what has to hold for the interval to be right."""
    risk, target = search.risk_, search.problem_.target.name
    estimator = search._judging().risk
    if estimator.uses_target_labels:
        return "The intervals are about chance in the rows that were judged."
    if not estimator.corrects:
        return (
            "The intervals are about chance in the rows that were judged, not about "
            f"{target} being different."
        )
    if risk.between is not None:
        said = (
            f"{target} may differ from the sites in who comes, and in what becomes of the same "
            "case as far as the sites differ in that from each other. Where it is unlike all of "
            f"them, its true risk can lie outside the interval, and only labels from {target} can "
            "show it."
        )
    else:
        said = (
            "The sites may differ in who comes, but the same case must have the same outcome "
            "everywhere. Where that fails, no weighting repairs it, and only labels from "
            f"{target} can show it."
        )
    if search.weights_ is not None:
        said += (
            " The intervals take the weights as given; errors of the density ratios are not in "
            "them."
        )
    return said


def _about_unseen_sites(plan: LeaveSourcesOut, without: str) -> str:
    if plan.extra_fits == 0:
        return (
            "Trials were judged with models that were trained without about a quarter of the rows, "
            "those of whole sites (if the others have all classes), as this one was trained "
            f"without {without}."
        )
    part = "Half" if plan.unseen == 0.5 else f"{plan.unseen:.0%}"
    return (
        f"{part} of what is said of each site is about models that were trained without that "
        f"site, as this one was trained without {without}."
    )
