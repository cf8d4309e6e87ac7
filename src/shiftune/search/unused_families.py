"""Families that have no part in a result: all their trials failed, or they had none."""

from __future__ import annotations

from collections.abc import Sequence

from optuna.trial import FrozenTrial

from shiftune.search.families import Families
from shiftune.search.records import FAILURE, MODEL, risk_of
from shiftune.wording import count, listed


def notes_on_unused(families: Families, trials: Sequence[FrozenTrial]) -> tuple[str, ...]:
    """Return a note on every family whose trials all failed, and one on those without a trial.

    Parameters
    ----------
    families : mapping from names to Family
    trials : list of FrozenTrial
        Finished ones.
    """
    if len(families) == 1:
        return ()
    own = {name: [t for t in trials if t.user_attrs.get(MODEL) == name] for name in families}
    notes = [
        f"the model {name!r} is not used: {_failed(tried)}; correct the model or its space, or "
        "leave it out"
        for name, tried in own.items()
        if tried and not any(map(risk_of, tried))
    ]
    if untried := [name for name, tried in own.items() if not tried]:
        models = "model" if len(untried) == 1 else "models"
        notes.append(
            f"the {models} {listed(untried)} had no trial: {count(len(trials), 'trial')} for "
            f"{len(families)} models; allow more trials or more time, or name fewer models"
        )
    return tuple(notes)


def _failed(trials: Sequence[FrozenTrial]) -> str:
    first = trials[0].user_attrs[FAILURE]
    if len(trials) == 1:
        return f"its only trial failed ({first})"
    return f"all its {len(trials)} trials failed (the first: {first})"
