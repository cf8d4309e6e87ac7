"""Arguments and options that several commands take."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


def _models(incomplete: str) -> list[str]:
    from shiftune.models import MODELS

    return [name for name in MODELS if name.startswith(incomplete)]


def _risks(incomplete: str) -> list[str]:
    from shiftune.cli.choices import risk_names

    return [name for name in risk_names() if name.startswith(incomplete)]


def _losses(incomplete: str) -> list[str]:
    from shiftune.evaluate.losses import LOSSES

    return [name for name in LOSSES if name.startswith(incomplete)]


class TaskChoice(StrEnum):
    """What kind of label there is."""

    CLASSIFICATION = "classification"
    REGRESSION = "regression"


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="The table, all sites together: CSV (also .gz, .bz2, .xz, .zip), Parquet, Feather.",
        show_default=False,
    ),
]
SiteColumn = Annotated[
    str,
    typer.Option("--site", metavar="COLUMN", help="Which site a row is from.", show_default=False),
]
Target = Annotated[
    str,
    typer.Option(
        "--target", metavar="SITE", help="The site without labels, to tune for.", show_default=False
    ),
]
Label = Annotated[
    str,
    typer.Option("--label", metavar="COLUMN", help="What is to be predicted.", show_default=False),
]
OptionalLabel = Annotated[
    str | None,
    typer.Option(
        "--label", metavar="COLUMN", help="The label, which is not compared.", show_default=False
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME",
        help="See [bold]shiftune models[/].",
        autocompletion=_models,
        show_default=False,
    ),
]
Risk = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How the target's risk is estimated; default: adjusted.",
        autocompletion=_risks,
        show_default=False,
    ),
]
Loss = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Loss of a prediction; default: log_loss for classes, squared for numbers.",
        autocompletion=_losses,
        show_default=False,
    ),
]
Ratio = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="How density ratios are estimated, where they are needed: logistic is quick; auto "
        "looks closer, and slower.",
    ),
]
Task = Annotated[
    TaskChoice | None,
    typer.Option(
        help="Whether the label holds classes or quantities; default: told from it.",
        show_default=False,
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Use this column, even if it looks useless. Repeat for several.",
        show_default=False,
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN", help="Leave this column out. Repeat for several.", show_default=False
    ),
]
Id = Annotated[
    list[str] | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        help="This column says which case a row is: it is left out, and tune writes it to "
        "predictions.csv. Repeat for several.",
        show_default=False,
    ),
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Processes; -1 is one per core.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same result.", metavar="N")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
