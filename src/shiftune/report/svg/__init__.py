"""Figures as SVG, for a page that needs no library to draw them."""

from shiftune.report.svg.picture import picture

__all__ = ["picture"]
