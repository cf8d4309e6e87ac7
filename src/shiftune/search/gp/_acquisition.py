"""Minimisation of a Gaussian process's lower confidence bound over a search space."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from scipy.optimize import minimize

from shiftune.search.gp._gaussian_process import Posterior

Array = NDArray[np.float64]

# Regret was the same, within its error, with 512 and 2048 candidates (24 seeds, seven functions),
# and with four or eight candidates refined instead of the best one.
N_UNIFORM = 512
N_PERTURBED = 64
N_ANCHORS = 4
PERTURBATIONS = (0.1, 0.02)
LARGEST_GRID = 2048


def keys(rows: Array) -> list[bytes]:
    """Keys of rows (m, C) by which they are compared, at six decimals."""
    # + 0.0 turns a rounded -0.0 into 0.0, whose bytes differ.
    return [row.tobytes() for row in np.round(rows, 6) + 0.0]


def minimise_lower_bound(
    posterior: Posterior,
    cube: UnitCube,
    beta: float,
    rng: np.random.Generator,
    observed: Array,
    visited: Container[bytes] = (),
) -> Array:
    """Return the row (C,) that minimises ``mean(x) - beta sd(x)`` over the rows not yet visited.

    Small spaces without continuous parameters are searched completely. In others, uniform
    candidates and perturbations of the best ``observed`` rows, those with a value (n, C), are
    ranked, and the best one is refined: gradient steps in the continuous columns and exchanges of
    single values in the others, so the bound is evaluated only where a trial is possible.
    ``visited`` holds `keys`; if every candidate was visited, the best one is returned.
    """
    if cube.n_values <= LARGEST_GRID:
        rows = cube.grid()
        return _lowest(rows, posterior.lower_bound(rows, beta), visited)
    rows = _candidates(posterior, cube, rng, observed)
    start = _lowest(rows, posterior.lower_bound(rows, beta), visited)
    rows = np.vstack([_refine(posterior, cube, beta, start, visited), rows])
    return _lowest(rows, posterior.lower_bound(rows, beta), visited)


def _lowest(rows: Array, bounds: Array, visited: Container[bytes]) -> Array:
    order = np.argsort(bounds, kind="stable")
    first = next((i for i in order if _fresh(rows[i : i + 1], visited)[0]), order[0])
    return np.asarray(rows[first])


def _fresh(rows: Array, visited: Container[bytes]) -> NDArray[np.bool_]:
    return np.array([key not in visited for key in keys(rows)], dtype=np.bool_)


def _candidates(
    posterior: Posterior, cube: UnitCube, rng: np.random.Generator, observed: Array
) -> Array:
    mean, _ = posterior.predict(observed)
    anchors = observed[np.argsort(mean, kind="stable")[:N_ANCHORS]]
    repeated = np.repeat(anchors, N_PERTURBED // N_ANCHORS, axis=0)
    return np.vstack(
        [cube.sample(rng, N_UNIFORM)]
        + [cube.perturb(rng, repeated, scale) for scale in PERTURBATIONS]
        + [cube.neighbours(row) for row in anchors]
    )


def _refine(
    posterior: Posterior, cube: UnitCube, beta: float, row: Array, visited: Container[bytes]
) -> Array:
    """Alternate gradient steps and exchanges until the exchanges find nothing better."""
    for _ in range(3):
        row, bound = _descend(posterior, beta, row, cube.continuous)
        others = cube.neighbours(row)
        others = others[_fresh(others, visited)]
        if not len(others):
            break
        bounds = posterior.lower_bound(others, beta)
        if bounds.min() >= bound:
            break
        row = others[np.argmin(bounds)]
    return row


def _descend(
    posterior: Posterior, beta: float, row: Array, free: NDArray[np.bool_]
) -> tuple[Array, float]:
    """Return the row (C,) after L-BFGS-B steps in its free columns, and the bound there."""
    if not free.any():
        return row, posterior.lower_bound_gradient(row, beta)[0]
    moved = row.copy()

    def loss(columns: Array) -> tuple[float, Array]:
        moved[free] = columns
        bound, gradient = posterior.lower_bound_gradient(moved, beta)
        return bound, gradient[free]

    optimum = minimize(
        loss,
        row[free],
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, 1.0)] * int(free.sum()),
        options={"maxiter": 30, "ftol": 1e-6},
    )
    moved[free] = optimum.x
    return moved, float(optimum.fun)


# Two different choices then lie at distance 1, as the two ends of a numeric range do.
ONE_HOT = math.sqrt(0.5)


@dataclass(frozen=True, slots=True)
class NumericAxis:
    """One column for a float or an int; ``u = (g(v) - g_low) / (g_high - g_low)``, g = id or log.

    Each value on a grid has a cell of one step, so the range is widened by half a step on both
    sides: with a uniform ``u`` the first and the last value are as likely as the others.
    """

    low: float
    high: float
    step: float | None
    log: bool
    integer: bool

    width = 1

    @property
    def n_values(self) -> float:
        """Number of values that can be suggested; infinite for a continuous range."""
        if self.low == self.high:
            return 1
        return math.inf if self.step is None else round((self.high - self.low) / self.step) + 1

    def _ends(self) -> tuple[float, float]:
        half = 0.0 if self.step is None else self.step / 2
        low, high = self.low - half, self.high + half
        return (math.log(low), math.log(high)) if self.log else (low, high)

    def encode(self, values: Sequence[Any] | Array) -> Array:
        """Convert values (n,) to columns (n, 1)."""
        low, high = self._ends()
        v = np.asarray(values, dtype=np.float64)
        g = np.log(v) if self.log else v
        # Halves, because high - low overflows for the widest ranges Optuna accepts.
        u = (g / 2 - low / 2) / ((high / 2 - low / 2) or 1.0)
        return np.clip(u, 0.0, 1.0)[:, None]

    def values(self, columns: Array) -> Array:
        """Convert columns (n, 1) to the nearest values (n,) that can be suggested."""
        low, high = self._ends()
        g = low * (1.0 - columns[:, 0]) + high * columns[:, 0]
        v = np.exp(g) if self.log else g
        if self.step is not None:
            v = self.low + self.step * np.round((v - self.low) / self.step)
        return np.clip(v, self.low, self.high)

    def decode(self, column: Array) -> int | float:
        """Convert a column (1,) to its value; for an int distribution an int on the grid."""
        value = float(self.values(column[None, :])[0])
        if not self.integer or self.step is None:
            return value
        k = min(round((value - self.low) / self.step), round(self.n_values) - 1)
        return int(self.low + k * self.step)

    def snap(self, columns: Array) -> Array:
        """Move columns (n, 1) to the nearest ones that can be suggested."""
        return columns if self.step is None else self.encode(self.values(columns))

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """Draw uniformly, (n, 1)."""
        return self.snap(rng.random((n, 1)))

    def perturb(self, rng: np.random.Generator, columns: Array, scale: float) -> Array:
        """Move columns at random by about `scale`."""
        moved = np.clip(columns + scale * rng.standard_normal(columns.shape), 0.0, 1.0)
        return self.snap(moved)

    def neighbours(self, column: Array) -> Array:
        """Columns (m, 1) of the values one step and about 10 % of the range away."""
        if self.step is None:
            return np.empty((0, 1))
        value = float(self.values(column[None, :])[0])
        strides = {1, max(1, round(0.1 * (self.n_values - 1)))}
        near = [value + sign * k * self.step for k in sorted(strides) for sign in (-1, 1)]
        # Half a step of slack: 0.1 + 0.1 + 0.1 is above a high of 0.3.
        low, high = self.low - self.step / 2, self.high + self.step / 2
        inside = [min(max(v, self.low), self.high) for v in near if low <= v <= high]
        return self.encode(inside)

    def grid(self) -> Array:
        """Columns of all values."""
        return self.encode([self.low + k * (self.step or 0.0) for k in range(int(self.n_values))])


@dataclass(frozen=True, slots=True)
class ChoiceAxis:
    """One column per choice of a categorical parameter (one-hot, times `ONE_HOT`).

    Methods as of `NumericAxis`, with columns (n, width).
    """

    distribution: CategoricalDistribution

    @property
    def width(self) -> int:
        return len(self.distribution.choices)

    @property
    def n_values(self) -> float:
        return self.width

    def _one_hot(self, indices: Sequence[int] | NDArray[np.intp]) -> Array:
        return ONE_HOT * np.eye(self.width)[np.asarray(indices, dtype=np.intp)]

    def encode(self, values: Sequence[Any]) -> Array:
        to_index = self.distribution.to_internal_repr
        return self._one_hot([int(to_index(value)) for value in values])

    def decode(self, column: Array) -> Any:
        return self.distribution.choices[int(np.argmax(column))]

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        return self._one_hot(rng.integers(self.width, size=n))

    def perturb(self, rng: np.random.Generator, columns: Array, scale: float) -> Array:
        redraw = rng.random(len(columns)) < scale
        return np.where(redraw[:, None], self.sample(rng, len(columns)), columns)

    def neighbours(self, column: Array) -> Array:
        others = np.arange(self.width) != np.argmax(column)
        return self._one_hot(np.flatnonzero(others))

    def grid(self) -> Array:
        return self._one_hot(np.arange(self.width))


def axis_of(distribution: BaseDistribution) -> NumericAxis | ChoiceAxis:
    if isinstance(distribution, CategoricalDistribution):
        return ChoiceAxis(distribution)
    if isinstance(distribution, FloatDistribution | IntDistribution):
        return NumericAxis(
            low=distribution.low,
            high=distribution.high,
            step=distribution.step,
            log=distribution.log,
            integer=isinstance(distribution, IntDistribution),
        )
    raise TypeError(
        f"cannot place a {type(distribution).__name__} in the unit cube; expected a "
        "FloatDistribution, an IntDistribution or a CategoricalDistribution"
    )


class UnitCube:
    """The P parameters of a search space as C columns, with conversion in both directions.

    >>> from optuna.distributions import CategoricalDistribution, FloatDistribution
    >>> cube = UnitCube({"C": FloatDistribution(0.01, 100, log=True),
    ...                  "kernel": CategoricalDistribution(["linear", "rbf"])})
    >>> cube.encode([{"C": 1.0, "kernel": "rbf"}]).round(3).tolist()
    [[0.5, 0.0, 0.707]]
    >>> cube.decode(np.array([1.0, 0.0, 0.707]))
    {'C': 100.0, 'kernel': 'rbf'}
    """

    def __init__(self, space: Mapping[str, BaseDistribution]) -> None:
        self.axes = {name: axis_of(distribution) for name, distribution in space.items()}
        widths = [axis.width for axis in self.axes.values()]
        # Parameter that each column belongs to, (C,); the columns of a parameter are adjacent.
        self.groups = np.repeat(np.arange(len(widths)), widths)
        ends = np.cumsum(widths)
        self._slices = [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]
        # Columns in which every value between 0 and 1 can be suggested, (C,).
        infinite = [math.isinf(axis.n_values) for axis in self.axes.values()]
        self.continuous = np.repeat(infinite, widths)

    @property
    def n_values(self) -> float:
        """Number of different points; infinite if a parameter is continuous."""
        return math.prod(axis.n_values for axis in self.axes.values())

    def encode(self, params: Sequence[Mapping[str, Any]]) -> Array:
        """Convert n parameter dictionaries to rows (n, C)."""
        if not params:
            return np.empty((0, len(self.groups)))
        return np.hstack([a.encode([p[name] for p in params]) for name, a in self.axes.items()])

    def decode(self, row: Array) -> dict[str, Any]:
        """Convert a row (C,) to parameters."""
        parts = zip(self.axes.items(), self._slices, strict=True)
        return {name: axis.decode(row[part]) for (name, axis), part in parts}

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """Draw rows (n, C), uniform over the space."""
        return np.hstack([axis.sample(rng, n) for axis in self.axes.values()])

    def perturb(self, rng: np.random.Generator, rows: Array, scale: float) -> Array:
        """Move numbers in rows (n, C) by N(0, scale^2); redraw choices with chance ``scale``."""
        parts = zip(self.axes.values(), self._slices, strict=True)
        return np.hstack([axis.perturb(rng, rows[:, part], scale) for axis, part in parts])

    def neighbours(self, row: Array) -> Array:
        """Rows (m, C) that differ from ``row`` in one parameter that is not continuous."""
        blocks = [np.empty((0, len(row)))]
        for axis, part in zip(self.axes.values(), self._slices, strict=True):
            columns = axis.neighbours(row[part])
            rows = np.repeat(row[None, :], len(columns), axis=0)
            rows[:, part] = columns
            blocks.append(rows)
        return np.vstack(blocks)

    def grid(self) -> Array:
        """Every point (n_values, C) of a space without continuous parameters."""
        grids = [axis.grid() for axis in self.axes.values()]
        indices = np.indices([len(g) for g in grids]).reshape(len(grids), -1)
        return np.hstack([g[i] for g, i in zip(grids, indices, strict=True)])
