"""What the columns of a file hold: numbers, categories, dates, or nothing that helps a model."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api import types

from shiftune.errors import ProblemError
from shiftune.problem.columns import ColumnKind, kind_of
from shiftune.tables.codes import first_code
from shiftune.tables.dates import find_format, format_in_words, parse_dates

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A text column is read as numbers or dates if no more than this share of its values is neither.
MOST_STRANGE = 0.1
# ... and no more than this many different texts stand among its numbers ("unknown", ">90"). Codes
# such as 250, V45, E909 have more, and are categories.
MOST_STRANGE_TEXTS = 5
# A table with fewer rows says nothing about which columns are identifiers.
FEWEST_ROWS_FOR_ID = 20
# Different values per row, from which on a column may be an identifier.
ID_SHARE = 0.9
MANY_CATEGORIES = 50
# A column named like an identifier of cases with several rows (visits of a patient) is one if it
# has many values and not many rows of each; with few values it may be a code that means something.
MOST_ROWS_OF_A_CASE = 20
MANY_CODES = 20

ID_NAME = re.compile(
    r"(^|[^a-z])(id|uuid|guid|index|key|nr|row|pid|mrn)([^a-z]|$)|[a-z](ID|Id)$|^unnamed: "
)
# Not index, row or key in front, which also name quantities.
CASE_NAME = re.compile(
    r"^(id|uuid|guid)([^a-z]|$)|(^|[^a-z])(id|uuid|guid|key|nr|no|pid|mrn)$"
    r"|^(patient|subject|participant|person|customer)$"
)
CASE_NAME_IN_HUMPS = re.compile(r"[a-z](ID|Id|Nr|No)$")


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column as it is read.

    Attributes
    ----------
    series : Series
    kind : {"number", "category", "date"}
    distinct : int
        Different values, missing ones not counted.
    missing : float
        Share of the rows.
    used : bool
        Whether it is a feature.
    identifier : bool
        Whether it says which case a row is, and nothing else.
    remark : str
        What was noticed or done; empty if nothing.
    date_format : str
        Format of dates written as text; empty otherwise.
    """

    series: pd.Series
    kind: ColumnKind
    distinct: int
    missing: float
    used: bool = True
    identifier: bool = False
    remark: str = ""
    date_format: str = ""

    @property
    def repeats(self) -> bool:
        """Whether many rows share their value with another row."""
        return self.distinct <= ID_SHARE * self.present

    @property
    def present(self) -> int:
        """Rows that have a value."""
        return int(self.series.notna().sum())

    def left_out(self, why: str, *, identifier: bool = False) -> ReadColumn:
        """Return the same column, not used."""
        return replace(self, used=False, identifier=identifier, remark=f"left out: {why}")


def read_column(column: pd.Series, inside: NDArray[np.bool_], *, keep: bool = False) -> ReadColumn:
    """Say what a column of the whole table holds, and whether a model should see it.

    Parameters
    ----------
    column : Series of n values
    inside : bool array of shape (n,)
        Which rows are the target's.
    keep : bool
        Use it in any case.

    Examples
    --------
    >>> text = pd.Series(["12", "15", "unknown"] * 3 + ["9"] * 30)
    >>> found = read_column(text, np.zeros(39, dtype=bool) | (np.arange(39) < 9))
    >>> found.kind, found.remark
    ('number', "3 values that are no numbers ('unknown') count as missing")
    """
    try:
        distinct = int(column.nunique())
    except TypeError as error:
        raise ProblemError(
            f"column {column.name!r} holds lists or other nested values; features are numbers, "
            "text, booleans or dates: leave it out"
        ) from error
    found = ReadColumn(column, kind_of(column), distinct, float(column.isna().mean()))
    if found.kind == "category" and types.is_object_dtype(column) | types.is_string_dtype(column):
        found = _from_text(found)
    if keep:
        return found
    if why := _useless(found, inside):
        return found.left_out(why)
    if _is_id(found):
        return found.left_out(
            "another value in almost every row, like an identifier", identifier=True
        )
    return _of_cases(found) if _could_name_cases(found) else found


def _from_text(text: ReadColumn) -> ReadColumn:
    """Read text as dates or numbers, where nearly all of it is; 007 is no number."""
    given = text.series[text.series.notna()]
    if given.empty or not all(isinstance(value, str) for value in given):
        return text
    column = text.series
    if date_format := find_format(given, MOST_STRANGE):
        values = parse_dates(column, date_format)
        remark = f"dates ({format_in_words(date_format)})"
        if strange := _count_as_missing(column[values.isna() & column.notna()], "date"):
            remark += f"; {strange}"
        return replace(_read_as(values, "date", remark), date_format=date_format)
    numbers = pd.to_numeric(column, errors="coerce").astype(float)
    strange_values = column[numbers.isna() & column.notna()]
    share = len(strange_values) / len(given)
    if share <= MOST_STRANGE and strange_values.nunique() <= MOST_STRANGE_TEXTS:
        if code := first_code(given):
            return replace(text, remark=_about_codes(code, text.distinct))
        remark = _count_as_missing(strange_values, "number") or "numbers written as text"
        return _read_as(numbers, "number", remark)
    if share < 0.5:
        return replace(
            text,
            remark=f"{1 - share:.0%} numbers, but {strange_values.nunique()} different texts "
            "among them: read as categories",
        )
    if text.distinct > MANY_CATEGORIES:
        return replace(
            text, remark=f"{text.distinct} different texts: only the most frequent are told apart"
        )
    return text


def _about_codes(code: str, distinct: int) -> str:
    said = f"codes with leading zeros ({code!r}): read as categories"
    if distinct > MANY_CATEGORIES:
        said += ", of which only the most frequent are told apart"
    return said


def _count_as_missing(strange: pd.Series, what: str) -> str:
    if strange.empty:
        return ""
    texts = strange.unique()
    shown = ", ".join(map(repr, texts[:MOST_STRANGE_TEXTS]))
    if len(texts) > MOST_STRANGE_TEXTS:
        shown += ", ..."
    if len(strange) == 1:
        return f"1 value that is no {what} ({shown}) counts as missing"
    return f"{len(strange)} values that are no {what}s ({shown}) count as missing"


def _read_as(values: pd.Series, kind: ColumnKind, remark: str) -> ReadColumn:
    return ReadColumn(
        values, kind, int(values.nunique()), float(values.isna().mean()), remark=remark
    )


def _useless(column: ReadColumn, inside: NDArray[np.bool_]) -> str:
    if column.missing == 1:
        return "empty"
    if column.distinct == 1 and column.missing == 0:
        return f"the same value in every row ({_short(column.series.iloc[0])})"
    present = column.series.notna().to_numpy()
    if not present[inside].any():
        return "empty at the target, so no model can use it there"
    if not present[~inside].any():
        return "empty at every source, so no model can learn from it"
    return ""


def _is_id(column: ReadColumn) -> bool:
    """Whether a column tells rows apart and nothing else.

    Text that differs in almost every row; whole numbers that do, if they are numbered through or
    named like identifiers (an income in full euros also differs in almost every row).
    """
    values = column.series
    rows = len(values)
    if rows < FEWEST_ROWS_FOR_ID or column.distinct <= ID_SHARE * rows or column.kind == "date":
        return False
    if column.kind == "category":
        return True
    if not _whole(values):
        return False
    numbers = values.dropna().to_numpy(dtype=float)
    numbered_through = numbers.max() - numbers.min() + 1 <= 1.1 * rows
    return numbered_through or named_like_id(str(values.name))


def _could_name_cases(column: ReadColumn) -> bool:
    """Whether a column may tell cases apart that have several rows each."""
    if column.distinct <= MANY_CODES or not named_like_case(str(column.series.name)):
        return False
    return column.kind == "category" or (column.kind == "number" and _whole(column.series))


def _of_cases(column: ReadColumn) -> ReadColumn:
    """Leave out an identifier that repeats; only point it out where it may be a code."""
    said = f"named like an identifier, {column.distinct} values in {column.present} rows; "
    name = shlex.quote(str(column.series.name))
    rows_of_a_case = column.present / column.distinct
    if column.distinct > MANY_CATEGORIES and rows_of_a_case <= MOST_ROWS_OF_A_CASE:
        return column.left_out(f"{said}if it is none say --keep {name}", identifier=True)
    said += f"if it is one say --id {name}"
    return replace(column, remark=f"{column.remark}; {said}" if column.remark else said)


def _whole(values: pd.Series) -> bool:
    numbers = values.dropna().to_numpy(dtype=float)
    return bool(np.all(numbers == np.round(numbers)))


def named_like_case(name: str) -> bool:
    """Whether a column is called like what tells patients or other cases apart.

    >>> names = ("patient_id", "ID", "id_2", "caseNr", "subject", "price_index", "nr_of_visits")
    >>> [name for name in names if named_like_case(name)]
    ['patient_id', 'ID', 'id_2', 'caseNr', 'subject']
    """
    return bool(CASE_NAME.search(name.lower()) or CASE_NAME_IN_HUMPS.search(name))


def named_like_id(name: str) -> bool:
    """Whether a column is called like an identifier.

    >>> [name for name in ("patient_id", "ID", "age", "paid", "visitId") if named_like_id(name)]
    ['patient_id', 'ID', 'visitId']
    """
    return bool(ID_NAME.search(name) or ID_NAME.search(name.lower()))


def _short(value: Any) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 30 else text[:29] + "…"
