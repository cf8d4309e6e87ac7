"""Compare stored results with a new request: same format, same settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from shiftune.errors import StorageError
from shiftune.wording import listed


def check_format(found: object, ours: int, where: str) -> None:
    """Raise a StorageError unless the stored format is the one that this version writes.

    >>> check_format(2, 1, "run")
    Traceback (most recent call last):
    shiftune.errors.StorageError: run was written by a newer shiftune (format 2; this version
    reads 1): upgrade shiftune, or choose another place
    """
    if found == ours:
        return
    if isinstance(found, int) and found > ours:
        raise StorageError(
            f"{where} was written by a newer shiftune (format {found}; this version reads {ours}): "
            "upgrade shiftune, or choose another place"
        )
    raise StorageError(
        f"{where} is damaged or was written by an older shiftune (format {found}; this version "
        f"reads {ours}): choose another place"
    )


def check_same(
    earlier: Mapping[str, Any],
    now: Mapping[str, Any],
    where: str,
    advice: str,
    *,
    hidden: Collection[str] = (),
) -> None:
    """Raise a StorageError that lists the settings that differ.

    Parameters
    ----------
    earlier, now : mapping
        Settings of the stored results, and of the request.
    where, advice : str
        The place of the results, and what the user can do.
    hidden : names
        Settings whose values mean nothing to a reader, such as fingerprints.

    Examples
    --------
    >>> check_same({"seed": 0, "drop": []}, {"seed": 1, "drop": ["age"]}, "run", "change --out")
    Traceback (most recent call last):
    shiftune.errors.StorageError: run holds results of other settings (seed: 0, now 1; drop:
    none, now 'age'); change --out
    """
    pairs = {name: (earlier.get(name), now.get(name)) for name in {**now, **earlier}}
    differing = [
        f"other {name}" if name in hidden else f"{name}: {_text(then)}, now {_text(new)}"
        for name, (then, new) in pairs.items()
        if then != new
    ]
    if differing:
        shown = "; ".join(differing)
        raise StorageError(f"{where} holds results of other settings ({shown}); {advice}")


def _text(value: Any) -> str:
    if value is None or value == []:
        return "none"
    return listed(value) if isinstance(value, list) else repr(value)
