"""The paper's own problems, with everything about them known."""

from shiftune.paper.example import WORKED_EXAMPLE, WorkedExample
from shiftune.paper.toy import ToyProblem, toy_problem

__all__ = ["WORKED_EXAMPLE", "ToyProblem", "WorkedExample", "toy_problem"]
