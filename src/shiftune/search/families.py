"""Model families of a search: by name, or as given, each with its space."""

from __future__ import annotations

import numpy as np
import pandas as pd

from shiftune.evaluate.unseen_sites import LeaveSourcesOut
from shiftune.models import TableSize
from shiftune.models.preparation import preparation
from shiftune.problem import PAPER_SHARES, ShiftProblem, pooled
from shiftune.problem.columns import column_kinds
from shiftune.tables import Schema


def schema_of(problem: ShiftProblem) -> Schema | None:
    """Return the columns of a problem with their kinds; None for arrays of numbers."""
    if not isinstance(problem.target.X, pd.DataFrame):
        return None
    sites = (*problem.sources, problem.target)
    return Schema(column_kinds({site.name: pd.DataFrame(site.X) for site in sites}))


def table_size(problem: ShiftProblem, schema: Schema | None) -> TableSize:
    """Return the fewest training rows of any fit, and the number of columns after preparation.

    Some models of a trial leave out several sources.
    """
    # Rounding may cost every source a row.
    rows = [max(int(PAPER_SHARES[1] * len(site)) - 1, 0) for site in problem.sources]
    by_name = dict(zip(problem.names, rows, strict=True))
    groups = LeaveSourcesOut().groups(np.repeat(problem.names, rows))
    left_out = max((sum(by_name[name] for name in group) for group in groups), default=0)
    X, _ = pooled(problem.sources)
    columns = preparation(schema).fit_transform(X).shape[1]
    return TableSize(sum(rows) - left_out, int(columns))
