"""Ready search spaces: which hyperparameters of a model are worth tuning, and how far.

The ranges are for standardised features. They reach further towards strong regularisation than
is usual, since what suits the sources best is often too flexible for a target that differs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from shiftune.errors import ProblemError
from shiftune.search.space import Measure, Space


def svm(*, prefix: str = "") -> Space:
    """Space for SVC and SVR with the RBF kernel: the paper's table.

    Complexity: log10(C gamma); a large C follows every row, a large gamma bends between rows.

    >>> sorted(svm())
    ['C', 'gamma']
    """
    return _space(
        prefix,
        _svm_bend,
        gamma=FloatDistribution(5e-5, 5e3, log=True),
        C=FloatDistribution(5e-5, 5e3, log=True),
    )


def lightgbm_paper(*, prefix: str = "") -> Space:
    """Space for LGBMClassifier and LGBMRegressor: the paper's table.

    The number of trees, and LightGBM's cap of 31 leaves per tree, stay as they are in the
    estimator.

    Complexity: 2^max_depth, the most leaves of a tree; of equals, the larger reg_lambda is
    simpler.

    >>> lightgbm_paper()["max_depth"]
    IntDistribution(high=6, log=False, low=2, step=1)
    """
    return _space(
        prefix,
        _boosted_leaves,
        max_depth=IntDistribution(2, 6),
        colsample_bytree=FloatDistribution(0.1, 1.0),
        learning_rate=FloatDistribution(1e-3, 1e-1, log=True),
        reg_lambda=FloatDistribution(5e-5, 5e3, log=True),
    )


def lightgbm(*, prefix: str = "") -> Space:
    """Space for LGBMClassifier and LGBMRegressor that also tunes the number and size of trees.

    LightGBM grows trees leaf by leaf, so leaves rather than depth limit them. A rate below 0.01
    would need more than 1000 trees. There is no `subsample`: without `subsample_freq` LightGBM
    ignores it.

    Complexity: n_estimators x num_leaves; of equals, the larger reg_lambda is simpler.

    >>> lightgbm()["num_leaves"]
    IntDistribution(high=128, log=True, low=4, step=1)
    """
    return _space(
        prefix,
        _boosted_leaves,
        n_estimators=IntDistribution(50, 1000, log=True),
        learning_rate=FloatDistribution(1e-2, 0.3, log=True),
        num_leaves=IntDistribution(4, 128, log=True),
        min_child_samples=IntDistribution(5, 100, log=True),
        colsample_bytree=FloatDistribution(0.3, 1.0),
        reg_lambda=FloatDistribution(1e-3, 1e3, log=True),
    )


def xgboost(*, prefix: str = "") -> Space:
    """Space for XGBClassifier and XGBRegressor.

    XGBoost grows trees level by level, so depth limits them; 8 levels are 256 leaves, twice the
    most of `lightgbm`, though seldom all are grown. `min_child_weight` and `reg_lambda` are in
    units of summed second derivatives (rows, for squared errors), hence wide logarithmic ranges.

    Complexity: n_estimators x 2^max_depth; of equals, the larger reg_lambda is simpler.

    >>> xgboost()["max_depth"]
    IntDistribution(high=8, log=False, low=2, step=1)
    """
    return _space(
        prefix,
        _boosted_leaves,
        n_estimators=IntDistribution(50, 1000, log=True),
        learning_rate=FloatDistribution(1e-2, 0.3, log=True),
        max_depth=IntDistribution(2, 8),
        min_child_weight=FloatDistribution(0.1, 100, log=True),
        subsample=FloatDistribution(0.5, 1.0),
        colsample_bytree=FloatDistribution(0.3, 1.0),
        reg_lambda=FloatDistribution(1e-3, 1e3, log=True),
    )


def hist_gradient_boosting(*, prefix: str = "") -> Space:
    """Space for HistGradientBoostingClassifier and HistGradientBoostingRegressor.

    The same ideas as `lightgbm`, whose algorithm it is, with half the trees because it is
    slower. Above 10 000 rows scikit-learn stops early by itself; `max_iter` is then a limit.

    Complexity: max_iter x max_leaf_nodes; of equals, the larger l2_regularization is simpler.

    >>> hist_gradient_boosting()["max_iter"]
    IntDistribution(high=500, log=True, low=50, step=1)
    """
    return _space(
        prefix,
        _boosted_leaves,
        max_iter=IntDistribution(50, 500, log=True),
        learning_rate=FloatDistribution(1e-2, 0.3, log=True),
        max_leaf_nodes=IntDistribution(4, 64, log=True),
        min_samples_leaf=IntDistribution(5, 100, log=True),
        max_features=FloatDistribution(0.3, 1.0),
        l2_regularization=FloatDistribution(1e-3, 1e3, log=True),
    )


def random_forest(*, prefix: str = "") -> Space:
    """Space for RandomForestClassifier and RandomForestRegressor.

    The number of trees is not tuned, since more never hurt but in time. Nor is `max_samples`:
    with sample weights it is a share of the rows in some versions of scikit-learn and of the sum
    of the weights in others.

    Complexity: -min_samples_leaf, as leaves hold at least that many rows; of equals, the smaller
    max_features, whose trees average out more, is simpler.

    >>> random_forest()["min_samples_leaf"]
    IntDistribution(high=64, log=True, low=1, step=1)
    """
    return _space(
        prefix,
        _forest_leaves,
        min_samples_leaf=IntDistribution(1, 64, log=True),
        max_features=FloatDistribution(0.1, 1.0),
    )


def logistic(*, prefix: str = "") -> Space:
    """Space for LogisticRegression with its default solver and L2 penalty.

    From nearly constant probabilities to hardly any penalty. There is no `l1_ratio`, which only
    the solver "saga" can vary, and no `penalty`, which scikit-learn 1.8 deprecated.

    Complexity: log10(C), the inverse of the penalty.

    >>> logistic()
    {'C': FloatDistribution(high=1000.0, log=True, low=0.0001, step=None)}
    """
    return _space(prefix, _inverse_penalty, C=FloatDistribution(1e-4, 1e3, log=True))


def ridge(*, prefix: str = "") -> Space:
    """Space for Ridge and RidgeClassifier.

    The penalty is compared with a sum over rows: alpha = n halves the coefficient of a
    standardised feature. So the range covers hundreds to a hundred thousand rows.

    Complexity: -log10(alpha), a stronger penalty being simpler.

    >>> ridge().complexity({"alpha": 100.0})
    -2.0
    """
    return _space(prefix, _penalty, alpha=FloatDistribution(1e-3, 1e5, log=True))


def elastic_net(*, prefix: str = "") -> Space:
    """Space for ElasticNet, with a standardised target.

    The penalty is compared with a mean over rows. On standardised data every coefficient is zero
    from alpha = 1 / l1_ratio on; a target in other units is best standardised by scikit-learn's
    TransformedTargetRegressor. For `l1_ratio` near 0 there is `ridge`.

    Complexity: -log10(alpha); l1_ratio changes the kind of the penalty rather than its strength.

    >>> sorted(elastic_net())
    ['alpha', 'l1_ratio']
    """
    return _space(
        prefix,
        _penalty,
        alpha=FloatDistribution(1e-4, 10.0, log=True),
        l1_ratio=FloatDistribution(0.05, 1.0),
    )


def knn(*, prefix: str = "") -> Space:
    """Space for KNeighborsClassifier and KNeighborsRegressor.

    Logarithmic, since 1 against 2 neighbours matters more than 99 against 100. Needs at least
    100 training rows; with fewer, lower the upper end. These models take no sample weights.

    Complexity: -n_neighbors; of equals, uniform weights are simpler, since with "distance" every
    training row is reproduced exactly.

    >>> near = {"n_neighbors": 1, "weights": "uniform", "p": 2}
    >>> knn().complexity(near) > knn().complexity(near | {"n_neighbors": 50})
    True
    """
    return _space(
        prefix,
        _neighbours,
        n_neighbors=IntDistribution(1, 100, log=True),
        weights=CategoricalDistribution(["uniform", "distance"]),
        p=IntDistribution(1, 2),
    )


def mlp(*, prefix: str = "") -> Space:
    """Space for MLPClassifier and MLPRegressor with one hidden layer.

    `hidden_layer_sizes` is a whole number, which scikit-learn reads as one layer of that width:
    a choice of tuples could not be kept in Optuna's storages. Set ``max_iter=2000`` in the
    estimator: with scikit-learn's 200, 47 of 50 random candidates did not converge on 150 rows;
    with 2000 all did.

    Complexity: the width, to which the number of weights is proportional; of equals, the larger
    alpha is simpler.

    >>> mlp()["hidden_layer_sizes"]
    IntDistribution(high=256, log=True, low=8, step=1)
    """
    return _space(
        prefix,
        _hidden_units,
        hidden_layer_sizes=IntDistribution(8, 256, log=True),
        alpha=FloatDistribution(1e-5, 10.0, log=True),
        learning_rate_init=FloatDistribution(3e-4, 3e-2, log=True),
    )


def _space(prefix: str, measure: Measure, /, **entries: BaseDistribution) -> Space:
    if prefix and not prefix.endswith("__"):
        raise ProblemError(f"a prefix is a step's name and '__', such as 'svc__'; got {prefix!r}")
    named = {prefix + name: distribution for name, distribution in entries.items()}
    return Space(named, measure=measure, prefix=prefix)


def _number(value: object) -> float | None:
    """Return a number > 0 as it is, and None for anything else: unset, automatic, unlimited."""
    if isinstance(value, Real) and not isinstance(value, bool) and float(value) > 0:
        return float(value)
    return None


def _svm_bend(point: Mapping[str, Any]) -> float | None:
    factors = [_number(point[name]) for name in ("C", "gamma") if name in point]
    if not factors or point.get("kernel", "rbf") != "rbf":
        return None
    return sum(math.log10(f) for f in factors if f) if all(factors) else None


def _boosted_leaves(point: Mapping[str, Any]) -> float | None:
    trees = next((_number(point[n]) for n in ("n_estimators", "max_iter") if n in point), 1.0)
    limits = [_number(point.get(n)) for n in ("num_leaves", "max_leaves", "max_leaf_nodes")]
    depth = _number(point.get("max_depth"))
    if depth is not None:
        limits.append(2.0 ** min(depth, 64))  # deeper than any data, and far from overflow
    leaves = min((limit for limit in limits if limit is not None), default=None)
    if trees is None or leaves is None:
        return None
    l2 = _number(point.get("reg_lambda", point.get("l2_regularization"))) or 0.0
    return trees * leaves + _tie(l2)


def _forest_leaves(point: Mapping[str, Any]) -> float | None:
    rows = _number(point.get("min_samples_leaf"))
    if rows is None or rows < 1:  # a share of the rows, which cannot be compared with a number
        return None
    features = _number(point.get("max_features")) or 0.0
    return -rows + 1 - _tie(features)


def _inverse_penalty(point: Mapping[str, Any]) -> float | None:
    C = _number(point.get("C"))
    return None if C is None else math.log10(C)


def _penalty(point: Mapping[str, Any]) -> float | None:
    alpha = _number(point.get("alpha"))
    return None if alpha is None else -math.log10(alpha)


def _neighbours(point: Mapping[str, Any]) -> float | None:
    k = _number(point.get("n_neighbors"))
    return None if k is None else -k + 0.5 * (point.get("weights") == "distance")


def _hidden_units(point: Mapping[str, Any]) -> float | None:
    width = _number(point.get("hidden_layer_sizes"))
    return None if width is None else width + _tie(_number(point.get("alpha")) or 0.0)


def _tie(strength: float) -> float:
    """Fall from 1 to 0 with the strength, so that it decides only between equal whole numbers."""
    return 1 / (1 + strength)
