"""Method of the estimate, its assumptions and the gain from labels, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from shiftune._provenance import versions_in_words
from shiftune.evaluate.unseen_sites import LeaveSourcesOut
from shiftune.wording import count, lower_by, number, percent

if TYPE_CHECKING:
    from shiftune.search.result import SearchResult
    from shiftune.search.updating import Updated


# A figure that would keep this share is hardly lower.
HARDLY_LOWER = 0.95


def how_estimated(result: SearchResult) -> str:
    """Describe where the estimated risk comes from."""
    risk, problem, target = result.risk, result.problem, result.target
    estimator, plan = result.settings.risk, result.settings.plan
    if estimator.uses_target_labels:
        return f"The estimate uses the labels of {target} itself, as experiments can."
    sentences = []
    if result.updated is not None:
        sentences.append(
            "All losses come from models that never saw the site, with an effect of the site from "
            f"as many labels as {target} has."
        )
    elif isinstance(plan, LeaveSourcesOut) and plan.unseen > 0 and len(problem.sources) > 1:
        sentences.append(_about_unseen_sites(plan, target, known=bool(problem.labelled_target)))
    if not estimator.corrects:
        sentences.append(
            "The estimate is the mean over source rows that the model was not trained on, without "
            f"any correction for differences between the sources and {target}."
        )
    elif not estimator.needs_ratio:
        sentences.append(
            f"The sites' losses are adjusted for how their rows differ from those of {target}."
        )
    else:
        sentences.append(
            f"Each labelled row is weighted by how typical it is of {target}; sites close to it "
            "have larger shares."
        )
    few = problem.labelled_target
    if few is not None and few.name in risk.names:
        j = risk.names.index(few.name)
        rows, have = count(int(risk.n[j]), "labelled row"), "has" if risk.n[j] == 1 else "have"
        share = percent(risk.lam[j] * risk.n[j])
        sentences.append(f"The {rows} of {target} itself {have} {share} of the weight.")
    if risk.between is not None:
        sentences.append(
            "The interval includes site-to-site variation."
            if len(problem.sources) > 1
            else "One source shows nothing about site-to-site variation, so the interval does not "
            "include it and is too narrow."
        )
    return " ".join(sentences)


def assumptions(result: SearchResult) -> str:
    """Describe what has to hold for the interval to be right."""
    estimator, target = result.settings.risk, result.target
    if estimator.uses_target_labels:
        return "The intervals include chance in the evaluated rows only."
    if not estimator.corrects:
        return (
            "The intervals include chance in the evaluated rows, but not the difference between "
            f"the sources and {target}."
        )
    if result.risk.between is not None:
        text = (
            f"{target} may differ from the sites in its cases, and in the outcomes of similar "
            "cases as far as the sites differ from each other. If it is unlike all of them, its "
            f"true risk can lie outside the interval, and only labels from {target} can show it."
        )
    else:
        text = (
            "The sites may differ in their cases, but similar cases must have the same outcomes "
            "everywhere. If they do not, no weighting repairs it, and only labels from "
            f"{target} can show it."
        )
    if result.weights is not None:
        text += (
            " The intervals take the weights as given and do not include errors of the density "
            "ratios."
        )
    return text


def worth_in_words(worth: pd.DataFrame, target: str) -> str:
    """Describe what labels are expected to change, from `SearchResult.worth_of_labels`.

    >>> worth = pd.DataFrame(
    ...     {"risk": [0.5, 0.4, 0.38], "half_width": [0.2, 0.15, 0.1]}, index=[0, 10, 30]
    ... )
    >>> worth_in_words(worth, "A")
    'Labels of 10 / 30 random rows of A are expected to lower the loss there by about 20 / 24 %, and
    the width of its 95 % interval by about 25 / 50 %'
    """
    counts = " / ".join(str(m) for m in worth.index[1:])
    lower = [
        f"{name} by about {_lower_by(worth[column])}"
        for name, column in (
            ("the loss there", "risk"),
            ("the width of its 95 % interval", "half_width"),
        )
        if worth[column].iloc[1:].min() < HARDLY_LOWER * worth[column].iloc[0]
    ]
    if not lower:
        return (
            f"Labels of up to {worth.index[-1]} rows of {target} would hardly lower the loss there "
            "or narrow its interval"
        )
    return (
        f"Labels of {counts} random rows of {target} are expected to lower {', and '.join(lower)}"
    )


def update_in_words(updated: Updated, target: str, loss: str) -> str:
    """Describe what the labels of the target have changed."""
    gain = updated.gain_
    labels = count(updated.labels_, "label")
    if not updated.effect_["estimate"].any():
        return (
            f"An effect from {labels} would not have helped the sources reliably, so none is added "
            "to the predictions."
        )
    return (
        f"Predictions have an effect of {target}'s own added, learned from {labels}"
        f"{_intercept(updated.effect_)}. Compared with no labels, the {loss} is "
        f"{lower_by(gain.value, gain.interval())}, all judged with models that have not seen the "
        "site."
    )


def how_to_repeat(result: SearchResult, settings: Mapping[str, str] | None) -> dict[str, str]:
    """Return what a reader needs to repeat a search, with versions."""
    own = result.options | {"data fingerprint": result.problem.fingerprint()}
    given = own if settings is None else settings
    return {**given, "versions": given.get("versions") or versions_in_words()}


def _intercept(effect: pd.DataFrame) -> str:
    """Put the intercept in words: by how much labels lie above, or odds are multiplied."""
    if effect.index.nlevels == 1:
        added = float(effect["estimate"]["intercept"])
        if added == 0:
            return ""
        where = "above" if added > 0 else "below"
        return (
            f": a row that is average elsewhere lies {number(abs(added), 2)} {where} what other "
            "sites suggest"
        )
    classes = list(dict.fromkeys(effect.index.get_level_values(0)))
    if len(classes) > 2:
        return ""
    low, high = (float(effect["estimate"][each, "intercept"]) for each in classes)
    if high == low:
        return ""
    times = number(float(np.exp(high - low)), 2)
    return f": the odds of {classes[1]} are {times} times those that other sites suggest"


def _lower_by(figures: pd.Series) -> str:
    now, *then = (float(each) for each in figures)
    return f"{' / '.join(f'{100 * (1 - each / now):.0f}' for each in then)} %"


def _about_unseen_sites(plan: LeaveSourcesOut, target: str, *, known: bool) -> str:
    but = ", a few labels aside" if known else ""
    if plan.extra_fits == 0:
        return (
            "Trials were evaluated with models trained without about a quarter of the rows, those "
            "of whole sites (if the others have all classes), as the final model has never seen "
            f"{target}{but}."
        )
    part = "Half" if plan.unseen == 0.5 else percent(plan.unseen)
    return (
        f"{part} of each site's loss comes from models that never saw that site, as the final "
        f"model has never seen {target}{but}."
    )
