"""Picture of the speed table for the README: one bar per ratio, on a logarithmic scale.

    python -m benchmarks.speed.picture benchmarks/results/speed.json docs/speed.svg

Bars to the left of the line are cheaper than what they are compared with. Colours are chosen to be
read on white and on dark pages; texts take the page's colour scheme.
"""

from __future__ import annotations

import argparse
import json
import math
from html import escape
from pathlib import Path

WIDTH, LEFT, ROW, TOP = 760, 400, 26, 44
LOW, HIGH = 1e-3, 1e1
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f; }
.soft { fill: #57606a; font-size: 12px; }
.grid { stroke: #8b949e; stroke-opacity: .35; }
.one { stroke: #57606a; }
.bar { fill: #2f6fb3; }
.more { fill: #b35900; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .soft { fill: #9da7b1; }
  .one { stroke: #9da7b1; } .bar { fill: #6cb0f5; } .more { fill: #e3994f; }
}
"""
# Row of the table, key of its details or "" for the ratio, and the words beside the bar.
BARS = (
    ("overhead", "", "search / its fits alone"),
    ("overhead", "against GridSearchCV", "search / GridSearchCV, same folds"),
    ("peers", "", "search / OptunaSearchCV, same folds"),
    ("ratios", "", "uLSIF of 30 sources / densratio in a loop"),
    ("proposals", "", "GP-LCB proposal at trial 1,000 / TPE"),
    ("reading", "", "types of 22 columns / reading the CSV file"),
    ("adjusted", "", "adjusted risk, ten estimates / one ridge fit"),
    ("checks", "", "checks / search of 50 trials"),
    ("influence", "", "influence check, 1,000 sites / estimates"),
    ("binning", "of a whole search", "LightGBM's binning / search"),
    ("preparation", "", "preparation of columns / search"),
)


def picture(rows: dict) -> str:
    """Return the SVG."""
    found = []
    for name, key, words in BARS:
        value = rows.get(name, {}).get("ratio" if not key else "details")
        value = value.get(key) if isinstance(value, dict) else value
        if value is not None:
            found.append((words, float(value)))
    height = TOP + ROW * len(found) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'role="img" aria-label="CPU time as ratios"><style>{STYLE}</style>',
        '<text class="soft" x="0" y="16">CPU time as a ratio, in one run with one thread</text>',
    ]
    for power in range(round(math.log10(LOW)), round(math.log10(HIGH)) + 1):
        x, kind = place(10.0**power), "one" if power == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{x}" x2="{x}" y1="{TOP - 8}" y2="{height}"/>')
        parts.append(
            f'<text class="soft" x="{x}" y="{TOP - 14}" text-anchor="middle">{10.0**power:g}</text>'
        )
    for i, (words, value) in enumerate(found):
        y, one, end = TOP + ROW * i, place(1.0), place(value)
        x, width = min(one, end), max(abs(end - one), 1)
        kind = "more" if value > 1 else "bar"
        parts.append(f'<text x="0" y="{y + 14}">{escape(words)}</text>')
        parts.append(f'<rect class="{kind}" x="{x}" y="{y + 3}" width="{width:.1f}" height="14"/>')
        side, at = ("end", x - 5) if value <= 1 else ("start", x + width + 5)
        parts.append(
            f'<text class="soft" x="{at:.1f}" y="{y + 14}" text-anchor="{side}">{value:.3g}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def place(value: float) -> float:
    """Return the position of a ratio."""
    share = (math.log10(min(max(value, LOW), HIGH)) - math.log10(LOW)) / math.log10(HIGH / LOW)
    return round(LEFT + share * (WIDTH - LEFT - 30), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    rows = json.loads(options.json.read_text())["rows"]
    options.out.write_text(picture(rows), "utf-8")


if __name__ == "__main__":
    main()
