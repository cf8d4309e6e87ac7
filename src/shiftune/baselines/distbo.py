"""DistBO: one Gaussian process over configurations and embeddings of p(x)."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from shiftune.baselines.base import SourceTransfer, check_counts
from shiftune.baselines.embedding import Rows
from shiftune.baselines.joint_process import fit_jointly
from shiftune.baselines.source_trials import SourceTrials
from shiftune.errors import SettingsError
from shiftune.problem import ShiftProblem
from shiftune.rows.encoding import RowEncoder
from shiftune.rows.subsample import subsample
from shiftune.search.gp.acquisition import Visited, minimise_lower_bound
from shiftune.search.gp.gaussian_process import Posterior
from shiftune.search.gp.trial_history import standardise

Array = NDArray[np.float64]

# Rows that an embedding averages over: the mean of 500 rows has a standard error of 5 % of a
# row's spread, and the cost of a fit is proportional to their number.
MOST_ROWS = 500


@dataclass(eq=False, repr=False, kw_only=True)
class DistBO(SourceTransfer):
    r"""Transfer by distributional embeddings, DistBO (Law et al. 2019 [1]_), with p(x).

    One Gaussian process over (configuration, data set) is fitted to the trials of all sources, with
    the kernel of `shiftune.baselines.joint_process`. A data set's embedding is the output of a
    small network, averaged over its rows (the authors' sizes: 20 hidden units, 10 coordinates).
    Network and process are learnt together, by marginal likelihood times weak priors; the authors
    stop a gradient ascent early instead. Without either, hundreds of weights would fit a few dozen
    trials. The target has no labels, so the embedding is of p(x) and not of p(x, y), as in the
    paper. The configuration for the target is the first that the authors' method would try there,
    by their one-shot rule: they *maximise* a score and take the best *lower* confidence bound, the
    configuration that is most certainly good. For a loss that is

    .. math:: \arg\min_\theta \; \mu_T(\theta) + \beta\, \sigma_T(\theta).

    Parameters
    ----------
    beta : float
        Number of standard deviations added to the mean.
    hidden_units, dimensions : int
        Sizes of the network's hidden layer and of the embedding.
    max_iter, n_starts : int
        Largest number of steps of a fit, and number of random networks from which fits start;
        the best fit is used.
    estimator, space, loss, n_trials, sampler, n_jobs, progress, random_state
        See `SourceTransfer`.

    Attributes
    ----------
    likeness_ : Series
        Learnt kernel between the target and each source with trials; 1 for the same
        distribution. One or two trials per source are too few to learn it well.

    References
    ----------
    .. [1] Law, Zhao, Chan, Huang, Sejdinovic. Hyperparameter learning via distributional
       transfer. NeurIPS 2019.

    Examples
    --------
    >>> from optuna.distributions import FloatDistribution
    >>> from sklearn.linear_model import Ridge
    >>> from shiftune.datasets import toy_problem
    >>> search = DistBO(Ridge(), {"alpha": FloatDistribution(0.01, 1e4, log=True)}, n_trials=12)
    >>> search.fit(toy_problem(1.0, n=200).problem).likeness_.shape
    (2,)
    """

    beta: float = 2.0
    hidden_units: int = 20
    dimensions: int = 10
    max_iter: int = 200
    n_starts: int = 4

    def _check(self) -> None:
        if not isinstance(self.beta, Real) or not 0 <= self.beta < np.inf:
            raise SettingsError(f"beta must be a finite number >= 0, got {self.beta!r}")
        check_counts(self, "hidden_units", "dimensions", "max_iter", "n_starts")

    def _choose(self, trials: SourceTrials, problem: ShiftProblem) -> Array:
        rng = np.random.default_rng(self.random_state)
        sites = [problem.labelled_sites[j].X for j in np.unique(trials.site)]
        encoder = RowEncoder().fit([problem.target.X, *sites])
        tables = [
            encoder.transform(subsample(X, MOST_ROWS, self.random_state))
            for X in [problem.target.X, *sites]
        ]
        table = np.unique(trials.site, return_inverse=True)[1] + 1  # 0 is the target
        y, variances, _, _ = standardise(trials.values, np.zeros(len(trials.values)))
        groups = trials.cube.groups
        with threadpool_limits(1, user_api="blas"):
            rows = Rows(tables)
            process = fit_jointly(
                rows,
                trials.rows,
                groups,
                y,
                table,
                hidden_units=self.hidden_units,
                dimensions=self.dimensions,
                max_iter=self.max_iter,
                n_starts=self.n_starts,
                rng=rng,
            )
            likeness = process.kernel(rows)
            names = [problem.labelled_sites[j].name for j in np.unique(trials.site)]
            self.likeness_ = pd.Series(likeness[0, 1:], names, name="likeness")
            posterior = Posterior(
                trials.rows,
                y,
                variances,
                groups,
                process.hyperparameters,
                between=likeness[np.ix_(table, table)],
                toward=likeness[0, table],
            )
            nothing = Visited(np.empty((0, trials.rows.shape[1])))
            return minimise_lower_bound(
                posterior, trials.cube, -self.beta, rng, trials.rows, nothing
            )
