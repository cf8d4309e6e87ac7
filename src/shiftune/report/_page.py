"""A result's document as a page, a model card and a view in notebooks.

Only the page has more than the document: charts of the result, and updates by labels. The overview
has a line for each target of a search.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import pandas as pd
from markupsafe import Markup

from shiftune._files import atomic_write
from shiftune._wording import how_to_install
from shiftune.checks import Check
from shiftune.checks._checks import NOTHING_TO_DO
from shiftune.errors import MissingPackageError, StorageError
from shiftune.report._summary import rollout, summary, template
from shiftune.search._result import SearchResult


def save_report(
    result: SearchResult,
    path: str | os.PathLike[str],
    *,
    settings: Mapping[str, str] | None = None,
    updates: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Write the report of a search: one HTML file that needs no network to be read.

    The model with its default parameters is fitted once, to be compared with the chosen one.

    Parameters
    ----------
    result : SearchResult
        ``search.result_``.
    path : path
        Of the file; an existing one is replaced.
    settings : mapping, optional
        Names and texts that a reader needs to repeat the search: the command, the data file.
        Default: the search's own parameters. The current versions are added where they are not
        among them.
    updates : records of updates, optional
        Contents of the files update.json that `shiftune update` writes.
    """
    _file_path(path)  # before the work
    return _save_text(page(result, result.checks, settings, updates), path, "the report")


def save_model_card(
    result: SearchResult,
    path: str | os.PathLike[str],
    *,
    settings: Mapping[str, str] | None = None,
    updates: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Write the model card of a search, a Markdown file to keep beside the model.

    Parameters
    ----------
    result : SearchResult
        ``search.result_``.
    path : path
        Of the file; an existing one is replaced.
    settings, updates : optional
        As of `save_report`.
    """
    card = model_card(result, result.checks, settings, updates)
    return _save_text(card, path, "the model card")


def save_overview(
    result: SearchResult,
    path: str | os.PathLike[str],
    *,
    table: pd.DataFrame | None = None,
    pages: Mapping[Any, str] = MappingProxyType({}),
) -> Path:
    """Write the overview of a search with several targets: one HTML file, a line per target.

    Parameters
    ----------
    result : SearchResult
        ``search.result_``.
    path : path
        Of the file; an existing one is replaced.
    table : DataFrame, optional
        ``search.target_table(sources=True)``, which also shows what came true at every source,
        treated as if it were new. Default: ``search.targets_``.
    pages : mapping, optional
        Names of targets, and the paths of their reports relative to this file.
    """
    _file_path(path)  # before the work
    return _save_text(overview(result, table, pages), path, "the overview")


def page(
    result: SearchResult,
    checks: Sequence[Check] = (),
    settings: Mapping[str, str] | None = None,
    updates: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the report as text; see `save_report`."""
    drawing = _drawing()
    document = summary(result, checks, settings=settings)
    drawn = [drawing.expected(document), *drawing.charts(result)]
    return _html("report.html.j2", document, drawn, updates=updates, nothing_to_do=NOTHING_TO_DO)


def overview(
    result: SearchResult, table: pd.DataFrame | None = None, pages: Mapping[Any, str] | None = None
) -> str:
    """Return the overview as text; see `save_overview`."""
    drawing = _drawing()
    rows = result.targets if table is None else table
    tried = rows["verdict"].isna()  # sources
    drawn = drawing.targets(rows[~tried], result)
    document = rollout(result, rows[~tried], rows[tried])
    return _html("overview.html.j2", document, [drawn], pages=pages or {})


def _drawing() -> ModuleType:
    """Import the charts, or ask for Matplotlib."""
    try:
        return import_module("shiftune.report._charts")
    except ImportError as error:
        install = how_to_install("report")
        raise MissingPackageError(f"the report needs Matplotlib; {install}") from error


def _html(name: str, document: Mapping[str, Any], charts: Sequence[Any], **more: Any) -> str:
    """Fill in the template of a page."""
    return template(name).render(
        document,
        charts={chart.id: chart for chart in charts},
        written=datetime.datetime.now().astimezone().strftime("%d %B %Y, %H:%M"),
        style=Markup((files("shiftune.report") / "templates/report.css").read_text("utf-8")),
        svg=Markup,
        **more,
    )


def model_card(
    result: SearchResult,
    checks: Sequence[Check],
    settings: Mapping[str, str] | None = None,
    updates: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the model card as text; see `save_model_card`."""
    document = summary(result, checks, settings=settings)
    return template("model-card.md.j2", finalize=_in_markdown).render(document, updates=updates)


def notebook(result: SearchResult) -> str:
    """Return a result as a piece of HTML; all names from the user's data are escaped."""
    document, picture = summary(result), ""
    with suppress(ImportError):  # without Matplotlib, the table alone
        from shiftune.report._charts import expected

        picture = expected(document).wide
    return template("notebook.html.j2").render(document, chart=Markup(picture))


def _in_markdown(value: Any) -> str:
    """Write a value so that Markdown shows it as it is, in one line."""
    return re.sub(r"([\\`*\[\]<>|])", r"\\\1", re.sub(r"\s+", " ", str(value)))


# ---------------------------------------------------------------- files


def _save_text(text: str, path: str | os.PathLike[str], what: str) -> Path:
    """Write a file of text; `what` names it in errors."""
    where = _file_path(path)
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(where) as part:
            part.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise StorageError(
            f"{what} {str(where)!r} cannot be written ({error.strerror}); give another path"
        ) from error
    return where


def _file_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file, or refuse that of a folder."""
    where = Path(path)
    if where.is_dir():
        raise StorageError(f"{str(where)!r} is a folder; give the path of a file, such as r.html")
    return where
