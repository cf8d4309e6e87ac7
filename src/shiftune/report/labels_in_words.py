"""What labels of the target would buy, said to somebody whose search had none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shiftune.errors import ProblemError
from shiftune.report.label_worth import label_worth
from shiftune.wording import number

if TYPE_CHECKING:
    import pandas as pd

    from shiftune.search import ShiftSearch

COUNTS = (10, 30, 100)
# An interval that would keep this share of its width is hardly narrower.
HARDLY_NARROWER = 0.9


def worth_of_labels(search: ShiftSearch) -> pd.DataFrame | None:
    """Return `label_worth` of a search without labels of the target; None where nothing is known.

    Only for numbers of labels that the target has rows for.
    """
    counts = [m for m in COUNTS if m <= len(search.problem_.target)]
    if search.problem_.labelled_target is not None or not counts:
        return None
    try:
        return label_worth(search, counts)
    except ProblemError:
        return None


def worth_in_words(worth: pd.DataFrame, target: str) -> str:
    """Say how far labels would narrow the interval.

    Parameters
    ----------
    worth : DataFrame
        As `worth_of_labels` gives it.
    target : str
        Its name.

    Examples
    --------
    >>> import pandas as pd
    >>> worth_in_words(pd.DataFrame({"half_width": [0.2, 0.153, 0.101]}, index=[0, 10, 30]), "A")
    'labels of 10 / 30 rows of A, drawn at random, would make it about ± 0.15 / 0.1 instead of
    ± 0.2'
    """
    widths = worth["half_width"]
    now, then = float(widths.loc[0]), widths.drop(index=0)
    counts = " / ".join(str(m) for m in then.index)
    if not float(then.min()) < HARDLY_NARROWER * now:
        return f"labels of up to {then.index[-1]} rows of {target} would hardly make it narrower"
    shown = " / ".join(number(float(width), 2) for width in then)
    return (
        f"labels of {counts} rows of {target}, drawn at random, would make it about ± {shown} "
        f"instead of ± {number(now, 2)}"
    )
