"""Progress bar of a search; silent without a terminal or a notebook."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from tqdm.auto import tqdm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shiftune.risk.result import RiskEstimate
    from shiftune.search.trial import Outcome

# Formats of the line, and whether the interval is in it, from the fullest to the barest; the first
# that fits the terminal is shown. None is tqdm's own, which has the rate too.
LAYOUTS = (
    (None, True),
    ("{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]", True),
    ("{n_fmt}/{total_fmt} [{remaining} left{postfix}]", True),
    ("{n_fmt}/{total_fmt}{postfix}", True),
    ("{n_fmt}/{total_fmt} [{remaining} left{postfix}]", False),
    ("{n_fmt}/{total_fmt}{postfix}", False),
    ("{n_fmt}/{total_fmt}", False),
)


class Progress:
    """Bar with the number of trials, the best risk with its interval, and the failures.

    Narrow terminals show fewer parts, none of them cut: the rate is dropped first, then the bar,
    the time and the interval.

    Parameters
    ----------
    total : int
        Number of trials in all.
    earlier : list of Outcome
        Of the trials of a run that is continued.
    show : bool or None
        None shows the bar on terminals and in notebooks only.
    """

    def __init__(self, total: int, earlier: Sequence[Outcome], show: bool | None) -> None:
        visible = sys.stderr.isatty() or "ipykernel" in sys.modules if show is None else show
        self._bar = tqdm(total=total, initial=len(earlier), disable=not visible, unit="trial")
        self._best: RiskEstimate | None = None
        self._failed = 0
        for outcome in earlier:
            self._note(outcome)

    def update(self, outcome: Outcome) -> None:
        """Count a trial."""
        self._note(outcome)
        if not self._bar.disable:
            self._lay_out()
        self._bar.update()

    def text(self, *, interval: bool = True) -> str:
        """Text beside the bar.

        >>> Progress(5, [], False).text()
        'no result yet'
        """
        text = "no result yet"
        if self._best is not None:
            text = f"best {self._best.value:.4g}"
            if interval:
                low, high = self._best.interval()
                text += f" ({low:.4g} to {high:.4g})"
        return text + (f", {self._failed} failed" if self._failed else "")

    def _lay_out(self) -> None:
        """Choose the fullest layout that fits the terminal; longer lines would fill the screen."""
        now = self._bar.format_dict | {"n": self._bar.n + 1, "ncols": None}  # a bar of 10 columns
        for layout, interval in LAYOUTS:
            text = self.text(interval=interval)
            line = tqdm.format_meter(**now | {"bar_format": layout, "postfix": text})
            # A notebook has no width in columns.
            if not isinstance(self._bar.ncols, int) or len(line) <= self._bar.ncols:
                break
        self._bar.bar_format = layout
        self._bar.set_postfix_str(text, refresh=False)

    def _note(self, outcome: Outcome) -> None:
        self._failed += bool(outcome.failure)
        risk = outcome.risk
        if risk is not None and (self._best is None or risk.value < self._best.value):
            self._best = risk

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
