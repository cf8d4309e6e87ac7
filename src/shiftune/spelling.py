"""Check a name that a user gave against the names that exist, and find the nearest spelling."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from shiftune.errors import ProblemError, SettingsError
from shiftune.wording import listed

Choice = TypeVar("Choice")

# An error lists no more names than this.
MOST_CHOICES = 12


def alike(name: str, names: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the names with the most similar spelling, the nearest first.

    Upper and lower case count as different only while a similar name is found that way.

    >>> alike("gama", ["alpha", "gamma"]), alike("WARD", ["ward", "age"]), alike("x", ["age"])
    (['gamma'], ['ward'], [])
    """
    texts = list(names)
    lower = {text.lower(): text for text in reversed(texts)}
    near = difflib.get_close_matches(name, texts, most, cutoff)
    return near or [
        lower[text] for text in difflib.get_close_matches(name.lower(), lower, most, cutoff)
    ]


def hint(name: str, names: Iterable[str]) -> str:
    """Ask for the nearest spelling, or list the names where none is near.

    >>> hint("squred", ["squared", "absolute"]), hint("x", ["squared", "absolute"])
    ("did you mean 'squared'?", "choose from 'squared' and 'absolute'")
    """
    texts = list(names)
    near = alike(name, texts)
    return f"did you mean {near[0]!r}?" if near else f"choose from {listed(texts, MOST_CHOICES)}"


def check_choice(
    name: object,
    choices: Iterable[Choice],
    what: str,
    error: type[ProblemError] = SettingsError,
) -> Choice:
    """Return `name` if it is one of the choices, else raise an error with the nearest spelling.

    >>> check_choice("ridge", ["ridge", "svm"], "model")
    'ridge'
    >>> check_choice("rigde", ["ridge", "svm"], "model")
    Traceback (most recent call last):
    shiftune.errors.SettingsError: there is no model 'rigde'; did you mean 'ridge'?
    """
    known: list[Any] = list(choices)
    if name in known:
        found: Choice = known[known.index(name)]
        return found
    texts = [str(choice) for choice in known]
    if str(name) in texts:
        other = known[texts.index(str(name))]
        advice = f"did you mean {other!r} ({type(other).__name__}, not text)?"
    else:
        advice = hint(str(name), texts)
    raise error(f"there is no {what} {str(name)!r}; {advice}")


def check_different(given: Sequence[str], what: str) -> None:
    """Raise a SettingsError if a name is given twice.

    >>> check_different(["ridge", "svm", "ridge"], "model")
    Traceback (most recent call last):
    shiftune.errors.SettingsError: the model 'ridge' is given twice; name each model once
    """
    for place, name in enumerate(given):
        if name in given[:place]:
            raise SettingsError(f"the {what} {name!r} is given twice; name each {what} once")
