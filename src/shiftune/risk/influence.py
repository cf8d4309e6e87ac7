"""Dependence of an estimate on single sources."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.errors import DataError
from shiftune.ratio.verdict import Reason, Verdict
from shiftune.risk.result import RiskEstimate
from shiftune.spelling import check_choice

# A share so close to 1 leaves nothing to estimate from.
ALL = 1 - 1e-9


def without_source(risk: RiskEstimate, name: str) -> RiskEstimate:
    r"""Return the estimate as it would be without one source.

    .. math:: \hat f_{-j} = \frac{\hat f - s_j m_j}{1 - s_j}, \qquad s_j = \lambda_j n_j :

    the other sources keep their weights relative to each other (and labelled rows of the target,
    where there are some, their share). For "naive", "unbiased" and the published
    "variance_reduced" that is the estimate computed anew. The model is the same: it has still been
    trained on the source.

    Parameters
    ----------
    risk : RiskEstimate
    name : str
        A source whose share is below 1.

    Examples
    --------
    >>> from shiftune.risk import estimate
    >>> risk = estimate([[1.0, 2.0], [3.0, 5.0], [7.0, 9.0]], method="naive", names=list("BCD"))
    >>> round(without_source(risk, "D").value, 6)  # the mean of 1, 2, 3, 5
    2.75
    """
    j = risk.names.index(check_choice(name, risk.names, "source"))
    share = float(risk.lam[j] * risk.n[j])
    if share >= ALL:
        raise DataError(f"the estimate rests on {name!r} alone; without it there is none")
    own = risk.lam[-1] * risk.n[-1] if risk.labelled_target and name != risk.names[-1] else 0.0
    rest = 1 - share - own
    if rest <= 1 - ALL:  # nothing but the target's own rows is left
        own, rest = 0.0, 1 - share
    scale = np.full(len(risk.n), (1 - own) / rest)
    if own:
        scale[-1] = 1.0
    scale[j] = 0.0
    left_out = tuple(
        Verdict(Reason.SET_ASIDE) if i == j else why for i, why in enumerate(risk.left_out)
    )
    return replace(risk.with_shares(scale), left_out=left_out)


def values_without(risk: RiskEstimate) -> NDArray[np.float64]:
    """Values of `without_source` for every site, shape (k,); NaN where an estimate rests on one.

    >>> from shiftune.risk import estimate
    >>> values_without(estimate([[1.0, 2.0], [3.0, 5.0], [7.0, 9.0]], method="naive"))
    array([6.  , 4.75, 2.75])
    """
    share = risk.lam * risk.n
    parts = share * risk.estimates
    own = np.zeros(len(share))
    if risk.labelled_target:
        own[:-1] = share[-1]
        own[1 - share - own <= 1 - ALL] = 0.0
    # The target's own rows keep their share, all others but one are scaled up.
    kept = np.where(own > 0, parts[-1], 0.0)
    others = parts.sum() - parts - kept
    with np.errstate(divide="ignore", invalid="ignore"):
        values = (1 - own) * others / (1 - share - own) + kept
    return np.where(share >= ALL, np.nan, values)


def leave_one_source_out(risk: RiskEstimate) -> pd.DataFrame:
    """Estimate without each source in turn.

    Returns
    -------
    DataFrame, one row per source with a share above 0 (labelled rows of the target are no source)
        share in the estimate; without, the estimate without it (NaN where there is none); change,
        how far the source moves the estimate; change_in_stderr, the same in standard errors of
        the estimate.

    Examples
    --------
    >>> from shiftune.risk import estimate
    >>> risk = estimate([[1.0, 2.0], [3.0, 5.0], [7.0, 9.0]], method="naive", names=list("BCD"))
    >>> leave_one_source_out(risk)["without"].round(2).to_dict()
    {'B': 6.0, 'C': 4.75, 'D': 2.75}
    """
    share = pd.Series(risk.lam * risk.n, index=risk.names)[list(risk.source_names)]
    share = share[share > 0]
    names = list(share.index)
    without = pd.Series(values_without(risk), index=risk.names)[names]
    table = pd.DataFrame({"share": share, "without": without}, index=pd.Index(names, name="site"))
    table["change"] = risk.value - table["without"]
    table["change_in_stderr"] = table["change"] / (risk.stderr or np.nan)
    return table
