"""Elements of an SVG picture as text; whatever comes from a figure is escaped here."""

from __future__ import annotations

import re
from html import escape, unescape

_TAGS = re.compile(r"</?b>|<br>")


def element(tag: str, inside: str = "", /, **attributes: object) -> str:
    """Return an element; an underscore in an attribute's name is a hyphen, None is left out.

    >>> element("circle", r=2.50001, fill="red", data_tip='a "b"')
    '<circle r="2.5" fill="red" data-tip="a &quot;b&quot;"/>'
    """
    words = [
        f'{name.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
        if value is not None
    ]
    head = " ".join([tag, *words])
    return f"<{head}>{inside}</{tag}>" if inside else f"<{head}/>"


def text(words: str, x: float, y: float, **attributes: object) -> str:
    """Return a text at a place."""
    return element("text", escape(words, quote=False), x=x, y=y, **attributes)


def plain_text(html: object) -> str:
    r"""Return the text of a label or hover text of ours, which is HTML to Plotly.

    >>> plain_text("<b>&lt;i&gt;</b><br>2 rows")
    '<i>\n2 rows'
    """
    return unescape(_TAGS.sub(lambda tag: "\n" if tag[0] == "<br>" else "", str(html)))


def text_width(words: str) -> float:
    """Return about how wide a text of 12 pixels is; sans-serif fonts differ by a tenth."""
    return 6.4 * len(words)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return escape(str(value)).replace("\n", "&#10;")
