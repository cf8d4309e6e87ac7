"""Distinct texts of a column: what depends on the text alone is computed once for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def stripped(text: pd.Series) -> pd.Series:
    """Return texts without spaces around them, as a categorical column; none may be missing.

    >>> stripped(pd.Series([" a", "b", "a"])).to_list()
    ['a', 'b', 'a']
    """
    codes, texts = distinct(text)
    own, shorter = pd.factorize(texts.str.strip())
    return pd.Series(
        pd.Categorical.from_codes(own[codes], pd.Index(shorter, dtype=object)),
        text.index,
        name=text.name,
    )


def distinct(text: pd.Series) -> tuple[NDArray[np.intp], pd.Series]:
    """Return the number of every row's text, and the texts, in the order in which they occur."""
    codes, texts = pd.factorize(text)
    return codes, pd.Series(np.asarray(texts, dtype=object), dtype=object, name=text.name)


def counted(text: pd.Series) -> pd.Series:
    """Return how often every text occurs, the most frequent first.

    >>> counted(pd.Series(["a", "b", "b"])).to_dict()
    {'b': 2, 'a': 1}
    """
    codes, texts = distinct(text)
    counts = np.bincount(codes, minlength=len(texts))
    order = np.argsort(-counts, kind="stable")
    return pd.Series(counts[order], pd.Index(texts.iloc[order], dtype=object))


def on_distinct(text: pd.Series, compute: Callable[[pd.Series], Any]) -> pd.Series:
    """Compute a column from another one, text by text.

    >>> on_distinct(pd.Series(["1", "2", "1"]), lambda texts: texts.astype(float)).to_list()
    [1.0, 2.0, 1.0]
    """
    codes, texts = distinct(text)
    found = pd.Series(compute(texts))
    return pd.Series(found.array.take(codes, allow_fill=True), text.index, name=text.name)
