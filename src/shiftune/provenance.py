"""With what a result was made."""

from __future__ import annotations

import hashlib
import platform
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


def made_with() -> dict[str, Any]:
    """Return the versions of what computes, and a fingerprint of this package's own code.

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
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return {"code": digest.hexdigest()[:8], "versions": versions}
