"""A progress bar that says how the search stands; silent where nobody watches."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from tqdm.auto import tqdm

if TYPE_CHECKING:
    from types import TracebackType

    from shiftune.risk.result import RiskEstimate


class Progress:
    """Count the trials, with the best risk, its interval, and the failures.

    Parameters
    ----------
    total : int
        Number of trials in all.
    earlier : list of RiskEstimate or None
        Trials of a run that is continued; None is one that failed.
    show : bool or None
        None shows the bar on terminals and in notebooks only.
    """

    def __init__(self, total: int, earlier: list[RiskEstimate | None], show: bool | None) -> None:
        visible = sys.stderr.isatty() or "ipykernel" in sys.modules if show is None else show
        self._bar = tqdm(total=total, initial=len(earlier), disable=not visible, unit="trial")
        self._best: RiskEstimate | None = None
        self._failed = 0
        for risk in earlier:
            self._note(risk)

    def update(self, risk: RiskEstimate | None) -> None:
        """Count a trial; None is one that failed."""
        self._note(risk)
        self._bar.set_postfix_str(self.text(), refresh=False)
        self._bar.update()

    def text(self) -> str:
        """What stands beside the bar.

        >>> Progress(5, [], False).text()
        'no result yet'
        """
        said = "no result yet"
        if self._best is not None:
            low, high = self._best.interval()
            said = f"best {self._best.value:.4g} ({low:.4g} to {high:.4g})"
        return said + (f", {self._failed} failed" if self._failed else "")

    def _note(self, risk: RiskEstimate | None) -> None:
        if risk is None:
            self._failed += 1
        elif self._best is None or risk.value < self._best.value:
            self._best = risk

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()
