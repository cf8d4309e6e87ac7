"""Summary of a result for notebooks: the answer and the sites, small and without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from shiftune.report.brief import brief
from shiftune.report.parameters import in_words
from shiftune.wording import count, loss_in_words, percent, shortened, with_interval

if TYPE_CHECKING:
    from shiftune.search.result import SearchResult

MOST_SITES = 12


def summary(result: SearchResult) -> str:
    """Return a result as a piece of HTML; all names from the user's data are escaped."""
    risk, target = result.risk, result.target
    notes = [risk.fallback] if risk.fallback else []
    if not risk.fallback and risk.coverage < 0.9:
        notes.append(f"the sources cover about {percent(risk.coverage)} of {target}")
    notes += result.notes
    sites = risk.sources_with_intervals()
    shown = sites.sort_values("share", ascending=False).head(MOST_SITES)
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
    parts = [
        f"<p><b>{_text(first.title)}</b>. {_text(first.question)}</p>",
        f"<p><b>Verdict: {_text(first.trust)}</b>: "
        f"{_text(first.reason or 'no check found anything', 400)}</p>",
        _table(
            (f"expected at {target}", "", "95 % interval", "beside"),
            [(each.name, each.value, each.interval, each.beside) for each in first.figures],
        ),
        f"<p>{_predicting(result)} {_text(count(len(result.risks), 'completed trial'))}; the best "
        f"is trial {result.chosen}: {_text(in_words(result.best_params), 400)}.</p>",
        *(f"<p>{_text(note)}</p>" for note in notes),
        _table(("site", loss_in_words(result.loss.name), "share", ""), rows),
    ]
    if len(shown) < len(sites):
        parts.append(f"<p>and {len(sites) - len(shown)} sites with smaller shares</p>")
    return "<div>" + "".join(parts) + "</div>"


def _predicting(result: SearchResult) -> str:
    members = len(result.choice.weights)
    if members == 1:
        return f"Trial {result.chosen} predicts."
    return f"The weighted mean of {members} trials predicts."


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    body = "".join(_row("td", row) for row in rows)
    return f"<table><thead>{_row('th', head)}</thead><tbody>{body}</tbody></table>"


def _row(tag: str, cells: Sequence[Any]) -> str:
    inside = "".join(f'<{tag} style="text-align:left">{_text(cell)}</{tag}>' for cell in cells)
    return f"<tr>{inside}</tr>"


def _text(value: Any, most: int = 200) -> str:
    return escape(shortened(str(value), most))
