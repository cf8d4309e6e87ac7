"""Overlap of every source with the target: figures and a verdict."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors

from shiftune.level import Level
from shiftune.problem import ShiftProblem
from shiftune.problem.site import Features
from shiftune.ratio.auto import ratio_named
from shiftune.ratio.base import DensityRatio
from shiftune.ratio.guard import Guard, effective_rows
from shiftune.ratio.verdict import Reason, Verdict
from shiftune.rows.encoding import RowEncoder
from shiftune.rows.subsample import subsample
from shiftune.wording import percent

# A target row is uncovered where the source's rows are further away than they are from each
# other in all but 1 % of cases.
_NEIGHBOURS = 5
_SPACING_QUANTILE = 0.99
_MOST_ROWS = 2_000
# Share of target rows out of reach that is mentioned, and that leaves only a part covered. (A
# source distributed like the target leaves up to 4 %.)
SOME_OUT_OF_REACH = 0.1
MANY_OUT_OF_REACH = 0.25
# A source of which a smaller share of rows is effective overlaps little.
FEW_EFFECTIVE = 0.1
# With fewer rows, distances between them do not show what a source covers.
FEW_ROWS = 10


def diagnose(
    problem: ShiftProblem,
    ratio: str | DensityRatio = "logistic",
    *,
    guard: Guard | None = None,
    random_state: int = 0,
) -> pd.DataFrame:
    """Measure the overlap of every source with the target, before any model is trained.

    Half of each source's rows is used to estimate the density ratio, the other half to evaluate
    the weights.

    Returns
    -------
    DataFrame, one row per source, with the columns of `overlap`
    """
    weights, rows = weights_to_look_at(problem, ratio, random_state=random_state)
    return overlap(weights, problem.target.X, rows, problem.names, guard=guard)


def weights_to_look_at(
    problem: ShiftProblem, ratio: str | DensityRatio = "logistic", *, random_state: int = 0
) -> tuple[list[NDArray[np.float64]], list[Features]]:
    """Return the weights that `diagnose` evaluates, and the rows they belong to, by source."""
    split = problem.split((0.5, 0.0, 0.5), random_state=random_state)
    rows = [site.X for site in split.validation[: len(problem.sources)]]
    estimator = clone(ratio_named(ratio, random_state))
    estimator.fit(problem.target.X, [site.X for site in split.density])
    return estimator.weights(rows), rows


def overlap(
    weights: Sequence[NDArray[np.float64]],
    X_target: Features,
    X_sources: Sequence[Features],
    names: Sequence[str],
    *,
    guard: Guard | None = None,
) -> pd.DataFrame:
    r"""Describe how far each source covers the target.

    Parameters
    ----------
    weights : k arrays of shape (n_j,)
        Density ratios at the sources' rows.
    X_target, X_sources
        The rows themselves.
    names : k names
    guard : Guard, optional
        Limits outside of which a verdict is a problem.

    Returns
    -------
    DataFrame, one row per source
        n, mean_weight (1 if the ratio is right), ess :math:`(\sum w)^2/\sum w^2` and its share
        of n, max_weight_share (of the heaviest row), uncovered (the share of target rows in
        regions where the source has none); level ("ok", "caution", or "problem" for a source
        that an estimate with density ratios leaves out), reason (a code) and verdict (in words).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> target, near, far = (rng.normal(m, 1, (200, 1)) for m in (0, 0, 50))
    >>> table = overlap([np.ones(200), np.zeros(200)], target, [near, far], ["B", "C"])
    >>> table.loc["C", "uncovered"].item(), table.loc["B", "verdict"]
    (1.0, 'overlaps well')
    """
    limits = guard or Guard()
    missed = uncovered_shares(X_target, X_sources)
    rows = []
    for w, uncovered in zip(weights, missed, strict=True):
        n, mean, ess = len(w), float(w.mean()), float(effective_rows(w)[0])
        found = limits.objection(n, mean, ess) or _verdict(n, ess / n, uncovered)
        rows.append(
            {
                "n": n,
                "mean_weight": mean,
                "ess": ess,
                "ess_share": ess / n,
                "max_weight_share": float(w.max() / w.sum()) if w.sum() > 0 else np.nan,
                "uncovered": uncovered,
                "level": found.level.value,
                "reason": found.reason.code,
                "verdict": f"doubtful: {found}" if found.level is Level.PROBLEM else str(found),
            }
        )
    return pd.DataFrame(rows, index=pd.Index(names, name="site"))


def uncovered_shares(X_target: Features, X_sources: Sequence[Features]) -> NDArray[np.float64]:
    """Share of target rows in regions that a source does not cover, shape (k,).

    A target row is uncovered if the distance to its fifth-nearest row of the source is larger
    than that distance is for 99 % of the source's own rows. The columns are encoded as for the
    density ratio; no ratio is needed. A source distributed like the target leaves about 1 % (4 %
    with 20 to 50 rows). A rough figure: beyond some 50 columns all distances are alike, and a
    source with a few stray rows far out seems to reach as far as they do.
    """
    tables = [subsample(X, _MOST_ROWS) for X in (X_target, *X_sources)]
    Z_target, *Z_sources = RowEncoder().fit_transform(tables)
    if Z_target.shape[1] == 0:  # nothing distinguishes the rows
        return np.zeros(len(Z_sources))
    shares = []
    for Z in Z_sources:
        k = min(_NEIGHBOURS, len(Z) - 1)
        if k < 1:
            shares.append(np.nan)
            continue
        near = NearestNeighbors(n_neighbors=k).fit(Z)
        own = near.kneighbors()[0][:, -1]  # without the row itself
        reach = near.kneighbors(Z_target)[0][:, -1]
        shares.append(float(np.mean(reach > np.quantile(own, _SPACING_QUANTILE))))
    return np.array(shares)


def is_doubtful(table: pd.DataFrame) -> pd.Series:
    """Mark the sources that an estimate with density ratios would leave out.

    Parameters
    ----------
    table : DataFrame
        As `overlap` returns it.
    """
    return table["level"] == Level.PROBLEM


def effective_share(row: Mapping[Hashable, Any]) -> str:
    """Write the effective share of a source's rows; a dash where few are like the target's.

    Equal weights of nearly 0 would make all of them effective.

    >>> effective_share({"ess_share": 0.98, "reason": "no_target_like_rows"})
    '-'
    """
    few = (Reason.NO_TARGET_LIKE_ROWS.code, Reason.FEW_TARGET_LIKE_ROWS.code)
    return "-" if row["reason"] in few else percent(row["ess_share"])


def sorted_by_verdict(table: pd.DataFrame) -> pd.DataFrame:
    """Return sources that overlap first, doubtful ones last; each kind by its effective rows.

    Parameters
    ----------
    table : DataFrame
        As `overlap` returns it.
    """
    kind = is_doubtful(table).astype(int) - overlapping(table).astype(int)
    order = np.lexsort((-table["ess"].to_numpy(), kind.to_numpy()))
    return table.iloc[order]


def overlapping(table: pd.DataFrame) -> pd.Series:
    """Mark the sources that cover most of the target."""
    return table["reason"].map(lambda code: Reason[code.upper()].overlaps).astype(bool)


def overlapping_in_part(table: pd.DataFrame) -> pd.Series:
    """Mark the sources that cover a part of the target."""
    return table["reason"].map(lambda code: Reason[code.upper()].overlaps_in_part).astype(bool)


def _verdict(n: int, ess_share: float, uncovered: float) -> Verdict:
    if n < FEW_ROWS:
        return Verdict(Reason.FEW_ROWS, n)
    if uncovered > MANY_OUT_OF_REACH:
        return Verdict(Reason.MANY_OUT_OF_REACH, uncovered)
    if ess_share < FEW_EFFECTIVE:
        return Verdict(Reason.LITTLE_OVERLAP, ess_share)
    if uncovered > SOME_OUT_OF_REACH:
        return Verdict(Reason.SOME_OUT_OF_REACH, uncovered)
    return Verdict(Reason.OVERLAPS)
