"""The terminal, which text from users' files cannot control."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

from shiftune.wording import printable


class SafeConsole(Console):
    """Console that shows control characters in a text as codes, and reads no markup in it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **options)

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Yield segments; Rich adds its own codes, for colours, later."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)
