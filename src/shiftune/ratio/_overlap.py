"""Overlap of every source with the target: verdicts and the guard, the table, shifts of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors

from shiftune._names import Level
from shiftune.columns._column import as_text, days_in, kind_of
from shiftune.problem import ShiftProblem
from shiftune.problem._site import Features
from shiftune.ratio._density import DensityRatio, ratio_named
from shiftune.rows._encoding import MISSING, MOST_LEVELS, RowEncoder, subsample

Floats = NDArray[np.float64]

# A source with a lower mean weight stands for less than a hundredth of the target.
NEGLIGIBLE = 0.01
# A target row is uncovered where the source's rows are further away than they are from each
# other in all but 1 % of cases.
_NEIGHBOURS = 5
_SPACING_QUANTILE = 0.99
_MOST_ROWS = 2_000
# Share of uncovered target rows that is mentioned, and that leaves only a part covered. (A
# source distributed like the target leaves up to 4 %.)
SOME_UNCOVERED = 0.1
MANY_UNCOVERED = 0.25
# A source of which a smaller share of rows is effective overlaps little.
_FEW_EFFECTIVE = 0.1
# With fewer rows, distances between them do not show what a source covers.
_FEW_ROWS = 10
# Rows of a table by which its columns are compared.
_MOST_ROWS_OF_COLUMN = 5_000
# Values of a column of numbers that stand for all: the distance is exact to 1/400.
_MOST_VALUES = 200
# A smaller distance is not drift: 0.15 is that of two normal distributions 0.4 standard deviations
# apart. Nor is one that chance gives once in a thousand columns, 1.95 sqrt(1/n + 1/m).
_SMALL = 0.15
_CHANCE = 1.95


class Reason(Enum):
    """Reason of a verdict: its level, and its words in a table.

    With "doubtful: " before them the words have at most 30 characters, for a terminal of 80.
    """

    OVERLAPS = Level.OK, "overlaps well"
    SOME_UNCOVERED = Level.CAUTION, "overlaps mostly"
    MANY_UNCOVERED = Level.CAUTION, "covers part"
    LITTLE_OVERLAP = Level.CAUTION, "overlaps little"
    FEW_ROWS = Level.CAUTION, "too few rows to tell"
    ONE_ROW = Level.PROBLEM, "too few rows"
    NO_TARGET_LIKE_ROWS = Level.PROBLEM, "no target-like rows"
    FEW_TARGET_LIKE_ROWS = Level.PROBLEM, "few target-like rows"
    RATIO_FAILED = Level.PROBLEM, "density ratio failed"
    FEW_EFFECTIVE_ROWS = Level.PROBLEM, "few effective rows"

    @property
    def level(self) -> Level:
        """OK, CAUTION, or PROBLEM for a source that density ratios cannot use."""
        return self.value[0]

    @property
    def code(self) -> str:
        """The reason as a word for tables and files."""
        return self.name.lower()


class Objection(NamedTuple):
    """Why the guard leaves a source out, and the figure that decided."""

    reason: Reason
    figure: str

    def __str__(self) -> str:
        return self.reason.value[1] + self.figure


@dataclass(frozen=True, slots=True)
class Guard:
    r"""Limits outside of which a source is left out, because its weights are not plausible.

    The mean of true density ratios over a source's own rows is 1: :math:`E_j[w_j] = 1`. Where
    the source has no rows like the target's, their sample mean is not: the weights are ~0 on
    all rows, so the weighted losses hardly vary, so the source looks as if it knew the risk
    (~0) exactly, and an inverse-variance mean gives it all the mass. The guard looks at the
    weights alone, so that it decides alike for every model that is compared.

    The limits have small errors of the estimated risk over generated problems (mean absolute log
    error 0.17, against 0.42 for the naive mean and 1.17 without a guard) and do not silence small
    sources by chance; tighter ones gain little (benchmarks/guard.py).

    Parameters
    ----------
    min_mean_weight, max_mean_weight : float
        The mean weight must lie between these.
    min_ess : float
        At least so many effective rows, :math:`(\sum w)^2 / \sum w^2`; a source that is small
        but whose rows count about alike (at least a quarter of them effective) is used.
    min_ess_together : float
        Where no source can be used by itself, those with a mean weight of at least 0.01 still show
        which of their rows are most like the target's, if they have so many effective rows in
        all: where the assumption holds, a choice by logistic ratios then costs a third to a
        seventh of what the naive one costs (benchmarks/fallback.py). See `shiftune.risk.estimate`.
    prior_rows : float
        The divergence of a source is an estimate too, and a wild one from few rows; taken at
        face value, the source that happens to vary least gets most of the mass. So that of the
        source is mixed with the value that its weights and the other sources' noise suggest, as
        if that had been seen on so many rows. See `shiftune.risk.estimate`.

    Examples
    --------
    >>> Guard().objection(n=300, mean_weight=0.97, ess=120.0) is None
    True
    >>> print(Guard().objection(n=300, mean_weight=2e-7, ess=1.4))
    no target-like rows: mean weight 2e-07
    """

    min_mean_weight: float = 0.6
    max_mean_weight: float = 1 / 0.6
    min_ess: float = 10.0
    min_ess_together: float = 3.0
    prior_rows: float = 80.0

    def objection(self, n: int, mean_weight: float, ess: float) -> Objection | None:
        """Return why a source is left out; None if it is used."""
        if n < 2:
            return Objection(Reason.ONE_ROW, ", no variance")
        if not mean_weight >= self.min_mean_weight:
            few = mean_weight >= NEGLIGIBLE
            reason = Reason.FEW_TARGET_LIKE_ROWS if few else Reason.NO_TARGET_LIKE_ROWS
            return Objection(reason, f": mean weight {mean_weight:.3g}")
        if mean_weight > self.max_mean_weight:
            return Objection(Reason.RATIO_FAILED, f": mean weight {mean_weight:.3g}")
        if ess < min(self.min_ess, n / 4):
            return Objection(Reason.FEW_EFFECTIVE_ROWS, f": {ess:.1f}")
        return None


def effective_rows(w: Floats, starts: ArrayLike = (0,)) -> Floats:
    r"""Effective sample sizes :math:`(\sum w)^2 / \sum w^2`, each from 1 to n (0 if all w are 0).

    Parameters
    ----------
    w : array of shape (n,)
        Weights of all sources, one after the other.
    starts : k positions
        Where each source begins.

    >>> effective_rows(np.array([1.0, 1.0, 0.0, 0.0, 3.0]), starts=[0, 4])
    array([2., 1.])
    """
    first = np.asarray(starts, dtype=np.intp)
    top = np.maximum.reduceat(w, first)
    sizes = np.diff(np.append(first, len(w)))
    v = w / np.repeat(np.where(top > 0, top, 1), sizes)  # squares of tiny weights would vanish
    squares = np.add.reduceat(v**2, first)
    return np.asarray(np.add.reduceat(v, first) ** 2 / np.where(squares > 0, squares, 1))


def diagnose(
    problem: ShiftProblem,
    ratio: str | DensityRatio = "logistic",
    *,
    random_state: int = 0,
) -> pd.DataFrame:
    """Measure the overlap of every source with the target, before any model is trained.

    Half of each source's rows is used to estimate the density ratio, the other half to evaluate
    the weights.

    Returns
    -------
    DataFrame, one row per source, with the columns of `overlap`
        n and ess are of all rows of the source, in the proportion of the evaluated half.
    """
    weights, rows = weights_to_look_at(problem, ratio, random_state=random_state)
    table = overlap(weights, problem.target.X, rows, problem.names)
    n = [len(site) for site in problem.sources]
    return table.assign(n=n, ess=table["ess_share"] * n)


def weights_to_look_at(
    problem: ShiftProblem, ratio: str | DensityRatio = "logistic", *, random_state: int = 0
) -> tuple[list[Floats], list[Features]]:
    """Return the weights that `diagnose` evaluates, and the rows they belong to, by source."""
    split = problem.split((0.5, 0.0, 0.5), random_state=random_state)
    rows = [site.X for site in split.validation[: len(problem.sources)]]
    estimator = clone(ratio_named(ratio, random_state))
    estimator.fit(problem.target.X, [site.X for site in split.density])
    return estimator.weights(rows), rows


def overlap(
    weights: Sequence[Floats],
    X_target: Features,
    X_sources: Sequence[Features],
    names: Sequence[str],
) -> pd.DataFrame:
    r"""Describe how far each source covers the target.

    Parameters
    ----------
    weights : k arrays of shape (n_j,)
        Density ratios at the sources' rows.
    X_target, X_sources
        The rows themselves.
    names : k names

    Returns
    -------
    DataFrame, one row per source
        n, mean_weight (1 if the ratio is right), ess :math:`(\sum w)^2/\sum w^2` and its share
        of n, uncovered (the share of target rows in regions where the source has none); level
        ("ok", "caution", or "problem" for a source that an estimate with density ratios leaves
        out), reason (a code) and verdict (in words).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> target, near, far = (rng.normal(m, 1, (200, 1)) for m in (0, 0, 50))
    >>> table = overlap([np.ones(200), np.zeros(200)], target, [near, far], ["B", "C"])
    >>> table.loc["C", "uncovered"].item(), table.loc["B", "verdict"]
    (1.0, 'overlaps well')
    """
    missed = uncovered_shares(X_target, X_sources)
    rows = []
    for w, uncovered in zip(weights, missed, strict=True):
        n, mean, ess = len(w), float(w.mean()), float(effective_rows(w)[0])
        objection = Guard().objection(n, mean, ess)
        reason = objection.reason if objection else _reason(n, ess / n, uncovered)
        rows.append(
            {
                "n": n,
                "mean_weight": mean,
                "ess": ess,
                "ess_share": ess / n,
                "uncovered": uncovered,
                "level": reason.level.value,
                "reason": reason.code,
                "verdict": "doubtful: " * (reason.level is Level.PROBLEM) + reason.value[1],
            }
        )
    return pd.DataFrame(rows, index=pd.Index(names, name="site"))


def uncovered_shares(X_target: Features, X_sources: Sequence[Features]) -> Floats:
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
    shares = np.full(len(Z_sources), np.nan)
    for j, Z in enumerate(Z_sources):
        if (k := min(_NEIGHBOURS, len(Z) - 1)) > 0:
            near = NearestNeighbors(n_neighbors=k).fit(Z)
            spacing = near.kneighbors()[0][:, -1]  # without the row itself
            distance = near.kneighbors(Z_target)[0][:, -1]
            shares[j] = np.mean(distance > np.quantile(spacing, _SPACING_QUANTILE))
    return shares


def _reason(n: int, ess_share: float, uncovered: float) -> Reason:
    """Verdict on a source that the guard does not object to."""
    if n < _FEW_ROWS:
        return Reason.FEW_ROWS
    if uncovered > MANY_UNCOVERED:
        return Reason.MANY_UNCOVERED
    if ess_share < _FEW_EFFECTIVE:
        return Reason.LITTLE_OVERLAP
    return Reason.SOME_UNCOVERED if uncovered > SOME_UNCOVERED else Reason.OVERLAPS


# What others read from the table of `overlap`.


def is_doubtful(table: pd.DataFrame) -> pd.Series:
    """Mark the sources that an estimate with density ratios would leave out."""
    return table["level"] == Level.PROBLEM


def overlapping(table: pd.DataFrame) -> pd.Series:
    """Mark the sources that cover most of the target."""
    return table["reason"].isin([Reason.OVERLAPS.code, Reason.SOME_UNCOVERED.code])


def overlapping_in_part(table: pd.DataFrame) -> pd.Series:
    """Mark the sources that cover a part of the target, or only by few of their rows."""
    return table["reason"].isin([Reason.MANY_UNCOVERED.code, Reason.LITTLE_OVERLAP.code])


def sorted_by_verdict(table: pd.DataFrame) -> pd.DataFrame:
    """Return sources that overlap first, doubtful ones last; each kind by its effective rows."""
    kind = is_doubtful(table).astype(int) - overlapping(table).astype(int)
    return table.iloc[np.lexsort((-table["ess"].to_numpy(), kind.to_numpy()))]


def column_shifts(
    X_target: Features, X_sources: Sequence[Features], names: Sequence[str]
) -> pd.DataFrame:
    r"""Distance between the distributions of every column at the target and at each source.

    From 0 (alike) to 1 (nothing in common): for numbers and dates the Kolmogorov-Smirnov
    distance, :math:`\sup_t |F_T(t) - F_j(t)|`, with missing values below all others; for
    categories the total variation distance, :math:`\frac12 \sum_c |p_T(c) - p_j(c)|`, over the 20
    most frequent levels (missing is one) and the rest. Each column is compared by itself: a shift
    in the dependence of two columns is not measured. Sampling error alone gives about
    :math:`0.9 \sqrt{1/n_T + 1/n_j}`.

    Parameters
    ----------
    X_target, X_sources : rows of the target and of k sources, with the same columns
    names : k names

    Returns
    -------
    DataFrame of shape (d, k)
        The column that shifts most, on average over the sources, first.

    Examples
    --------
    >>> target = pd.DataFrame({"sex": ["f", "m"] * 50, "age": np.arange(100.0)})
    >>> older = pd.DataFrame({"sex": ["m", "f"] * 50, "age": np.arange(75.0, 175.0)})
    >>> column_shifts(target, [older], ["B"])
    site     B
    age   0.75
    sex   0.00
    """
    target, *sources = (
        pd.DataFrame(subsample(X, _MOST_ROWS_OF_COLUMN)) for X in (X_target, *X_sources)
    )
    summaries = ColumnSummaries.of(target)
    distances = np.array([summaries.distances(X).reindex(summaries.names) for X in sources])
    table = pd.DataFrame(distances.T, summaries.names, pd.Index(list(names), name="site"))
    return table.iloc[np.argsort(-distances.mean(axis=0), kind="stable")]


def _ks_distance(a: Floats, b: Floats) -> float:
    """Kolmogorov-Smirnov distance of two samples; missing values are below all others."""
    first, second = (np.sort(np.where(np.isnan(x), -np.inf, x)) for x in (a, b))
    points = np.concatenate([first, second])
    below = (np.searchsorted(x, points, side="right") / len(x) for x in (first, second))
    return float(np.max(np.abs(np.subtract(*below))))


@dataclass(frozen=True)
class ColumnSummaries:
    """Distribution of each column, without its rows.

    >>> table = pd.DataFrame({"age": np.arange(100.0), "sex": ["f", "m"] * 50})
    >>> ColumnSummaries.of(table).distances(table.assign(age=table["age"] + 75)).to_dict()
    {'age': 0.75, 'sex': 0.0}
    """

    rows: int
    values: dict[str, Floats]  # at most 200 quantiles of columns of numbers, NaN where missing
    shares: dict[str, dict[str, float]]  # of the most frequent levels of columns of categories

    @property
    def names(self) -> list[str]:
        """Names of the columns: numbers and dates come first, then categories."""
        return [*self.values, *self.shares]

    @classmethod
    def of(cls, table: pd.DataFrame) -> Self:
        """Summarise a table of numbers, dates and categories."""
        values, shares = {}, {}
        for name, column in table.items():
            if kind_of(column) == "category":
                frequent = _shares(column).head(MOST_LEVELS)
                shares[str(name)] = {str(level): float(share) for level, share in frequent.items()}
            else:
                values[str(name)] = _quantiles(_numbers(column))
        return cls(len(table), values, shares)

    def distances(self, table: pd.DataFrame) -> pd.Series:
        """Return the distance of every column from 0 (alike) to 1, as `column_shifts` does."""
        table = table.set_axis(list(map(str, table.columns)), axis=1)
        distances = {n: _ks_distance(v, _numbers(table[n])) for n, v in self.values.items()}
        distances |= {n: _total_variation(s, _shares(table[n])) for n, s in self.shares.items()}
        return pd.Series(distances, dtype=float).sort_values(ascending=False, kind="stable")

    def drifted(self, distances: pd.Series, rows: int) -> pd.Series:
        """Return the distances that are neither small nor chance, in so many new rows."""
        limit = max(_SMALL, _CHANCE * np.sqrt(1 / self.rows + 1 / rows))
        return pd.Series(distances[distances > limit])


def _numbers(column: pd.Series) -> Floats:
    return days_in(column) if kind_of(column) == "date" else column.to_numpy(float, na_value=np.nan)


def _quantiles(values: Floats) -> Floats:
    values = np.sort(values)  # NaN comes last
    if len(values) <= _MOST_VALUES:
        return values
    middles = (np.arange(_MOST_VALUES) + 0.5) / _MOST_VALUES
    return np.asarray(values[(middles * len(values)).astype(int)])


def _shares(levels: pd.Series) -> pd.Series:
    return as_text(levels).fillna(MISSING).value_counts(normalize=True)


def _total_variation(shares: dict[str, float], new: pd.Series) -> float:
    """Distance over the levels that were kept, and the rest as one."""
    pairs = [(share, float(new.get(level, 0.0))) for level, share in shares.items()]
    a, b = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    return float((np.abs(a - b).sum() + abs(a.sum() - b.sum())) / 2)
