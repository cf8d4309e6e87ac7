"""Identifiers of rows or cases, recognised by the names and values of columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from shiftune.problem.columns import ColumnKind

# A table with fewer rows does not show which columns are identifiers.
FEWEST_ROWS = 20
# Different values per row above which a column may be an identifier of rows.
ROW_SHARE = 0.9
# A column named like an identifier of cases with several rows (visits of a patient) may be a code
# with a meaning if it has few values.
MANY_CODES = 20

ROW_NAME = re.compile(
    r"(^|[^a-z])(id|uuid|guid|index|key|nr|row|pid|mrn)([^a-z]|$)|[a-z](ID|Id)$|^unnamed: "
)
# Not index, row or key in front, which also name quantities.
CASE_NAME = re.compile(
    r"^(id|uuid|guid)([^a-z]|$)|(^|[^a-z])(id|uuid|guid|key|nr|no|pid|mrn)$"
    r"|^(patient|subject|participant|person|customer)$"
)
CASE_NAME_IN_HUMPS = re.compile(r"[a-z](ID|Id|Nr|No)$")


def names_rows(values: pd.Series, kind: ColumnKind, distinct: int) -> bool:
    """Whether a column identifies rows and has no other meaning.

    Text that differs in almost every row; whole numbers that do, if they are consecutive or named
    like identifiers (an income in full euros also differs in almost every row).
    """
    rows = len(values)
    if rows < FEWEST_ROWS or distinct <= ROW_SHARE * rows or kind == "date":
        return False
    if kind == "category":
        return True
    if not _whole(values):
        return False
    consecutive = float(values.max()) - float(values.min()) + 1 <= 1.1 * rows
    return consecutive or named_like_row(str(values.name))


def may_name_cases(values: pd.Series, kind: ColumnKind, distinct: int) -> bool:
    """Whether a column may identify cases that have several rows each."""
    if distinct <= MANY_CODES or not named_like_case(str(values.name)):
        return False
    return kind == "category" or (kind == "number" and _whole(values))


def named_like_case(name: str) -> bool:
    """Whether a column is named like an identifier of patients or other cases.

    >>> names = ("patient_id", "ID", "id_2", "caseNr", "subject", "price_index", "nr_of_visits")
    >>> [name for name in names if named_like_case(name)]
    ['patient_id', 'ID', 'id_2', 'caseNr', 'subject']
    """
    return bool(CASE_NAME.search(name.lower()) or CASE_NAME_IN_HUMPS.search(name))


def named_like_row(name: str) -> bool:
    """Whether a column is named like an identifier of rows.

    >>> [name for name in ("patient_id", "ID", "age", "paid", "visitId") if named_like_row(name)]
    ['patient_id', 'ID', 'visitId']
    """
    return bool(ROW_NAME.search(name) or ROW_NAME.search(name.lower()))


def _whole(values: pd.Series) -> bool:
    numbers = values.dropna().to_numpy(dtype=float)
    return bool(np.all(numbers == np.round(numbers)))
