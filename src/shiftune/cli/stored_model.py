"""The model as a result folder keeps it: with what it needs to read the next table."""

from __future__ import annotations

from typing import Any

import pandas as pd

from shiftune.cli.job import TuneJob
from shiftune.predictor import SiteScores
from shiftune.predictor.table_model import TableModel
from shiftune.ratio.drift import ColumnSummaries
from shiftune.tables.profile import profile_of


def table_model(job: TuneJob, predictor: Any, scores: SiteScores) -> TableModel:
    """Return a fitted predictor with the profile of its training rows."""
    table, options = job.table, job.options
    problem, schema = table.problem, table.schema
    sites = [pd.DataFrame(site.X) for site in problem.labelled_sites]
    target = pd.DataFrame(problem.target.X)
    unused = table.columns.index[~table.columns["used"]]
    return TableModel(
        predictor,
        profile_of(sites, target, schema, [options.files.site_column, options.label, *unused]),
        ColumnSummaries.of(schema.read(target)),
        table.identifiers,
        options.label,
        scores,
    )
