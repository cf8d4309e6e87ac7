"""Conformance checks for density ratios and risk estimators, and random problems and files.

The checks raise an AssertionError that names the promise::

    check_density_ratio(MyRatio())
    check_risk_estimator(my_risk)

Strategies of Hypothesis (the extra ``testing``) make problems and files of all kinds, most of them
odd::

    @given(random_problems())
    def test_mine(given):
        problem = given.read()  # a ShiftProblem, or a ProblemError
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shiftune.errors import MissingPackageError
from shiftune.extras import how_to_install
from shiftune.testing.conformance import check_density_ratio, check_risk_estimator

if TYPE_CHECKING:
    from shiftune.testing.files import RandomFile, random_files
    from shiftune.testing.problems import RandomProblem, random_problems

__all__ = [
    "RandomFile",
    "RandomProblem",
    "check_density_ratio",
    "check_risk_estimator",
    "random_files",
    "random_problems",
]

_NEED_HYPOTHESIS = {
    "RandomFile": "files",
    "RandomProblem": "problems",
    "random_files": "files",
    "random_problems": "problems",
}


def __getattr__(name: str) -> Any:
    if name not in _NEED_HYPOTHESIS:
        raise AttributeError(f"module 'shiftune.testing' has no attribute {name!r}")
    try:
        module = import_module(f"shiftune.testing.{_NEED_HYPOTHESIS[name]}")
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise MissingPackageError(
            f"shiftune.testing.{name} needs Hypothesis: {how_to_install('testing')}"
        ) from error
    return getattr(module, name)
