"""Optuna sampler that minimises a Gaussian-process lower confidence bound."""

from __future__ import annotations

import functools
import math
import threading
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import intersection_search_space
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState
from scipy.spatial import KDTree
from threadpoolctl import ThreadpoolController

from shiftune.search.gp._acquisition import UnitCube, axis_of, keys, minimise_lower_bound
from shiftune.search.gp._gaussian_process import Posterior, fit

Array = NDArray[np.float64]

#: User attribute of a trial: the variance of its value, on the scale of the value squared.
VARIANCE_KEY = "risk_variance"

# On the standardised scale; a value this uncertain has no influence, and the algebra stays finite.
LARGEST_VARIANCE = 1e12
# Trials whose mean shows how low a region is, the trial itself among them.
NEIGHBOURS = 5

InFlight = dict[tuple[int, int], dict[str, Any]]

_lock = threading.Lock()


# Looking for the libraries takes milliseconds, setting their limits microseconds.
_threadpools = functools.cache(ThreadpoolController)


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
        return {name: dist for name, dist in space.items() if not dist.single()}

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
        # Pruned trials have the value that they reported last.
        states = (TrialState.COMPLETE, TrialState.PRUNED)
        finished = sum(
            t.value is not None and math.isfinite(t.value) and covers(t, self._space or {})
            for t in study.get_trials(deepcopy=False, states=states)
        )
        if finished < max(self._n_startup_trials, 1):
            return {
                name: self.sample_independent(study, trial, name, distribution)
                for name, distribution in search_space.items()
            }
        # A proposal has to take account of all those before it. Matrices of some fifty rows are
        # slower on several BLAS threads. Their limit is the process's: of two threads that overlap,
        # the later one would take the earlier one's for the state to restore, and leave it behind.
        with _lock, _threadpools().limit(limits=1, user_api="blas"):
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
        trials = history.thinned(self.most_rows)
        posterior = Posterior(
            trials.rows, trials.y, trials.variances, cube.groups, hyperparameters, history.pending
        )
        visited = set(keys(history.settled))
        return minimise_lower_bound(posterior, cube, self._beta, rng, trials.rows, visited)

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


@dataclass(frozen=True, slots=True)
class TrialHistory:
    """Trials as rows in the unit cube, with values to be minimised."""

    rows: Array  # trials with a value, (n, C)
    y: Array  # standardised values, (n,)
    variances: Array  # known variances on the same scale, (n,)
    pending: Array  # without a value: running, failed, or pruned before they reported any, (q, C)
    # Trials in which nothing else could be varied, so that the same row is the same trial, (s, C).
    settled: Array

    @classmethod
    def read(
        cls,
        trials: Sequence[FrozenTrial],
        cube: UnitCube,
        space: Mapping[str, BaseDistribution],
        direction: StudyDirection,
        in_flight: Mapping[int, Mapping[str, Any]],
    ) -> TrialHistory:
        """Read the trials that have all parameters of the space.

        ``in_flight`` holds, by trial number, proposals that may not have reached the study yet.
        """
        sign = -1.0 if direction == StudyDirection.MAXIMIZE else 1.0
        inside = [trial for trial in trials if covers(trial, space)]
        values = [_signed_value(trial, sign) for trial in inside]
        seen = [t for t, value in zip(inside, values, strict=True) if value is not None]
        unseen = [t for t, value in zip(inside, values, strict=True) if value is None]
        y = np.array([value for value in values if value is not None], dtype=np.float64)
        stopped = np.array([t.state == TrialState.PRUNED for t in seen], dtype=np.bool_)
        # Not in the study yet, or only some of their parameters.
        stored = {trial.number for trial in inside}
        proposed = [
            dict(params)
            for number, params in in_flight.items()
            if number not in stored and params.keys() >= space.keys()
        ]
        settled = [trial.params for trial in inside if _nothing_else(trial, space)]
        if len(settled) == len(inside):  # no conditional parameters, as far as can be seen
            settled += proposed
        variances = np.array([reported_variance(trial) for trial in seen], dtype=np.float64)
        y, variances, _, _ = standardise(tame(y, variances, stopped), variances)
        return cls(
            rows=cube.encode([trial.params for trial in seen]),
            y=y,
            variances=variances,
            pending=cube.encode([*(trial.params for trial in unseen), *proposed]),
            settled=cube.encode(settled),
        )

    def thinned(self, most: int) -> TrialHistory:
        """Keep at most so many rows: half of them from low regions, the others spread widely.

        A proposal takes time of the third power of their number. Low regions are those where a few
        neighbours have a low mean, plus two standard errors: to keep the lowest values themselves,
        and not the high ones beside them, would make noisy regions look good.
        """
        if len(self.y) <= most:
            return self
        _, near = KDTree(self.rows).query(self.rows, NEIGHBOURS)
        level = self.y[near].mean(axis=1)
        level += 2 * np.sqrt(self.y[near].var(axis=1, ddof=1) / NEIGHBOURS)
        kept = spread_rows(self.rows, np.argsort(level, kind="stable")[: most // 2], most)
        return replace(self, rows=self.rows[kept], y=self.y[kept], variances=self.variances[kept])


def spread_rows(rows: Array, first: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Add the row farthest from all chosen ones, one by one; return the chosen ones, sorted.

    None is added that equals a chosen one, so there may be fewer.
    """
    distance = np.full(len(rows), np.inf)
    chosen = [int(i) for i in first]
    for i in chosen:
        distance = np.minimum(distance, np.square(rows - rows[i]).sum(axis=1))
    while len(chosen) < count and distance.max() > 0:
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.square(rows - rows[chosen[-1]]).sum(axis=1))
    return np.sort(np.array(chosen, dtype=np.intp))


def covers(trial: FrozenTrial, space: Mapping[str, BaseDistribution]) -> bool:
    """Whether a trial has all parameters of a space, with the same distributions."""
    return all(trial.distributions.get(name) == dist for name, dist in space.items())


def _nothing_else(trial: FrozenTrial, space: Mapping[str, BaseDistribution]) -> bool:
    return all(name in space or dist.single() for name, dist in trial.distributions.items())


def _signed_value(trial: FrozenTrial, sign: float) -> float | None:
    """Return the value, or the last one that a pruned trial reported; None without either."""
    value = None
    if trial.state == TrialState.COMPLETE:
        value = trial.value
    elif trial.state == TrialState.PRUNED and trial.last_step is not None:
        value = trial.intermediate_values[trial.last_step]
    return None if value is None or math.isnan(value) else sign * value


def reported_variance(trial: FrozenTrial) -> float:
    """Return the trial's `VARIANCE_KEY` attribute; 0 if it is missing or not a variance."""
    value = trial.user_attrs.get(VARIANCE_KEY)
    if value is None:
        return 0.0
    try:
        variance = float(value)
    except (TypeError, ValueError):
        variance = math.nan
    if variance >= 0.0:
        return variance
    # The trial's cost is already spent: a warning, not the end of the study.
    warnings.warn(
        f"trial {trial.number} has the user attribute {VARIANCE_KEY!r} = {value!r}, which is not "
        "a variance; expected a number >= 0. The trial is used as if it had none.",
        stacklevel=2,
    )
    return 0.0


def tame(y: Array, variances: Array, stopped: NDArray[np.bool_]) -> Array:
    """Return values (n,) to be minimised, with extreme ones moved nearer to the others.

    - Infinite values become the worst (or best) finite one.
    - A pruned trial was stopped for being poor, and its last value need not be comparable: it
      counts as no better than the median of the trials that finished.
    - Values farther above the median than the best is below it are moved to that fence,
      ``median + (median - min(y + sd)) + 2 sd``. One diverged fit with a loss of 1e6 would
      otherwise leave no difference between all the others: a function with such a cliff was left
      at a regret of 0.5 without the fence and 2e-5 with it (mean of 30 seeds). The standard
      deviations keep the fence away from mere noise: cutting the high values of a noisy region
      and not the low ones makes the region look good (regret 0.12 instead of 0.07, 40 seeds).

    >>> y = np.array([1.0, 2.0, 3.0, 1e6, np.inf])
    >>> tame(y, np.zeros(5), np.zeros(5, dtype=bool)).tolist()
    [1.0, 2.0, 3.0, 5.0, 5.0]
    """
    finite = y[np.isfinite(y)]
    if not len(finite):
        return np.zeros_like(y)
    y = np.clip(y, finite.min(), finite.max())
    if stopped.any() and not stopped.all():
        y = np.where(stopped, np.maximum(y, np.median(y[~stopped])), y)
    sd = np.sqrt(variances)
    best, median = np.min(y + sd), np.median(y)
    if best >= median:  # ties for the best, or nothing but noise: no scale to set a fence by
        return y
    return np.minimum(y, median + (median - best) + 2.0 * sd)


def standardise(y: Array, variances: Array) -> tuple[Array, Array, float, float]:
    """``(y - m) / s``, ``variances / s^2``, m and s: precision-weighted mean and spread.

    The weights are ``1 / (s^2 + variance)``, found in two rounds from the unweighted s: a very
    uncertain value moves neither m nor s. Without variances, m and s are the usual ones.

    >>> y, v, m, s = standardise(np.array([1.0, 3.0]), np.array([0.0, 0.0]))
    >>> y.tolist(), m, s
    ([-1.0, 1.0], 2.0, 1.0)
    """
    if not len(y):
        return y, variances, 0.0, 1.0
    centre = np.median(y)
    unit = np.abs(y - centre).max() or 1.0
    z = (y - centre) / unit
    v = np.minimum(variances / unit / unit, LARGEST_VARIANCE)
    spread = z.var()
    mean = z.mean()
    for _ in range(2):
        w = 1.0 / (spread + v + 1e-12)
        w /= w.sum()
        mean = w @ z
        spread = w @ np.square(z - mean)
    scale = np.sqrt(spread) if spread > 1e-18 else 1.0
    scaled = np.minimum(v / scale**2, LARGEST_VARIANCE)
    return (z - mean) / scale, scaled, float(centre + unit * mean), float(unit * scale)
