"""Cores that a worker may use."""

from __future__ import annotations

import os

import joblib

from shiftune.errors import SettingsError


def number_of_workers(n_jobs: int) -> int:
    """Read ``n_jobs`` as joblib does.

    >>> number_of_workers(3), number_of_workers(-10_000)
    (3, 1)
    """
    if n_jobs == 0:
        raise SettingsError(
            "n_jobs must be the number of processes, or -1 for as many as there are cores; got 0"
        )
    return n_jobs if n_jobs > 0 else max(1, joblib.cpu_count() + 1 + n_jobs)


def share_of_cores(n_workers: int) -> dict[str, str]:
    """Environment in which each worker uses its share of the cores, or less if already limited.

    >>> share_of_cores(10_000)["OMP_NUM_THREADS"]
    '1'
    """
    share = max(1, joblib.cpu_count() // n_workers)
    names = ["OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA", "NUMEXPR"]
    # LOKY_MAX_CPU_COUNT is what joblib.cpu_count() returns: LightGBM uses that many threads by
    # default, whatever OMP_NUM_THREADS is, and so does n_jobs=-1 in a model.
    variables = [f"{name}_NUM_THREADS" for name in names]
    variables += ["VECLIB_MAXIMUM_THREADS", "LOKY_MAX_CPU_COUNT"]
    env = {}
    for variable in variables:
        wish = os.environ.get(variable, "")
        env[variable] = str(min(share, int(wish)) if wish.isdecimal() and int(wish) else share)
    return env
