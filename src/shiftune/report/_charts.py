"""Charts of the page: the figures of a result as SVG, which needs no library to be shown."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import Any

import pandas as pd
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from shiftune.errors import SettingsError
from shiftune.metrics._curves import calibration_curve, check_two_classes, decision_curve
from shiftune.report import figures
from shiftune.search._result import SearchResult

# Widths in pixels: of a page or a sheet of paper, and of a phone.
_WIDE, _NARROW = 820, 350
_DPI = 100  # pixels of an inch of a figure
# What the page does without; its style sheet has the font.
_LEFT_OUT = re.compile(
    r"""<!--.*?--> | <metadata>.*?</metadata> | <defs>\s*<style.*?</style>\s*</defs>
    | (?<=<g)\ id="[^"]*" | (?<=\n)\s+""",
    re.DOTALL | re.VERBOSE,
)
_LEFT_OUT_OF_TAGS = re.compile(
    r'font(-size|-family)?: [^;"]*(; |(?="))|(?<=\.\d\d)\d+| transform="rotate\(-0 [^"]*"'
)
# Lengths of a chart are of 1/72 inch.
_LOOKS = "max-width: 100%; height: auto; font: 9px system-ui, sans-serif; overflow: visible"
_COLORS = {
    # Outside the page, as in notebooks, the colour of the text around it.
    figures.TEXT: "var(--text, currentColor)",
    figures.SOFT: "var(--soft, currentColor)",
    figures.LINE: "var(--line, #8884)",
    figures.GROUND: "var(--ground, transparent)",
}


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure, and the text that replaces it for readers who cannot see it."""

    id: str
    alt: str
    figure: Figure

    @property
    def wide(self) -> str:
        """SVG for a page."""
        return self._svg(_WIDE)

    @property
    def narrow(self) -> str:
        """SVG for a phone."""
        return self._svg(_NARROW)

    def _svg(self, width: int) -> str:
        """Draw the figure as one element, as wide as it is read (in pixels).

        Its texts and its grid have the colours of the page; the same figure gives the same text.
        """
        height = round(self.figure.get_figheight() * _DPI)
        self.figure.set_size_inches(width / _DPI, height / _DPI)
        # Names of marks and clipping paths depend on the salt: they differ between charts.
        more = {"svg.fonttype": "none", "svg.hashsalt": f"{self.id} {width}"}
        self.figure.patch.set_visible(False)
        for axes in self.figure.axes:
            axes.patch.set_visible(False)
        canvas: Any = FigureCanvasSVG(self.figure)
        stream = StringIO()
        with figures.settings(more), warnings.catch_warnings():
            # A browser has the glyphs that Matplotlib's font lacks.
            warnings.filterwarnings("ignore", "Glyph|Matplotlib currently does not support")
            canvas.print_svg(stream, metadata={"Date": None})
        drawn = stream.getvalue()
        drawn = _LEFT_OUT.sub("", drawn[drawn.index("<svg") :])
        drawn = re.sub(r"<[^>]*>", lambda tag: _as_on_the_page(tag[0]), drawn)
        box = re.search(r'viewBox="[^"]*"', drawn)[0]  # type: ignore[index]
        head = f'width="{width}" height="{height}" role="img" aria-label="{escape(self.alt)}"'
        return f'<svg {box} {head} style="{_LOOKS}">{drawn.partition(">")[2]}'


def _as_on_the_page(tag: str) -> str:
    """Return a tag with the page's font and colours, and coordinates of two decimals."""
    tag = _LEFT_OUT_OF_TAGS.sub("", tag)
    for color, variable in _COLORS.items():
        tag = tag.replace(color, variable)
    return tag


def expected(document: Mapping[str, Any]) -> Chart:
    """Return the picture of the first screen, from the document alone."""
    picture = document["picture"]
    says = "; ".join(f"{row['name']} {row['says']}" for row in picture["rows"])
    return Chart("expected", f"{picture['title']}: {says}.", figures.expected(picture))


def targets(table: pd.DataFrame, result: SearchResult) -> Chart:
    """Return the picture of a roll-out."""
    figure = figures.targets(table, result.risk.sources["estimate"].dropna())
    return Chart("targets", "Expected loss at every target with its interval.", figure)


def charts(result: SearchResult) -> list[Chart]:
    """Return the charts of a result, as far as there is something to show."""
    shown = [
        Chart(
            "forest",
            f"Forest plot: every source's estimate of the risk at {result.target}.",
            figures.forest(result.risk),
        ),
        Chart(
            "weights",
            "Distribution of the weights of every source.",
            figures.weights(result.overlap),
        ),
        Chart(
            "shifts",
            f"Distance of every column from its distribution at {result.target}, by source.",
            figures.shifts(result.shifts),
        ),
        Chart(
            "history",
            "Estimated risk of every trial, with its interval.",
            figures.history(result.trials, chosen=result.chosen),
        ),
    ]
    try:
        new_site = check_two_classes(result.new_site)
    except SettingsError:  # no probabilities of two classes
        pass
    else:
        if (curve := calibration_curve(new_site))["observed"].notna().any():
            sites = new_site.predictions.names[: figures.MOST_CURVES]
            curves = {name: calibration_curve(new_site, name) for name in sites}
            words = (
                f"Observed shares at {result.target} by predicted probability, with an interval."
            )
            shown.append(Chart("calibration", words, figures.calibration(curve, curves)))
            words = f"Net benefit at {result.target} by threshold, with an interval."
            shown.append(Chart("decision", words, figures.decision(decision_curve(new_site))))
    if (table := result.column_importance) is not None:
        words = f"Importance of the columns at {result.target}, with intervals."
        shown.append(Chart("importance", words, figures.importance(table)))
    return shown
