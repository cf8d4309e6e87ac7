"""The page that shows all results and says what they mean; every figure in it is computed."""

from reproduction.page.whole import write_page

__all__ = ["write_page"]
