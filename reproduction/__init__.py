"""The paper's problems, with everything about them known, and its experiments.

>>> from reproduction import Toy, reproduce
>>> runs = reproduce(Toy(), range(30), "paper/toy", n_jobs=2)  # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from reproduction.example import WORKED_EXAMPLE, WorkedExample
from shiftune.datasets.toy import ToyProblem, toy_problem

if TYPE_CHECKING:
    from reproduction.experiments import Patients, Toy
    from reproduction.regret.reproduction import reproduce_regret
    from reproduction.reproduction import reproduce

__all__ = [
    "WORKED_EXAMPLE",
    "Patients",
    "Toy",
    "ToyProblem",
    "WorkedExample",
    "reproduce",
    "reproduce_regret",
    "toy_problem",
]


LATER = {
    "Patients": "experiments",
    "Toy": "experiments",
    "reproduce": "reproduction",
    "reproduce_regret": "regret.reproduction",
}


def __getattr__(name: str) -> Any:
    """Load the experiments when they are first asked for: they bring the whole search."""
    if name in LATER:
        return getattr(import_module(f"reproduction.{LATER[name]}"), name)
    raise AttributeError(f"module 'reproduction' has no attribute {name!r}")
