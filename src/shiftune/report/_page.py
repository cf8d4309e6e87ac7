"""Report as one HTML file: the answer and how far to trust it, then all that is behind it."""

from __future__ import annotations

import base64
import datetime
import hashlib
import os
from collections.abc import Mapping, Sequence
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
    lower_by,
    metric_in_words,
    number,
    percent,
    with_interval,
    written_like,
)
from shiftune.checks import Check
from shiftune.checks._checks import NOTHING_TO_DO
from shiftune.errors import MissingPackageError, StorageError
from shiftune.ratio._overlap import effective_share
from shiftune.report._charts import charts_of
from shiftune.report._words import (
    assumptions,
    brief,
    effect_in_words,
    estimate_in_words,
    first_in_words,
    how_estimated,
    how_to_repeat,
    in_words,
    metric_facts,
    model_in_words,
    parameters,
    update_in_words,
)
from shiftune.report.figures import MOST_SITES, outermost_sites, plotly
from shiftune.search._result import SearchResult, model_name, tied_rivals


def save_text(text: str, path: str | os.PathLike[str], what: str) -> Path:
    """Write a file of text; `what` names it in errors."""
    where = file_path(path)
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(where) as part:
            part.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise StorageError(
            f"{what} {str(where)!r} cannot be written ({error.strerror}); give another path"
        ) from error
    return where


def file_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file, or refuse that of a folder."""
    where = Path(path)
    if where.is_dir():
        raise StorageError(f"{str(where)!r} is a folder; give the path of a file, such as r.html")
    return where


MOST_TIED = 10
SERIOUS_FIRST = (Level.PROBLEM, Level.CAUTION, Level.OK)


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
    file_path(path)  # before the work
    return save_text(page(result, result.checks, settings, updates), path, "the report")


def page(
    result: SearchResult,
    checks: Sequence[Check] = (),
    settings: Mapping[str, str] | None = None,
    updates: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the report as text; see `save_report`."""
    plotly()
    jinja2, markup = _jinja()
    charts = charts_of(result)
    program = _resource("report.js")
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
            **_ties(result),
            metrics=_metrics(result),
            updates=[_update(record, result.target) for record in updates],
            charts={chart.id: chart for chart in charts},
            slices=[chart for chart in charts if chart.id.startswith("slice-")],
            most_shifted=list(result.shifts.index[:3]),
            checks=sorted(checks, key=lambda check: SERIOUS_FIRST.index(check.level)),
            settings=how_to_repeat(result, settings),
            exact_parameters=repr(result.best_params),
            written=datetime.datetime.now().astimezone().strftime("%d %B %Y, %H:%M"),
            style=markup(_resource("report.css")),
            program=markup(program),
            hash=_script_hash(program),
            drawn=markup,
            nothing_to_do=NOTHING_TO_DO,
        )
    )


# ---------------------------------------------------------------- the sections


def _asked(result: SearchResult) -> dict[str, Any]:
    return {
        "target": result.target,
        "labelled": result.problem.labelled_target is not None,
        "model": _models(result),
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
    outermost = [str(name) for name in outermost_sites(result.risk, most=MOST_SITES).index]
    by_name = {str(row["site"]): row for row in rows}
    return {
        "sites": rows,
        "shown_sites": rows if len(rows) <= MOST_SITES else [by_name[name] for name in outermost],
        "most_sites": MOST_SITES,
        "any_left_out": any(row["out"] for row in rows),
        "diagnosed_only": not result.overlap.used,
    }


def _ties(result: SearchResult) -> dict[str, Any]:
    return {
        "tied": tied_rivals(result, MOST_TIED),
        "tied_count": len(result.tied),
        "tied_trials": count(len(result.tied), "trial"),
    }


def _models(result: SearchResult) -> str:
    """Name the model of a search, or its families."""
    if len(result.families) > 1:
        return listed(list(result.families), quoted=False)
    return _model_name(result.model)


def _model_name(estimator: Any) -> str:
    return model_name(estimator) + (" (in a pipeline)" if hasattr(estimator, "steps") else "")


def _jinja() -> tuple[Any, Any]:
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError as error:
        raise MissingPackageError(f"the report needs Jinja2; {how_to_install('report')}") from error
    return jinja2, Markup


# ---------------------------------------------------------------- one file, without foreign code


def _script_hash(script: str) -> str:
    """Return the script's hash for the page's security policy, which allows no other script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _resource(name: str) -> str:
    """Return a file that lies beside the page's template."""
    return (files("shiftune.report") / "templates" / name).read_text(encoding="utf-8")
