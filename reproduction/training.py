"""Training as in the paper's algorithms: on the estimated target risk of the training rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from reproduction.settings import NO_GUARD
from shiftune.evaluate._fits import fit, losses_of, relative
from shiftune.risk._estimate import estimate

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.utils import Tags

    from shiftune.evaluate._losses import Loss
    from shiftune.problem._site import Features


class VarianceReducedFit(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Model that is fitted twice: with weights :math:`w`, then with :math:`\lambda^\star_j w`.

    Algorithms 1 and 2 train the model by minimising the variance reduced estimate on the training
    rows,

    .. math:: \sum_j \lambda^\star_j \sum_i w_{ij} L(h(x_{ij}), y_{ij}) ,

    but :math:`\lambda^\star_j` depends on the divergences of :math:`w L`, hence on the model that
    is being trained, and no learner minimises that directly. The first fit has :math:`\lambda`
    constant; its losses on the training rows give the divergences, and these the
    :math:`\lambda^\star` of the second fit, which predicts.

    It has the parameters of the model under their own names, by which a sampler draws them.

    Parameters
    ----------
    model : estimator
    sites : array of shape (n,)
        Source of every training row of a trial. Other rows, such as all of them, are fitted once.
    loss : Loss
        L.
    """

    def __init__(self, model: Any, sites: NDArray[np.str_], loss: Loss) -> None:
        self.model = model
        self.sites = sites
        self.loss = loss

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return its own parameters and those of the model."""
        own: dict[str, Any] = super().get_params(deep=False)
        return self.model.get_params() | own if deep else own

    def set_params(self, **params: Any) -> VarianceReducedFit:
        """Set parameters of the model."""
        self.model.set_params(**params)
        return self

    def fit(
        self, X: Features, y: NDArray[Any], sample_weight: NDArray[np.float64] | None = None
    ) -> VarianceReducedFit:
        """Fit twice, if rows have weights; keep the second model."""
        if sample_weight is not None and len(y) == len(self.sites):
            first = fit(clone(self.model), X, y, sample_weight)
            own = losses_of(first, X, y, self.loss)
            sample_weight = relative(objective_weights(own, sample_weight, self.sites))
        self.model_ = fit(clone(self.model), X, y, sample_weight)
        if hasattr(self.model_, "classes_"):
            self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Features) -> NDArray[Any]:
        """Predict with the second model."""
        return np.asarray(self.model_.predict(X))

    @available_if(lambda self: hasattr(self.model, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Features) -> NDArray[np.float64]:
        """Predict probabilities with the second model."""
        return np.asarray(self.model_.predict_proba(X))

    def __sklearn_tags__(self) -> Tags:
        """Regressor or classifier, as the model is."""
        return get_tags(self.model)


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
