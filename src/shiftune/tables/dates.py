"""Dates written as text: format of a column, and how it is read."""

from __future__ import annotations

import re

import pandas as pd

FORMATS = ("ISO8601", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M")
LIKE_A_DATE = re.compile(r"\s*\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")


def find_format(given: pd.Series, most_strange: float) -> str | None:
    """Return the first format that fits all but a share of the texts; None if none does.

    >>> find_format(pd.Series(["31/12/2024", "1/2/2025"]), 0.1)
    '%d/%m/%Y'
    """
    if not given.iloc[:20].str.match(LIKE_A_DATE).all():
        return None
    fitting = (f for f in FORMATS if parse_dates(given, f).isna().mean() <= most_strange)
    return next(fitting, None)


def parse_dates(column: pd.Series, date_format: str) -> pd.Series:
    """Read text as dates in UTC without time zone; anything else becomes missing."""
    dates = pd.to_datetime(column, format=date_format, errors="coerce", utc=True)
    return dates.dt.tz_localize(None)


def format_in_words(date_format: str) -> str:
    """Describe a format in words.

    >>> format_in_words("%d/%m/%Y %H:%M")
    'day/month/year time'
    """
    words = {"ISO8601": "year-month-day", "%d": "day", "%m": "month", "%Y": "year", "%H:%M": "time"}
    for sign, word in words.items():
        date_format = date_format.replace(sign, word)
    return date_format
