"""Density ratios from classifiers, and ratios by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from shiftune._names import RATIOS, RatioName, complete
from shiftune._wording import check_choice
from shiftune.errors import SettingsError
from shiftune.ratio._base import DensityRatio, EncodedRatio
from shiftune.ratio._least_squares import ULSIF
from shiftune.rows._encoding import subsample

Floats = NDArray[np.float64]

# Largest odds taken at face value; a classifier that is surer than this has separated the sites.
_MOST_ODDS = 1e9
# With fewer rows per column than this, logistic regression is held back in proportion: 60 to 200
# rows in 20 to 60 columns gave 2 to 8 times the error without it (benchmarks/ratios.py).
_ROWS_PER_COLUMN = 150
# Rows of a site that train a classifier.
_MOST_ROWS = 20_000


@dataclass(eq=False, repr=False)
class ClassifierRatio(EncodedRatio):
    r"""Density ratio from the odds of a probabilistic classifier, one classifier per source.

    Target rows are class 1, the rows of source j class 0; Bayes' rule turns the probability
    :math:`\pi(x)` that a row is the target's into

    .. math:: w_j(x) = \frac{n_j}{n_T} \, \frac{\pi(x)}{1 - \pi(x)} .

    Parameters
    ----------
    estimator : "logistic" or a scikit-learn classifier
        Needs `predict_proba`; sees the encoded columns (see `RowEncoder`). Logistic regression
        is exact for Gaussian sites with one covariance.
    random_state : int
        Draws at most 20,000 rows of the target, and of each source, which are used.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> target, source = rng.normal(0, 1, (4000, 1)), rng.normal(1, 1, (4000, 1))
    >>> (w,) = ClassifierRatio().fit(target, [source]).weights([np.array([[-1.0], [0.5]])])
    >>> bool(np.allclose(w, np.exp([1.5, 0.0]), rtol=0.1))
    True
    """

    estimator: Any = "logistic"
    _: KW_ONLY
    random_state: int = 0

    # One thread: the fits are small, and threads that wait for a busy core cost far more than
    # they gain.
    @threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
    def _fit_encoded(self, Z_target: Floats, Z_sources: list[Floats]) -> None:
        Z_T = np.asarray(subsample(Z_target, _MOST_ROWS, self.random_state))
        self.classifiers_: list[Any] = []
        self.prior_odds_: list[float] = []
        for Z in Z_sources:
            Z_j = np.asarray(subsample(Z, _MOST_ROWS, self.random_state))
            is_target = np.repeat([1, 0], [len(Z_T), len(Z_j)])
            prototype = self._prototype(min(len(Z_T), len(Z_j)), Z_T.shape[1])
            self.classifiers_.append(clone(prototype).fit(np.vstack([Z_T, Z_j]), is_target))
            self.prior_odds_.append(len(Z_T) / len(Z_j))

    # Once for all sources: to find the libraries takes longer than the weights of a small one.
    @threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
    def weights(self, X_sources: Sequence[Any]) -> list[Floats]:
        return super().weights(X_sources)

    def _weights_encoded(self, source: int, Z: Floats) -> Floats:
        p = self.classifiers_[source].predict_proba(Z)[:, 1]
        odds = p / np.maximum(1 - p, 1 / _MOST_ODDS)
        return np.asarray(odds / self.prior_odds_[source])

    def _prototype(self, n: int, d: int) -> Any:
        """Return the unfitted classifier for n rows of the smaller class and d columns."""
        if isinstance(self.estimator, str):
            check_choice(self.estimator, ["logistic"], "classifier")
            return LogisticRegression(C=min(1.0, n / (_ROWS_PER_COLUMN * d)), max_iter=1000)
        if not hasattr(self.estimator, "predict_proba"):
            raise SettingsError(
                f"{type(self.estimator).__name__} has no predict_proba; a density ratio needs "
                "probabilities (for SVMs wrap it in CalibratedClassifierCV)"
            )
        return self.estimator


def ratio_named(ratio: str | DensityRatio, random_state: int = 0) -> DensityRatio:
    """Return a density ratio from its name, or as it is.

    >>> ratio_named("logistic")
    ClassifierRatio()
    """
    if isinstance(ratio, DensityRatio):
        return ratio
    ratios: dict[RatioName, DensityRatio] = {
        "logistic": ClassifierRatio("logistic", random_state=random_state),
        "ulsif": ULSIF(random_state=random_state),
    }
    return complete(RATIOS, ratios)[check_choice(ratio, ratios, "density ratio")]
