"""Processes and clusters that run a search's trials, and may die.

Knows nothing of searches, and imports neither pandas nor scikit-learn, so that a worker begins
quickly.
"""

from shiftune.workers.workers import OutOfTime, WorkerDied, Workers

__all__ = ["OutOfTime", "WorkerDied", "Workers"]
