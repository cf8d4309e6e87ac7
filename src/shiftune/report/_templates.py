"""Templates, and what they share: a figure looks the same wherever it is shown."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2

from shiftune import _wording

# What templates call beside Jinja's own filters.
_FILTERS = {
    "counted": _wording.count,
    "estimate": _wording.estimate_in_words,
    "figure": _wording.figure_in_words,
    "listed": _wording.listed,
    "lower_by": _wording.lower_by,
    "number": _wording.number,
    "params": _wording.params_in_words,
    "percent": _wording.percent,
    "shortened": _wording.shortened,
    "updated_model": _wording.updated_model,
}
_LIMITS = {
    "most_classes": _wording.MOST_CLASSES,
    "most_columns": _wording.MOST_COLUMNS,
    "most_sites": _wording.MOST_SITES,
}


@cache
def template(name: str, **options: Any) -> jinja2.Template:
    """Return a template by its file; in HTML all that is filled in is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("shiftune.report"),
        autoescape=name.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        **options,
    )
    environment.filters |= _FILTERS
    environment.globals |= _LIMITS
    return environment.get_template(name)


def sentence(name: str, *facts: Any) -> str:
    """Return a sentence of a document, by the name of its macro."""
    text: str = getattr(template("sentences.j2").module, name)(*facts)
    return " ".join(text.split())
