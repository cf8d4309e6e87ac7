"""One HTML file that says what was asked, what came out and how far it can be believed."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftune.atomic_write import atomic_write
from shiftune.checks import Check, run_checks
from shiftune.errors import ProblemError
from shiftune.provenance import versions_in_words
from shiftune.report.charts import TEMPLATES, charts_of, specification
from shiftune.report.comparison import as_given, naive_choice, risk_of_trial
from shiftune.report.interactive.canvas import plotly
from shiftune.report.labels_in_words import worth_in_words, worth_of_labels
from shiftune.report.method import how_estimated, taken_for_granted
from shiftune.report.one_file import json_in_html, plotly_js, resource, script_hash
from shiftune.report.parameters import parameters
from shiftune.report.tables import overlap_of, shifts_of, sources_with_intervals
from shiftune.search.selection import paired_difference
from shiftune.wording import (
    count,
    figures,
    loss_in_words,
    number,
    with_interval,
    written_like,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from shiftune.report.tables import Overlap
    from shiftune.search import ShiftSearch

MOST_TIED = 10
SETTINGS = (
    "estimator",
    "loss",
    "risk",
    "ratio",
    "plan",
    "sampler",
    "n_trials",
    "shares",
    "training_weights",
    "random_state",
)


def save_report(
    search: ShiftSearch,
    path: str | os.PathLike[str],
    *,
    settings: Mapping[str, str] | None = None,
) -> Path:
    """Write the report of a fitted search: one HTML file that needs no network to be read.

    The model as it was given is fitted once more, to be compared with the chosen one.

    Parameters
    ----------
    search : ShiftSearch
        Fitted.
    path : path
        Of the file; one that is there is replaced.
    settings : mapping, optional
        What the reader needs to do it again, in lines of name and text: the command, the data
        file. Default: what the search knows of itself. The versions of now are added where they
        are not among them.

    Returns
    -------
    Path
    """
    search._check_fitted()
    where = Path(path)
    if where.is_dir():
        raise ProblemError(f"{str(where)!r} is a folder; give the path of a file, such as r.html")
    checks = run_checks(search)
    text = page(search, checks, settings)
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(where) as part:
            part.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise ProblemError(
            f"the report {str(where)!r} cannot be written ({error.strerror}); give another path"
        ) from error
    return where


def page(
    search: ShiftSearch,
    checks: Sequence[Check] = (),
    settings: Mapping[str, str] | None = None,
) -> str:
    """Return the report as text; see `save_report`."""
    plotly()
    jinja2, markup = _jinja()
    overlap, shifts = overlap_of(search), shifts_of(search)
    charts = charts_of(search, overlap, shifts)
    program, library = resource("report.js"), plotly_js()
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("shiftune.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    specifications = {
        "charts": {chart.id: specification(chart.figure) for chart in charts},
        "templates": TEMPLATES,
    }
    return str(
        environment.get_template("report.html.j2").render(
            **_asked(search),
            **_answer(search),
            **_sources(search, overlap),
            **_ties(search),
            charts={chart.id: chart for chart in charts},
            slices=[chart for chart in charts if chart.id.startswith("slice-")],
            most_shifted=list(shifts.index[:3]),
            checks=checks,
            labels_would_buy=_labels_would_buy(search),
            settings={
                **(_known_settings(search) if settings is None else settings),
                "versions": (settings or {}).get("versions") or versions_in_words(),
            },
            exact_parameters=repr(search.best_params_),
            written=datetime.datetime.now().astimezone().strftime("%d %B %Y, %H:%M"),
            style=markup(resource("report.css")),
            program=markup(program),
            library=markup(library),
            data=markup(json_in_html(specifications)),
            hashes=[script_hash(library), script_hash(program)],
        )
    )


# ---------------------------------------------------------------- the sections


def _asked(search: ShiftSearch) -> dict[str, Any]:
    problem = search.problem_
    few = problem.labelled_target
    states = search.trials_["state"].value_counts().to_dict()
    return {
        "target": problem.target.name,
        "target_rows": count(len(problem.target), "row"),
        "source_count": count(len(problem.sources), "labelled site"),
        "source_rows": count(sum(len(site) for site in problem.sources), "row"),
        "labelled_rows": count(len(few), "label") if few else "",
        "column_count": count(len(problem.columns), "column"),
        "task": problem.task,
        "model": _model_name(search.estimator),
        "loss": loss_in_words(search.loss_.name),
        "completed_count": int(states.get("COMPLETE", 0)),
        "completed_trials": count(int(states.get("COMPLETE", 0)), "trial"),
        "failed_trials": int(states.get("FAIL", 0)),
        "interrupted": search.interrupted_,
        "notes": problem.notes,
    }


def _answer(search: ShiftSearch) -> dict[str, Any]:
    risk = search.risk_
    value, low, high = figures(risk.value, *risk.interval())
    given, naive = as_given(search), naive_choice(search)
    mean_loss = float(search.trials_["mean_loss"].to_dict()[search.best_index_])
    return {
        "risk": with_interval(risk.value, risk.interval()),
        "risk_value": value,
        "risk_interval": f"{low} to {high}",
        "method": risk.method.replace("_", " "),
        "fallback": risk.fallback,
        "coverage": None if risk.fallback or risk.coverage >= 0.9 else f"{risk.coverage:.0%}",
        "corrected": search._judging().risk.corrects,
        "how_estimated": how_estimated(search),
        "taken_for_granted": taken_for_granted(search),
        "mean_loss": None if mean_loss != mean_loss else mean_loss,
        "as_risk": lambda value: written_like(value, risk.interval()),
        "chosen": search.best_index_,
        "parameters": parameters(search),
        "given": None if isinstance(given, str) else given,
        "given_failure": given if isinstance(given, str) else "",
        "naive": naive,
        "with_interval": lambda uncertain: with_interval(uncertain.value, uncertain.interval()),
    }


def _sources(search: ShiftSearch, overlap: Overlap) -> dict[str, Any]:
    said = sources_with_intervals(search.risk_).to_dict("index")
    seen = overlap.table.to_dict("index")
    rows = []
    for name in dict.fromkeys([*seen, *said]):
        # Few labelled rows of the target itself are judged too, and overlap by definition.
        row: dict[str, Any] = {"site": name, "verdict": "labelled rows of the target"}
        if name in seen:
            look = seen[name]
            row |= {
                "mean_weight": number(look["mean_weight"]),
                "ess": f"{look['ess_share']:.0%}",
                "uncovered": f"{look['uncovered']:.0%}",
                "verdict": look["verdict"],
            }
        if name in said:
            own = said[name]
            row["risk"] = with_interval(own["estimate"], (own["low"], own["high"]))
            row["share"] = f"{own['share']:.0%}"
            row["n"] = own["n"]
            # What an estimate fell back on may listen to it all the same.
            row["out"] = own["left_out"] != "" and own["share"] == 0
            if row["out"]:
                row["verdict"] = f"left out: {own['left_out']}"
        rows.append(row)
    return {
        "sources": rows,
        "any_left_out": any(row.get("out") for row in rows),
        "diagnosed_only": not overlap.used,
    }


def _ties(search: ShiftSearch) -> dict[str, Any]:
    trials = search.trials_
    tied = trials[trials["tied_with_best"]].sort_values("risk")
    best = risk_of_trial(search, int(tied.index[0]))
    rows = []
    for trial in [int(t) for t in tied.index[:MOST_TIED]]:
        risk = risk_of_trial(search, trial)
        difference = paired_difference(risk, best)
        rows.append(
            {
                "trial": trial,
                "risk": with_interval(risk.value, risk.interval()),
                "difference": ""
                if trial == tied.index[0]
                else with_interval(difference.value, difference.interval()),
                "chosen": trial == search.best_index_,
            }
        )
    return {
        "tied": rows,
        "tied_count": len(tied),
        "tied_trials": count(len(tied), "trial"),
        "best": int(tied.index[0]),
    }


def _labels_would_buy(search: ShiftSearch) -> str:
    worth = worth_of_labels(search)
    return "" if worth is None else worth_in_words(worth, search.problem_.target.name)


def _known_settings(search: ShiftSearch) -> dict[str, str]:
    told = {name: repr(getattr(search, name)) for name in SETTINGS}
    return told | {"data fingerprint": search.problem_.fingerprint()}


def _inner_model(estimator: Any) -> Any:
    steps = getattr(estimator, "steps", None)
    return steps[-1][1] if steps else estimator


def _model_name(estimator: Any) -> str:
    inner = _inner_model(estimator)
    return type(inner).__name__ + ("" if inner is estimator else " (in a pipeline)")


def _jinja() -> tuple[Any, Any]:
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError as error:
        raise ProblemError("the report needs Jinja2; pip install 'shiftune[report]'") from error
    return jinja2, Markup
