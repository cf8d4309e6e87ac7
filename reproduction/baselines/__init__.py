"""The paper's baselines, which learn from each source separately: LI and DistBO."""

from reproduction.baselines.distbo import DistBO
from reproduction.baselines.learned_initialisation import LearnedInitialisation

__all__ = ["DistBO", "LearnedInitialisation"]
