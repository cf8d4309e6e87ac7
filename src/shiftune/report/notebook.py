"""What a notebook shows of a fitted search: the answer and the sites, small and without scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from shiftune.report.tables import completed, sources_with_intervals
from shiftune.wording import count, loss_in_words, number, shortened, with_interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shiftune.search import ShiftSearch

MOST_SITES = 12


def summary(search: ShiftSearch) -> str:
    """Return a fitted search as a piece of HTML; all names of the user's are escaped."""
    risk, target = search.risk_, search.problem_.target.name
    trials = completed(search.trials_)
    notes = [risk.fallback] if risk.fallback else []
    if not risk.fallback and risk.coverage < 0.9:
        notes.append(f"the sources cover about {risk.coverage:.0%} of {target}")
    sites = sources_with_intervals(risk)
    shown = sites.sort_values("share", ascending=False).head(MOST_SITES)
    rows = [
        (
            site,
            with_interval(row["estimate"], (row["low"], row["high"])),
            f"{row['share']:.0%}",
            f"left out: {row['left_out']}" if row["left_out"] else "",
        )
        for site, row in zip(shown.index, shown.to_dict("records"), strict=True)
    ]
    parts = [
        f"<p><b>{_said(type(search).__name__)}</b> for {_said(target)}: estimated "
        f"{_said(loss_in_words(search.loss_.name))} "
        f"<b>{_said(with_interval(risk.value, risk.interval()))}</b> (95 % interval), "
        f"{_said(risk.method.replace('_', ' '))}. Trial {search.best_index_} of "
        f"{_said(count(len(trials), 'completed trial'))}; {int(trials['tied_with_best'].sum())} "
        "cannot be told apart from the best.</p>",
        *(f"<p>{_said(note)}</p>" for note in notes),
        _table(
            ("parameter", "chosen"),
            [(name, number(value)) for name, value in search.best_params_.items()],
        ),
        _table(("site", "says", "share", ""), rows),
    ]
    if len(shown) < len(sites):
        parts.append(f"<p>and {len(sites) - len(shown)} sites with smaller shares</p>")
    return "<div>" + "".join(parts) + "</div>"


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    body = "".join(_row("td", row) for row in rows)
    return f"<table><thead>{_row('th', head)}</thead><tbody>{body}</tbody></table>"


def _row(tag: str, cells: Sequence[Any]) -> str:
    inside = "".join(f'<{tag} style="text-align:left">{_said(cell)}</{tag}>' for cell in cells)
    return f"<tr>{inside}</tr>"


def _said(value: Any) -> str:
    return escape(shortened(str(value), 120))
