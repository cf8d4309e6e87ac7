"""A few random problems and files; `make fuzz` runs thousands."""

from __future__ import annotations

import sys

import pytest
from fuzz import api, command_line
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import shiftune.testing
from shiftune.errors import MissingPackageError
from shiftune.testing import random_files, random_problems

FEW = settings(
    max_examples=25,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.generate,),  # a failure is shown at once; make fuzz looks for a small one
    suppress_health_check=list(HealthCheck),
)


@FEW
@given(random_problems(), st.sampled_from(["problem", "split", "ratio", "risk"]), st.data())
def test_problems_through_the_layers(problem, part, data):
    assert api.passed(problem, part, data.draw) in api.ENDS


@settings(FEW, max_examples=8)
@given(random_problems(), st.sampled_from(["search", "result"]), st.data())
def test_problems_through_searches(problem, part, data):
    assert api.passed(problem, part, data.draw) in api.ENDS


@settings(FEW, max_examples=4)
@given(random_files(), st.data())
def test_files_through_the_command_line(file, data):
    assert {end for _, end in command_line.passed(file, data.draw)} <= set(api.ENDS)


def test_without_hypothesis(monkeypatch):
    """A strategy says what to install; the checks need nothing."""
    for name in ("files", "forms", "problems"):
        monkeypatch.delitem(sys.modules, f"shiftune.testing.{name}")
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(MissingPackageError, match=r"needs Hypothesis: pip install '\.\[testing\]'"):
        shiftune.testing.random_problems  # noqa: B018
    assert callable(shiftune.testing.check_density_ratio)


def test_an_unknown_name():
    with pytest.raises(AttributeError, match="has no attribute 'random_frames'"):
        shiftune.testing.random_frames  # noqa: B018
