"""Minimisation of a Gaussian process's lower confidence bound over a search space."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from shiftune.search.gp.gaussian_process import Posterior

if TYPE_CHECKING:
    from shiftune.search.gp.unit_cube import UnitCube

Array = NDArray[np.float64]

# Regret was the same, within its error, with 512 and 2048 candidates and with 1, 4 and 8 refined
# ones (24 seeds, seven functions); four cost 2 CPU ms a trial more than one and guard against
# a bound with several basins.
N_UNIFORM = 512
N_PERTURBED = 64
N_ANCHORS = 4
PERTURBATIONS = (0.1, 0.02)
N_REFINED = 4
LARGEST_GRID = 2048


class Visited:
    """Rows that need no second visit, compared at six decimals.

    >>> Visited(np.array([[0.5, 1.0]])).fresh(np.array([[0.5, 1.0], [0.5, 0.0]])).tolist()
    [False, True]
    """

    def __init__(self, rows: Array) -> None:
        self._keys = set(self._key(rows))

    @staticmethod
    def _key(rows: Array) -> list[bytes]:
        # + 0.0 turns a rounded -0.0 into 0.0, whose bytes differ.
        return [row.tobytes() for row in np.round(rows, 6) + 0.0]

    def fresh(self, rows: Array) -> NDArray[np.bool_]:
        """Whether each of the rows (m, C) has not been visited yet, (m,)."""
        return np.array([key not in self._keys for key in self._key(rows)], dtype=np.bool_)


def minimise_lower_bound(
    posterior: Posterior,
    cube: UnitCube,
    beta: float,
    rng: np.random.Generator,
    observed: Array,
    visited: Visited,
) -> Array:
    """Return the row (C,) that minimises ``mean(x) - beta sd(x)`` over the rows not yet visited.

    Small spaces without continuous parameters are searched completely. In others, uniform
    candidates and perturbations of the observed rows of lowest mean are ranked, and the best
    ones that lie apart are refined: gradient steps in the continuous columns and exchanges of
    single values in the others, so the bound is evaluated only where a trial is possible. If every
    candidate was visited already, the best of them is returned.

    Parameters
    ----------
    posterior
        Posterior of the values to be minimised, in the columns of ``cube``.
    beta
        Number of standard deviations.
    observed : (n, C)
        Rows with a value; the best of them are the anchors of the local candidates.
    """
    if cube.n_values <= LARGEST_GRID:
        rows = cube.grid()
        return _lowest(rows, posterior.lower_bound(rows, beta), visited)
    rows = _candidates(posterior, cube, rng, observed)
    bounds = posterior.lower_bound(rows, beta)
    starts = _apart(rows, bounds, visited)
    refined = [_refine(posterior, cube, beta, row, visited) for row in starts]
    rows = np.vstack([np.array(refined).reshape(-1, rows.shape[1]), rows])
    return _lowest(rows, posterior.lower_bound(rows, beta), visited)


def _lowest(rows: Array, bounds: Array, visited: Visited) -> Array:
    order = np.argsort(bounds, kind="stable")
    first = next((i for i in order if visited.fresh(rows[i : i + 1])[0]), order[0])
    return np.asarray(rows[first])


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


def _apart(rows: Array, bounds: Array, visited: Visited) -> list[Array]:
    """Return up to `N_REFINED` fresh rows of low bound, a tenth of the cube from each other."""
    order = np.argsort(bounds, kind="stable")[:200]
    chosen: list[Array] = []
    for row in rows[order][visited.fresh(rows[order])]:
        if all(np.abs(row - other).max() > 0.1 for other in chosen):
            chosen.append(row)
        if len(chosen) == N_REFINED:
            break
    return chosen


def _refine(
    posterior: Posterior, cube: UnitCube, beta: float, row: Array, visited: Visited
) -> Array:
    """Alternate gradient steps and exchanges until the exchanges find nothing better."""
    for _ in range(3):
        row, bound = _descend(posterior, beta, row, cube.continuous)
        others = cube.neighbours(row)
        others = others[visited.fresh(others)]
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

    found = minimize(
        loss,
        row[free],
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, 1.0)] * int(free.sum()),
        options={"maxiter": 30, "ftol": 1e-6},
    )
    moved[free] = found.x
    return moved, float(found.fun)
