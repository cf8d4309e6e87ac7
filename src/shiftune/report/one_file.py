"""Parts of a self-contained page, in which no text can become code."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any


def json_in_html(value: Any) -> str:
    r"""Write JSON so that nothing in it can end the element that holds it.

    >>> json_in_html({"site": "</script>"})
    '{"site": "\\u003c/script\\u003e"}'
    """
    text = json.dumps(value)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def script_hash(script: str) -> str:
    """Return the script's hash for the page's security policy, which allows no other script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def resource(name: str) -> str:
    """Return a file that lies beside the page's template."""
    return (files("shiftune.report") / "templates" / name).read_text(encoding="utf-8")


def plotly_js() -> str:
    """Return the library that draws the charts."""
    from plotly.offline import get_plotlyjs

    # As a browser reads it: the hash is that of the text with line ends made one.
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")
