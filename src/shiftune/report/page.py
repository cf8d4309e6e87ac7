"""One HTML file that says what was asked, what came out and how far it can be believed."""

from __future__ import annotations

import base64
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from shiftune.errors import ProblemError
from shiftune.report import interactive
from shiftune.report.comparison import as_given, naive_choice, risk_of_trial
from shiftune.report.parameters import parameters
from shiftune.report.tables import (
    importances_of,
    overlap_of,
    shifts_of,
    source_weights,
    sources_with_intervals,
)
from shiftune.report.wording import count, loss_in_words, number, with_interval, written_like
from shiftune.search.selection import gap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shiftune.search import ShiftSearch

MOST_TIED = 10
PACKAGES = ("shiftune", "scikit-learn", "optuna", "numpy", "pandas", "scipy")


class Finding(Protocol):
    """An assumption that was checked, in plain words."""

    @property
    def name(self) -> str:
        """What was checked."""

    @property
    def level(self) -> Literal["ok", "caution", "problem"]:
        """How bad it is."""

    @property
    def finding(self) -> str:
        """What was found."""

    @property
    def advice(self) -> str:
        """What to do."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure and the sentence that stands for it where it cannot be seen."""

    id: str
    alt: str
    figure: Any


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
        file. Default: what the search knows of itself.

    Returns
    -------
    Path
    """
    search._check_fitted()
    where = Path(path)
    if where.is_dir():
        raise ProblemError(f"{str(where)!r} is a folder; give the path of a file, such as r.html")
    checks: Sequence[Finding] = ()  # MERGE: assumption_checks(search) of shiftune.report.checks
    text = page(search, checks, settings)
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(where, text)
    except OSError as error:
        raise ProblemError(
            f"the report {str(where)!r} cannot be written ({error.strerror}); give another path"
        ) from error
    return where


def page(
    search: ShiftSearch,
    checks: Sequence[Finding] = (),
    settings: Mapping[str, str] | None = None,
) -> str:
    """Return the report as text; see `save_report`."""
    interactive.need_plotly()
    jinja2, markup = _jinja()
    charts = _charts(search)
    program = _resource("report.js")
    library = _plotly_js()
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("shiftune.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number}
    specifications = {
        "charts": {chart.id: _specification(chart.figure) for chart in charts},
        "templates": _TEMPLATES,
    }
    return str(
        environment.get_template("report.html.j2").render(
            **_asked(search),
            **_answer(search),
            **_sources(search),
            **_ties(search),
            charts={chart.id: chart for chart in charts},
            slices=[chart for chart in charts if chart.id.startswith("slice-")],
            checks=checks,
            settings=dict(settings) if settings is not None else _known_settings(search),
            exact_parameters=repr(search.best_params_),
            versions=_versions(),
            written=datetime.datetime.now().astimezone().strftime("%d %B %Y, %H:%M"),
            style=markup(_resource("report.css")),
            program=markup(program),
            library=markup(library),
            data=markup(_json_in_html(specifications)),
            hashes=[_hash(library), _hash(program)],
        )
    )


# ---------------------------------------------------------------- the sections


def _asked(search: ShiftSearch) -> dict[str, Any]:
    problem = search.problem_
    states = search.trials_["state"].value_counts().to_dict()
    return {
        "target": problem.target.name,
        "target_rows": count(len(problem.target), "row"),
        "source_count": count(len(problem.sources), "labelled site"),
        "source_rows": count(sum(len(site) for site in problem.sources), "row"),
        "labelled_rows": len(problem.labelled_target) if problem.labelled_target else 0,
        "column_count": count(len(problem.columns), "column"),
        "task": problem.task,
        "model": _model_name(search.estimator),
        "loss": loss_in_words(search.loss_.name),
        "completed_trials": count(int(states.get("COMPLETE", 0)), "trial"),
        "failed_trials": int(states.get("FAIL", 0)),
        "interrupted": search.interrupted_,
        "notes": problem.notes,
    }


def _answer(search: ShiftSearch) -> dict[str, Any]:
    risk = search.risk_
    given, naive = as_given(search), naive_choice(search)
    mean_loss = float(search.trials_["mean_loss"].to_dict()[search.best_index_])
    return {
        "risk": with_interval(risk.value, risk.interval()),
        "risk_value": with_interval(risk.value, risk.interval()).split(" ")[0],
        "risk_interval": with_interval(risk.value, risk.interval()).partition(" (")[2][:-1],
        "method": risk.method.replace("_", " "),
        "fallback": risk.fallback,
        "coverage": None if risk.fallback or risk.coverage >= 0.9 else f"{risk.coverage:.0%}",
        "corrected": search.risk not in ("naive", "oracle"),
        "oracle": search.risk == "oracle",
        "mean_loss": None if mean_loss != mean_loss else mean_loss,
        "as_risk": lambda value: written_like(value, risk.interval()),
        "chosen": search.best_index_,
        "one_se": search.select == "one_se",
        "parameters": parameters(search),
        "given": None if isinstance(given, str) else given,
        "given_failure": given if isinstance(given, str) else "",
        "naive": naive,
        "with_interval": lambda uncertain: with_interval(uncertain.value, uncertain.interval()),
        "last_part": interactive.last_part,
    }


def _sources(search: ShiftSearch) -> dict[str, Any]:
    said, seen = sources_with_intervals(search.risk_), overlap_of(search)
    rows = []
    for name in search.problem_.names:
        look = seen.loc[name]
        row = {
            "site": name,
            "n": int(look["n"]),
            "mean_weight": number(float(look["mean_weight"])),
            "ess": f"{look['ess']:.0f}",
            "uncovered": f"{look['uncovered']:.0%}",
            "verdict": str(look["verdict"]),
            "out": str(look["verdict"]).startswith("left out"),
        }
        if name in said.index:
            own = said.loc[name]
            row["risk"] = with_interval(own["estimate"], (own["low"], own["high"]))
            row["share"] = f"{own['share']:.0%}"
        rows.append(row)
    return {
        "sources": rows,
        "diagnosed_only": search.weights_ is None,
        "most_shifted": list(shifts_of(search).index[:3]),
    }


def _ties(search: ShiftSearch) -> dict[str, Any]:
    trials = search.trials_
    tied = trials[trials["tied_with_best"]].sort_values("risk")
    best = risk_of_trial(search, int(tied.index[0]))
    rows = []
    for trial in [int(t) for t in tied.index[:MOST_TIED]]:
        risk = risk_of_trial(search, trial)
        difference = gap(risk, best)
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


def _known_settings(search: ShiftSearch) -> dict[str, str]:
    return {
        "search": repr(search),
        "seed": str(search.random_state),
        "data fingerprint": search.problem_.fingerprint(),
    }


def _versions() -> dict[str, str]:
    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"Python": platform.python_version(), **found}


def _model_name(estimator: Any) -> str:
    steps = getattr(estimator, "steps", None)
    inner = type(steps[-1][1]).__name__ if steps else ""
    return f"{inner} (in a pipeline)" if inner else type(estimator).__name__


# ---------------------------------------------------------------- charts


def _charts(search: ShiftSearch) -> list[Chart]:
    target = search.problem_.target.name
    found = [
        Chart(
            "forest",
            f"Forest plot: what each source says about the risk at {target}.",
            interactive.forest(search.risk_),
        ),
        Chart(
            "shifts",
            f"How differently each column is distributed at {target}, by source.",
            interactive._shifts(shifts_of(search)),
        ),
        Chart(
            "history",
            "Estimated risk of every trial, with its interval.",
            interactive.history(search.trials_, chosen=search.best_index_),
        ),
    ]
    if search.weights_ is not None:
        found.append(
            Chart(
                "weights",
                "Spread of the weights of every source.",
                interactive._weights(source_weights(search), overlap_of(search)),
            )
        )
    shares = importances_of(search.study_)
    if shares:
        found.append(
            Chart("importances", "Importance of the parameters.", interactive._importances(shares))
        )
    names = [c.removeprefix("param_") for c in search.trials_ if c.startswith("param_")]
    found += [
        Chart(
            f"slice-{position}",
            f"Estimated risk against {name}.",
            interactive.parameter_slice(search, name),
        )
        for position, name in enumerate(names)
    ]
    return found


def _specification(figure: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(figure.to_json())
    found["layout"].pop("template", None)  # the page has its own, one for each colour scheme
    return found


def _template(text: str, lines: str, background: str) -> dict[str, Any]:
    in_cells = {"textfont": {"color": text}}
    axis = {"gridcolor": lines, "linecolor": lines, "tickcolor": lines, "zerolinecolor": lines}
    return {
        "data": {"heatmap": [in_cells]},
        "layout": {
            "font": {"family": "system-ui, sans-serif", "size": 12, "color": text},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "hoverlabel": {
                "bgcolor": background,
                "bordercolor": lines,
                "font": {"color": text, "family": "system-ui, sans-serif"},
            },
            "xaxis": axis,
            "yaxis": axis,
        },
    }


_TEMPLATES = {
    "light": _template("#24292f", "#dde1e6", "#ffffff"),
    "dark": _template("#dfe3e8", "#3a414a", "#22272e"),
}


# ---------------------------------------------------------------- one safe file


def _json_in_html(value: Any) -> str:
    """Write JSON so that nothing in it can end the element that holds it.

    >>> _json_in_html({"site": "</script>"})
    '{"site": "\\u003c/script\\u003e"}'
    """
    text = json.dumps(value)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _hash(script: str) -> str:
    """Return what the page's security policy calls the script; no other can then run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _resource(name: str) -> str:
    return (files("shiftune.report") / "templates" / name).read_text(encoding="utf-8")


def _plotly_js() -> str:
    from plotly.offline import get_plotlyjs

    # As a browser reads it: the hash is of the text after line ends are made one.
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


def _jinja() -> tuple[Any, Any]:
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError as error:
        raise ProblemError("the report needs Jinja2; pip install 'shiftune[report]'") from error
    return jinja2, Markup


def _write_whole(path: Path, text: str) -> None:
    """Write beside the file and put it in place, so that no half of a report is ever there."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", newline="\n", dir=path.parent, suffix=".part", delete=False
    ) as file:
        file.write(text)
    os.chmod(file.name, 0o666 & ~_umask())
    os.replace(file.name, path)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
