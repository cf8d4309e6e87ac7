"""The demonstration: what each estimator says, beside a truth that is known."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from shiftune.errors import OverlapWarning
from shiftune.paper import WORKED_EXAMPLE, toy_problem
from shiftune.problem import ShiftProblem
from shiftune.ratio import AutoRatio, site_weights
from shiftune.risk import estimate

if TYPE_CHECKING:
    from collections.abc import Callable

THETAS = np.linspace(-8, 8, 81)


def run() -> None:
    """Print the paper's worked example, then the toy problem with and without overlap."""
    _worked_example()
    for number, c in enumerate((1.0, 3.0, 5.0), start=2):
        _toy(number, c)
    _one_source_out_of_reach()


def _worked_example() -> None:
    example = WORKED_EXAMPLE
    print("1. The paper's worked example: two points, two sources, one row each\n")
    print(f"   true target risk {example.risk:.1f}")
    for number, div in enumerate(example.divergences, start=1):
        print(f"   divergence of source {number} from the target {div:8.2f}")
    for name, variance in example.variances.items():
        print(f"   variance, {name:<22} {variance:8.4f}")


def _toy(number: int, c: float) -> None:
    toy = toy_problem(c, random_state=7)
    mu_T, *mus = toy.sites.means[:, 0]
    where = ", ".join(f"{mu:+.2f}" for mu in mus)
    print(
        f"\n{number}. Toy problem, c = {c:g}: target centred at {mu_T:+.2f}, sources at {where}\n"
    )
    _table(toy.problem, toy.true_risk)


def _one_source_out_of_reach() -> None:
    """Add a source that has no rows near the target (trap for the published estimator)."""
    toy = toy_problem(2.0, k=3, random_state=3)
    rng = np.random.default_rng(0)
    x = rng.normal(14, 1, 1000)
    sites = {site.name: (site.X, site.labels) for site in toy.problem.sources}
    sites["far away"] = (x[:, None], 0.7 * x + 0.3 + rng.standard_normal(1000))
    oracle = toy.problem.oracle
    problem = ShiftProblem.from_sites(
        sites,
        toy.problem.target.X,
        oracle_labels=None if oracle is None else oracle.labels,
        task="regression",
    )
    print("\n5. Three sources that overlap, and one that has no rows near the target\n")
    overlap = problem.diagnose()
    for name, mean, verdict in zip(
        overlap.index, overlap["mean_weight"], overlap["verdict"], strict=True
    ):
        print(f"   {name:<9} mean weight {mean:9.2g}   {verdict}")
    print()
    _table(problem, toy.true_risk)


def _table(problem: ShiftProblem, true_risk: Callable[[float], float]) -> None:
    split = problem.split(random_state=0)
    ratio = AutoRatio().fit(problem.target.X, [site.X for site in split.density])
    weights = site_weights(ratio, split.validation)
    y = [site.labels for site in split.validation]
    truth = problem.oracle.labels if problem.oracle is not None else np.empty(0)
    best = min(true_risk(theta) for theta in THETAS)
    print(f"   density ratios: {', '.join(ratio.choice_)}")
    print(f"   {'estimator':<26}{'theta':>7}  {'says':>7} {'95 % interval':>18}  {'true risk':>9}")
    methods: dict[str, dict[str, Any]] = {
        "naive": {"method": "naive"},
        "unbiased": {"method": "unbiased"},
        "variance reduced": {"method": "variance_reduced"},
        "variance reduced, no guard": {"method": "variance_reduced", "guard": False},
        "oracle (target labels)": {"method": "oracle"},
    }
    for name, options in methods.items():
        labels, w = ([truth], None) if options["method"] == "oracle" else (y, weights)
        risks = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)
            for theta in THETAS:
                losses = [(theta - values) ** 2 / 2 for values in labels]
                risks.append(estimate(losses, w, **options))
        chosen = int(np.argmin([risk.value for risk in risks]))
        low, high = risks[chosen].interval()
        print(
            f"   {name:<26}{THETAS[chosen]:7.2f}  {risks[chosen].value:7.3f} "
            f"{f'{low:.3f} to {high:.3f}':>18}  {true_risk(THETAS[chosen]):9.3f}"
            + ("  (fell back: no source overlaps)" if risks[chosen].fallback else "")
        )
    print(f"   {'(best possible)':<26}{'':7}  {'':7} {'':18}  {best:9.3f}")
