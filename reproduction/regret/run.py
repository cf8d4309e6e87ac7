"""One search on one toy problem, with every term of the main theorem."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from optuna.distributions import FloatDistribution

from reproduction.regret.objective import SPACE, EstimatedRisk, Method
from reproduction.regret.plausible import lowest_plausible_value
from reproduction.theory import optimal_variance, regret_bound, variance_of_unbiased
from reproduction.toy import ToyProblem, toy_problem
from shiftune.errors import SettingsError
from shiftune.ratio._density import ratio_named
from shiftune.search._settings import sampler_named
from shiftune.search._storage import open_study
from shiftune.search.gp import VARIANCE_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Ratio = Literal["known", "logistic"]
Sampler = Literal["gp_lcb", "random"]

DELTAS = (0.1, 0.2)
# At a shift of 21 the variance of one weighted loss is 1e192; beyond, it overflows.
LARGEST_C = 20.0


@dataclass(frozen=True, slots=True)
class RegretRun:
    r"""One search on one toy problem, with every term of the theorem.

    Attributes
    ----------
    n, B, seed, c, method, ratio, sampler
        The task.
    theta_star, theta_hat, theta_B : float
        Minimiser of the true risk, of the estimated risk, and the best of B trials.
    regret : float
        True risk at `theta_B` less that at `theta_star`.
    R_n : float
        Estimated risk at `theta_B` less that at `theta_hat`: the optimiser's share.
    estimated_star, estimated_hat, estimated_chosen : float
        Estimated risk at the three.
    true_star, true_chosen : float
        True risk at the two.
    variance_star, variance_hat, variance_chosen : float
        True variance of the estimated risk at the three; NaN where the ratio is estimated.
    variance_plug_in, R_n_plug_in : float
        The user's counterparts: the empirical variance at `theta_B`, and the gap to the lowest
        value that is plausible under the Gaussian process.
    bound, plug_in : dict from delta to float
        The theorem's bound with true variances (or NaN), and with what a user has in their place.
    """

    n: int
    B: int
    seed: int
    c: float
    method: Method
    ratio: Ratio
    sampler: Sampler
    theta_star: float
    theta_hat: float
    theta_B: float  # noqa: N815
    regret: float
    R_n: float
    estimated_star: float
    estimated_hat: float
    estimated_chosen: float
    true_star: float
    true_chosen: float
    variance_star: float
    variance_hat: float
    variance_chosen: float
    variance_plug_in: float
    R_n_plug_in: float
    bound: dict[float, float]
    plug_in: dict[float, float]

    @property
    def terms(self) -> tuple[float, float, float]:
        """(A), (B) and (C) of the decomposition; their sum is the regret."""
        return (
            self.estimated_chosen - self.estimated_hat,
            self.true_chosen - self.estimated_chosen,
            self.estimated_hat - self.true_star,
        )

    def row(self) -> dict[str, Any]:
        """Return the run as a row of the study's table, one column per bound and delta."""
        values = asdict(self)
        for name in ("bound", "plug_in"):
            values |= {f"{name}_{delta}": bound for delta, bound in values.pop(name).items()}
        return values


def regret_run(
    n: int,
    B: int,
    seed: int,
    *,
    c: float = 2.0,
    method: Method = "variance_reduced",
    ratio: Ratio = "known",
    sampler: Sampler = "gp_lcb",
) -> RegretRun:
    r"""Search once on a toy problem with two sources, and hold the regret against its bound.

    Estimates are unguarded (``guard=False``), as published. The theorem is about fixed lambdas;
    those of the variance reduced estimator come from the data, and, as the paper does, the
    theorem is applied to it with the variance it would have with the true divergences.

    Parameters
    ----------
    n : int
        Labelled rows of each source on which theta is judged. An estimated ratio is fitted on as
        many further rows of each source and on n rows of the target.
    B : int
        Trials, theta between -8 and 8.
    seed : int
        Of the means, the rows and (in a stream of its own) the sampler. Known and estimated
        ratios, all methods and all samplers see the same rows; all n see the same means.
    c : float
        The source means are uniform in (-c, c), that of the target in (-1, 1).
    method : {"unbiased", "variance_reduced"}
    ratio : {"known", "logistic"}
    sampler : {"gp_lcb", "random"}

    Examples
    --------
    >>> run = regret_run(300, 10, seed=0)
    >>> run.regret < run.bound[0.2] < run.bound[0.1]
    True
    """
    return runs_for_budgets(n, (B,), seed, c, method, ratio, sampler)[0]


def runs_for_budgets(
    n: int, Bs: Sequence[int], seed: int, c: float, method: Method, ratio: Ratio, sampler: Sampler
) -> list[RegretRun]:
    """One run for every B: the first B trials of a longer search are the search with budget B."""
    check(n, Bs, seed, c, method, ratio, sampler)
    toy = toy_problem(c, n=2 * n, random_state=seed)
    objective = EstimatedRisk(toy, _weights(toy, n, ratio), method)
    star, hat = toy.best_theta, objective.minimiser()
    at_star, at_hat = objective.at(star), objective.at(hat)
    true_star = toy.true_risk(star)
    V_star, V_hat = (
        _true_variance(toy, theta, n, method) if ratio == "known" else np.nan
        for theta in (star, hat)
    )
    runs = []
    for B, theta, lowest in _searched(objective, sampler, seed, Bs):
        risk = objective.at(theta)
        V_B = _true_variance(toy, theta, n, method) if ratio == "known" else np.nan
        R_n = max(risk.value - at_hat.value, 0.0)
        R_n_plug_in, V = max(risk.value - lowest, 0.0), risk.variance
        runs.append(
            RegretRun(
                n=n,
                B=B,
                seed=seed,
                c=c,
                method=method,
                ratio=ratio,
                sampler=sampler,
                theta_star=star,
                theta_hat=hat,
                theta_B=theta,
                regret=toy.true_risk(theta) - true_star,
                R_n=R_n,
                estimated_star=at_star.value,
                estimated_hat=at_hat.value,
                estimated_chosen=risk.value,
                true_star=true_star,
                true_chosen=toy.true_risk(theta),
                variance_star=V_star,
                variance_hat=V_hat,
                variance_chosen=V_B,
                variance_plug_in=V,
                R_n_plug_in=R_n_plug_in,
                bound={delta: _bound(R_n, V_B, V_star, V_hat, delta) for delta in DELTAS},
                plug_in={delta: _bound(R_n_plug_in, V, V, V, delta) for delta in DELTAS},
            )
        )
    return runs


def _bound(R_n: float, V_B: float, V_star: float, V_hat: float, delta: float) -> float:
    return regret_bound(
        R_n,
        variance_chosen=V_B,
        variance_best=V_star,
        variance_best_estimated=V_hat,
        delta=delta,
    )


def _true_variance(toy: ToyProblem, theta: float, n: int, method: Method) -> float:
    variance = variance_of_unbiased if method == "unbiased" else optimal_variance
    return variance([n] * toy.sites.k, toy.divergences(theta))


def _weights(toy: ToyProblem, n: int, ratio: Ratio) -> list[Floats]:
    """Density ratios at the first n rows of every source, from its other rows."""
    density = toy.ratio if ratio == "known" else ratio_named(ratio)
    X = [site.X for site in toy.problem.sources]
    density.fit(toy.problem.target.X[:n], [x[n:] for x in X])
    return density.weights([x[:n] for x in X])


def _searched(
    objective: EstimatedRisk, sampler: Sampler, seed: int, Bs: Sequence[int]
) -> Iterator[tuple[int, float, float]]:
    """For every B: the best theta of the first B trials, and the lowest plausible value then."""
    study = open_study(None, {})  # ask and tell log nothing, unlike study.optimize
    # A stream of its own: the first trials should not be a function of the data's noise.
    own = np.random.SeedSequence([seed, 1]).generate_state(1)
    study.sampler = sampler_named(sampler, int(own[0]))
    for trials in range(1, max(Bs) + 1):
        trial = study.ask({"theta": FloatDistribution(*SPACE)})
        risk = objective.at(trial.params["theta"])
        trial.set_user_attr(VARIANCE_KEY, risk.variance)  # as ShiftSearch does
        study.tell(trial, risk.value)
        if trials in Bs:
            yield trials, study.best_params["theta"], lowest_plausible_value(study)


def check(
    n: int, Bs: Sequence[int], seed: int, c: float, method: str, ratio: str, sampler: str
) -> None:
    """Raise a SettingsError for a run that cannot be done."""
    for name, number, least in [("n", n, 10), *(("B", B, 1) for B in Bs), ("seed", seed, 0)]:
        if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < least:
            raise SettingsError(
                f"{name} must be a whole number of at least {least}, got {number!r}"
            )
    if not 0 < c <= LARGEST_C:
        raise SettingsError(f"c must lie above 0 and not above {LARGEST_C:g}, got {c!r}")
    known = {"method": (method, Method), "ratio": (ratio, Ratio), "sampler": (sampler, Sampler)}
    for name, (value, choices) in known.items():
        if value not in get_args(choices):
            raise SettingsError(f"{name} is one of {list(get_args(choices))}, got {value!r}")
