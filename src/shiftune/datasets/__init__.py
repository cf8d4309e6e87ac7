"""Generated sites whose truth is known."""

from shiftune.datasets._generated import GaussianSites, hospitals

__all__ = ["GaussianSites", "hospitals"]
