"""A result's document as a page, a model card and a view in notebooks.

Only the page has more than the document: charts of the result, and updates by labels.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from shiftune._files import atomic_write
from shiftune.checks import Check
from shiftune.checks._checks import NOTHING_TO_DO
from shiftune.errors import SettingsError, StorageError
from shiftune.metrics._curves import calibration_curve, check_two_classes, decision_curve
from shiftune.report import figures as plots
from shiftune.report._summary import summary
from shiftune.report._svg import picture
from shiftune.report._templates import template
from shiftune.report.figures import MOST_CURVES
from shiftune.search._result import SearchResult

# Widths in pixels: of a page or a sheet of paper, of a phone, of a chart among others.
_WIDE, _NARROW, _SMALL = 820, 350, 290


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
) -> Path:
    """Write the model card of a search, a Markdown file to keep beside the model.

    Parameters
    ----------
    result : SearchResult
        ``search.result_``.
    path : path
        Of the file; an existing one is replaced.
    settings : mapping, optional
        As of `save_report`.
    """
    return _save_text(model_card(result, result.checks, settings), path, "the model card")


def page(
    result: SearchResult,
    checks: Sequence[Check] = (),
    settings: Mapping[str, str] | None = None,
    updates: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the report as text; see `save_report`."""
    plots.plotly()  # raises an error with the command that installs it
    charts = _charts(result)
    program = _resource("report.js")
    digest = hashlib.sha256(program.encode()).digest()
    return template("report.html.j2").render(
        summary(result, checks, settings=settings),
        updates=updates,
        charts={chart.id: chart for chart in charts},
        slices=[chart for chart in charts if chart.id.startswith("slice-")],
        written=datetime.datetime.now().astimezone().strftime("%d %B %Y, %H:%M"),
        style=Markup(_resource("report.css")),
        program=Markup(program),
        # The page's security policy allows no other script.
        hash="sha256-" + base64.b64encode(digest).decode(),
        drawn=Markup,
        nothing_to_do=NOTHING_TO_DO,
    )


def model_card(
    result: SearchResult, checks: Sequence[Check], settings: Mapping[str, str] | None = None
) -> str:
    """Return the model card as text; see `save_model_card`."""
    document = summary(result, checks, settings=settings)
    return template("model-card.md.j2", finalize=_in_markdown).render(document)


def notebook(result: SearchResult) -> str:
    """Return a result as a piece of HTML; all names from the user's data are escaped."""
    return template("notebook.html.j2").render(summary(result))


def _in_markdown(value: Any) -> str:
    """Write a value so that Markdown shows it as it is, in one line."""
    return re.sub(r"([\\`*\[\]<>|])", r"\\\1", " ".join(str(value).split()))


# ---------------------------------------------------------------- the charts


@dataclass(frozen=True, slots=True)
class _Chart:
    """A figure, and the text that replaces it for readers who cannot see it."""

    id: str
    alt: str
    figure: Any

    @property
    def wide(self) -> str:
        """SVG for a page."""
        return picture(self.figure, _WIDE, self.alt)

    @property
    def narrow(self) -> str:
        """SVG for a phone."""
        return picture(self.figure, _NARROW, self.alt)

    @property
    def small(self) -> str:
        """SVG for a place beside others."""
        return picture(self.figure, _SMALL, self.alt)


def _charts(result: SearchResult) -> list[_Chart]:
    """Return the charts of a result, as far as there is something to show."""
    found = [
        _Chart(
            "forest",
            f"Forest plot: every source's estimate of the risk at {result.target}.",
            plots.forest(result.risk),
        ),
        _Chart(
            "weights",
            "Distribution of the weights of every source.",
            plots.weights(result.overlap),
        ),
        _Chart(
            "shifts",
            f"Distance of every column from its distribution at {result.target}, by source.",
            plots.shifts(result.shifts),
        ),
        _Chart(
            "history",
            "Estimated risk of every trial, with its interval.",
            plots.history(result.trials, chosen=result.chosen),
        ),
    ]
    try:
        new_site = check_two_classes(result.new_site)
    except SettingsError:
        pass  # no probabilities of two classes
    else:
        sites = new_site.predictions.names[:MOST_CURVES]
        curves = {name: calibration_curve(new_site, name) for name in sites}
        found += [
            _Chart(
                "calibration",
                f"Observed shares at {result.target} by predicted probability, with an interval.",
                plots.calibration(calibration_curve(new_site), curves),
            ),
            _Chart(
                "decision",
                f"Net benefit at {result.target} by threshold, with an interval.",
                plots.decision(decision_curve(new_site)),
            ),
        ]
    if result.importances:
        drawn = plots.importances(result.importances)
        found.append(_Chart("importances", "Importance of the parameters.", drawn))
    found += [
        _Chart(
            f"slice-{position}",
            f"Estimated risk against {name}.",
            plots.parameter_slice(result, name),
        )
        for position, name in enumerate(plots.parameter_names(result.trials))
    ]
    return found


# ---------------------------------------------------------------- files


def _resource(name: str) -> str:
    """Return a file that lies beside the page's template."""
    return (files("shiftune.report") / "templates" / name).read_text(encoding="utf-8")


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
