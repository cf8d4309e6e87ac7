"""`python -m reproduction`: the paper's experiments."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from shiftune import _interrupts

if TYPE_CHECKING:
    from collections.abc import Callable


def _load() -> Callable[[], object]:
    from reproduction.commands import paper

    return partial(paper, prog_name="python -m reproduction")


if __name__ == "__main__":
    _interrupts.run(_load)
