"""Test whether the same inputs have the same labels at every site."""

from shiftune.stability.labels import LabelStability, NotTested, label_stability

__all__ = ["LabelStability", "NotTested", "label_stability"]
