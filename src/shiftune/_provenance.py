"""What made a result: versions, code and settings; and whether a new request asks for the same."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Collection, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from shiftune._wording import listed
from shiftune.errors import StorageError

# Number of the form of a result's document, best.json, settings.json and update.json.
RESULT_FORMAT = 9

_PACKAGES = (
    "shiftune",
    "numpy",
    "scipy",
    "pandas",
    "scikit-learn",
    "optuna",
    "lightgbm",
    "xgboost",
)


def made_with(*beside: Path) -> dict[str, Any]:
    """Return the versions of the packages that compute, and a fingerprint of this package's code.

    Files `beside` the package belong to the code, too.
    """
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    digest = hashlib.sha256()
    for path in [*sorted(Path(__file__).parent.rglob("*.py")), *beside]:
        digest.update(path.read_bytes())
    return {"code": digest.hexdigest()[:8], "versions": versions}


def versions_in_words(versions: Mapping[str, str] | None = None) -> str:
    """Write versions in a line: python 3.11.9, numpy 1.26.4; default: the installed ones."""
    versions_of = made_with()["versions"] if versions is None else versions
    return ", ".join(f"{name} {version}" for name, version in versions_of.items())


def check_format(saved: object, ours: int, where: str) -> None:
    """Raise a StorageError unless the stored format is the one that this version writes."""
    if saved == ours:
        return
    if isinstance(saved, int) and saved > ours:
        raise StorageError(
            f"{where} was written by a newer shiftune (format {saved}; this version reads {ours}): "
            "upgrade shiftune, or choose another place"
        )
    raise StorageError(
        f"{where} is damaged or was written by an older shiftune (format {saved}; this version "
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
    """Raise a StorageError that lists the settings that differ; `hidden` ones without values."""
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
