"""Training as in the paper's algorithms: on the estimated target risk of the training rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from reproduction.settings import NO_GUARD
from shiftune.evaluate._plan import PooledFit, fit, losses_of, relative
from shiftune.risk._estimate import estimate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shiftune.evaluate._losses import Loss
    from shiftune.evaluate._plan import StudyData, TrialLosses


class VarianceReducedFit:
    r"""Two fits per trial: with weights :math:`w`, then with :math:`\lambda^\star_j w`.

    Algorithms 1 and 2 train the model by minimising the variance reduced estimate on the training
    rows,

    .. math:: \sum_j \lambda^\star_j \sum_i w_{ij} L(h(x_{ij}), y_{ij}) ,

    but :math:`\lambda^\star_j` depends on the divergences of :math:`w L`, hence on the model that
    is being trained, and no learner minimises that directly. The first fit has :math:`\lambda`
    constant; its losses on the training rows give the divergences, and these the
    :math:`\lambda^\star` of the second fit, whose losses count.
    """

    def __repr__(self) -> str:
        return "VarianceReducedFit()"

    def losses(self, model: Any, data: StudyData, loss: Loss) -> TrialLosses:
        """Fit twice; return the validation losses of the second model."""
        if data.training_weights is not None:
            first = fit(clone(model), data.X_train, data.y_train, data.training_weights)
            own = losses_of(first, data.X_train, data.y_train, loss)
            weights = objective_weights(own, data.training_weights, data.train_sites)
            data = replace(data, training_weights=relative(weights))
        return PooledFit().losses(model, data, loss)


def objective_weights(
    losses: NDArray[np.float64], weights: NDArray[np.float64], sites: NDArray[np.str_]
) -> NDArray[np.float64]:
    r"""Return :math:`\lambda^\star_j w_{ij}` of every row, shape (n,).

    Sources whose weights are all 0 get 0, as in the estimate without a guard.

    Parameters
    ----------
    losses, weights, sites : arrays of shape (n,)
        Loss, density ratio and source of every training row.

    Examples
    --------
    >>> losses, sites = np.array([1.0, 3.0, 1.0, 5.0]), np.array(["B", "B", "C", "C"])
    >>> objective_weights(losses, np.ones(4), sites)  # divergences 1 and 4
    array([0.4, 0.4, 0.1, 0.1])
    """
    rows = [np.flatnonzero(sites == name) for name in dict.fromkeys(sites.tolist())]
    risk = estimate([losses[i] for i in rows], [weights[i] for i in rows], guard=NO_GUARD)
    found = np.zeros(len(losses))
    for i, lam in zip(rows, risk.lam, strict=True):
        found[i] = lam * weights[i]
    return found
