"""Model card: intended use, data, figures, limits and how to reproduce, in Markdown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from shiftune._names import Level
from shiftune._wording import count, listed, loss_in_words, percent
from shiftune.checks import Check
from shiftune.report._page import save_text
from shiftune.report._words import Brief, assumptions, brief, how_estimated, how_to_repeat, in_words
from shiftune.search._result import SearchResult

# Longer lists are cut off.
_MOST_COLUMNS = 40
MOST_SITES = 30


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
    return save_text(model_card(result, result.checks, settings), path, "the model card")


def model_card(
    result: SearchResult, checks: Sequence[Check], settings: Mapping[str, str] | None = None
) -> str:
    """Return the model card as text; see `save_model_card`."""
    first = brief(result, checks)
    parts = [
        f"# {_plain(first.title)}",
        _plain(first.question),
        f"**Verdict: {first.trust}**: {_plain(first.reason or 'no check found anything')}",
        *_use(result),
        *_data(result),
        *_figures(result, first),
        *_limits(result, checks),
        *_model(result),
        "## How to reproduce",
        _bullets(f"{name}: {text}" for name, text in how_to_repeat(result, settings).items()),
    ]
    return "\n\n".join(parts) + "\n"


def _use(result: SearchResult) -> list[str]:
    target, columns = result.target, result.problem.columns
    named = listed(columns, _MOST_COLUMNS, quoted=False)
    return [
        "## Intended use",
        _plain(
            f"Predictions for rows of {target} like those that were given. Figures, intervals and "
            f"checks are about {target} and no other site: for another one, run the search again "
            "with that site as the target."
        ),
        _plain(f"Rows need {count(len(columns), 'column')}: {named}."),
    ]


def _data(result: SearchResult) -> list[str]:
    problem = result.problem
    few = problem.labelled_target
    sites = list(problem.sources)
    if len(sites) > MOST_SITES:
        sites.sort(key=len, reverse=True)
    shown = [(site.name, count(len(site), "row"), "labels") for site in sites[:MOST_SITES]]
    if others := sites[MOST_SITES:]:
        total = count(sum(map(len, others)), "row")
        shown.append((count(len(others), "smaller site"), total, "labels"))
    about = f"{count(len(few), 'label')} used" if few else "no labels used"
    shown.append((f"{problem.target.name} (target)", count(len(problem.target), "row"), about))
    return [
        "## Data",
        _table(("site", "rows", "labels"), shown),
        *([_bullets(f"{note}." for note in problem.notes)] if problem.notes else []),
    ]


def _figures(result: SearchResult, first: Brief) -> list[str]:
    loss = loss_in_words(result.loss.name)
    return [
        f"## Figures at {_plain(result.target)}",
        _table(
            ("figure", "estimate", "95 % interval", "how to read it", "beside"),
            [(f.name, f.value, f.interval, f.meaning, f.beside) for f in first.figures],
        ),
        _table(
            (loss, "expected", "more than this model"),
            [(c.name, c.expected, c.worse_by) for c in first.compared],
        ),
        _plain(how_estimated(result)),
        *([_bullets(f"{note}." for note in result.notes)] if result.notes else []),
    ]


def _limits(result: SearchResult, checks: Sequence[Check]) -> list[str]:
    serious = [check for check in checks if check.level is not Level.OK]
    passed = [check.name for check in checks if check.level is Level.OK]
    found = [
        f"**{c.level}, {_plain(c.name)}.** {_plain(f'{c.finding} {c.advice}')}" for c in serious
    ]
    return [
        "## Limits",
        *(["\n".join(f"- {each}" for each in found)] if found else []),
        *([f"Checks that found nothing: {_plain(', '.join(passed))}."] if passed else []),
        _plain(assumptions(result)),
        "Not examined: harm to groups of people, misuse, and whether acting on predictions helps.",
    ]


def _model(result: SearchResult) -> list[str]:
    members = result.members
    rows = [
        (str(trial), str(row["model"]), percent(row["weight"]), in_words(row["params"]))
        for trial, row in zip(members.index, members.to_dict("records"), strict=True)
    ]
    how = "The weighted mean of these models" if len(rows) > 1 else "This model"
    completed = count(len(result.risks), "completed trial")
    return [
        "## Model",
        f"{how}, fitted on all labelled rows, of {completed}.",
        _table(("trial", "model", "weight", "parameters"), rows),
    ]


def _plain(text: str) -> str:
    """Write a text so that Markdown shows it as it is, in one line."""
    return re.sub(r"([\\`*\[\]<>|])", r"\\\1", " ".join(text.split()))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _bullets(texts: Iterable[str]) -> str:
    return "\n".join(f"- {_plain(text)}" for text in texts)
