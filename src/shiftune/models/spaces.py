"""Ready search spaces: the hyperparameters of a model that are worth tuning, and their ranges.

The ranges are for standardised features. They reach further towards strong regularisation than
is usual, since what suits the sources best is often too flexible for a target that differs.
"""

from __future__ import annotations

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from shiftune.errors import SettingsError
from shiftune.models._space import Space


def svm(*, prefix: str = "") -> Space:
    """Space for SVC and SVR with the RBF kernel: the paper's table.

    >>> sorted(svm())
    ['C', 'gamma']
    """
    return _space(
        prefix,
        gamma=FloatDistribution(5e-5, 5e3, log=True),
        C=FloatDistribution(5e-5, 5e3, log=True),
    )


def lightgbm_paper(*, prefix: str = "") -> Space:
    """Space for LGBMClassifier and LGBMRegressor: the paper's table.

    The number of trees, and LightGBM's cap of 31 leaves per tree, stay as they are in the
    estimator.
    """
    return _space(
        prefix,
        max_depth=IntDistribution(2, 6),
        colsample_bytree=FloatDistribution(0.1, 1.0),
        learning_rate=FloatDistribution(1e-3, 1e-1, log=True),
        reg_lambda=FloatDistribution(5e-5, 5e3, log=True),
    )


def lightgbm(*, prefix: str = "") -> Space:
    """Space for LGBMClassifier and LGBMRegressor that also tunes the number and size of trees.

    LightGBM grows trees leaf by leaf, so leaves rather than depth limit them. A rate below 0.02
    would need more than 500 trees. There is no `subsample`: without `subsample_freq` LightGBM
    ignores it.
    """
    return _space(
        prefix,
        n_estimators=IntDistribution(25, 500, log=True),
        learning_rate=FloatDistribution(2e-2, 0.3, log=True),
        num_leaves=IntDistribution(4, 128, log=True),
        min_child_samples=IntDistribution(5, 100, log=True),
        colsample_bytree=FloatDistribution(0.3, 1.0),
        reg_lambda=FloatDistribution(1e-3, 1e3, log=True),
    )


lightgbm_l1 = lightgbm  # of the known model for absolute errors


def xgboost(*, prefix: str = "") -> Space:
    """Space for XGBClassifier and XGBRegressor.

    XGBoost grows trees level by level, so depth limits them; 8 levels are 256 leaves, twice the
    most of `lightgbm`, though seldom all are grown. `min_child_weight` and `reg_lambda` are in
    units of summed second derivatives (rows, for squared errors), hence wide logarithmic ranges.
    """
    return _space(
        prefix,
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

    The same ideas as `lightgbm`, whose algorithm it is. Above 10 000 rows scikit-learn stops
    early by itself; `max_iter` is then a limit.
    """
    return _space(
        prefix,
        max_iter=IntDistribution(50, 500, log=True),
        learning_rate=FloatDistribution(1e-2, 0.3, log=True),
        max_leaf_nodes=IntDistribution(4, 64, log=True),
        min_samples_leaf=IntDistribution(5, 100, log=True),
        max_features=FloatDistribution(0.3, 1.0),
        l2_regularization=FloatDistribution(1e-3, 1e3, log=True),
    )


def random_forest(*, prefix: str = "") -> Space:
    """Space for RandomForestClassifier and RandomForestRegressor.

    The number of trees is not tuned, since more cost only time. Nor is `max_samples`:
    with sample weights it is a share of the rows in some versions of scikit-learn and of the sum
    of the weights in others.
    """
    return _space(
        prefix,
        min_samples_leaf=IntDistribution(1, 64, log=True),
        max_features=FloatDistribution(0.1, 1.0),
    )


def linear(*, prefix: str = "") -> Space:
    """Space for the known model "linear".

    The penalty has the range of `ridge`; a degree of 2 adds squares and products.
    """
    return _space(
        prefix,
        alpha=FloatDistribution(1e-3, 1e5, log=True),
        degree=IntDistribution(1, 2),
    )


def kernel(*, prefix: str = "") -> Space:
    """Space for the known model "kernel".

    `gamma` is divided by the number of columns. At 0.01 the model is nearly linear, at 30 it
    knows little but the rows that its features are made of.
    """
    return _space(
        prefix,
        gamma=FloatDistribution(1e-2, 30.0, log=True),
        alpha=FloatDistribution(1e-4, 1e3, log=True),
    )


def logistic(*, prefix: str = "") -> Space:
    """Space for LogisticRegression with its default solver and L2 penalty.

    From nearly constant probabilities to hardly any penalty. There is no `l1_ratio`, which only
    the solver "saga" can vary, and no `penalty`, which scikit-learn 1.8 deprecated.

    >>> logistic()
    {'C': FloatDistribution(high=1000.0, log=True, low=0.0001, step=None)}
    """
    return _space(prefix, C=FloatDistribution(1e-4, 1e3, log=True))


def ridge(*, prefix: str = "") -> Space:
    """Space for Ridge and RidgeClassifier.

    The penalty is compared with a sum over rows: alpha = n halves the coefficient of a
    standardised feature. So the range covers hundreds to a hundred thousand rows.

    >>> ridge()
    {'alpha': FloatDistribution(high=100000.0, log=True, low=0.001, step=None)}
    """
    return _space(prefix, alpha=FloatDistribution(1e-3, 1e5, log=True))


def elastic_net(*, prefix: str = "") -> Space:
    """Space for ElasticNet, with a standardised target.

    The penalty is compared with a mean over rows. On standardised data every coefficient is zero
    from alpha = 1 / l1_ratio on; a target in other units is best standardised by scikit-learn's
    TransformedTargetRegressor. For `l1_ratio` near 0 there is `ridge`.
    """
    return _space(
        prefix,
        alpha=FloatDistribution(1e-4, 10.0, log=True),
        l1_ratio=FloatDistribution(0.05, 1.0),
    )


def knn(*, prefix: str = "") -> Space:
    """Space for KNeighborsClassifier and KNeighborsRegressor.

    Logarithmic, since 1 against 2 neighbours matters more than 99 against 100. Needs at least
    100 training rows; with fewer, lower the upper end. These models take no sample weights.
    """
    return _space(
        prefix,
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
    """
    return _space(
        prefix,
        hidden_layer_sizes=IntDistribution(8, 256, log=True),
        alpha=FloatDistribution(1e-5, 10.0, log=True),
        learning_rate_init=FloatDistribution(3e-4, 3e-2, log=True),
    )


def _space(prefix: str, /, **entries: BaseDistribution) -> Space:
    if prefix and not prefix.endswith("__"):
        raise SettingsError(f"a prefix is a step's name and '__', such as 'svc__'; got {prefix!r}")
    return {prefix + name: distribution for name, distribution in entries.items()}
