"""Weights of rows: in fits and means, a row of weight 2 counts as two rows of its site.

Not in standard errors, nor in the share of a site: it is still one row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.errors import DataError
from shiftune.problem.site import Site
from shiftune.wording import number

Floats = NDArray[np.float64]


def site_weights(
    given: Mapping[str, tuple[Any, int, NDArray[np.intp] | None]], sources: Collection[str]
) -> tuple[dict[str, Floats], list[str]]:
    """Check the weights of all sites.

    Parameters
    ----------
    given : mapping from the names of sites to (weights of shape (n,) or None, n, row numbers)
    sources : names
        They need weights if any site has them; rows of the target may have none, and count once.

    Returns
    -------
    weights : dict from names to arrays of shape (n,)
        Of all sites, or empty where none has weights, or all are 1.
    notes : list of str

    Examples
    --------
    >>> weights, notes = site_weights({"B": ([1, 2.5], 2, None), "A": (None, 2, None)}, ["B"])
    >>> weights
    {'B': array([1. , 2.5]), 'A': array([1., 1.])}
    >>> notes
    ['rows have weights from 1 to 2.5: in training, in the risk at every site, and in metrics']
    >>> site_weights({"B": ([1, 0], 2, None)}, ["B"])
    Traceback (most recent call last):
    shiftune.errors.DataError: site 'B': the weight of row 1 is 0; leave the row out, or give it a
    weight above 0
    """
    if all(weights is None for weights, _, _ in given.values()):
        return {}, []
    found: dict[str, Floats] = {}
    for site, (weights, n, rows) in given.items():
        values = np.full(n, np.nan) if weights is None else _numbers(weights, site, n)
        if site not in sources and np.isnan(values).all():
            values = np.ones(n)
        found[site] = _checked(values, site, np.arange(n) if rows is None else rows)
    least, most = (f(np.concatenate([*found.values()])) for f in (np.min, np.max))
    if least == most == 1:
        return {}, ["every row has the weight 1, so weights change nothing"]
    return found, [
        f"rows have weights from {number(float(least))} to {number(float(most))}: in training, in "
        "the risk at every site, and in metrics"
    ]


def weights_of(sites: Sequence[Site]) -> tuple[Floats, ...] | None:
    """Return the weights of every site; None where all rows count once."""
    found = tuple(site.sample_weight for site in sites if site.sample_weight is not None)
    return found if len(found) == len(sites) else None


def _numbers(weights: Any, site: str, n: int) -> Floats:
    try:
        values = pd.Series(weights).to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise DataError(f"site {site!r}: the weights of rows are not numbers ({error})") from error
    if values.shape != (n,):
        raise DataError(f"site {site!r} has {n} rows but {len(values)} weights")
    return values


def _checked(values: Floats, site: str, rows: NDArray[np.intp]) -> Floats:
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if len(bad):
        value = values[bad[0]]
        shown = "missing" if np.isnan(value) else number(float(value))
        more = f" (and {len(bad) - 1} more there)" if len(bad) > 1 else ""
        raise DataError(
            f"site {site!r}: the weight of row {rows[bad[0]]} is {shown}{more}; leave the row out, "
            "or give it a weight above 0"
        )
    return values
