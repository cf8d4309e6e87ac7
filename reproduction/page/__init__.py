"""The page with all results; every figure in it is computed from the results folder."""

from reproduction.page.whole import write_page

__all__ = ["write_page"]
