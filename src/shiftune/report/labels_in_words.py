"""Gain from labelling target rows, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shiftune.wording import number

if TYPE_CHECKING:
    import pandas as pd

# An interval that would keep this share of its width is hardly narrower.
HARDLY_NARROWER = 0.9


def worth_in_words(worth: pd.DataFrame, target: str) -> str:
    """Describe how far labels would narrow the interval.

    Parameters
    ----------
    worth : DataFrame
        ``search.result_.worth_of_labels``.
    target : str
        Its name.

    Examples
    --------
    >>> import pandas as pd
    >>> worth_in_words(pd.DataFrame({"half_width": [0.2, 0.153, 0.101]}, index=[0, 10, 30]), "A")
    'Labelling 10 / 30 random rows of A would narrow the 95 % interval from ± 0.2 to about
    ± 0.15 / 0.1 (half its width)'
    """
    widths = worth["half_width"]
    now, then = float(widths.loc[0]), widths.drop(index=0)
    counts = " / ".join(str(m) for m in then.index)
    if not float(then.min()) < HARDLY_NARROWER * now:
        return (
            f"Labelling up to {then.index[-1]} rows of {target} would hardly narrow the 95 % "
            "interval"
        )
    shown = " / ".join(number(float(width), 2) for width in then)
    return (
        f"Labelling {counts} random rows of {target} would narrow the 95 % interval from "
        f"± {number(now, 2)} to about ± {shown} (half its width)"
    )
