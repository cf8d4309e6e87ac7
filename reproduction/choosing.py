"""The hyperparameters that one method chooses on one problem in one setting."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from reproduction.baselines import DistBO, LearnedInitialisation
from reproduction.settings import all_rows
from reproduction.training import VarianceReducedFit
from shiftune.errors import DataWarning, OverlapWarning
from shiftune.evaluate import loss_named
from shiftune.problem import PAPER_SHARES
from shiftune.search import ShiftSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optuna.distributions import BaseDistribution

    from reproduction.settings import Setting
    from shiftune.evaluate._losses import Loss
    from shiftune.problem import ShiftProblem, Split
    from shiftune.risk._result import RiskEstimate

MethodName = Literal["li", "distbo", "naive", "unbiased", "variance_reduced", "oracle"]
METHOD_NAMES: tuple[MethodName, ...] = get_args(MethodName)


@dataclass(frozen=True, slots=True)
class Learner:
    """A model, its search space and its loss."""

    model: Any
    space: Mapping[str, BaseDistribution]
    loss: str | Loss


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen parameters and their estimated risk, where the method estimates one."""

    params: dict[str, Any]
    risk: RiskEstimate | None


def choose(
    method: MethodName,
    setting: Setting,
    problem: ShiftProblem,
    learner: Learner,
    *,
    budget: int,
    seed: int,
    trained: bool = True,
) -> Choice:
    """Run one method with a budget of model fits.

    Parameters
    ----------
    trained : bool
        Whether the model learns from rows. The toy problem's does not: it needs no training rows,
        and in a setting that reuses rows the same ones serve for ratios and risks.
    """
    if method == "li" or method == "distbo":
        baseline = LearnedInitialisation if method == "li" else DistBO
        found = baseline(
            learner.model,
            learner.space,
            loss=learner.loss,
            n_trials=budget,
            sampler=setting.sampler,
            random_state=seed,
        ).fit(problem)
        return Choice(found.best_params_, None)
    shares: Callable[[ShiftProblem], Split] | tuple[float, float, float] | None = None
    if setting.reuses_rows and not trained:
        shares = all_rows
    elif setting.same_rows:
        shares = PAPER_SHARES
    weighted = trained and setting.weighted_training and method in ("unbiased", "variance_reduced")
    model = learner.model
    # For "unbiased" lambda is the same for all sources, so density ratios alone are the same.
    if weighted and method == "variance_reduced":
        split = problem.split(PAPER_SHARES, random_state=seed)
        shares = lambda _: split  # noqa: E731
        sites = np.repeat([site.name for site in split.train], [len(site) for site in split.train])
        model = VarianceReducedFit(model, sites, loss_named(learner.loss))
    search = ShiftSearch(
        model,
        learner.space,
        loss=learner.loss,
        risk=setting.risk(method),
        ratio=setting.ratio(seed),
        sampler=setting.sampler,
        n_trials=budget,
        shares=shares,
        training_weights="importance" if weighted else None,
        progress=False,
        random_state=seed,
    )
    with warnings.catch_warnings():
        # The table of runs has the number of sources left out.
        warnings.simplefilter("ignore", OverlapWarning)
        warnings.simplefilter("ignore", DataWarning)
        search.fit(problem)
    return Choice(search.best_params_, search.risk_)
