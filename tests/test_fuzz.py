"""A few random problems and files; `make fuzz` runs thousands."""

from __future__ import annotations

from fuzz import api, command_line
from fuzz.files import random_files
from fuzz.problems import random_problems
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

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
