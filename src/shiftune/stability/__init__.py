"""What sites have in common: p(y|x), or the frequencies of the classes."""

from shiftune.stability._label_shift import LabelShift, label_shift
from shiftune.stability._labels import LabelStability, NotTested, label_stability

__all__ = ["LabelShift", "LabelStability", "NotTested", "label_shift", "label_stability"]
