"""The estimators that compete, good ideas and failed ones.

Each is a function from a `View` to what it holds of every configuration. Those that the package
offers are the package's own code; the others are ideas that were no better, kept so that nobody
has to try them again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
from balanced import self_normalised
from reproduction.settings import NO_GUARD
from scipy.stats import rankdata
from sklearn.linear_model import RidgeCV
from view import View

from shiftune.errors import OverlapWarning
from shiftune.risk import RegressionAdjusted, RiskEstimate, estimate
from shiftune.rows._moments import Moments

LEVEL = 0.9


@dataclass(frozen=True)
class Judged:
    """Estimated risks of P configurations, and the 90 % intervals of those that have them.

    The configuration of lowest `criterion` is chosen, by default of lowest risk. Ranks and
    standardised values (`is_risk` is False) only show which configuration is best.
    """

    risks: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    criterion: np.ndarray | None = None
    is_risk: bool = True

    @property
    def order(self) -> np.ndarray:
        """Values by which configurations are compared."""
        return self.risks if self.criterion is None else self.criterion


@dataclass(frozen=True)
class Estimator:
    """A competitor: its kind, its cost in model fits per trial, and its function."""

    name: str
    group: str
    fits: int
    judge: Callable[[View], Judged]


def judged_by(risks: Iterable[RiskEstimate]) -> Judged:
    """Read values, intervals and criteria from the estimates of all configurations."""
    found = [(risk.value, *risk.interval(LEVEL), risk.criterion) for risk in risks]
    return Judged(*np.array(found).T)


def package(losses: str, method: str, weights: str | None = None, power: float = 1.0, **options):
    """Judge by `shiftune.risk.estimate`, with a density ratio where one is named."""

    def judge(view: View) -> Judged:
        own, w = getattr(view, losses), None
        if weights is not None:
            rows = np.minimum(view.weights(weights)[own.rows], options.get("largest", np.inf))
            w = own.by_site(rows**power)
        given = {name: value for name, value in options.items() if name != "largest"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)
            if method == "self_normalised" and w is not None:
                return judged_by(self_normalised(own.by_site(row), w) for row in own.L)
            return judged_by(estimate(own.by_site(row), w, method, **given) for row in own.L)

    return judge


def adjusted(
    losses: str = "out_of_site", constants: Mapping[str, float] | None = None, **options: float
):
    """Judge by `RegressionAdjusted`, with other constants ("module.NAME") where given."""

    def judge(view: View) -> Judged:
        own = getattr(view, losses)
        with warnings.catch_warnings(), ExitStack() as changed:
            warnings.simplefilter("ignore", OverlapWarning)
            for name, value in (constants or {}).items():
                changed.enter_context(patch(f"shiftune.{name}", value))
            risk = RegressionAdjusted(**options).fit(view.problem.X_target, own.X)
        return judged_by(risk.estimate(own.by_site(row)) for row in own.L)

    return judge


def chosen_by_estimate(judge: Callable[[View], Judged]) -> Callable[[View], Judged]:
    """Choose by the adjusted estimates, too, and not by the means of the sites."""
    return lambda view: replace(judge(view), criterion=None)


def plain(values: Callable[[View], np.ndarray]) -> Callable[[View], Judged]:
    """Wrap an estimator that has no interval."""
    return lambda view: Judged(values(view))


def order(values: Callable[[View], np.ndarray]) -> Callable[[View], Judged]:
    """Wrap an estimator that ranks configurations without estimating their risks."""
    return lambda view: Judged(values(view), is_risk=False)


def doubly_robust(losses: str, power: float):
    """Regress the losses on x, cross-fitted; add the weighted residuals."""

    def values(view: View) -> np.ndarray:
        own = getattr(view, losses)
        L = own.L
        moments = Moments().fit(view.problem.X_target, own.X)
        Z_target, Z = moments.target.dense(), moments.sources.dense()
        fold = np.arange(L.shape[1]) % 2
        residuals, at_target = np.empty_like(L), np.zeros(len(L))
        for f in (0, 1):
            ridge = RidgeCV(np.logspace(-1, 4, 8)).fit(Z[fold != f], L[:, fold != f].T)
            residuals[:, fold == f] = L[:, fold == f] - ridge.predict(Z[fold == f]).T
            at_target += ridge.predict(Z_target).mean(axis=0) / 2
        w = view.balanced[own.rows] ** power
        return at_target + residuals @ w / w.sum()

    return plain(values)


def standardised(means: np.ndarray) -> np.ndarray:
    """Let every site's risks have mean 0 and standard deviation 1 over the configurations."""
    spread = means.std(axis=0)
    return (means - means.mean(axis=0)) / np.where(spread > 0, spread, 1)


def in_agreement(view: View) -> np.ndarray:
    """Weight sites by how well the others' mean predicts their ranking; drop contradicting ones."""
    z = standardised(view.out_of_site.site_means)
    others = (z.sum(axis=1, keepdims=True) - z) / max(z.shape[1] - 1, 1)
    weight = np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(z.T, others.T, strict=True)])
    weight = np.nan_to_num(weight).clip(0)
    if not weight.any():
        return view.out_of_site.L.mean(axis=1)
    return view.out_of_site.site_means @ (weight / weight.sum())


def similar_sites(view: View) -> np.ndarray:
    """Weight sites by how near their means and spreads are to the target's."""
    scale = view.X.std(axis=0) + 1e-9
    summary = [
        np.concatenate([x.mean(axis=0) / scale, np.log(x.std(axis=0) / scale + 0.1)])
        for x in (*view.problem.X, view.problem.X_target)
    ]
    distance = np.array([np.mean((s - summary[-1]) ** 2) for s in summary[:-1]])
    weight = np.exp(-distance / (0.5 * np.median(distance) + 1e-12))
    return view.out_of_site.site_means @ (weight / weight.sum())


def with_the_crowd(view: View) -> np.ndarray:
    """Add how far a model strays from the mean of all models at the target, against the sources.

    For squared errors, E(y - f)^2 = E(y - g)^2 + E(f - g)^2 - 2 E(y - g)(f - g): the middle term,
    with g the mean model, can be measured on target rows without labels.
    """
    away = {}
    for where in ("target", "left_out"):
        f = view.cell[f"{where}_predictions"].astype(float)
        g = f.mean(axis=0)
        away[where] = (
            np.minimum((f - g) ** 2, 100).mean(axis=1)
            if f.ndim == 2
            else -(g * np.log(f.clip(1e-3))).sum(axis=-1).mean(axis=1)
        )
    return view.out_of_site.L.mean(axis=1) + 0.5 * (away["target"] - away["left_out"])


# Fits of a trial besides the one that naive needs.
EXTRA = 3
ESTIMATORS = [
    Estimator("naive", "published", 0, package("pooled", "naive")),
    Estimator("unbiased", "published", 0, package("pooled", "unbiased", "w_own", guard=NO_GUARD)),
    Estimator(
        "VR as published",
        "published",
        0,
        package("pooled", "variance_reduced", "w_published", guard=NO_GUARD),
    ),
    Estimator("VR", "published", 0, package("pooled", "variance_reduced", "w_own")),
    *(
        Estimator(
            f"balanced w^{power:g}",
            "weights",
            0,
            package("pooled", "self_normalised", "balanced", power),
        )
        for power in (1.0, 0.5, 0.25)
    ),
    Estimator(
        "balanced, cut off at 5",
        "weights",
        0,
        package("pooled", "self_normalised", "balanced", largest=5.0),
    ),
    Estimator(
        "balanced, one classifier", "weights", 0, package("pooled", "self_normalised", "w_pooled")
    ),
    Estimator(
        "self-normalised, own ratios", "weights", 0, package("pooled", "self_normalised", "w_own")
    ),
    Estimator("out of site", "out of site", EXTRA, package("out_of_site", "naive")),
    *(
        Estimator(
            f"out of site, balanced w^{power:g}",
            "out of site",
            EXTRA,
            package("out_of_site", "self_normalised", "balanced", power),
        )
        for power in (1.0, 0.5, 0.25)
    ),
    Estimator(
        "out of site, VR", "out of site", EXTRA, package("out_of_site", "variance_reduced", "w_own")
    ),
    Estimator(
        "out of site, ranks",
        "sites",
        EXTRA,
        order(lambda view: rankdata(view.out_of_site.site_means, axis=0).mean(axis=1)),
    ),
    Estimator(
        "out of site, standardised by site",
        "sites",
        EXTRA,
        order(lambda view: standardised(view.out_of_site.site_means).mean(axis=1)),
    ),
    Estimator("out of site, sites in agreement", "sites", EXTRA, plain(in_agreement)),
    Estimator("out of site, similar sites", "sites", EXTRA, plain(similar_sites)),
    Estimator("out of site, with the crowd", "sites", EXTRA, plain(with_the_crowd)),
    Estimator("doubly robust", "doubly robust", 0, doubly_robust("pooled", 1.0)),
    *(
        Estimator(
            f"out of site, doubly robust w^{power:g}",
            "doubly robust",
            EXTRA,
            doubly_robust("out_of_site", power),
        )
        for power in (1.0, 0.5)
    ),
    Estimator("adjusted", "adjusted", EXTRA, adjusted()),
    Estimator("adjusted, chosen by it", "adjusted", EXTRA, chosen_by_estimate(adjusted())),
    Estimator("adjusted, one model", "adjusted", 0, adjusted("one_fold")),
    Estimator("adjusted, known sites only", "adjusted", 0, adjusted("pooled")),
    *(
        Estimator(
            f"adjusted, sources {what}",
            "adjusted",
            EXTRA,
            adjusted(constants={"risk._adjusted.ROWS_FOR_HALF_SHARE": rows}),
        )
        for what, rows in (("by rows", 1e6), ("alike", 0.0))
    ),
    *(  # these bear on the choice only if it is by the estimate
        Estimator(
            f"adjusted, explained {r:g}, chosen by it",
            "adjusted",
            EXTRA,
            chosen_by_estimate(adjusted(prior_r2=r)),
        )
        for r in (0.01, 0.03, 0.2)
    ),
    *(
        Estimator(
            f"adjusted, {what}, chosen by it",
            "adjusted",
            EXTRA,
            chosen_by_estimate(adjusted(constants={f"rows._moments.{name}": value})),
        )
        for what, name, value in (
            ("values to 10 sd", "MOST_SDS_FROM_SOURCES", 10.0),
            ("no products", "MOST_MULTIPLIED", 0),
        )
    ),
]
