"""Test whether p(y|x) is the same at every site, from labelled rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.errors import DataError
from shiftune.names import Task
from shiftune.problem.groups import groups_of
from shiftune.problem.labels import task_of
from shiftune.problem.site import Site
from shiftune.rows.encoding import RowEncoder
from shiftune.stability.comparison import FEWEST_ROWS, Comparison, compared
from shiftune.stability.cross_fitting import cross_fitted
from shiftune.stability.gain import gain_from_sites

Floats = NDArray[np.float64]

# Each class costs a model per fold; only the most frequent ones are tested.
MOST_CLASSES = 12
# Sites that are compared; of more, so many are drawn.
MOST_SITES = 100


class NotTested(StrEnum):
    """Why a site could not be compared with the others, in words."""

    TESTED = ""
    FEW_ROWS = f"fewer than {FEWEST_ROWS} rows (or groups)"
    UNLIKE_OTHERS = "hardly any row is like those of other sites"
    NOT_DRAWN = f"not among the {MOST_SITES} sites that were drawn"


@dataclass(frozen=True, slots=True, eq=False)
class LabelStability:
    """Result of the test; see `label_stability`.

    Attributes
    ----------
    p_value : float
        Of "the same inputs have the same labels at all sites". Twice the smaller of: all sites
        taken together, and the most conspicuous site (after Holm's correction).
    explained : float
        Share of the label's variance that the inputs explain (at rows the model never saw).
    gain : float
        Share of the remaining squared error (Brier score for classes) that goes away when the
        model knows the site as well; negative where it does not help.
    gain_stderr : float
    sites : DataFrame
        One row per site: n; comparable, its rows that are like those of other sites; shift, how
        far its labels lie above those of the other sites at the same inputs, and stderr (for
        more than two classes, of the class that moves most); the class; p_level and p_slope,
        Holm-corrected, for labels that lie higher or lower, and inputs that act differently;
        p_value, of both together; not_tested, why a site was not tested.
    rows_read : int
        Number of rows that were read; of many, some are drawn.
    """

    p_value: float
    explained: float
    gain: float
    gain_stderr: float
    sites: pd.DataFrame
    rows_read: int

    @property
    def compared(self) -> int:
        """Number of sites that could be compared with others."""
        return int((self.sites["not_tested"] == NotTested.TESTED).sum())

    def moved(self, level: float = 0.05) -> list[str]:
        """Names of the sites whose labels differ from the others', most conspicuous first."""
        found = self.sites[self.sites["p_value"] < level].sort_values("p_value", kind="stable")
        return [str(name) for name in found.index]


def label_stability(
    sites: Sequence[Site],
    *,
    task: Task | None = None,
    max_rows: int = 10_000,
    random_state: int = 0,
) -> LabelStability:
    r"""Test whether p(y|x) is the same at every site.

    With :math:`\hat f(x)` the expected label and :math:`\hat e_j(x)` the chance that a row is of
    site j, both cross-fitted on all sites, the rows report

    .. math:: R_{ij} = (y_i - \hat f(x_i)) \, (1\{s_i = j\} - \hat e_j(x_i)),

    whose mean is 0 where label and site are independent given x [1]_. That holds however
    differently the inputs are distributed: the second factor compares site j with the others at
    the same inputs, and errors of the two models matter only through their product.
    :math:`\sum_i R_{ij}` finds labels that lie higher or lower at site j,
    :math:`\sum_i R_{ij} h(x_i)` inputs that act differently there, with h the predicted label
    and the principal components of x [2]_. The p values are those of quadratic forms with the
    rows' own covariance, so noise may vary with x and between sites. Rows are taken as
    independent unless they belong to a group (`Site.groups`), such as visits of a patient: then
    groups are. Rows that follow each other in time make it find too much.

    Parameters
    ----------
    sites : sequence of labelled sites
        For example ``problem.labelled_sites``. At least two with 10 rows.
    task : {"classification", "regression"}, optional
        Default: inferred from the labels.
    max_rows : int
        At most so many rows are read, drawn evenly from the sites, and of at most 100 sites.
    random_state : int
        Draws the rows and assigns them to folds.

    References
    ----------
    .. [1] R. D. Shah, J. Peters (2020). The hardness of conditional independence testing and the
       generalised covariance measure. Annals of Statistics 48.
    .. [2] C. Scheidegger, J. Hörrmann, P. Bühlmann (2022). The weighted generalised covariance
       measure. JMLR 23.

    Examples
    --------
    >>> from shiftune.problem import Site
    >>> rng = np.random.default_rng(0)
    >>> X = {name: rng.normal(mean, 1, (200, 1)) for name, mean in [("B", 0), ("C", 1), ("D", 1)]}
    >>> y = {name: x[:, 0] + rng.normal(0, 0.5, 200) for name, x in X.items()}
    >>> label_stability([Site(s, X[s], y[s]) for s in X]).moved()  # x is shifted, p(y|x) is not
    []
    >>> y["C"] = y["C"] + 0.5
    >>> found = label_stability([Site(s, X[s], y[s]) for s in X])
    >>> found.moved()[0], bool(found.p_value < 0.001)
    ('C', True)
    """
    large = [site for site in sites if _independent(site) >= FEWEST_ROWS]
    if len(large) < 2:
        raise DataError(
            f"comparing p(y|x) needs at least two sites with {FEWEST_ROWS} labelled rows each, "
            f"and as many groups if rows belong together, got {len(large)}"
        )
    rng = np.random.default_rng(random_state)
    read = _drawn_sites(large, max_rows, rng)
    Z = np.vstack(RowEncoder().fit_transform([site.X for site in read]))
    if Z.shape[1] == 0:  # every column is constant
        Z = np.zeros((len(Z), 1))
    Y, classes = _columns([site.labels for site in read], task)
    number = np.repeat(np.arange(len(read)), [len(site) for site in read])
    fits = cross_fitted(Z, Y, number, rng, _codes(read, number))
    found = compared(Z, Y, number, fits)
    gain, gain_stderr = gain_from_sites(Z, Y, number, fits)
    variance = float(np.mean((Y - Y.mean(axis=0)) ** 2))
    unexplained = float(np.mean((Y - fits.label) ** 2)) / variance if variance else 1.0
    table = _table(sites, [site.name for site in read], found, classes)
    smallest = min([found.p_together, *table["p_value"].dropna()])
    return LabelStability(
        min(1.0, 2 * smallest), max(1 - unexplained, 0.0), gain, gain_stderr, table, len(Y)
    )


def _drawn_sites(sites: Sequence[Site], most: int, rng: np.random.Generator) -> list[Site]:
    """Draw sites, if there are many, and about as many rows of each."""
    if len(sites) > MOST_SITES:
        sites = [sites[j] for j in np.sort(rng.choice(len(sites), MOST_SITES, replace=False))]
    return [_drawn(site, max(most // len(sites), FEWEST_ROWS), rng) for site in sites]


def _independent(site: Site) -> int:
    """Number of rows, or of groups."""
    return len(site) if site.groups is None else len(np.unique(site.groups))


def _codes(sites: Sequence[Site], number: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """Codes of the groups within the sites, shape (n,)."""
    groups = groups_of(sites)
    if groups is None:
        return None
    pairs = np.column_stack([number, np.concatenate(groups)])
    return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)


def _drawn(site: Site, most: int, rng: np.random.Generator) -> Site:
    if len(site) <= most:
        return site
    return site.take(np.sort(rng.choice(len(site), most, replace=False)))


def _columns(labels: list[NDArray[Any]], task: Task | None) -> tuple[Floats, list[str]]:
    """Labels as numbers, shape (n, 1), or as 0/1 columns of classes (one of them for two)."""
    y = np.concatenate(labels)
    if (task or task_of(labels)) == "regression":
        return y.astype(float)[:, None], []
    classes, counts = np.unique(y, return_counts=True)
    frequent = np.sort(np.argsort(-counts, kind="stable")[:MOST_CLASSES])
    shown = classes[1:] if len(classes) == 2 else classes[frequent]
    return (y[:, None] == shown).astype(float), [str(c) for c in shown]


def _table(
    sites: Sequence[Site], read: list[str], found: Comparison, classes: list[str]
) -> pd.DataFrame:
    tested = ~np.isnan(found.p_level)
    reason = np.where(tested, NotTested.TESTED.value, NotTested.UNLIKE_OTHERS.value)
    most = np.where(tested, np.argmax(np.abs(np.nan_to_num(found.shift)), axis=1), 0)
    at = np.arange(len(read)), most
    both = np.minimum(1.0, 2 * np.fmin(found.p_level, found.p_slope))
    columns: dict[str, Any] = {
        "comparable": found.comparable,
        "shift": found.shift[at],
        "stderr": found.stderr[at],
    }
    if classes:
        columns["class"] = [classes[c] if yes else "" for c, yes in zip(most, tested, strict=True)]
    columns |= {
        "p_level": _holm(found.p_level),
        "p_slope": _holm(found.p_slope),
        "p_value": _holm(both),
        "not_tested": reason,
    }
    everyone = pd.Index([site.name for site in sites], name="site")
    table = pd.DataFrame(columns, index=pd.Index(read, name="site")).reindex(everyone)
    table.insert(0, "n", [len(site) for site in sites])
    few = np.array([_independent(site) < FEWEST_ROWS for site in sites])
    table.loc[~everyone.isin(read), "not_tested"] = NotTested.NOT_DRAWN.value
    table.loc[few, "not_tested"] = NotTested.FEW_ROWS.value
    return table


def _holm(p: Floats) -> Floats:
    """Return p values corrected for their number by Holm's method; NaN are no tests.

    >>> _holm(np.array([0.01, 0.04, np.nan, 0.03]))
    array([0.03, 0.06,  nan, 0.06])
    """
    order = np.argsort(p)[: np.sum(~np.isnan(p))]
    factors = np.arange(len(order), 0, -1)
    corrected = np.full(len(p), np.nan)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    return corrected
