"""Check that the files in dist/ and the state of the checkout are those of a release."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).parents[1]


def problems() -> list[str]:
    """Reasons against a release, in sentences."""
    found = []
    changes = subprocess.check_output(["git", "status", "--porcelain"], cwd=ROOT, text=True)
    if changes:
        found.append(f"the working tree has changes:\n{changes.rstrip()}")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    heading = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    if heading is None or heading[1].split()[0] != version:
        found.append(f"CHANGELOG.md does not begin with version {version}")
    elif not re.search(r"\(\d{4}-\d\d-\d\d\)$", heading[1]):
        print(f"To do on the day of the release: the date in CHANGELOG.md ({heading[1]}).")
    if f"\nversion: {version}\n" not in (ROOT / "CITATION.cff").read_text():
        found.append(f"CITATION.cff does not have version {version}")
    wheel = ROOT / "dist" / f"shiftune-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
        (metadata,) = [name for name in files if name.endswith(".dist-info/METADATA")]
        described = Metadata.from_email(archive.read(metadata), validate=True)
        text = email.message_from_bytes(archive.read(metadata)).get_payload()
    strange = {name.split("/")[0] for name in files} - {"shiftune", metadata.split("/")[0]}
    if strange:
        found.append(f"{wheel.name} has {sorted(strange)} beside the package")
    if str(described.version) != version or len(text) < 1000:
        found.append(f"{wheel.name} has version {described.version} and {len(text)} characters")
    with tarfile.open(ROOT / "dist" / f"shiftune-{version}.tar.gz") as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    missing = {"LICENSE", "CHANGELOG.md", "src/shiftune/py.typed", "tests/conftest.py"} - names
    if missing:
        found.append(f"the sdist lacks {sorted(missing)}")
    return found


if __name__ == "__main__":
    reasons = problems()
    for reason in reasons:
        print(f"- {reason}")
    sys.exit("Not ready for a release." if reasons else 0)
