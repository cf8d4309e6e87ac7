"""Notes on families whose trials failed, or that had none."""

from __future__ import annotations

from collections.abc import Sequence

from optuna.trial import FrozenTrial

from shiftune.search.families import Families
from shiftune.search.records import FAILURE, MODEL, OUT_OF_TIME, REJECTED
from shiftune.wording import count, listed


def notes_on_unused(families: Families, trials: Sequence[FrozenTrial]) -> tuple[str, ...]:
    """Return a note on every family of whose trials half or all failed, and on those without any.

    Parameters
    ----------
    families : mapping from names to Family
    trials : list of FrozenTrial
        Finished ones.
    """
    own = {name: [t for t in trials if t.user_attrs.get(MODEL, "") == name] for name in families}
    notes = []
    for name, tried in own.items():
        failed = [t for t in tried if FAILURE in t.user_attrs]
        if tried and len(failed) == len(tried):
            notes.append(
                f"the model {name!r} is not used: {_failed(tried)}; {_remedy(failed)}, or leave it "
                "out"
            )
            continue
        reasons = [t.user_attrs[FAILURE] for t in failed]
        reasons = [reason for reason in reasons if not reason.startswith(REJECTED)]
        if reasons and len(reasons) >= len(tried) / 2:
            of = f" of the model {name!r}" if len(families) > 1 else ""
            notes.append(
                f"{len(reasons)} of {count(len(tried), 'trial')}{of} failed (the first: "
                f"{reasons[0]}); {_remedy(failed)}"
            )
    if untried := [name for name, tried in own.items() if not tried]:
        models = "model" if len(untried) == 1 else "models"
        notes.append(
            f"the {models} {listed(untried)} had no trial: {count(len(trials), 'trial')} for "
            f"{len(families)} models; allow more trials or more time, or name fewer models"
        )
    return tuple(notes)


def _remedy(failed: Sequence[FrozenTrial]) -> str:
    if all(trial.user_attrs[FAILURE].startswith(OUT_OF_TIME) for trial in failed):
        return "give trials more time (trial_timeout)"
    return "correct the model or its space"


def _failed(trials: Sequence[FrozenTrial]) -> str:
    first = trials[0].user_attrs[FAILURE]
    if len(trials) == 1:
        return f"its only trial failed ({first})"
    return f"all its {len(trials)} trials failed (the first: {first})"
