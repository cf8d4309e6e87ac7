"""A few random problems, files and models; `make fuzz` runs thousands."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_altered_models():
    """In a process of its own, which has no threads that a forked one would miss."""
    counts = ["--problems", "0", "--files", "0", "--models", "75", "--seed", "0"]
    command = [sys.executable, "-m", "fuzz", *counts]
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "error in words" in done.stdout
