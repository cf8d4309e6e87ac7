"""Build hook: writes the software bill of materials into the wheel (PEP 770).

`shiftune-*.dist-info/sboms/shiftune.cdx.json` is CycloneDX. The wheel bundles no software of
others, so it lists what the wheel asks for: packages with the ranges that `pyproject.toml` allows.
The same sources give the same file.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = re.compile(r"[A-Za-z0-9._-]+")


class BillOfMaterials(BuildHookInterface):
    """Adds the bill to the files of the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the bill where the wheel's builder finds it."""
        if self.target_name != "wheel" or version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / "shiftune.cdx.json"
        path.write_text(json.dumps(bill(self.metadata.core), indent=2) + "\n")
        build_data["sbom_files"].append(str(path))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what the wheel has a copy of."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def bill(core: Any) -> dict[str, Any]:
    """Return the bill of a project: itself, what it needs, and what its extra `all` adds."""
    own = f"pkg:pypi/{core.name}@{core.version}"
    needed = [_component(each, "required") for each in core.dependencies]
    optional = [_component(each, "optional") for each in core.optional_dependencies["all"]]
    components = sorted([*needed, *optional], key=lambda each: str(each["bom-ref"]))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "lifecycles": [{"phase": "build"}],
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": core.name,
                "version": core.version,
                "description": core.description,
                "licenses": [{"expression": core.license_expression}],
                "purl": own,
            },
        },
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": [each["bom-ref"] for each in components]}],
        "compositions": [{"aggregate": "incomplete_first_party_only", "assemblies": [own]}],
    }


def _component(requirement: str, scope: str) -> dict[str, Any]:
    found = NAME.match(requirement)
    assert found, f"a requirement begins with a name: {requirement}"
    purl = f"pkg:pypi/{found[0].lower().replace('_', '-').replace('.', '-')}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": found[0],
        "scope": scope,
        "purl": purl,
        "properties": [{"name": "shiftune:requirement", "value": requirement}],
    }
