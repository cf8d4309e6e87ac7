"""`shiftune diagnose`: overlap of the sites with the target, before any model is trained."""

from __future__ import annotations

import json

import typer

from shiftune.cli._app import command
from shiftune.cli._options import DiagnoseOptions, settings_option, taking


@command()
@taking(DiagnoseOptions, settings=settings_option(DiagnoseOptions))
def diagnose(options: DiagnoseOptions) -> None:
    """Compare the sites with the target, before any model is trained.

    For example:

      shiftune diagnose data.csv --site ward --target A --label ill

    A source whose rows are unlike the target's carries little information about it. The table
    lists, for each source, the mean density ratio (1: the source covers the target), the effective
    share of its rows after weighting, the share of target rows out of its reach, and a verdict.
    """
    table = options.read(seed=options.seed, drop_unlabelled=True)
    notes = list(table.notes)
    if options.label is None:
        notes.append("all columns but the site are compared; name the label, if any, with --label")
    overlap = table.problem.diagnose(options.ratio, random_state=options.seed)
    if options.as_json:
        from shiftune.cli._records import column_records, records

        found = {
            "target": table.problem.target.name,
            "target_rows": len(table.problem.target),
            "sources": records(overlap),
            "columns": column_records(table),
            "notes": notes,
        }
        typer.echo(json.dumps(found, indent=2))
        return
    from shiftune.cli._screen import screen, show_overlap, show_table

    console = screen()
    show_table(console, options.files, table, notes, label=options.label)
    show_overlap(console, overlap, table.problem.target.name)
