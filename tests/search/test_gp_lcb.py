"""The GP-LCB sampler: its mathematics, its manners in a study, and that it is a search at all."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)
from optuna.trial import TrialState, create_trial
from scipy.optimize import approx_fprime
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from threadpoolctl import threadpool_info, threadpool_limits

from shiftune.search.gp import _sampler as gp_lcb
from shiftune.search.gp._acquisition import LARGEST_GRID, UnitCube, keys, minimise_lower_bound
from shiftune.search.gp._gaussian_process import (
    Hyperparameters,
    Posterior,
    fit,
    log_marginal_likelihood,
    log_prior,
    squared_distances,
)
from shiftune.search.gp._sampler import (
    VARIANCE_KEY,
    GPLCBSampler,
    TrialHistory,
    spread_rows,
    standardise,
    tame,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

    Space = dict[str, BaseDistribution]
    Objective = Callable[[dict[str, Any]], float]

optuna.logging.set_verbosity(optuna.logging.WARNING)

SQUARE: Space = {"x": FloatDistribution(0.0, 1.0), "y": FloatDistribution(0.0, 1.0)}
LINE: Space = {"x": FloatDistribution(0.0, 1.0)}
MIXED: Space = {
    "rate": FloatDistribution(1e-4, 1.0, log=True),
    "leaves": IntDistribution(2, 200, log=True),
    "depth": IntDistribution(1, 9, step=2),
    "share": FloatDistribution(0.1, 0.9, step=0.1),
    "kind": CategoricalDistribution(["a", "b", None]),
    "fixed": IntDistribution(3, 3),
}


def bowl(p: dict[str, Any]) -> float:
    return float((p["x"] - 0.3) ** 2 + 2.0 * (p["y"] - 0.8) ** 2)


def mixed_bowl(p: dict[str, Any]) -> float:
    kind = {"a": 0.3, "b": 0.0, None: 0.6}[p["kind"]]
    rate = math.log10(p["rate"]) + 2
    return float(rate**2 + 0.1 * abs(p["depth"] - 5) + (p["share"] - 0.4) ** 2 + kind)


def run(
    sampler: BaseSampler,
    space: Space,
    objective: Objective,
    n_trials: int,
    study: optuna.Study | None = None,
    direction: str = "minimize",
) -> optuna.Study:
    study = study or optuna.create_study(direction=direction)
    study.sampler = sampler
    for _ in range(n_trials):
        trial = study.ask(space)
        study.tell(trial, objective(trial.params))
    return study


def proposals(study: optuna.Study) -> list[dict[str, Any]]:
    return [trial.params for trial in study.trials]


def distance(a: dict[str, Any], b: dict[str, Any]) -> float:
    return float(np.hypot(a["x"] - b["x"], a["y"] - b["y"]))


# Optuna's conformance suite -------------------------------------------------------------------


class TestConformance(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    """With the model from the first finished trial on; the suite's studies are short."""

    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: GPLCBSampler(n_startup_trials=1)


class TestConformanceOfDefaults(
    BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase
):
    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return GPLCBSampler


# The Gaussian process -------------------------------------------------------------------------


@pytest.fixture
def sample() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    cube = UnitCube({**SQUARE, "kind": CategoricalDistribution(["a", "b", "c"])})
    rows = cube.sample(rng, 15)
    return {
        "rows": rows,
        "y": np.sin(5 * rows[:, 0]) + rows[:, 1] + 0.1 * rng.standard_normal(15),
        "variances": rng.uniform(0.0, 0.3, 15),
        "groups": cube.groups,
    }


@pytest.mark.parametrize("seed", range(3))
def test_gradient_of_the_likelihood_is_that_of_finite_differences(
    sample: dict[str, Any], seed: int
) -> None:
    theta = np.random.default_rng(seed).normal(-0.5, 0.7, 5)
    distances = squared_distances(sample["rows"], sample["groups"])
    assert distances.shape == (3, 15, 15)
    args = (distances, sample["y"], sample["variances"])
    numeric = approx_fprime(theta, lambda t: log_marginal_likelihood(t, *args)[0], 1e-6)
    np.testing.assert_allclose(log_marginal_likelihood(theta, *args)[1], numeric, atol=2e-4)
    numeric = approx_fprime(theta, lambda t: log_prior(t)[0], 1e-6)
    np.testing.assert_allclose(log_prior(theta)[1], numeric, atol=1e-4)


def sklearn_gp(sample: dict[str, Any], h: Hyperparameters) -> GaussianProcessRegressor:
    kernel = ConstantKernel(h.signal) * Matern(h.length_scales[sample["groups"]], nu=2.5)
    alpha = h.noise + sample["variances"]
    return GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None).fit(
        sample["rows"], sample["y"]
    )


def test_posterior_and_likelihood_are_those_of_scikit_learn(sample: dict[str, Any]) -> None:
    h = Hyperparameters(np.array([0.4, 0.9, 0.7]), signal=1.7, noise=0.02)
    theirs = sklearn_gp(sample, h)
    ours = Posterior(**sample, hyperparameters=h)
    rows = np.random.default_rng(1).random((20, 5))
    mean, sd = theirs.predict(rows, return_std=True)
    np.testing.assert_allclose(ours.predict(rows)[0], mean, atol=1e-9)
    np.testing.assert_allclose(ours.predict(rows)[1], sd, atol=1e-7)
    theta = np.log(np.r_[h.length_scales, h.signal, h.noise])
    value, _ = log_marginal_likelihood(
        theta,
        squared_distances(sample["rows"], sample["groups"]),
        sample["y"],
        sample["variances"],
    )
    assert value == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-8)


def test_posterior_of_one_value_in_closed_form() -> None:
    h = Hyperparameters(np.array([0.5]), signal=2.0, noise=0.1)
    posterior = Posterior(np.array([[0.2]]), np.array([3.0]), np.array([0.4]), np.array([0]), h)
    s = math.sqrt(5.0) * 0.3 / 0.5
    k = 2.0 * (1 + s + s * s / 3) * math.exp(-s)
    mean, sd = posterior.predict(np.array([[0.5]]))
    assert mean[0] == pytest.approx(3.0 * k / 2.5)
    assert sd[0] == pytest.approx(math.sqrt(2.0 - k * k / 2.5))


@pytest.mark.parametrize("with_pending", [False, True])
def test_gradient_of_the_bound_is_that_of_finite_differences(
    sample: dict[str, Any], with_pending: bool
) -> None:
    h = Hyperparameters(np.array([0.4, 0.9, 0.7]), signal=1.7, noise=0.02)
    pending = np.full((1, 5), 0.5) if with_pending else None
    posterior = Posterior(**sample, hyperparameters=h, pending=pending)
    row = np.array([0.31, 0.62, 0.1, 0.3, 0.2])
    value, gradient = posterior.lower_bound_gradient(row, 2.0)
    assert value == pytest.approx(posterior.lower_bound(row[None, :], 2.0)[0], abs=1e-9)
    numeric = approx_fprime(row, lambda r: posterior.lower_bound_gradient(r, 2.0)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, atol=1e-5)


def test_pending_rows_are_values_equal_to_the_mean(sample: dict[str, Any]) -> None:
    h = Hyperparameters(np.array([0.4, 0.9, 0.7]), signal=1.7, noise=0.02)
    pending, rows = np.random.default_rng(2).random((2, 4, 5))
    with_pending = Posterior(**sample, hyperparameters=h, pending=pending)
    imagined, _ = Posterior(**sample, hyperparameters=h).predict(pending)
    explicit = Posterior(
        np.vstack([sample["rows"], pending]),
        np.r_[sample["y"], imagined],
        np.r_[sample["variances"], np.zeros(4)],
        sample["groups"],
        h,
    )
    np.testing.assert_allclose(with_pending.predict(rows), explicit.predict(rows), atol=1e-8)


@threadpool_limits.wrap(limits=1, user_api="blas")
def test_fit_finds_the_relevant_parameter_and_the_noise() -> None:
    rng = np.random.default_rng(0)
    rows = rng.random((60, 2))
    clean = np.sin(9 * rows[:, 0])
    groups = np.arange(2)
    h = fit(rows, (clean - clean.mean()) / clean.std(), np.zeros(60), groups)
    assert 4 * h.length_scales[0] < h.length_scales[1]
    assert h.noise < 1e-3
    noisy = clean + 0.5 * rng.standard_normal(60)
    scale = noisy.std()
    noisy = (noisy - noisy.mean()) / scale
    assert fit(rows, noisy, np.zeros(60), groups).noise == pytest.approx(0.25 / scale**2, rel=0.6)
    # The same noise, but known: nothing is left for the fitted one.
    known = np.full(60, 0.25 / scale**2)
    assert fit(rows, noisy, known, groups).noise < 0.2 * 0.25 / scale**2


# The acquisition ------------------------------------------------------------------------------


def acquisition_problem() -> tuple[Posterior, UnitCube, np.ndarray[Any, Any]]:
    cube = UnitCube(SQUARE)
    rows = cube.sample(np.random.default_rng(3), 8)
    y, v, _, _ = standardise(np.array([bowl(cube.decode(row)) for row in rows]), np.zeros(8))
    h = fit(rows, y, v, cube.groups)
    return Posterior(rows, y, v, cube.groups, h), cube, rows


def test_the_bound_is_minimised_and_not_constant() -> None:
    posterior, cube, rows = acquisition_problem()
    axis = np.linspace(0.0, 1.0, 101)
    lattice = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    for beta in (0.0, 2.0, 5.0):
        bounds = posterior.lower_bound(lattice, beta)
        assert np.ptp(bounds) > 0.5
        found = minimise_lower_bound(
            posterior, cube, beta, np.random.default_rng(0), rows, keys(rows)
        )
        assert posterior.lower_bound(found[None, :], beta)[0] <= bounds.min() + 1e-3


def test_beta_counts_standard_deviations() -> None:
    posterior, _, _ = acquisition_problem()
    rows = np.random.default_rng(0).random((10, 2))
    mean, sd = posterior.predict(rows)
    np.testing.assert_allclose(posterior.lower_bound(rows, 3.0), mean - 3.0 * sd)
    np.testing.assert_allclose(
        [posterior.lower_bound_gradient(row, 3.0)[0] for row in rows], mean - 3.0 * sd, atol=1e-9
    )


def test_the_samplers_beta_reaches_the_bound_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def spy(posterior: Posterior, cube: UnitCube, beta: float, *args: Any) -> Any:
        seen.append(beta)
        return minimise_lower_bound(posterior, cube, beta, *args)

    monkeypatch.setattr(gp_lcb, "minimise_lower_bound", spy)
    run(GPLCBSampler(seed=0), SQUARE, bowl, 7)
    run(GPLCBSampler(seed=0, beta=3.0), SQUARE, bowl, 6)
    assert seen == [2.0, 2.0, 3.0]


# It is a search -------------------------------------------------------------------------------


def best_after(sampler: BaseSampler, space: Space, objective: Objective, n: int) -> float:
    return run(sampler, space, objective, n).best_value


@pytest.mark.parametrize(("space", "objective"), [(SQUARE, bowl), (MIXED, mixed_bowl)])
def test_it_is_no_random_search(space: Space, objective: Objective) -> None:
    # Chance of 8 wins in 8 for two equal samplers: 0.4 %.
    pairs = [
        (
            best_after(GPLCBSampler(seed=seed), space, objective, 25),
            best_after(optuna.samplers.RandomSampler(seed=seed), space, objective, 25),
        )
        for seed in range(8)
    ]
    assert all(ours < random for ours, random in pairs)
    assert np.median([ours for ours, _ in pairs]) < 0.3 * np.median([r for _, r in pairs])


def test_the_first_trials_are_random_and_the_next_is_not() -> None:
    wide = run(GPLCBSampler(seed=0, n_startup_trials=8), SQUARE, bowl, 9)
    narrow = run(GPLCBSampler(seed=0, n_startup_trials=5), SQUARE, bowl, 9)
    other = run(GPLCBSampler(seed=0, n_startup_trials=8), SQUARE, lambda p: -bowl(p), 9)
    assert proposals(wide)[:5] == proposals(narrow)[:5]
    assert proposals(wide)[5] != proposals(narrow)[5]
    assert proposals(wide)[:8] == proposals(other)[:8]
    assert proposals(wide)[8] != proposals(other)[8]


def test_maximising_is_minimising_the_negative() -> None:
    down = run(GPLCBSampler(seed=1), MIXED, mixed_bowl, 15)
    up = run(GPLCBSampler(seed=1), MIXED, lambda p: -mixed_bowl(p), 15, direction="maximize")
    assert proposals(down) == proposals(up)


def test_scale_and_offset_of_the_objective_do_not_matter() -> None:
    plain = run(GPLCBSampler(seed=1), SQUARE, bowl, 12).trials[-1].params
    scaled = run(GPLCBSampler(seed=1), SQUARE, lambda p: 1e6 * bowl(p) - 1e5, 12).trials[-1].params
    assert distance(plain, scaled) < 1e-2


# Noise ----------------------------------------------------------------------------------------


def line_study(variance: float | None) -> optuna.Study:
    """Falls towards x = 0, but the trials about 0.9 claim to be far better."""
    study = optuna.create_study(sampler=GPLCBSampler(seed=0, beta=0.5))
    for x in [0.0, 0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 0.9, 0.95]:
        lie = x > 0.8
        study.add_trial(
            create_trial(
                params={"x": x},
                distributions=LINE,
                value=-1.0 if lie else x,
                user_attrs={VARIANCE_KEY: variance} if lie and variance is not None else {},
            )
        )
    return study


def test_a_trial_with_a_huge_variance_is_hardly_believed() -> None:
    for variance in (None, 0.0, 1e-4):
        assert line_study(variance).ask(LINE).params["x"] > 0.8
    for variance in (1e3, 1e12, math.inf):
        assert line_study(variance).ask(LINE).params["x"] < 0.2


def test_variances_are_on_the_scale_of_the_values() -> None:
    y, v, _, _ = standardise(np.array([0.0, 10.0, 20.0]), np.full(3, 4.0))
    np.testing.assert_allclose(v, 4.0 / np.var([0.0, 10.0, 20.0]), rtol=1e-6)
    np.testing.assert_allclose(y, np.array([-10.0, 0.0, 10.0]) / np.std([0.0, 10.0, 20.0]))


@pytest.mark.parametrize("wrong", [-1.0, math.nan, "much", [1.0]])
def test_what_is_no_variance_is_named_and_ignored(wrong: object) -> None:
    study = run(GPLCBSampler(seed=0), SQUARE, bowl, 6)
    expected = run(GPLCBSampler(seed=0), SQUARE, bowl, 7).trials[-1].params
    broken = optuna.create_study(sampler=GPLCBSampler(seed=0))
    for trial in study.trials:
        attrs = {VARIANCE_KEY: wrong} if trial.number == 2 else {}
        broken.add_trial(
            create_trial(
                params=trial.params, distributions=SQUARE, value=trial.value, user_attrs=attrs
            )
        )
    with pytest.warns(UserWarning, match=r"trial 2 .*risk_variance.*expected a number >= 0"):
        assert broken.ask(SQUARE).params == expected


# Trials that are running, failed, pruned or infinite ------------------------------------------


def test_parallel_asks_are_apart() -> None:
    study = run(GPLCBSampler(seed=0), SQUARE, bowl, 8)
    asked = [study.ask(SQUARE).params for _ in range(4)]
    gaps = [distance(a, b) for i, a in enumerate(asked) for b in asked[:i]]
    assert min(gaps) > 0.02


def test_failed_trials_are_not_proposed_again() -> None:
    study = run(GPLCBSampler(seed=0), SQUARE, bowl, 8)
    failed = []
    for _ in range(4):
        trial = study.ask(SQUARE)
        study.tell(trial, state=TrialState.FAIL)
        failed.append(trial.params)
    gaps = [distance(a, b) for i, a in enumerate(failed) for b in failed[:i]]
    assert min(gaps) > 0.02


def test_values_that_are_not_numbers_break_nothing() -> None:
    values = iter([1.0, math.inf, math.nan, -math.inf, 2.0, 3.0, math.inf, 0.5] + [1.0] * 12)
    study = optuna.create_study(sampler=GPLCBSampler(seed=0, n_startup_trials=2))
    for value in values:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            trial = study.ask(MIXED)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The value nan is not acceptable")
            study.tell(trial, value)
    assert [t.state for t in study.trials].count(TrialState.FAIL) == 1
    assert len({tuple(p.values()) for p in proposals(study)}) == 20


def test_a_study_of_infinite_values_goes_on() -> None:
    study = run(GPLCBSampler(seed=0, n_startup_trials=2), SQUARE, lambda _: math.inf, 8)
    assert len({tuple(p.values()) for p in proposals(study)}) == 8


def test_pruned_trials_count_but_are_never_the_best() -> None:
    stopped = np.array([False, False, False, True, True])
    y = tame(np.array([1.0, 2.0, 3.0, -9.0, 2.5]), np.zeros(5), stopped)
    assert y.tolist() == [1.0, 2.0, 3.0, 2.0, 2.5]


def test_the_fence_leaves_noise_alone() -> None:
    y, nobody = np.array([1.0, 2.0, 3.0, 9.0, 9.0]), np.zeros(5, dtype=bool)
    assert tame(y, np.zeros(5), nobody).tolist() == [1.0, 2.0, 3.0, 5.0, 5.0]
    assert tame(y, np.array([0.0, 0.0, 0.0, 9.0, 0.0]), nobody).tolist() == [
        1.0,
        2.0,
        3.0,
        9.0,
        5.0,
    ]
    assert tame(y, np.full(5, np.inf), nobody).tolist() == y.tolist()


def test_pruned_trials_move_the_next_proposal_and_unreported_ones_break_nothing() -> None:
    def ask(report: float | None) -> dict[str, Any]:
        study = run(GPLCBSampler(seed=0), SQUARE, bowl, 6)
        trial = study.ask(SQUARE)
        if report is not None:
            trial.report(report, step=1)
        study.tell(trial, state=TrialState.PRUNED)
        return study.ask(SQUARE).params

    assert len({tuple(ask(report).values()) for report in (None, 0.2, 3.0)}) == 3
    assert ask(math.nan) == ask(None)


def test_one_diverged_trial_does_not_flatten_the_others() -> None:
    def diverging(p: dict[str, Any]) -> float:
        return 1e9 if p["x"] > 0.9 else bowl(p)

    regrets = [best_after(GPLCBSampler(seed=s), SQUARE, diverging, 20) for s in range(4)]
    assert np.median(regrets) < 2e-3


# Repeatability --------------------------------------------------------------------------------


@pytest.mark.parametrize(("space", "objective"), [(SQUARE, bowl), (MIXED, mixed_bowl)])
def test_same_seed_same_trials(space: Space, objective: Objective) -> None:
    first, second, other = (
        proposals(run(GPLCBSampler(seed=seed), space, objective, 12)) for seed in (7, 7, 8)
    )
    assert first == second
    assert first[:3] != other[:3]


@pytest.mark.parametrize("stop", [2, 5, 9])
def test_a_resumed_study_goes_on_as_if_never_stopped(stop: int) -> None:
    whole = run(GPLCBSampler(seed=3), MIXED, mixed_bowl, 12)
    resumed = run(GPLCBSampler(seed=3), MIXED, mixed_bowl, stop)
    resumed = run(GPLCBSampler(seed=3), MIXED, mixed_bowl, 12 - stop, study=resumed)
    assert proposals(whole) == proposals(resumed)


def test_define_by_run_and_ask_with_a_space_start_alike() -> None:
    by_run = optuna.create_study(sampler=GPLCBSampler(seed=3))
    by_run.optimize(
        lambda t: bowl({"x": t.suggest_float("x", 0, 1), "y": t.suggest_float("y", 0, 1)}),
        n_trials=8,
    )
    assert proposals(by_run) == proposals(run(GPLCBSampler(seed=3), SQUARE, bowl, 8))


def test_one_sampler_serves_several_studies() -> None:
    sampler = GPLCBSampler(seed=3)
    run(sampler, MIXED, mixed_bowl, 8)
    second = run(sampler, SQUARE, bowl, 8)
    assert proposals(second) == proposals(run(GPLCBSampler(seed=3), SQUARE, bowl, 8))


def test_reseeding_and_unseeded_samplers_differ() -> None:
    sampler = GPLCBSampler(seed=3)
    sampler.reseed_rng()
    assert proposals(run(sampler, SQUARE, bowl, 1)) != proposals(
        run(GPLCBSampler(seed=3), SQUARE, bowl, 1)
    )
    unseeded = GPLCBSampler()
    copies = [copy.deepcopy(unseeded), pickle.loads(pickle.dumps(unseeded))]
    first, second = (proposals(run(each, SQUARE, bowl, 1)) for each in copies)
    assert first != second


def test_global_state_is_left_alone() -> None:
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()  # noqa: NPY002
    with threadpool_limits(limits=2, user_api="blas"):
        threads = [pool["num_threads"] for pool in threadpool_info()]
        run(GPLCBSampler(seed=0), SQUARE, bowl, 8)
        assert [pool["num_threads"] for pool in threadpool_info()] == threads
    after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_blas_has_one_thread_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def spy(*args: Any) -> Any:
        seen.extend(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas")
        return fit(*args)

    monkeypatch.setattr(gp_lcb, "fit", spy)
    with threadpool_limits(limits=2, user_api="blas"):
        run(GPLCBSampler(seed=0), SQUARE, bowl, 6)
    assert seen
    assert set(seen) == {1}


# Spaces ---------------------------------------------------------------------------------------

floats = st.floats(-100, 100).map(lambda v: round(v, 3))
widths = st.floats(0.001, 100).map(lambda v: round(v, 3))


@st.composite
def distributions(draw: st.DrawFn) -> BaseDistribution:
    with warnings.catch_warnings():
        # Optuna says so when a step does not divide its range, and shortens the range.
        warnings.simplefilter("ignore")
        return draw_distribution(draw)


def draw_distribution(draw: st.DrawFn) -> BaseDistribution:
    kind = draw(st.sampled_from(["float", "log", "step", "int", "log int", "choice"]))
    if kind == "choice":
        return CategoricalDistribution(draw(st.lists(st.integers(), min_size=1, unique=True)))
    if kind == "int":
        low, size = draw(st.integers(-(10**6), 10**6)), draw(st.integers(0, 10**6))
        return IntDistribution(low, low + size, step=draw(st.integers(1, 50)))
    if kind == "log int":
        low = draw(st.integers(1, 1000))
        return IntDistribution(low, low + draw(st.integers(0, 10**6)), log=True)
    if kind == "log":
        start = draw(st.floats(1e-8, 10))
        return FloatDistribution(start, start * draw(st.floats(1, 1e8)), log=True)
    start = draw(floats)
    step = draw(widths) if kind == "step" else None
    return FloatDistribution(start, start + draw(widths), step=step)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(distributions(), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_every_proposal_is_valid(found: list[BaseDistribution], seed: int) -> None:
    space = {f"p{i}": distribution for i, distribution in enumerate(found)}
    rng = np.random.default_rng(seed)
    study = run(
        GPLCBSampler(seed=seed, n_startup_trials=2), space, lambda _: float(rng.normal()), 5
    )
    for trial in study.trials:
        assert trial.state == TrialState.COMPLETE
        for name, distribution in space.items():
            value = trial.params[name]
            assert distribution._contains(distribution.to_internal_repr(value))
            if isinstance(distribution, IntDistribution):
                assert type(value) is int


@settings(max_examples=100, deadline=None, derandomize=True)
@given(distributions(), st.integers(0, 2**32 - 1))
def test_cube_and_values_are_inverse(distribution: BaseDistribution, seed: int) -> None:
    cube = UnitCube({"p": distribution})
    rows = cube.sample(np.random.default_rng(seed), 5)
    assert np.all((rows >= 0) & (rows <= 1))
    again = cube.encode([cube.decode(row) for row in rows])
    if not distribution.single():
        np.testing.assert_allclose(again, rows, atol=1e-6)
    for row in cube.neighbours(rows[0]):
        assert distribution._contains(distribution.to_internal_repr(cube.decode(row)["p"]))
        np.testing.assert_allclose(cube.encode([cube.decode(row)])[0], row, atol=1e-6)


def test_every_value_of_a_grid_has_the_same_chance() -> None:
    cube = UnitCube({"p": IntDistribution(1, 4)})
    np.testing.assert_array_equal(cube.encode([{"p": 1}, {"p": 4}]), [[0.125], [0.875]])
    rows = cube.sample(np.random.default_rng(0), 4000)
    counts = np.unique([cube.decode(row)["p"] for row in rows], return_counts=True)[1]
    # sd of a count is 27.
    np.testing.assert_allclose(counts, 1000, atol=110)


def test_the_widest_float_range() -> None:
    space: Space = {"p": FloatDistribution(-1.7e308, 1.7e308)}
    study = run(GPLCBSampler(seed=0, n_startup_trials=2), space, lambda p: abs(p["p"]) / 1e308, 8)
    assert min(abs(p["p"]) for p in proposals(study)[2:]) < 0.05e308


@pytest.mark.parametrize("size", [6, LARGEST_GRID])
def test_discrete_points_are_not_tried_twice(size: int) -> None:
    space: Space = {
        "n": IntDistribution(1, size),
        "kind": CategoricalDistribution(["a", "b"]),
    }
    study = run(GPLCBSampler(seed=0), space, lambda p: abs(p["n"] - 3) + (p["kind"] == "a"), 12)
    # The five random ones may repeat each other.
    later = [tuple(p.values()) for p in proposals(study)[5:]]
    earlier = {tuple(p.values()) for p in proposals(study)[:5]}
    assert len(set(later) | earlier) == min(len(later) + len(earlier), 2 * size)


def test_an_exhausted_space_goes_on() -> None:
    study = run(GPLCBSampler(seed=0), {"n": IntDistribution(1, 3)}, lambda p: p["n"], 10)
    assert len(study.trials) == 10


def test_conditional_parameters_do_not_stop_a_repeated_choice() -> None:
    """Only kind and n are modelled; the best pair is worth another try, its x will differ."""

    def objective(trial: optuna.Trial) -> float:
        kind = trial.suggest_categorical("kind", ["good", "bad"])
        n = trial.suggest_int("n", 1, 20)
        x = trial.suggest_float("x", 0.0, 1.0) if kind == "good" else 0.5
        return abs(n - 8) / 4 + 0.3 * x + (kind == "bad")

    study = optuna.create_study(sampler=GPLCBSampler(seed=0))
    study.optimize(objective, n_trials=30)
    pairs = Counter((t.params["kind"], t.params["n"]) for t in study.trials)
    assert pairs["good", 8] >= 3


def test_several_objectives_are_refused() -> None:
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=GPLCBSampler())
    with pytest.raises(ValueError, match="one objective, got 2"):
        study.ask(SQUARE)


@pytest.mark.parametrize(
    "options", [{"beta": -1.0}, {"beta": math.nan}, {"n_startup_trials": -1}, {"seed": -1}]
)
def test_impossible_options_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        GPLCBSampler(**options)


@pytest.mark.parametrize("seed", range(4))
def test_parallel_threads_do_not_repeat_each_other(seed: int) -> None:
    study = optuna.create_study(sampler=GPLCBSampler(seed=seed))
    study.optimize(
        lambda t: bowl({"x": t.suggest_float("x", 0, 1), "y": t.suggest_float("y", 0, 1)}),
        n_trials=16,
        n_jobs=3,
    )
    assert len({tuple(p.values()) for p in proposals(study)}) == 16


def test_a_proposal_counts_before_its_parameters_are_stored() -> None:
    study = run(GPLCBSampler(seed=0), SQUARE, bowl, 8)
    trials = [study.ask() for _ in range(3)]
    proposed = [trial.relative_params for trial in trials]
    assert not any(trial.params for trial in trials)
    assert min(distance(a, b) for i, a in enumerate(proposed) for b in proposed[:i]) > 0.02


def test_a_space_that_no_trial_has_used() -> None:
    study = run(GPLCBSampler(seed=0), SQUARE, bowl, 6)
    found = study.sampler.sample_relative(study, study.ask()._cached_frozen_trial, LINE | MIXED)
    assert found.keys() == LINE.keys() | MIXED.keys()


def test_a_given_space_is_modelled_from_the_trials_that_have_it() -> None:
    """Trials of other parameters, better ones too, change nothing but the trials' numbers."""
    given = GPLCBSampler(seed=0, space=SQUARE)
    study = run(given, SQUARE, bowl, 4)
    run(GPLCBSampler(seed=0), {"rate": MIXED["rate"]}, lambda p: -p["rate"], 6, study=study)
    study.tell(study.ask(), -1.0)  # no parameters at all
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GPLCBSampler, "_propose", lambda *args: pytest.fail("too early"))
        run(given, SQUARE, bowl, 1, study=study)
    run(given, SQUARE, bowl, 15, study=study)
    found = [p for p in proposals(study) if "x" in p]
    assert min(distance(p, {"x": 0.3, "y": 0.8}) for p in found) < 0.05
    assert GPLCBSampler(seed=0, space={}).infer_relative_search_space(study, study.trials[0]) == {}


def test_another_space_keeps_the_settings() -> None:
    sampler = GPLCBSampler(seed=4, beta=1.0, n_startup_trials=2)
    study = run(sampler.for_space(SQUARE), SQUARE, bowl, 6)
    other = GPLCBSampler(seed=4, beta=1.0, n_startup_trials=2, space=SQUARE)
    assert proposals(study) == proposals(run(other, SQUARE, bowl, 6))


def _bowl(n: int) -> TrialHistory:
    space = {"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}
    trials = [
        create_trial(
            value=float(np.sum((point - 0.3) ** 2)),
            params=dict(zip("xy", map(float, point), strict=True)),
            distributions=space,
        )
        for point in np.random.default_rng(0).random((n, 2))
    ]
    return TrialHistory.read(trials, UnitCube(space), space, StudyDirection.MINIMIZE, {})


def test_of_many_trials_half_are_the_best_and_the_others_cover_the_space() -> None:
    history = _bowl(400)
    few = history.thinned(60)
    assert len(few.rows) == len(few.y) == len(few.variances) == 60
    assert np.sort(history.y)[:30].mean() > few.y.min() - 1e-9
    assert np.median(few.y) < 0.5 * np.median(history.y)
    random = history.rows[np.random.default_rng(1).choice(400, 60, replace=False)]

    def hole(kept: Any) -> float:  # largest distance of any trial to a kept one
        apart = np.linalg.norm(history.rows[:, None] - kept, axis=2)
        return float(apart.min(axis=1).max())

    assert hole(few.rows) < 0.9 * hole(random)
    assert _bowl(20).thinned(20).rows.shape == (20, 2)


def test_the_farthest_trial_is_added() -> None:
    rows = np.array([[0.0], [0.1], [1.0], [0.9]])
    assert spread_rows(rows, np.array([0]), 2).tolist() == [0, 2]


def test_equal_trials_are_not_added_to_spread_the_others() -> None:
    rows = np.repeat(np.linspace(0, 1, 20), 20)[:, None]
    kept = spread_rows(rows, np.arange(5), 250)
    assert len(np.unique(kept)) == len(kept) == 24
    assert len(np.unique(rows[kept])) == 20


def test_many_noisy_trials_do_not_make_a_region_look_good() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0, 0.4, 300), rng.uniform(0.6, 1.0, 300)])[:, None]
    noise = np.where(x[:, 0] < 0.5, 0.5, 0.01)
    y = np.where(x[:, 0] < 0.5, 0.1, 0.0) + noise * rng.standard_normal(600)
    empty = np.empty((0, 1))
    few = TrialHistory(x, y, noise**2, empty, empty).thinned(150)
    noisy = few.rows[:, 0] < 0.5
    # Kept at random, they would have a mean of 0.1 with this standard error.
    assert abs(few.y[noisy].mean() - 0.1) < 3.5 * 0.5 / np.sqrt(noisy.sum())


def test_the_process_has_no_more_rows_than_it_may_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def counting(rows: Any, *given: Any) -> Posterior:
        sizes.append(len(rows))
        return Posterior(rows, *given)

    monkeypatch.setattr(gp_lcb, "Posterior", counting)
    monkeypatch.setattr(GPLCBSampler, "most_rows", 12)
    study = optuna.create_study(sampler=GPLCBSampler(seed=0))
    study.optimize(lambda trial: trial.suggest_float("x", -5, 5) ** 2, n_trials=20)
    assert max(sizes) == 12
    assert abs(study.best_params["x"]) < 0.1
