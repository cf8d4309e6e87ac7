"""The interface of risk estimators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from shiftune.risk._result import RiskEstimate

Floats = NDArray[np.float64]
# One array per source.
Arrays = Sequence[ArrayLike]


class RiskEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """Estimator of the risk at the target from losses at the sources.

    A subclass writes `estimate`; the defaults of everything else are those of an estimator that
    weights losses by density ratios. Run `shiftune.testing.check_risk_estimator` on it and pass it
    as `risk=` to `ShiftSearch`.

    Attributes
    ----------
    needs_ratio : bool
        Whether `estimate` reads density ratios.
    corrects : bool
        Whether the estimate accounts for differences between the sources' rows and the target's.
    uses_target_labels : bool
        Whether the losses are those of the target's rows, whose labels were kept aside
        (experiments only).
    out_of_site : bool
        Whether the losses are of all rows of the sources, each predicted by a model that has not
        seen its site, and those of the target's few labelled rows, which train no trial. Otherwise
        every source is split into training and validation rows, for one model per trial.
    """

    needs_ratio = True
    corrects = True
    uses_target_labels = False
    out_of_site = False

    def fit(
        self, X_target: Any, X_sources: Sequence[Any], sample_weight: Sequence[Floats] | None = None
    ) -> Self:
        """Read the rows, once per study; by default nothing is learned.

        Parameters
        ----------
        X_target : array or DataFrame of shape (n_T, d)
        X_sources : k arrays or DataFrames of shape (n_j, d)
            The rows whose losses `estimate` will receive, in the same order.
        sample_weight : k + 1 arrays, of shape (n_T,) and (n_j,), optional
            Weights of the rows, where they have any; those of the target first. The losses are
            then such that their means are weighted ones (`shiftune.rows.Moments`).
        """
        return self

    @abstractmethod
    def estimate(
        self, losses: Arrays, weights: Arrays | None = None, *, names: Sequence[str] | None = None
    ) -> RiskEstimate:
        """Estimate the target risk of one model.

        Parameters
        ----------
        losses : k arrays of shape (n_j,), and one more if rows of the target have labels
        weights : density ratios at the same rows, or None if `needs_ratio` is False
        names : names of the sources, optional
        """
