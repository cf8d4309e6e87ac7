"""Versions and code behind a result."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
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

    Parameters
    ----------
    *beside : Path
        Further files that belong to the code.

    >>> sorted(made_with())
    ['code', 'versions']
    """
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    digest = hashlib.sha256()
    for path in [*sorted(Path(__file__).parent.rglob("*.py")), *beside]:
        digest.update(path.read_bytes())
    return {"code": digest.hexdigest()[:8], "versions": versions}


def versions_in_words(versions: Mapping[str, str] | None = None) -> str:
    """Write versions in a line; default: the installed ones.

    >>> versions_in_words({"python": "3.11.9", "numpy": "1.26.4"})
    'python 3.11.9, numpy 1.26.4'
    """
    found = made_with()["versions"] if versions is None else versions
    return ", ".join(f"{name} {version}" for name, version in found.items())
