"""Processes and clusters that run items, and survive the death of a worker.

Independent of searches. Imports neither pandas nor scikit-learn, so that a worker starts quickly.
"""

from shiftune.workers._in_worker import OutOfTime
from shiftune.workers._workers import WorkerDied, Workers, number_of_workers

__all__ = ["OutOfTime", "WorkerDied", "Workers", "number_of_workers"]
