"""`shiftune demo`: the whole job on generated hospitals, beside the hidden truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shiftune.cli.app import command, command_line
from shiftune.cli.options import Jobs


@command(rich_help_panel="Your data")
def demo(
    trials: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many to try with each estimator.")
    ] = 12,
    jobs: Jobs = 1,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the report.")] = Path(
        "shiftune-demo"
    ),
) -> None:
    """Show the whole job in about a minute, on generated hospitals whose truth is known.

    Who overlaps with hospital A; a search for A with each of several estimators, from no
    correction to the default; and what each of the chosen models is really worth at A. The report
    of the default goes to DIR.
    """
    from shiftune.cli.folder import ResultFolder
    from shiftune.cli.screen import screen, show_answers, show_overlap
    from shiftune.cli.tune import NO_REPORT
    from shiftune.demo import TARGET, answers, demo_problem

    console = screen()
    problem = demo_problem()
    names = ", ".join(problem.names)
    console.print(
        f"Eight generated hospitals. {TARGET} has {len(problem.target)} patients without labels; "
        f"{names} have {len(problem.sources[0])} with labels each. Who will be readmitted?"
    )
    console.print("\n1. Who overlaps with the target?")
    show_overlap(console, problem.diagnose(), TARGET)
    console.print(f"\n2. Boosted trees tuned for {TARGET}, {trials} trials with each estimator\n")
    found = []
    for answer in answers(problem, trials=trials, jobs=jobs):
        found.append(answer)
        console.print(f"{answer.method}: trial {answer.search.best_index_} was chosen")
    console.print("\n3. What each says of its choice, and what is true")
    show_answers(console, found, TARGET)
    (default,) = [answer for answer in found if answer.method == "adjusted"]
    if not ResultFolder.can_report():
        typer.echo(NO_REPORT, err=True)
        return
    path = default.search.report(out / "report.html", settings={"command": command_line()})
    console.print(f"\nThe report of the default: {path}")
