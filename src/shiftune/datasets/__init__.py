"""Generated sites whose truth is known."""

from shiftune.datasets._generated import GaussianSites, gaussian_sites, hospitals

__all__ = ["GaussianSites", "gaussian_sites", "hospitals"]
