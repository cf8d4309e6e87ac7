"""Learning initialisation (LI): minimise the sum of the sources' surrogate losses."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from reproduction.baselines.source_transfer import SourceTransfer, SourceTrials, check_counts
from shiftune.errors import SettingsError
from shiftune.problem import ShiftProblem
from shiftune.search.gp._gaussian_process import Posterior, matern52
from shiftune.search.gp._gaussian_process import fit as fit_process
from shiftune.search.gp._sampler import standardise

Array = NDArray[np.float64]


@dataclass(eq=False, repr=False, kw_only=True)
class LearnedInitialisation(SourceTransfer):
    r"""Learning initialisation, LI (Wistuba et al. 2015 [1]_).

    A surrogate :math:`\hat f_j(\theta)` of the loss is fitted to the trials of each source (here
    the mean of a Matern 5/2 Gaussian process). Their sum, the meta-loss, is minimised by gradient
    descent over the unit cube of the space:

    .. math:: \theta \leftarrow \theta - \eta \, \nabla \frac1s \sum_j \hat f_j(\theta)

    with s the standard deviation of all trials' losses, so that the rate does not depend on the
    unit of the loss. Whole numbers are treated as continuous and rounded at the end. The descent
    starts from the tried configurations of lowest meta-loss. A source with a single trial has a
    flat surrogate and no influence. The target is not used.

    Parameters
    ----------
    learning_rate, n_epochs : float, int
        :math:`\eta` and the number of steps; 1e-3 and 1000 in the paper.
    n_starts : int
        Number of tried configurations from which the descent starts.
    estimator, space, loss, n_trials, sampler, random_state
        See `SourceTransfer`.

    References
    ----------
    .. [1] Wistuba, Schilling, Schmidt-Thieme. Learning hyperparameter optimization
       initializations. DSAA 2015.

    Examples
    --------
    >>> from optuna.distributions import FloatDistribution
    >>> from sklearn.linear_model import Ridge
    >>> from reproduction.toy import toy_problem
    >>> li = LearnedInitialisation(Ridge(), {"alpha": FloatDistribution(0.01, 1e4, log=True)},
    ...                            n_trials=12)
    >>> li.fit(toy_problem(1.0, n=200).problem).trials_["source"].value_counts().to_list()
    [6, 6]
    """

    learning_rate: float = 1e-3
    n_epochs: int = 1000
    n_starts: int = 10

    def _check(self) -> None:
        if not isinstance(self.learning_rate, Real) or not 0 < self.learning_rate < np.inf:
            raise SettingsError(f"learning_rate must be a number > 0, got {self.learning_rate!r}")
        check_counts(self, "n_epochs", "n_starts")

    def _choose(self, trials: SourceTrials, problem: ShiftProblem) -> Array:
        with threadpool_limits(1, user_api="blas"):
            meta = MetaLoss(trials)
            tried = np.unique(trials.rows, axis=0)
            starts = tried[np.argsort(meta(tried)[0], kind="stable")[: self.n_starts]]
            rows = starts.copy()
            for _ in range(self.n_epochs):
                rows = np.clip(rows - self.learning_rate * meta(rows)[1], 0.0, 1.0)
            ends = np.vstack([rows, starts])  # with too large a rate the end may be worse
            return np.asarray(ends[np.argmin(meta(ends)[0])])


class Surrogate(Posterior):
    """Posterior of a source's loss, with the gradient of its mean."""

    def mean_gradient(self, rows: Array) -> tuple[Array, Array]:
        """Mean (m,) at rows (m, C), and its gradient (m, C)."""
        offset = (rows * self._inverse_scales)[:, None, :] - self._known
        k, slope = matern52(np.square(offset).sum(axis=2))
        w = self._signal * self._weights
        return k @ w, 2.0 * self._inverse_scales * np.einsum("mn,mnc->mc", slope * w, offset)


class MetaLoss:
    """Sum of the sources' surrogate losses in units of all trials' spread, with its gradient."""

    def __init__(self, trials: SourceTrials) -> None:
        spread = float(trials.values.std()) or 1.0
        self._surrogates: list[tuple[Surrogate, float, float]] = []
        for j in np.unique(trials.site):
            rows, values = trials.rows[trials.site == j], trials.values[trials.site == j]
            zeros = np.zeros(len(rows))
            y, _, location, unit = standardise(values, zeros)
            found = fit_process(rows, y, zeros, trials.cube.groups)
            process = Surrogate(rows, y, zeros, trials.cube.groups, found)
            self._surrogates.append((process, location / spread, unit / spread))

    def __call__(self, rows: Array) -> tuple[Array, Array]:
        """Value (m,) and gradient (m, C) at rows (m, C)."""
        value, gradient = np.zeros(len(rows)), np.zeros_like(rows)
        for process, location, unit in self._surrogates:
            mean, slope = process.mean_gradient(rows)
            value += location + unit * mean
            gradient += unit * slope
        return value, gradient
