"""`shiftune demo`."""

from __future__ import annotations

from shiftune.cli.app import command


@command(rich_help_panel="The science")
def demo() -> None:
    """Show what each estimator says, beside a truth that is known."""
    from shiftune.demo import run

    run()
