"""Test whether p(y|x) is the same at every site, from labelled rows alone.

The test, then its parts: cross-fitted models of label and site, the comparison of residuals, and
the gain from knowing the site. Notation: n rows, p encoded columns Z, labels Y in C columns (one
for values, and for two classes), k sites, G groups of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import chdtrc, ndtr
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from shiftune._names import Task
from shiftune.errors import DataError
from shiftune.problem._site import Site, groups_of, task_of
from shiftune.rows._encoding import RowEncoder

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

# A site with fewer rows, or with fewer like the other sites', is not tested; the guard needs as
# many effective rows (`shiftune.ratio.Guard`).
FEWEST_ROWS = 10
# Each class costs a model per fold; only the most frequent ones are tested.
_MOST_CLASSES = 12
# Sites that are compared; of more, so many are drawn.
MOST_SITES = 100
# Models of label and site.
FOLDS = 5
_PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
# Values are clipped at this many standard deviations from the mean: one wild row would otherwise
# decide a linear fit.
_MOST_SDS_FROM_MEAN = 3.0
# Larger trees for larger tables; they learn rough functions, and overfit small tables.
_ROWS_PER_LEAF = 100
# Trees are grown for every site: 12 sites of 800 rows take some 10 s.
_MOST_SITES_FOR_TREES = 12
# More columns have fewer bins in trees, and enter the models of the site as so many principal
# components: with 200 columns these would take minutes.
MANY_COLUMNS = 40
_BINS = 255
# Slopes are tested along the predicted label and the leading principal components of the
# inputs. Each further direction takes power from the others.
_MOST_DIRECTIONS = 10
# Directions times classes times sites; the eigenvalues of a matrix of this size take 0.1 s.
_MOST_COMPONENTS = 600
# The gain: a level and slopes for every site; columns in all, so that the fit takes a second at
# most.
_GAIN_PENALTIES = (1.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 10_000.0)
_MOST_SLOPES = 4
_MOST_COLUMNS = 300


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
    if len(large) > MOST_SITES:
        large = [large[j] for j in np.sort(rng.choice(len(large), MOST_SITES, replace=False))]
    most = max(max_rows // len(large), FEWEST_ROWS)
    read = [
        site
        if len(site) <= most
        else site.take(np.sort(rng.choice(len(site), most, replace=False)))
        for site in large
    ]
    Z = np.vstack([*RowEncoder().fit_transform([site.X for site in read])])
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


def _independent(site: Site) -> int:
    """Number of rows, or of groups."""
    return len(site) if site.groups is None else len(np.unique(site.groups))


def _codes(sites: Sequence[Site], number: Ints) -> Ints | None:
    """Codes of the groups within the sites, shape (n,)."""
    groups = groups_of(sites)
    if groups is None:
        return None
    pairs = np.column_stack([number, np.concatenate(groups)])
    return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)


def _columns(labels: list[NDArray[Any]], task: Task | None) -> tuple[Floats, list[str]]:
    """Labels as numbers, shape (n, 1), or as 0/1 columns of classes (one of them for two)."""
    y = np.concatenate(labels)
    if (task or task_of(labels)) == "regression":
        return y.astype(float)[:, None], []
    classes, counts = np.unique(y, return_counts=True)
    frequent = np.sort(np.argsort(-counts, kind="stable")[:_MOST_CLASSES])
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
    """Return p values corrected for their number by Holm's method; NaN are not tests."""
    order = np.argsort(p)[: np.sum(~np.isnan(p))]
    factors = np.arange(len(order), 0, -1)
    corrected = np.full(len(p), np.nan)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    return corrected


@dataclass(frozen=True, slots=True)
class CrossFitted:
    """Out-of-fold predictions."""

    label: Floats  # expected label given x; for classes, the probability of each, (n, C)
    site: Floats  # probability of each site for a row with these inputs, (n, k)
    fold: Ints  # (n,)
    group: Ints  # codes 0..G-1 of rows that belong together, or row numbers, (n,)

    def summed(self, rows: Floats) -> Floats:
        """Add up what the rows of a group report: shape (n, m) -> (G, m)."""
        sums = np.zeros((self.group.max() + 1, rows.shape[1]))
        np.add.at(sums, self.group, rows)
        return sums


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def cross_fitted(
    Z: Floats, Y: Floats, site: Ints, rng: np.random.Generator, group: Ints | None = None
) -> CrossFitted:
    """Predict label and site of every row from models fitted on the other folds.

    The label: ridge regression, then boosted trees on what it leaves. Trees alone shrink a
    straight line towards its mean, and do so most where a site has its rows; a line alone misses
    every curve. The site: multinomial logistic regression on the columns, their squares (sites
    that spread differently) and the predicted label, so that sites are balanced in particular
    in what the label depends on; or, with up to 12 sites, boosted trees on the same, which see
    values that only some sites have: whichever has the lower log loss in the first fold.

    Sites are numbers 0..k-1, each with at least `FOLDS` rows, or groups; the rows of a group (codes
    0..G-1, by default every row) are of one site, and in the same fold.
    """
    n, k = len(Z), int(site.max()) + 1
    group = np.arange(n) if group is None else group
    _, first = np.unique(group, return_index=True)
    fold = _assign_folds(site[first], rng)[group]
    Z = standardised(Z)
    label, chance = np.empty_like(Y), np.empty((n, k))
    for f in range(FOLDS):
        rest, held = fold != f, fold == f
        for c in range(Y.shape[1]):
            label[held, c] = _expected(Z[rest], Y[rest, c], Z[held])
    inputs = Z if Z.shape[1] <= MANY_COLUMNS else _principal_components(Z, MANY_COLUMNS)
    numbers = np.array([len(np.unique(column)) > 2 for column in inputs.T], dtype=bool)
    G = standardised(np.hstack([inputs, inputs[:, numbers] ** 2, label]))
    models: list[Any] = [LogisticRegression(max_iter=1000, tol=1e-3)]
    if k <= _MOST_SITES_FOR_TREES:
        models.append(HistGradientBoostingClassifier(**_trees(n, inputs.shape[1]), max_iter=60))
    for f in range(FOLDS):
        rest, held = fold != f, fold == f
        shares = [model.fit(G[rest], site[rest]).predict_proba(G[held]) for model in models]
        best = int(np.argmin([log_loss(site[held], p, labels=np.arange(k)) for p in shares]))
        models, chance[held] = [models[best]], shares[best]
    return CrossFitted(label, chance, fold, group)


def _assign_folds(site: Ints, rng: np.random.Generator) -> Ints:
    """Assign the rows (or groups) of every site to the folds, as evenly as possible, (n,)."""
    fold = np.empty(len(site), dtype=np.intp)
    for j in np.unique(site):
        rows = rng.permutation(np.flatnonzero(site == j))
        fold[rows] = (np.arange(len(rows)) + j) % FOLDS
    return fold


def standardised(Z: Floats) -> Floats:
    """Columns with mean 0 and standard deviation 1, cut at 3; constant ones become 0."""
    spread = Z.std(axis=0)
    scaled = (Z - Z.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return np.asarray(np.clip(scaled, -_MOST_SDS_FROM_MEAN, _MOST_SDS_FROM_MEAN))


def _principal_components(Z: Floats, most: int) -> Floats:
    """Return the leading principal components, standardised, shape (n, at most `most`)."""
    centred = standardised(Z)
    centred -= centred.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    kept = np.argsort(values)[::-1][:most]
    kept = kept[values[kept] > 1e-9 * values.max(initial=0.0)]
    return standardised(centred @ vectors[:, kept])


def _expected(Z: Floats, y: Floats, Z_new: Floats) -> Floats:
    if np.ptp(y) == 0:  # exactly: rounding errors would be taken for labels that move
        return np.full(len(Z_new), y[0])
    line = RidgeCV(_PENALTIES).fit(Z, y)
    trees = HistGradientBoostingRegressor(**_trees(*Z.shape), max_iter=100)
    trees.fit(Z, y - line.predict(Z))
    return np.asarray(line.predict(Z_new) + trees.predict(Z_new))


def _trees(n: int, columns: int) -> dict[str, Any]:
    """Settings of boosted trees for n rows: from 8 leaves up to scikit-learn's 31."""
    return {
        "max_leaf_nodes": int(np.clip(n // _ROWS_PER_LEAF, 8, 31)),
        "max_bins": int(np.clip(_BINS * MANY_COLUMNS // max(columns, 1), 16, _BINS)),
        "min_samples_leaf": 10,
        "early_stopping": False,
        "random_state": 0,
    }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Sites compared with the others at the same inputs."""

    # Rows of a site that are like those of others, sum over its rows of 1 - e_j(x), (k,).
    comparable: Floats
    # How far labels lie above those of the other sites, (k, C).
    shift: Floats
    stderr: Floats
    # Labels that lie higher or lower; inputs that act differently, (k,). NaN where a site has too
    # few comparable rows.
    p_level: Floats
    p_slope: Floats
    # All sites at once: twice the smaller p value of levels and slopes.
    p_together: float


def compared(Z: Floats, Y: Floats, site: Ints, fits: CrossFitted) -> Comparison:
    r"""Compare the residuals of every site with those of the others at the same inputs.

    With :math:`a_{ij} = 1\{s_i = j\} - \hat e_j(x_i)` and :math:`R_{ij} = (y_i - \hat f(x_i))\,
    a_{ij}`, the shift of site j is :math:`\sum_i R_{ij} / \sum_i a_{ij}^2`, the difference to the
    other sites averaged over the inputs that they share.
    """
    k, C = fits.site.shape[1], Y.shape[1]
    few = int(np.clip(_MOST_COMPONENTS // (k * C) - 1, 0, _MOST_DIRECTIONS - 1))
    along = _principal_components(Z, few)
    away = (site[:, None] == np.arange(k)) - fits.site
    residual = Y - fits.label
    comparable = np.array([np.sum(away[site == j, j]) for j in range(k)])
    shift, stderr = np.full((2, k, C), np.nan)
    p_level, p_slope = np.full((2, k), np.nan)
    levels: list[Floats] = []
    all_slopes: list[Floats] = []
    for j in np.flatnonzero(comparable >= FEWEST_ROWS):
        R = residual * away[:, [j]]
        square, by_group = np.sum(away[:, j] ** 2), fits.summed(R)
        shift[j] = R.sum(axis=0) / square
        stderr[j] = np.sqrt(np.sum(by_group**2, axis=0)) / square
        slopes = [
            R[:, [c]] * np.column_stack([standardised(fits.label[:, [c]]), along]) for c in range(C)
        ]
        for reports, p_value, everyone in (
            (by_group, p_level, levels),
            (fits.summed(np.hstack(slopes)), p_slope, all_slopes),
        ):
            # Each site counts alike in the test of all sites, however noisy it is.
            scaled = reports / (np.sqrt(np.sum(reports**2)) or 1.0)
            p_value[j] = _p_value(scaled)
            everyone.append(scaled)
    together = [_p_value(np.hstack(everyone)) for everyone in (levels, all_slopes) if everyone]
    p_together = min(1.0, 2 * min(together, default=1.0))
    return Comparison(comparable, shift, stderr, p_level, p_slope, p_together)


def _p_value(reports: Floats) -> float:
    r"""P value of :math:`\|\sum_i \phi_i\|^2` for independent rows (groups) of mean 0, (n, m).

    The sum has covariance :math:`\sum_i \phi_i \phi_i'`, not centred: a few wild rows then
    enlarge the covariance along with the sum, so that they alone are never significant.
    """
    n, m = reports.shape
    gram = reports.T @ reports if m < n else reports @ reports.T
    return weighted_chi_square_tail(
        float(np.sum(reports.sum(axis=0) ** 2)), np.linalg.eigvalsh(gram)
    )


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def gain_from_sites(Z: Floats, Y: Floats, site: Ints, fits: CrossFitted) -> tuple[float, float]:
    r"""Share of the squared error that goes away when the site is known, and its standard error.

    .. math:: g = 1 - \frac{\sum_i (y_i - \hat f(x_i) - \hat b_{s_i}(x_i))^2}
                           {\sum_i (y_i - \hat f(x_i))^2},

    where :math:`\hat b_s` is a level for every site, then slopes along the leading principal
    components, each by ridge regression on the other folds with a penalty of its own. Negative
    where knowing the site does not help. A lower bound: it includes neither more complex
    differences between sites nor differences that cannot be learned from so few rows.
    """
    residual = Y - fits.label
    k = fits.site.shape[1]
    slopes = _principal_components(Z, int(np.clip(_MOST_COLUMNS // k - 1, 0, _MOST_SLOPES)))
    levels = np.eye(k)[site]
    steps = [levels]
    if slopes.shape[1]:
        steps.append(np.hstack([levels * slope[:, None] for slope in slopes.T]))
    left = np.empty_like(residual)
    for f in range(FOLDS):
        rest = fits.fold != f
        remaining = residual.copy()
        for columns in steps:
            model = RidgeCV(_GAIN_PENALTIES, fit_intercept=False).fit(
                columns[rest], remaining[rest]
            )
            remaining -= model.predict(columns).reshape(remaining.shape)
        left[~rest] = remaining[~rest]
    before, after = np.sum(residual**2, axis=1), np.sum(left**2, axis=1)
    if before.sum() == 0:
        return 0.0, 0.0
    saved = before - after
    by_group = fits.summed((saved - saved.mean())[:, None])
    stderr = np.sqrt(np.sum(by_group**2)) / len(saved) / before.mean()
    return float(saved.mean() / before.mean()), float(stderr)


# ---------------------------------------------------------------- weighted chi-square

# Within this many standard deviations of the mean the saddlepoint formula divides 0 by 0.
_NEAR_THE_MEAN = 1e-3


def weighted_chi_square_tail(q: float, weights: ArrayLike) -> float:
    r"""Probability that :math:`\sum_c \lambda_c \chi^2_1` exceeds q, by a saddlepoint.

    .. math:: K(\zeta) = -\tfrac12 \sum_c \log(1 - 2 \zeta \lambda_c), \quad K'(\zeta) = q, \quad
              p = 1 - \Phi\!\left(u + \tfrac1u \log \tfrac vu\right),

    with :math:`u = \mathrm{sign}(\zeta) \sqrt{2 (\zeta q - K)}` and :math:`v = \zeta \sqrt{K''}`.
    The relative error stays small far out in the tail, where permutations would have to be
    counted by the million [1]_. At the mean the argument is a sixth of the skewness.

    References
    ----------
    .. [1] D. Kuonen (1999). Saddlepoint approximations for distributions of quadratic forms in
       normal variables. Biometrika 86.
    """
    lam = np.asarray(weights, dtype=float)
    lam = lam[lam > 1e-12 * lam.max(initial=0.0)]
    if len(lam) == 0:
        return 1.0
    lam, q = lam / lam.sum(), q / float(lam.sum())
    if q <= 0:
        return 1.0
    variance = 2 * float(np.sum(lam**2))
    if len(lam) == 1:
        return float(chdtrc(1, q))
    z = (q - 1) / np.sqrt(variance)
    if abs(z) < _NEAR_THE_MEAN:
        return float(ndtr(-z - 8 * np.sum(lam**3) / variance**1.5 / 6))
    top = 1 / (2 * lam.max())
    # K' grows from 0 at minus infinity to infinity at `top`; these ends enclose q.
    low, high = -len(lam) / (2 * q) - 1, top * (1 - 0.5 * lam.max() / (q + 1))
    zeta = brentq(lambda z: float(np.sum(lam / (1 - 2 * z * lam))) - q, low, high, xtol=1e-13)
    K = -0.5 * float(np.sum(np.log1p(-2 * zeta * lam)))
    u = np.sign(zeta) * np.sqrt(2 * (zeta * q - K))
    v = zeta * np.sqrt(2 * float(np.sum((lam / (1 - 2 * zeta * lam)) ** 2)))
    return float(np.clip(ndtr(-(u + np.log(v / u) / u)), 0.0, 1.0))
