"""Baselines that learn from each source separately: LI and DistBO."""

from shiftune.baselines.distbo import DistBO
from shiftune.baselines.learned_initialisation import LearnedInitialisation

__all__ = ["DistBO", "LearnedInitialisation"]
