"""`shiftune demo`: a whole run on generated hospitals, compared with the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shiftune.cli.app import command, command_line
from shiftune.cli.options import Jobs
from shiftune.wording import count


@command()
def demo(
    trials: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of trials with each risk estimator.")
    ] = 12,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the hospitals.")] = 0,
    jobs: Jobs = 1,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the report.")] = Path(
        "shiftune-demo"
    ),
) -> None:
    """Show a whole run in about a minute, on generated hospitals with a known truth.

    The demonstration diagnoses the overlap with hospital A, tunes a model for A with each of
    several risk estimators, and compares the estimated with the true errors at A. The report of
    the default estimator goes to DIR.
    """
    from shiftune.cli.folder import ResultFolder
    from shiftune.cli.screen import screen, show_answers, show_overlap
    from shiftune.cli.tune import NO_REPORT
    from shiftune.demo import TARGET, answers, demo_problem

    console = screen()
    problem = demo_problem(seed=seed)
    names = ", ".join(problem.names)
    console.print(
        f"Eight generated hospitals; the task is to predict readmissions. {TARGET} has "
        f"{len(problem.target)} patients without labels; {names} have "
        f"{len(problem.sources[0])} each, with labels. Codes mean something else at every "
        "hospital, and readings of the equipment give the hospital away, so a flexible model can "
        "learn every known hospital by heart. Plain cross-validation (naive) rewards that, as it "
        f"tests on other patients of the same hospitals; {TARGET} is a new one. Real sites have "
        "such columns, but most differ less."
    )
    console.print("\n1. Overlap of the sources with the target")
    show_overlap(console, problem.diagnose(), TARGET)
    console.print(
        f"\n2. Boosted trees tuned for {TARGET}, {count(trials, 'trial')} per risk estimator\n"
    )
    found = []
    for answer in answers(problem, trials=trials, seed=seed, jobs=jobs):
        found.append(answer)
        console.print(f"{answer.method}: best trial {answer.search.best_index_}")
    console.print("\n3. Estimated and true error of each choice")
    show_answers(console, found, TARGET)
    (default,) = [answer for answer in found if answer.method == "adjusted"]
    if not ResultFolder.can_report():
        typer.echo(NO_REPORT, err=True)
        return
    path = default.search.report(out / "report.html", settings={"command": command_line()})
    console.print(f"\nReport of the default estimator: {path}")
