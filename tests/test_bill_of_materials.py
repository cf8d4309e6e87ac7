"""The bill of materials in the wheel (PEP 770); `make check-wheel` runs this with the wheel."""

from __future__ import annotations

import json
import re
from importlib.metadata import distribution

import pytest

OWN = distribution("shiftune")


@pytest.fixture(scope="module")
def bill():
    found = [file for file in OWN.files or () if "sboms" in file.parts]
    if not found:
        pytest.skip("installed from a checkout, not from a wheel")
    (file,) = found
    assert re.fullmatch(r"shiftune-[^/]*\.dist-info/sboms/shiftune\.cdx\.json", file.as_posix())
    return json.loads(file.read_text())


def test_it_is_the_bill_of_this_version(bill):
    own = bill["metadata"]["component"]
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert (own["name"], own["version"]) == ("shiftune", OWN.version)
    assert own["licenses"] == [{"expression": OWN.metadata["License-Expression"]}]


def test_it_has_everything_that_the_wheel_asks_for(bill):
    asked = {"required": set(), "optional": set()}
    for requirement in OWN.requires or ():
        needed, _, extra = requirement.partition(";")
        if not extra or re.search(r"extra == ['\"]all['\"]", extra):
            asked["optional" if extra else "required"].add(needed.strip())
    found = {"required": set(), "optional": set()}
    for each in bill["components"]:
        (requirement,) = (p["value"] for p in each["properties"])
        found[each["scope"]].add(requirement)
    assert found == asked
    assert "numpy" in {each["name"] for each in bill["components"]}


def test_references_are_unique_and_known(bill):
    refs = [each["bom-ref"] for each in bill["components"]]
    assert len(set(refs)) == len(refs)
    (own,) = bill["dependencies"]
    assert (own["ref"], own["dependsOn"]) == (bill["metadata"]["component"]["bom-ref"], refs)
