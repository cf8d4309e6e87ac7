"""Options that decide which rows and columns are read, of every command that reads a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftune.cli.option_fields import Role, values_of

if TYPE_CHECKING:
    from shiftune.problem.row_counts import LabelRules
    from shiftune.tables import SiteFiles, SiteTable

READING = "Table"
# As that of `ShiftProblem.from_large`. A search of 20 columns takes 1.5 GiB then
# (benchmarks/results/speed.md).
MOST_ROWS = 1_000_000


def _columns(*flags: str, text: str) -> Any:
    return typer.Option(
        *flags,
        metavar="COLUMN",
        help=f"{text} Can be repeated.",
        rich_help_panel=READING,
        show_default=False,
    )


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Files, roles of columns, and how they are read."""

    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="Table of all sites: CSV (also .gz, .bz2, .xz), Parquet, Feather, Excel or "
            ".jsonl. A quoted pattern, 'data/*.csv', stands for several files; a folder for the "
            "Parquet files in it.",
            show_default=False,
        ),
        Role.FILE,
    ]
    site: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column with the site of each row. Without it, every file is a site.",
            show_default=False,
        ),
        Role.DATA,
    ] = None
    target: Annotated[
        str | None,
        typer.Option(
            metavar="SITE",
            help="Site to tune for; needs no labels. Default: that of --target-file.",
            show_default=False,
        ),
        Role.DATA,
    ] = None
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Label, not compared.", show_default=False),
        Role.DATA,
    ] = None
    target_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Rows of the target, if DATA has only the sources; it needs no site column.",
            rich_help_panel=READING,
            show_default=False,
        ),
        Role.FILE,
    ] = None
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Rows with the same value belong together, such as visits of a patient: never "
            "divided between training and validation, and counted as one in intervals. Not used by "
            "the model.",
            rich_help_panel=READING,
            show_default=False,
        ),
        Role.DATA,
    ] = None
    sample_weight: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Weights of rows: one of weight 2 counts as two, in training, risk and metrics. "
            "Not used by the model.",
            rich_help_panel=READING,
            show_default=False,
        ),
        Role.DATA,
    ] = None
    keep: Annotated[
        list[str], _columns(text="Use this column even if it would be left out."), Role.DATA
    ] = field(default_factory=list)
    drop: Annotated[list[str], _columns(text="Leave this column out."), Role.DATA] = field(
        default_factory=list
    )
    identifiers: Annotated[
        list[str],
        _columns("--id", text="Identifier: not used by the model, copied to predictions.csv."),
        Role.DATA,
    ] = field(default_factory=list)
    date_format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="Format of dates written as text, such as %d/%m/%Y; default: inferred.",
            rich_help_panel=READING,
            show_default=False,
        ),
        Role.DATA,
    ] = None

    most_rows: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Most rows that are read: of more, as many are drawn at random, small sites whole "
            "and of all others the same number.",
            rich_help_panel=READING,
        ),
        Role.DATA,
    ] = MOST_ROWS
    missing: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN=VALUE",
            help="Value that stands for a missing one, such as age=999. Can be repeated.",
            rich_help_panel=READING,
            show_default=False,
        ),
        Role.DATA,
    ] = field(default_factory=list)

    @cached_property
    def files(self) -> SiteFiles:
        """Where the rows are."""
        from shiftune.tables import SiteFiles

        return SiteFiles(self.data, self.target_file, self.site, self.target)

    def read(self, *, seed: int, **more: Any) -> SiteTable:
        """Read the files as a problem; `more` overrides arguments of `site_table`.

        Of more rows than wanted, some are drawn with this seed.
        """
        from shiftune.tables import site_table

        files = self.files
        roles = {"site": files.site_column, "target": files.target_name, "notes": files.notes}
        given = values_of(self, Role.DATA) | roles | more
        most_rows = given.pop("most_rows")
        sampled = files.sample(most_rows, self._label_rules(given), self.group, seed)
        if sampled is None:
            return site_table(files.read(), **given)
        return site_table(sampled.table, **given).of_sample(sampled)

    def _label_rules(self, given: Mapping[str, Any]) -> LabelRules | None:
        """Return the part that labels have if rows are drawn."""
        from shiftune.problem.row_counts import LabelRules

        if self.label is None:
            return None
        keep, drop = given.get("use_target_labels", False), given.get("drop_unlabelled", False)
        return LabelRules(self.label, self.files.target_name, keep, drop)
