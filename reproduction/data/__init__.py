"""Loaders of the paper's real data: patients with Parkinson's disease and GvHD."""

from reproduction.data.patients import load_gvhd, load_parkinson

__all__ = ["load_gvhd", "load_parkinson"]
