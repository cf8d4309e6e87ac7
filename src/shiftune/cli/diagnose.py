"""`shiftune diagnose`: who overlaps with the target, before any model is trained."""

from __future__ import annotations

import json

import typer

from shiftune.cli.app import command
from shiftune.cli.options import (
    Data,
    Drop,
    Id,
    Json,
    Keep,
    OptionalLabel,
    Ratio,
    Seed,
    SiteColumn,
    Target,
)


@command(rich_help_panel="Your data")
def diagnose(
    data: Data,
    site: SiteColumn,
    target: Target,
    label: OptionalLabel = None,
    ratio: Ratio = "logistic",
    keep: Keep = None,
    drop: Drop = None,
    identifiers: Id = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Say which sites overlap with the target, before any model is trained.

    For example:

      shiftune diagnose visits.csv --site ward --target A --label died

    A source whose rows are unlike the target's can say little about it. The table has, for every
    source, the mean of its density ratios (1 where it covers the target), how many of its rows
    count after weighting, the share of target rows that are out of its reach, and a verdict.
    """
    from shiftune.tables import read_file, site_table

    table = site_table(
        read_file(data),
        site=site,
        target=target,
        label=label,
        keep=keep or (),
        drop=drop or (),
        identifiers=identifiers or (),
        drop_unlabelled=True,
    )
    notes = list(table.notes)
    if label is None:
        notes.append("all columns but the site are compared; if one is the label, name it: --label")
    overlap = table.problem.diagnose(ratio, random_state=seed)
    if as_json:
        from shiftune.cli.records import column_records, records

        found = {
            "target": table.problem.target.name,
            "target_rows": len(table.problem.target),
            "sources": records(overlap),
            "columns": column_records(table),
            "notes": notes,
        }
        typer.echo(json.dumps(found, indent=2))
        return
    from shiftune.cli.screen import screen, show_overlap, show_table

    console = screen()
    show_table(console, data, table, notes, label=label)
    show_overlap(console, overlap, table.problem.target.name)
