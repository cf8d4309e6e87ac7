"""Look up known weaknesses of the pinned versions, where the database can be reached.

pip-audit ends with 0 even if it could look up nothing, so its answers are counted here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def audited(file: str) -> list[dict[str, Any]] | None:
    """Return what is known about every pinned version; None where nothing can be looked up."""
    options = ["--no-deps", "--disable-pip", "--format=json", "--progress-spinner=off"]
    command = [sys.executable, "-m", "pip_audit", *options, "-r", str(ROOT / file)]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except json.JSONDecodeError:
        print(done.stderr.strip().splitlines()[-1])
        return None
    return found if any("vulns" in each for each in found) else None


def main(files: list[str]) -> int:
    """Print the weaknesses that are known; return 1 if there are any."""
    bad = False
    for file in files:
        known = 0
        found = audited(file)
        if found is None:
            print(f"{file}: SKIPPED, the database of weaknesses cannot be reached from here")
            continue
        for each in found:
            for weakness in each.get("vulns", ()):
                fixed = ", ".join(weakness["fix_versions"]) or "no version"
                print(f"{each['name']} {each['version']}: {weakness['id']}, fixed in {fixed}")
                known += 1
        bad |= known > 0
        unknown = [each["name"] for each in found if "vulns" not in each]
        print(
            f"{file}: {len(found) - len(unknown)} packages looked up, {known} known weaknesses"
            + (f"; not in the database: {', '.join(unknown)}" if unknown else "")
        )
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
