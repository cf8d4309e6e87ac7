"""Commands of `python -m reproduction`."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shiftune import _interrupts
from shiftune.cli._app import Explaining
from shiftune.cli._options import Jobs

if TYPE_CHECKING:
    from reproduction.choosing import MethodName
    from reproduction.experiments import Experiment
    from reproduction.settings import SettingName

paper = typer.Typer(
    cls=Explaining,
    help="Run the experiments of Nomura and Saito (CIKM 2021), beside their printed results.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


# The modules with these names import the whole search, which help and completion should not do.
class Method(StrEnum):
    """The methods that the paper compares."""

    LI = "li"
    DISTBO = "distbo"
    NAIVE = "naive"
    UNBIASED = "unbiased"
    VARIANCE_REDUCED = "variance_reduced"
    ORACLE = "oracle"


class SettingChoice(StrEnum):
    """The settings of the experiments."""

    PUBLISHED = "as-published"
    DESCRIBED = "as-described"
    GUARDED = "guarded"


Seeds = Annotated[
    int | None,
    typer.Option(min=1, help="Number of seeds; default: the paper's.", show_default=False),
]
Methods = Annotated[
    list[Method] | None,
    typer.Option("--method", "-m", help="Repeat for several; default: all.", show_default=False),
]
Settings = Annotated[
    list[SettingChoice] | None,
    typer.Option("--setting", "-s", help="Repeat for several; default: all.", show_default=False),
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Folder for runs, table and figures; default: paper/EXPERIMENT. Repeat the command to "
        "add missing runs.",
        show_default=False,
    ),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Small budget and few seeds: a minute or two.")
]
Data = Annotated[
    Path | None,
    typer.Option(help="Folder with the data files; default: SHIFTUNE_DATA, else a download."),
]


@paper.command()
def example() -> None:
    """Print the worked example: two points, two sources, every figure by hand."""
    from reproduction.example import worked_example

    typer.echo(worked_example())


@paper.command()
def toy(
    seeds: Seeds = None,
    method: Methods = None,
    setting: Settings = None,
    jobs: Jobs = 1,
    out: Out = None,
    quick: Quick = False,
) -> None:
    """Run the toy problem: c = 1 to 5, two sources, 1000 rows, 50 trials, 30 seeds."""
    from reproduction.experiments import Toy

    experiment = Toy(budget=10, cs=(1.0, 5.0), n=300, weighed_seeds=2) if quick else Toy()
    _reproduce(experiment, seeds or (2 if quick else 30), method, setting, jobs, out, quick)


@paper.command()
def parkinson(
    seeds: Seeds = None,
    method: Methods = None,
    setting: Settings = None,
    jobs: Jobs = 1,
    out: Out = None,
    data: Data = None,
    quick: Quick = False,
) -> None:
    """Tune an SVM for one Parkinson patient from 41 others: 50 trials, 10 seeds."""
    _patients("parkinson", seeds, method, setting, jobs, out, data, quick)


@paper.command()
def gvhd(
    seeds: Seeds = None,
    method: Methods = None,
    setting: Settings = None,
    jobs: Jobs = 1,
    out: Out = None,
    data: Data = None,
    quick: Quick = False,
) -> None:
    """Tune LightGBM for one GvHD patient from 29 others: 50 trials, 10 seeds."""
    _patients("gvhd", seeds, method, setting, jobs, out, data, quick)


@paper.command()
def regret(
    seeds: Seeds = None,
    jobs: Jobs = 1,
    out: Out = None,
    quick: Quick = False,
) -> None:
    """Compare the regret on the toy problem with the main theorem's bound: 100 seeds."""
    from reproduction.regret.reproduce import regret_tables, reproduce_regret

    folder = out or _default_folder("regret", quick)
    _interrupts.keeps_results(True)
    frame = reproduce_regret(
        range(seeds or (5 if quick else 100)),
        folder,
        ns=(100, 300) if quick else (100, 300, 1000, 3000),
        Bs=(5, 10) if quick else (5, 10, 20, 50),
        n_jobs=jobs,
        command=_command_line(),
    )
    typer.echo(regret_tables(frame))
    typer.echo(f"\nWritten to {folder}", err=True)


@paper.command()
def page(
    results: Annotated[Path, typer.Argument(help="Folder with the folders of the experiments.")],
    out: Annotated[
        Path, typer.Option(help="Path of the page; its figures go into a folder beside it.")
    ] = Path("docs/paper.md"),
) -> None:
    """Write the page with all results."""
    from reproduction.page import write_page

    write_page(results, out)
    typer.echo(f"Written to {out}", err=True)


def _command_line() -> str:
    return shlex.join(["python", "-m", "reproduction", *sys.argv[1:]])


def _default_folder(name: str, quick: bool) -> Path:
    return Path("paper") / (f"{name}-quick" if quick else name)


def _patients(
    name: Literal["parkinson", "gvhd"],
    seeds: int | None,
    methods: list[Method] | None,
    settings: list[SettingChoice] | None,
    jobs: int,
    out: Path | None,
    data: Path | None,
    quick: bool,
) -> None:
    from reproduction.experiments import Patients

    experiment = Patients(name, 5 if quick else 50, None if data is None else str(data))
    _reproduce(experiment, seeds or (1 if quick else 10), methods, settings, jobs, out, quick)


def _reproduce(
    experiment: Experiment,
    seeds: int,
    methods: list[Method] | None,
    settings: list[SettingChoice] | None,
    jobs: int,
    out: Path | None,
    quick: bool,
) -> None:
    from reproduction.markdown import markdown
    from reproduction.reproduce import reproduce

    which: tuple[MethodName, ...] = tuple(m.value for m in methods or Method)
    ways: tuple[SettingName, ...] = tuple(s.value for s in settings or SettingChoice)
    folder = out or _default_folder(experiment.name, quick)
    typer.echo(f"Runs are kept in {folder}; finished ones are not repeated.", err=True)
    _interrupts.keeps_results(True)
    runs = reproduce(
        experiment,
        range(seeds),
        folder,
        methods=which,
        settings=ways,
        n_jobs=jobs,
        command=_command_line(),
    )
    typer.echo(markdown(runs.dropna(subset="score")))
    failed = runs[runs["score"].isna()]
    if len(failed):
        typer.echo(f"\n{len(failed)} runs failed: {failed['failure'].iloc[0]}", err=True)
    typer.echo(f"\nWritten to {folder}", err=True)
