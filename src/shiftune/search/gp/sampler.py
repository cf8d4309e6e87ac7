"""Optuna sampler that minimises a Gaussian-process lower confidence bound."""

from __future__ import annotations

import functools
import math
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import intersection_search_space
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from threadpoolctl import ThreadpoolController

from shiftune.search.gp.acquisition import Visited, minimise_lower_bound
from shiftune.search.gp.gaussian_process import Posterior, fit
from shiftune.search.gp.trial_history import VARIANCE_KEY, TrialHistory, covers
from shiftune.search.gp.unit_cube import UnitCube, axis_of

__all__ = ["VARIANCE_KEY", "GPLCBSampler"]

InFlight = dict[tuple[int, int], dict[str, Any]]

_lock = threading.Lock()


@functools.cache
def _threadpools() -> ThreadpoolController:
    # Looking for the libraries takes milliseconds, setting their limits microseconds.
    return ThreadpoolController()


@contextmanager
def _one_proposal_at_a_time() -> Iterator[None]:
    """Admit one thread of this process at a time, with one BLAS thread.

    Matrices of some fifty rows are slower on several BLAS threads. The limit is the process's: of
    two threads that overlap, the later one would take the earlier one's limit for the state to
    restore, and leave it behind. A proposal also has to take account of all those before it.
    """
    with _lock, _threadpools().limit(limits=1, user_api="blas"):
        yield


class GPLCBSampler(BaseSampler):
    r"""Sampler for one objective: Gaussian process, lower confidence bound.

    .. math:: x_{t+1} = \arg\min_x \; \mu_t(x) - \beta \, \sigma_t(x)

    with the posterior mean :math:`\mu_t` and standard deviation :math:`\sigma_t` of a Matern 5/2
    process with one length-scale per parameter, fitted to the trials so far. ``beta`` counts
    standard deviations: BoTorch's and Optuna's parameter of that name is its square.

    - *Noise.* A trial whose user attribute ``"risk_variance"`` (`VARIANCE_KEY`) holds the variance
      of its value is weighted accordingly. A noise common to all trials is fitted as well.
    - *Parallel trials.* Running trials count as if they had returned their posterior mean, so
      their neighbourhood is no longer uncertain and the next trial goes elsewhere.
    - *Trials without a value.* Failed trials are treated like running ones: nothing is learnt
      about their value, but a configuration that crashes is not proposed again and again. Pruned
      trials count with the last value they reported, taken as no better than the median of the
      finished trials.
    - *Many trials.* Beyond 250, half of what the process remembers are the best trials and half
      are spread widely (`TrialHistory.thinned`), so a proposal takes no longer.
    - *Conditional and changing spaces.* The parameters that all finished trials have in common are
      modelled; the others are drawn at random. With a `space` its parameters are modelled, from
      the trials that have all of them.
    - *Repeatability.* Proposals depend on the seed, the number of the trial and the study's
      trials, not on what this object did before: a study that is stopped and resumed with a new
      sampler of the same seed continues as it would have without the stop.

    Parameters
    ----------
    n_startup_trials
        Number of finished trials before the process is used; until then, trials are random.
    beta
        Weight of the standard deviation, at least 0; larger values explore more.
    seed
        A non-negative integer, or None for a different study every time.
    space
        Parameters to model, in a study whose trials do not all have the same ones; only the
        trials that have them count as finished. Default: what all finished trials share.

    Examples
    --------
    >>> import optuna
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=GPLCBSampler(seed=0))
    >>> study.optimize(lambda trial: (trial.suggest_float("x", -5, 5) - 2) ** 2, n_trials=15)
    >>> abs(study.best_params["x"] - 2) < 0.05
    True
    """

    # Trials that the process is fitted to, and that it remembers, if there are more.
    most_fitted: ClassVar[int] = 150
    most_rows: ClassVar[int] = 250

    def __init__(
        self,
        *,
        n_startup_trials: int = 5,
        beta: float = 2.0,
        seed: int | None = None,
        space: Mapping[str, BaseDistribution] | None = None,
    ) -> None:
        if n_startup_trials < 0:
            raise ValueError(f"n_startup_trials must be 0 or more, got {n_startup_trials}")
        if not (beta >= 0 and np.isfinite(beta)):
            raise ValueError(f"beta must be a finite number of at least 0, got {beta}")
        if seed is not None and seed < 0:
            raise ValueError(f"seed must be None or a non-negative integer, got {seed}")
        self._n_startup_trials = n_startup_trials
        self._beta = beta
        self._seed = seed
        self._space = None if space is None else dict(space)
        # Optuna stores parameters one by one, when the objective asks for them, after the proposal
        # was made. Other threads need the proposal before that: without it three threads proposed
        # 14 different points in 16 trials.
        self._in_flight: WeakKeyDictionary[BaseStorage, InFlight] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        # Proposals in flight in this process do not concern a copy of the sampler elsewhere.
        return self.__dict__ | {"_in_flight": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _in_flight=WeakKeyDictionary())

    def for_space(self, space: Mapping[str, BaseDistribution] | None) -> GPLCBSampler:
        """Return a sampler with the same settings that models another space."""
        if self._seed is None:
            self._seed = _fresh_seed()
        return GPLCBSampler(
            n_startup_trials=self._n_startup_trials, beta=self._beta, seed=self._seed, space=space
        )

    def reseed_rng(self) -> None:
        """Forget the seed; Optuna calls this in every worker of ``optimize(n_jobs > 1)``."""
        self._seed = _fresh_seed()

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the given space, or what all finished trials share; without single values."""
        space = self._space
        if space is None:
            # Computed afresh, not with Optuna's caching class: that one identifies its study by an
            # id that all in-memory studies share, and a sampler may be used for several.
            space = intersection_search_space(study.get_trials(deepcopy=False))
        return {name: found for name, found in space.items() if not found.single()}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw uniformly (on the log scale for log parameters), repeatable per trial and name."""
        self._require_one_objective(study)
        axis = axis_of(param_distribution)
        rng = self._rng(trial, zlib.crc32(param_name.encode()))
        return axis.decode(axis.sample(rng, 1)[0])

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the point of lowest bound; a random one while too few trials have finished."""
        self._require_one_objective(study)
        if not search_space:
            return {}
        if _n_finished(study, self._space or {}) < max(self._n_startup_trials, 1):
            return {
                name: self.sample_independent(study, trial, name, distribution)
                for name, distribution in search_space.items()
            }
        with _one_proposal_at_a_time():
            proposed = self._propose(study, trial, search_space)
            self._proposals(study)[study._study_id, trial.number] = proposed
        return proposed

    def _propose(
        self, study: Study, trial: FrozenTrial, space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        trials = [t for t in study.get_trials(deepcopy=False) if t.number != trial.number]
        cube = UnitCube(space)
        history = TrialHistory.read(
            trials, cube, space, study.direction, self._still_in_flight(study, trials)
        )
        if not len(history.rows):  # a space that no trial has used yet, given by the caller
            return cube.decode(cube.sample(self._rng(trial), 1)[0])
        return cube.decode(self._lowest_bound(history, cube, self._rng(trial)))

    def _still_in_flight(
        self, study: Study, trials: list[FrozenTrial]
    ) -> dict[int, dict[str, Any]]:
        """Return proposals by trial number, after dropping those of finished trials."""
        proposals, here = self._proposals(study), study._study_id
        for t in trials:
            if t.state.is_finished():
                proposals.pop((here, t.number), None)
        return {number: p for (study_id, number), p in proposals.items() if study_id == here}

    def _proposals(self, study: Study) -> InFlight:
        """Return proposals by study and trial; ids of studies are unique in a storage only."""
        return self._in_flight.setdefault(study._storage, {})

    def _lowest_bound(
        self, history: TrialHistory, cube: UnitCube, rng: np.random.Generator
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        few = history.thinned(self.most_fitted)
        hyperparameters = fit(few.rows, few.y, few.variances, cube.groups)
        known = history.thinned(self.most_rows)
        posterior = Posterior(
            known.rows, known.y, known.variances, cube.groups, hyperparameters, history.pending
        )
        visited = Visited(history.settled)
        return minimise_lower_bound(posterior, cube, self._beta, rng, known.rows, visited)

    def _rng(self, trial: FrozenTrial, *stream: int) -> np.random.Generator:
        if self._seed is None:
            # Here and not in the constructor: copies of an unseeded sampler have to differ.
            self._seed = _fresh_seed()
        return np.random.default_rng([self._seed, trial.number, *stream])

    def _require_one_objective(self, study: Study) -> None:
        if len(study.directions) > 1:
            raise ValueError(
                f"GPLCBSampler needs a study with one objective, got {len(study.directions)}; "
                "use optuna.samplers.TPESampler or NSGAIISampler for several"
            )


def _fresh_seed() -> int:
    return int(np.random.SeedSequence().generate_state(1)[0])


def _n_finished(study: Study, space: Mapping[str, BaseDistribution]) -> int:
    """Number of trials with a finite value, and with all parameters of the space.

    Pruned trials have that of what they reported.
    """
    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
    return sum(
        t.value is not None and math.isfinite(t.value) and covers(t, space) for t in finished
    )
