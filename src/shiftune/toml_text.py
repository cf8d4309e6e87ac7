"""Values as the text of TOML files, which the standard library only reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_lines(entries: Mapping[str, Any]) -> str:
    """Return a line for every entry; values are text, numbers, truth values, lists and mappings.

    >>> print(toml_lines({"label": "ill", "C": {"low": 0.1, "log": True}, "keep": ["a b"]}))
    label = "ill"
    C = { low = 0.1, log = true }
    keep = ["a b"]
    """
    return "\n".join(f"{_key(name)} = {_value(value)}" for name, value in entries.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(name)} = {_value(each)}" for name, each in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    # The rest is written as in JSON, except that TOML knows no halves of characters.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _value(name)
