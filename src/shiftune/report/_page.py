"""Report of a search as one HTML file, and its view in a notebook.

The answer and how far to trust it come first, then all that is behind it.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from shiftune._files import atomic_write
from shiftune._names import Level
from shiftune._wording import (
    count,
    figures,
    how_to_install,
    listed,
    loss_in_words,
    metric_in_words,
    number,
    percent,
    shortened,
    with_interval,
    written_like,
)
from shiftune.checks import Check
from shiftune.checks._checks import NOTHING_TO_DO
from shiftune.errors import MissingPackageError, StorageError
from shiftune.ratio._overlap import effective_share
from shiftune.report._words import (
    MOST_SITES,
    assumptions,
    brief,
    effect_in_words,
    estimate_in_words,
    first_in_words,
    how_estimated,
    how_to_repeat,
    in_words,
    lower_by,
    metric_facts,
    model_in_words,
    outermost,
    parameters,
    update_in_words,
)
from shiftune.search._result import SearchResult, model_name, tied_rivals

_SERIOUS_FIRST = (Level.PROBLEM, Level.CAUTION, Level.OK)
_MOST_TIED = 10


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
    return save_text(page(result, result.checks, settings, updates), path, "the report")


def page(
    result: SearchResult,
    checks: Sequence[Check] = (),
    settings: Mapping[str, str] | None = None,
    updates: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the report as text; see `save_report`."""
    try:
        import jinja2
        from markupsafe import Markup

        from shiftune.report._charts import charts  # which need Matplotlib
    except ImportError as error:
        install = how_to_install("report")
        raise MissingPackageError(f"the report needs Jinja2 and Matplotlib; {install}") from error
    drawn = charts(result)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("shiftune.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return str(
        environment.get_template("report.html.j2").render(
            brief=brief(result, checks),
            **_asked(result),
            **_answer(result),
            **_sites(result),
            tied=tied_rivals(result, _MOST_TIED),
            tied_count=len(result.tied),
            tied_trials=count(len(result.tied), "trial"),
            metrics=_metrics(result),
            updates=[_update(record, result.target) for record in updates],
            charts={chart.id: chart for chart in drawn},
            slices=[chart for chart in drawn if chart.id.startswith("slice-")],
            most_shifted=list(result.shifts.index[:3]),
            checks=sorted(checks, key=lambda check: _SERIOUS_FIRST.index(check.level)),
            settings=how_to_repeat(result, settings),
            exact_parameters=repr(result.best_params),
            written=datetime.datetime.now().astimezone().strftime("%d %B %Y, %H:%M"),
            style=Markup((files("shiftune.report") / "templates/report.css").read_text("utf-8")),
            svg=Markup,
            nothing_to_do=NOTHING_TO_DO,
        )
    )


# ---------------------------------------------------------------- the sections


def _asked(result: SearchResult) -> dict[str, Any]:
    model = listed(list(result.families), quoted=False)
    if len(result.families) <= 1:
        pipeline = " (in a pipeline)" if hasattr(result.model, "steps") else ""
        model = model_name(result.model) + pipeline
    return {
        "target": result.target,
        "labelled": result.problem.labelled_target is not None,
        "model": model,
        "loss": loss_in_words(result.loss.name),
        "completed_count": len(result.risks),
        "completed_trials": count(len(result.risks), "trial"),
        "failed_trials": int((result.trials["state"] == "FAIL").sum()),
        "notes": (*result.problem.notes, *result.notes),
    }


def _answer(result: SearchResult) -> dict[str, Any]:
    risk, members = result.risk, result.members
    gain, updated = result.choice.gain, result.updated
    return {
        "members": [
            {
                "trial": trial,
                "model": row["model"],
                "weight": percent(row["weight"]),
                "risk": number(row["risk"]),
                "params": in_words(row["params"]),
            }
            for trial, row in zip(members.index, members.to_dict("records"), strict=True)
        ],
        "ensemble_gain": None if gain is None else lower_by(gain.value, gain.interval()),
        "update": updated
        and update_in_words(updated, result.target, loss_in_words(result.loss.name)),
        "optimistic": len(result.risks) > 1 and result.choice.risk is result.risks[result.chosen],
        "fallback": risk.fallback,
        "coverage": None if risk.fallback or risk.coverage >= 0.9 else percent(risk.coverage),
        "how_estimated": how_estimated(result),
        "assumptions": assumptions(result),
        "chosen": result.chosen,
        "parameters": [each for each in parameters(result) if each.chosen],
        "default_failure": result.default.failure,
        "with_interval": lambda estimate: with_interval(estimate.value, estimate.interval()),
    }


def _metrics(result: SearchResult) -> list[dict[str, str]]:
    rows = []
    for name, row in result.metrics.table.iterrows():
        found = {"name": metric_in_words(str(name)), "better": row["better"], "note": row["note"]}
        found["estimate"] = ""
        if row["estimate"] == row["estimate"]:
            ends = float(row["low"]), float(row["high"])
            found["estimate"], found["low"], found["high"] = figures(float(row["estimate"]), *ends)
            for end in ("lowest", "highest"):
                found[end] = f"{written_like(float(row[end]), ends)} ({row[f'{end}_site']})"
        rows.append(found)
    return rows


def _update(record: Mapping[str, Any], target: str) -> dict[str, str]:
    return {
        "number": str(record["number"]),
        "labels": str(record["labels"]),
        "before": estimate_in_words(record["before"]),
        "after": estimate_in_words(record["after"]),
        "gain": estimate_in_words(record["gain"]),
        "metrics": ", ".join(f"{name} {value}" for name, value in metric_facts(record)),
        "model": model_in_words(record),
        "effect": effect_in_words(record, target),
        "first": first_in_words(record),
    }


def _sites(result: SearchResult) -> dict[str, Any]:
    estimated = result.risk.sources_with_intervals().to_dict("index")
    seen = result.overlap.table.to_dict("index")
    rows = []
    for name in dict.fromkeys([*seen, *estimated]):
        # A few labelled rows of the target itself are evaluated too, and overlap by definition.
        row: dict[str, Any] = {"site": name, "verdict": "labelled rows of the target", "out": False}
        if name in seen:
            look = seen[name]
            row |= {
                "mean_weight": number(look["mean_weight"]),
                "ess": effective_share(look),
                "uncovered": percent(look["uncovered"]),
                "verdict": look["verdict"],
            }
        if name in estimated:
            own = estimated[name]
            row["risk"] = with_interval(own["estimate"], (own["low"], own["high"]))
            row["share"] = percent(own["share"])
            row["n"] = own["n"]
            # An estimate that fell back may use a source all the same.
            row["out"] = own["left_out"] != "" and own["share"] == 0
            if row["out"]:
                row["verdict"] = f"left out: {own['left_out']}"
        rows.append(row)
    table = outermost(result.risk.sources_with_intervals(), "estimate", MOST_SITES)
    by_name = {str(row["site"]): row for row in rows}
    return {
        "sites": rows,
        "shown_sites": rows
        if len(rows) <= MOST_SITES
        else [by_name[str(name)] for name in table.index],
        "most_sites": MOST_SITES,
        "any_left_out": any(row["out"] for row in rows),
        "diagnosed_only": not result.overlap.used,
    }


# ---------------------------------------------------------------- the view in a notebook


def summary(result: SearchResult) -> str:
    """Return a result as a piece of HTML; all names from the user's data are escaped."""
    risk, target = result.risk, result.target
    notes = [risk.fallback] if risk.fallback else []
    if not risk.fallback and risk.coverage < 0.9:
        notes.append(f"the sources cover about {percent(risk.coverage)} of {target}")
    notes += result.notes
    sites = risk.sources_with_intervals()
    shown = sites.sort_values("share", ascending=False).head(12)
    rows = [
        (
            site,
            with_interval(row["estimate"], (row["low"], row["high"])),
            percent(row["share"]),
            f"left out: {row['left_out']}" if row["left_out"] else "",
        )
        for site, row in zip(shown.index, shown.to_dict("records"), strict=True)
    ]
    first = brief(result, result.checks)
    members = len(result.choice.weights)
    predicting = f"The weighted mean of {members} trials predicts."
    if members == 1:
        predicting = f"Trial {result.chosen} predicts."
    parts = [
        f"<p><b>{_text(first.title)}</b>. {_text(first.question)}</p>",
        f"<p><b>Verdict: {_text(first.trust)}</b>: "
        f"{_text(first.reason or 'no check found anything', 400)}</p>",
        _table(
            (f"expected at {target}", "", "95 % interval", "beside"),
            [(each.name, each.value, each.interval, each.beside) for each in first.figures],
        ),
        f"<p>{predicting} {_text(count(len(result.risks), 'completed trial'))}; the best "
        f"is trial {result.chosen}: {_text(in_words(result.best_params), 400)}.</p>",
        *(f"<p>{_text(note)}</p>" for note in notes),
        _table(("site", loss_in_words(result.loss.name), "share", ""), rows),
    ]
    if len(shown) < len(sites):
        parts.append(f"<p>and {len(sites) - len(shown)} sites with smaller shares</p>")
    return "<div>" + "".join(parts) + "</div>"


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    body = "".join(_row("td", row) for row in rows)
    return f"<table><thead>{_row('th', head)}</thead><tbody>{body}</tbody></table>"


def _row(tag: str, cells: Sequence[Any]) -> str:
    inside = "".join(f'<{tag} style="text-align:left">{_text(cell)}</{tag}>' for cell in cells)
    return f"<tr>{inside}</tr>"


def _text(value: Any, most: int = 200) -> str:
    return escape(shortened(str(value), most))


# ---------------------------------------------------------------- files


def save_text(text: str, path: str | os.PathLike[str], what: str) -> Path:
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
