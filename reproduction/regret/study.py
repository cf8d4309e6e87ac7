"""Many runs: how often the bound holds, how fast the regret shrinks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

from reproduction.regret.run import DELTAS, check, runs_for_budgets
from shiftune import _interrupts
from shiftune.errors import SettingsError
from shiftune.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from reproduction.regret.objective import Method
    from reproduction.regret.run import Ratio, RegretRun, Sampler

    Floats = NDArray[np.float64]

SETTING = ["method", "ratio", "sampler"]


def regret_study(
    seeds: Iterable[int],
    ns: Sequence[int] = (100, 300, 1000, 3000),
    Bs: Sequence[int] = (5, 10, 20, 50),
    *,
    c: float = 2.0,
    methods: Sequence[Method] = ("unbiased", "variance_reduced"),
    ratios: Sequence[Ratio] = ("known",),
    samplers: Sequence[Sampler] = ("gp_lcb",),
    n_jobs: int = 1,
    progress: bool | None = None,
) -> pd.DataFrame:
    """Run `regret_run` for all combinations; one row per run.

    Runs that differ in B alone share one search: it is run for the largest B, and the others
    are read off on the way.

    Parameters
    ----------
    seeds, ns, Bs, c, methods, ratios, samplers
        See `regret_run`.
    n_jobs : int
        Worker processes (loky), each with one BLAS thread; -1 is one per core.
    progress : bool, optional
        Show a progress bar; default: on terminals.

    Examples
    --------
    >>> frame = regret_study(range(2), ns=(100,), Bs=(2, 5), methods=["unbiased"])
    >>> frame[["seed", "n", "B"]].to_numpy().tolist()
    [[0, 100, 2], [0, 100, 5], [1, 100, 2], [1, 100, 5]]
    """
    Bs = sorted(set(Bs))
    searches = [
        (n, Bs, seed, c, method, ratio, sampler)
        for seed in seeds
        for n in ns
        for method in methods
        for ratio in ratios
        for sampler in samplers
    ]
    if not searches or not Bs:
        raise SettingsError("the study is empty: give at least one seed, n, B, method and ratio")
    for search in searches:
        check(*search)
    show = sys.stderr.isatty() if progress is None else progress
    with _interrupts.deferred(), Workers(_runs, None, n_jobs=n_jobs) as workers:
        for key, search in enumerate(searches):
            workers.submit(key, search)
        bar = tqdm(range(len(searches)), disable=not show, unit="search")
        runs = [run for key in bar for run in workers.result(key)]
    return pd.DataFrame([run.row() for run in runs])


def _runs(_: None, search: tuple[Any, ...]) -> list[RegretRun]:
    with threadpool_limits(1, user_api="blas"):
        return runs_for_budgets(*search)


def coverage(frame: pd.DataFrame, B: int | None = None) -> pd.DataFrame:
    r"""Return how often the theorem, its two lemmas and the plug-in bound hold.

    Parameters
    ----------
    frame : DataFrame
        Of `regret_study`.
    B : int, optional
        Trials; default: the largest of the study.

    Returns
    -------
    DataFrame
        One row per method, ratio, sampler, n, delta and claim: the share of `runs` that it
        `holds` in, with its 95 % interval `low` to `high` (Wilson), beside the `promised`
        :math:`1 - \delta`; and the medians of the bound and of the bounded quantity. Lemmas and
        theorem need true variances, so estimated ratios have the claim "plug-in" alone.

    Examples
    --------
    >>> frame = regret_study(range(8), ns=(100,), Bs=(5,), methods=["unbiased"])
    >>> found = coverage(frame)
    >>> found.loc[found["delta"] == 0.1, ["claim", "promised", "runs", "holds"]]
         claim  promised  runs  holds
    0  lemma B       0.9     8    1.0
    1  lemma C       0.9     8    1.0
    2  theorem       0.9     8    1.0
    3  plug-in       0.9     8    1.0
    """
    runs = frame[frame["B"] == (frame["B"].max() if B is None else B)]
    if runs.empty:
        raise SettingsError(f"the study has no runs with B = {B}")
    rows = []
    for key, group in runs.groupby([*SETTING, "n"]):
        setting = dict(zip([*SETTING, "n"], key, strict=True))
        for delta in DELTAS:
            for claim, (bounded, bound) in _claims(group, delta).items():
                known = ~np.isnan(bound)
                if not known.any():
                    continue
                held = int((bounded <= bound)[known].sum())
                wilson = binomtest(held, int(known.sum())).proportion_ci(method="wilson")
                rows.append(
                    setting
                    | {
                        "delta": delta,
                        "claim": claim,
                        "promised": 1 - delta,
                        "runs": int(known.sum()),
                        "holds": held / known.sum(),
                        "low": wilson.low,
                        "high": wilson.high,
                        "median_bounded": np.median(bounded[known]),
                        "median_bound": np.median(bound[known]),
                    }
                )
    return pd.DataFrame(rows)


def _claims(runs: pd.DataFrame, delta: float) -> dict[str, tuple[Floats, Floats]]:
    """Two arrays for every claim: the bounded quantity and the bound."""
    col = {name: runs[name].to_numpy(dtype=float) for name in runs.columns.difference(SETTING)}
    V_C = col["variance_star"] + col["variance_hat"]
    return {
        "lemma B": (
            col["true_chosen"] - col["estimated_chosen"],
            np.sqrt(col["variance_chosen"] / delta),
        ),
        "lemma C": (col["estimated_hat"] - col["true_star"], np.sqrt(V_C / delta)),
        "theorem": (col["regret"], col[f"bound_{delta}"]),
        "plug-in": (col["regret"], col[f"plug_in_{delta}"]),
    }


def shrinkage(frame: pd.DataFrame) -> pd.DataFrame:
    r"""Return the regret over n at the largest B, and over B at the largest n.

    Parameters
    ----------
    frame : DataFrame
        Of `regret_study`.

    Returns
    -------
    DataFrame
        One row per method, ratio, sampler and value of n or B (named in the column `along`):
        `mean`, `stderr` and `median` of the regret; on the rows along n also the `slope` of
        log mean regret over log n and its standard error, by the jackknife over the seeds (all n
        of a seed share the means of the sites). A regret of the order 1/n has slope -1.

    Examples
    --------
    >>> frame = regret_study(range(8), ns=(100, 1000), Bs=(5, 20), methods=["unbiased"])
    >>> shrinkage(frame)[["along", "value", "runs"]].to_numpy().tolist()
    [['n', 100, 8], ['n', 1000, 8], ['B', 5, 8], ['B', 20, 8]]
    """
    rows = []
    for key, group in frame.groupby(SETTING):
        setting = dict(zip(SETTING, key, strict=True))
        for along, other in (("n", "B"), ("B", "n")):
            at_largest = group[group[other] == group[other].max()]
            by_seed = at_largest.pivot_table(index="seed", columns=along, values="regret")
            slope, error = _slope(by_seed) if along == "n" else (np.nan, np.nan)
            rows += [
                setting
                | {
                    "along": along,
                    "value": value,
                    "runs": int(regret.count()),
                    "mean": regret.mean(),
                    "stderr": regret.sem(),
                    "median": regret.median(),
                    "slope": slope,
                    "slope_stderr": error,
                }
                for value, regret in by_seed.items()
            ]
    return pd.DataFrame(rows)


def _slope(by_seed: pd.DataFrame) -> tuple[float, float]:
    """Slope of log mean over log column, and its jackknife standard error, of (seeds, ns)."""
    N, columns = by_seed.shape
    if columns < 2:
        return np.nan, np.nan
    x = np.log(by_seed.columns.to_numpy(dtype=float))
    regret = by_seed.to_numpy(dtype=float)
    x = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
    slope = float(np.log(regret.mean(axis=0)) @ x)
    if N < 2:
        return slope, np.nan
    without = np.log((regret.sum(axis=0) - regret) / (N - 1)) @ x
    return slope, float(np.sqrt((N - 1) * without.var()))
