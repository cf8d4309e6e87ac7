"""What sites have in common: p(y|x), or the frequencies of the classes."""

from shiftune.stability.label_shift import LabelShift, label_shift
from shiftune.stability.labels import LabelStability, NotTested, label_stability

__all__ = ["LabelShift", "LabelStability", "NotTested", "label_shift", "label_stability"]
