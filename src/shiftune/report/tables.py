"""What the figures draw and the pages print, as tables."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from scipy.special import stdtrit

from shiftune.errors import ProblemError
from shiftune.ratio import column_shifts, overlap
from shiftune.ratio.overlap import weights_to_look_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from optuna import Study

    from shiftune.risk.result import RiskEstimate
    from shiftune.search import ShiftSearch

# With fewer trials the importances are those of the sampler's luck.
FEWEST_TRIALS_FOR_IMPORTANCE = 10


def sources_with_intervals(risk: RiskEstimate, level: float = 0.95) -> pd.DataFrame:
    """Return `risk.sources` with the interval of every source by itself, in `low` and `high`.

    From Student's t with one degree of freedom less than it has effective rows (at least 1).
    """
    table = risk.sources
    half = stdtrit(np.maximum(table["ess"] - 1, 1), 0.5 + level / 2) * table["stderr"]
    return table.assign(low=table["estimate"] - half, high=table["estimate"] + half)


def forest_scale(sources: pd.DataFrame, interval: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of a forest plot's axis, without margin.

    A source that was left out may be far off; the scale is that of those that speak.
    """
    out = sources["left_out"] != ""
    heard = sources if out.all() else sources[~out]
    return min(interval[0], heard["low"].min()), max(interval[1], heard["high"].max())


def completed(trials: pd.DataFrame, chosen: int | None = None) -> pd.DataFrame:
    """Return the trials that have a risk, in their order; `chosen` must be one of them."""
    good = trials[trials["state"] == "COMPLETE"].sort_index()
    if chosen is not None and chosen not in good.index:
        raise ProblemError(
            f"chosen is the number of a trial that was completed, got {chosen!r}; a fitted "
            "search has it as best_index_"
        )
    return good


def parameter_names(trials: pd.DataFrame) -> list[str]:
    """Return the parameters that any trial has."""
    return [str(c).removeprefix("param_") for c in trials if str(c).startswith("param_")]


def needs_log_scale(risks: pd.Series) -> bool:
    """Whether a few very bad trials would leave no difference between the others."""
    return bool(risks.min() > 0 and risks.max() > 10 * risks.min())


@dataclass(frozen=True, slots=True)
class Overlap:
    """How typical the rows of the sources are of the target.

    Attributes
    ----------
    weights : dict from a source's name to an array of shape (n_j,)
        Density ratios.
    table : DataFrame
        Of `shiftune.ratio.overlap`.
    used : bool
        Whether the search estimated with these weights; if not, they are for looking only.
    """

    weights: dict[str, NDArray[np.float64]]
    table: pd.DataFrame
    used: bool


def overlap_of(search: ShiftSearch) -> Overlap:
    """Look at the weights that the search used, or else at what `problem.diagnose()` looks at."""
    problem, used = search.problem_, search.weights_ is not None
    if search.weights_ is None:
        weights, rows = weights_to_look_at(problem, random_state=search.random_state)
    else:
        k = len(problem.sources)
        weights = search.weights_[:k]
        rows = [site.X for site in search._judging().split(problem).validation[:k]]
    table = overlap(weights, problem.target.X, rows, problem.names)
    return Overlap(dict(zip(problem.names, weights, strict=True)), table, used)


def shifts_of(search: ShiftSearch) -> pd.DataFrame:
    """Return how far every column of every source is from the target; see `column_shifts`."""
    problem = search.problem_
    return column_shifts(problem.target.X, [site.X for site in problem.sources], problem.names)


def importances_of(study: Study) -> dict[str, float]:
    """Return the share of every parameter in the differences between trials, largest first.

    Optuna's functional ANOVA on a random forest. Empty where trials are too few, or do not
    differ, or have fewer than two parameters in common.
    """
    trials = [t for t in study.get_trials(deepcopy=False) if t.value is not None]
    if len(trials) < FEWEST_TRIALS_FOR_IMPORTANCE or np.ptp([t.value for t in trials]) == 0:
        return {}
    if len(set.intersection(*(set(t.params) for t in trials))) < 2:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna's, about what is experimental
        found = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    return {name: float(share) for name, share in found.items()}


def weight_quantiles(
    weights: Sequence[NDArray[np.float64]], names: Sequence[str], floor: float
) -> pd.DataFrame:
    """Return the mean and the 5, 25, 50, 75 and 95 % quantiles of every source's weights.

    Weights below `floor` count as `floor`, so that a logarithmic axis can show them.
    """
    rows = [
        [
            max(float(w.mean()), floor),
            *np.quantile(np.maximum(w, floor), [0.05, 0.25, 0.5, 0.75, 0.95]),
        ]
        for w in weights
    ]
    return pd.DataFrame(
        rows, index=pd.Index(names), columns=["mean", "q05", "q25", "q50", "q75", "q95"]
    )
