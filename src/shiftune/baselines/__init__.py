"""Baselines that learn from every source by itself: LI and DistBO."""

from shiftune.baselines.distbo import DistBO
from shiftune.baselines.learned_initialisation import LearnedInitialisation

__all__ = ["DistBO", "LearnedInitialisation"]
