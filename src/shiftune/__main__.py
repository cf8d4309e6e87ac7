"""``shiftune`` and ``python -m shiftune``: the command line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

try:
    from shiftune import _interrupts
except KeyboardInterrupt:  # before there is a handler
    sys.exit(130)

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Run the command line."""
    _interrupts.run(_load)


def _load() -> Callable[[], object]:
    from shiftune.cli import app

    return app


if __name__ == "__main__":
    main()
