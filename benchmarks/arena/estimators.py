"""The estimators that compete, good ideas and failed ones.

Each is a function from a `View` to what it holds of every configuration. Those that the package
offers are the package's own code; the others are ideas that were no better, kept so that nobody
has to try them again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from pseudo_targets import chosen_by_pseudo_targets
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

    Ranks and standardised values (`is_risk` is False) only show which configuration is best.
    """

    risks: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    is_risk: bool = True


@dataclass(frozen=True)
class Estimator:
    """A competitor: its kind, its cost in model fits per trial, and its function."""

    name: str
    group: str
    fits: int
    judge: Callable[[View], Judged]


def judged_by(risks: Iterable[RiskEstimate]) -> Judged:
    """Read values and intervals from the estimates of all configurations."""
    found = [(risk.value, *risk.interval(LEVEL)) for risk in risks]
    return Judged(*np.array(found).T)


def package(losses: str, method: str, weights: str | None = None, power: float = 1.0, **options):
    """Let `shiftune.risk._estimate` judge, with one of the cell's ratios."""

    def judge(view: View) -> Judged:
        w = None
        if weights is not None:
            rows = view.balanced if weights == "balanced" else view.weights(weights)
            w = view.by_site(np.minimum(rows, options.get("largest", np.inf)) ** power)
        given = {name: value for name, value in options.items() if name != "largest"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)
            return judged_by(
                estimate(view.by_site(row), w, method, **given) for row in getattr(view, losses)
            )

    return judge


def adjusted(losses: str = "half", constants: Mapping[str, float] | None = None, **options):
    """Judge by `RegressionAdjusted`, with other constants ("module.NAME") where given."""

    def judge(view: View) -> Judged:
        with warnings.catch_warnings(), ExitStack() as changed:
            warnings.simplefilter("ignore", OverlapWarning)
            for name, value in (constants or {}).items():
                changed.enter_context(patch(f"shiftune.{name}", value))
            risk = RegressionAdjusted(**options).fit(view.problem.X_target, view.judged_X)
        return judged_by(risk.estimate(view.by_site(row)) for row in getattr(view, losses))

    return judge


def plain(values: Callable[[View], np.ndarray]) -> Callable[[View], Judged]:
    """Wrap an estimator that has no interval."""
    return lambda view: Judged(values(view))


def order(values: Callable[[View], np.ndarray]) -> Callable[[View], Judged]:
    """Wrap an estimator that ranks configurations without estimating their risks."""
    return lambda view: Judged(values(view), is_risk=False)


def doubly_robust(losses: str, power: float):
    """Regress the losses on x, cross-fitted; add the weighted residuals."""

    def values(view: View) -> np.ndarray:
        L = getattr(view, losses)
        moments = Moments().fit(view.problem.X_target, view.judged_X)
        Z_target, Z = moments.target.dense(), moments.sources.dense()
        fold = np.arange(L.shape[1]) % 2
        residuals, at_target = np.empty_like(L), np.zeros(len(L))
        for f in (0, 1):
            ridge = RidgeCV(np.logspace(-1, 4, 8)).fit(Z[fold != f], L[:, fold != f].T)
            residuals[:, fold == f] = L[:, fold == f] - ridge.predict(Z[fold == f]).T
            at_target += ridge.predict(Z_target).mean(axis=0) / 2
        w = view.balanced**power
        return at_target + residuals @ w / w.sum()

    return plain(values)


def standardised(means: np.ndarray) -> np.ndarray:
    """Let every site's risks have mean 0 and standard deviation 1 over the configurations."""
    spread = means.std(axis=0)
    return (means - means.mean(axis=0)) / np.where(spread > 0, spread, 1)


def in_agreement(view: View) -> np.ndarray:
    """Weight sites by how well the others' mean predicts their ranking; drop contradicting ones."""
    z = standardised(view.site_means(view.half))
    others = (z.sum(axis=1, keepdims=True) - z) / max(z.shape[1] - 1, 1)
    weight = np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(z.T, others.T, strict=True)])
    weight = np.nan_to_num(weight).clip(0)
    if not weight.any():
        return view.half.mean(axis=1)
    return view.site_means(view.half) @ (weight / weight.sum())


def similar_sites(view: View) -> np.ndarray:
    """Weight sites by how near their means and spreads are to the target's."""
    scale = view.X.std(axis=0) + 1e-9
    summary = [
        np.concatenate([x.mean(axis=0) / scale, np.log(x.std(axis=0) / scale + 0.1)])
        for x in (*view.judged_X, view.problem.X_target)
    ]
    distance = np.array([np.mean((s - summary[-1]) ** 2) for s in summary[:-1]])
    weight = np.exp(-distance / (0.5 * np.median(distance) + 1e-12))
    return view.site_means(view.half) @ (weight / weight.sum())


def with_the_crowd(view: View) -> np.ndarray:
    """Add how far a model strays from the mean of all models at the target, against the sources.

    For squared errors, E(y - f)^2 = E(y - g)^2 + E(f - g)^2 - 2 E(y - g)(f - g): the middle term,
    with g the mean model, can be measured on target rows without labels.
    """
    away = {}
    for where in ("target", "left_out"):
        f = view.cell[f"{where}_answers"].astype(float)
        g = f.mean(axis=0)
        away[where] = (
            np.minimum((f - g) ** 2, 100).mean(axis=1)
            if f.ndim == 2
            else -(g * np.log(f.clip(1e-3))).sum(axis=-1).mean(axis=1)
        )
    return view.half.mean(axis=1) + 0.5 * (away["target"] - away["left_out"])


ESTIMATORS = [
    Estimator("naive", "published", 0, package("known", "naive")),
    Estimator("unbiased", "published", 0, package("known", "unbiased", "w_own", guard=NO_GUARD)),
    Estimator(
        "VR as published",
        "published",
        0,
        package("known", "variance_reduced", "w_published", guard=NO_GUARD),
    ),
    Estimator("VR", "published", 0, package("known", "variance_reduced", "w_own")),
    *(
        Estimator(
            f"balanced w^{power:g}",
            "weights",
            0,
            package("known", "self_normalised", "balanced", power),
        )
        for power in (1.0, 0.5, 0.25)
    ),
    Estimator(
        "balanced, cut off at 5",
        "weights",
        0,
        package("known", "self_normalised", "balanced", largest=5.0),
    ),
    Estimator(
        "balanced, one classifier", "weights", 0, package("known", "self_normalised", "w_pooled")
    ),
    Estimator(
        "self-normalised, own ratios", "weights", 0, package("known", "self_normalised", "w_own")
    ),
    Estimator("unseen sites", "unseen sites", 4, package("unseen", "naive")),
    Estimator(
        "unseen sites, all rows",
        "unseen sites",
        4,
        plain(lambda view: view.unseen_everywhere.mean(axis=1)),
    ),
    Estimator("half unseen", "unseen sites", 4, package("half", "naive")),
    *(
        Estimator(
            f"half unseen, balanced w^{power:g}",
            "unseen sites",
            4,
            package("half", "self_normalised", "balanced", power),
        )
        for power in (1.0, 0.5, 0.25)
    ),
    Estimator("half unseen, VR", "unseen sites", 4, package("half", "variance_reduced", "w_own")),
    Estimator(
        "unseen sites, ranks",
        "sites",
        4,
        order(lambda view: rankdata(view.site_means(view.unseen), axis=0).mean(axis=1)),
    ),
    Estimator(
        "half unseen, standardised by site",
        "sites",
        4,
        order(lambda view: standardised(view.site_means(view.half)).mean(axis=1)),
    ),
    Estimator("half unseen, sites in agreement", "sites", 4, plain(in_agreement)),
    Estimator("half unseen, similar sites", "sites", 4, plain(similar_sites)),
    Estimator("half unseen, with the crowd", "sites", 4, plain(with_the_crowd)),
    Estimator("doubly robust", "doubly robust", 0, doubly_robust("known", 1.0)),
    Estimator("half unseen, doubly robust", "doubly robust", 4, doubly_robust("half", 1.0)),
    Estimator("half unseen, doubly robust w^0.5", "doubly robust", 4, doubly_robust("half", 0.5)),
    Estimator("auto: tempering", "automatic", 4, plain(chosen_by_pseudo_targets("tempering"))),
    Estimator("auto: mixing", "automatic", 4, plain(chosen_by_pseudo_targets("mixing"))),
    Estimator("auto: both", "automatic", 4, plain(chosen_by_pseudo_targets("both"))),
    Estimator("adjusted", "adjusted", 4, adjusted()),
    Estimator("adjusted, one model", "adjusted", 0, adjusted("of_one_model")),
    Estimator("adjusted, known sites only", "adjusted", 0, adjusted("known")),
    Estimator("adjusted, unseen sites only", "adjusted", 4, adjusted("unseen")),
    *(
        Estimator(f"adjusted, explained {r:g}", "adjusted", 4, adjusted(prior_r2=r))
        for r in (0.01, 0.03, 0.2)
    ),
    Estimator(
        "adjusted, sources by rows",
        "adjusted",
        4,
        adjusted(constants={"risk._adjusted.ROWS_FOR_HALF_SHARE": 1e6}),
    ),
    Estimator(
        "adjusted, sources alike",
        "adjusted",
        4,
        adjusted(constants={"risk._adjusted.ROWS_FOR_HALF_SHARE": 0.0}),
    ),
    Estimator(
        "adjusted, values to 10 sd",
        "adjusted",
        4,
        adjusted(constants={"rows._moments.MOST_SDS_FROM_SOURCES": 10.0}),
    ),
    Estimator(
        "adjusted, no products",
        "adjusted",
        4,
        adjusted(constants={"rows._moments.MOST_MULTIPLIED": 0}),
    ),
    *(  # these bear on the interval alone
        Estimator(
            f"adjusted, {what} to {value:g}",
            "adjusted",
            4,
            adjusted(constants={f"risk._adjusted.{name}": value}),
        )
        for what, name, values in (
            ("leverage", "MOST_LEVERAGE", (0.5, 0.99)),
            ("stretch", "MOST_STRETCH", (3.0, 30.0)),
        )
        for value in values
    ),
]
