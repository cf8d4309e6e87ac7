"""Checks of what can make a result worthless, through small searches."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from optuna.distributions import FloatDistribution
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from shiftune import ShiftProblem, ShiftSearch
from shiftune.checks import Trust
from shiftune.checks._label_shift import LabelShift, label_shift
from shiftune.checks._of_data import (
    _outside,
    _share,
    extrapolation_check,
    leakage_check,
    prevalence_check,
)
from shiftune.checks._of_result import enough_check, skill_check, tail_share
from shiftune.errors import DataWarning
from shiftune.evaluate._fits import best_constant, constant_predictions
from shiftune.evaluate._losses import loss_named
from shiftune.problem import Site

SITES = "TABCDEF"


def table(rng, signal=1.0, classes=False, target=0.0, n=90):
    """Seven sites with columns x and z, of which x matters; the target is T."""
    frames = []
    for name in SITES:
        shift = target if name == "T" else rng.normal(0, 0.3)
        x, z = rng.normal(shift, 1, n), rng.normal(0, 1, n)
        y = signal * x + 0.3 * signal * x**2 + rng.normal(0, 1, n)
        label = np.where(y > 0.5, "yes", "no") if classes else y
        frames.append(pd.DataFrame({"site": name, "x": x, "z": z, "y": label}))
    return pd.concat(frames, ignore_index=True)


def searched(frame, **settings):
    problem = ShiftProblem.from_frame(
        frame, site="site", label="y", target="T", target_labels="oracle"
    )
    if problem.task == "regression":
        model, space = Ridge(), {"alpha": FloatDistribution(0.01, 1e3, log=True)}
    else:
        model, space = LogisticRegression(), {"C": FloatDistribution(0.01, 1e2, log=True)}
    search = ShiftSearch(model, space, n_trials=3, sampler="random", progress=False, **settings)
    return search.fit(problem)


@pytest.fixture(scope="module")
def sound():
    return searched(table(np.random.default_rng(0), signal=2.0, classes=True))


def test_a_model_with_skill(sound):
    check = skill_check(sound.result_)
    assert check.level == "ok"
    assert check.figures["chance_of_none"] < 0.05


def test_a_model_without_skill_is_not_to_be_used():
    # Noise alone: the line adds variance, so a constant is better, by d / n on average.
    searches = [searched(table(np.random.default_rng(i), signal=0.0, n=30)) for i in range(4, 8)]
    levels = [skill_check(search.result_).level for search in searches]
    assert "ok" not in levels
    assert "problem" in levels
    for search in searches:
        check = skill_check(search.result_)
        assert ("may be" in check.finding) == (check.level == "caution")
    bad = searches[levels.index("problem")]
    assert bad.verdict_.trust is Trust.DO_NOT_USE
    assert "no better than a constant" in str(bad.verdict_)


def test_the_constant_of_a_site_is_learned_from_the_others(sound):
    data = sound.result_.context.data
    constant = constant_predictions(data, sound.result_.loss)
    own = data.validation_rows(["A"])
    others = data.y_train[data.train_folds != data.folds[own][0]]
    assert len(others) < len(data.y_train)
    expected = (np.sum(others == "yes") + 0.5) / (len(others) + 1)
    assert constant[own][:, 1] == pytest.approx(expected)


def test_no_column_leaks(sound):
    assert leakage_check(sound.result_).level == "ok"


@pytest.mark.parametrize(
    ("leak", "level"),
    [
        (lambda y, rng: (y == "yes") * 1.0, "problem"),
        (lambda y, rng: (y == "yes") ^ (rng.random(len(y)) < 0.01), "caution"),
    ],
)
def test_a_column_that_gives_the_label_away_is_named(leak, level):
    rng = np.random.default_rng(1)
    frame = table(rng, classes=True)
    frame["outcome_code"] = leak(frame["y"].to_numpy(), rng)
    check = leakage_check(searched(frame).result_)
    assert check.level == level
    assert "'outcome_code'" in check.finding


def test_shares_near_one_have_a_decimal():
    assert [_share(0.9971), _share(0.44)] == ["99.7 %", "44 %"]


def test_a_quantity_that_gives_the_label_away_is_named():
    rng = np.random.default_rng(2)
    frame = table(rng)
    frame["copy"] = 3 * frame["y"] + rng.normal(0, 0.01, len(frame))
    check = leakage_check(searched(frame).result_)
    assert check.level == "problem"
    assert "'copy'" in check.finding


def test_a_target_within_reach(sound):
    assert extrapolation_check(sound.result_).level == "ok"


@pytest.mark.filterwarnings("ignore:the target lies outside")
def test_a_target_beyond_reach_is_announced():
    search = searched(table(np.random.default_rng(3), target=3.0))
    check = extrapolation_check(search.result_)
    assert check.level == "problem"
    assert re.match(r"\d\d rows of the target \(\d\d %\) lie at the edge", check.finding)
    assert "'x'" in check.finding
    assert "'z'" not in check.finding
    assert search.verdict_.trust is Trust.DO_NOT_USE


@pytest.mark.filterwarnings("ignore:the target lies outside")
def test_categories_that_no_source_has():
    frame = table(np.random.default_rng(3))
    own = frame["site"] == "T"
    frame["ward"] = np.where(own & (own.cumsum() % 2 == 0), "new", "old")
    roles = {"site": "site", "label": "y", "target": "T", "target_labels": "oracle"}
    with pytest.warns(DataWarning, match="45 rows of the target .50 %. have categories that no"):
        problem = ShiftProblem.from_frame(frame, **roles)
    search = ShiftSearch("linear", n_trials=3, sampler="random", progress=False).fit(problem)
    check = extrapolation_check(search.result_)
    assert check.level == "caution"
    assert (
        "45 rows of the target (50 %) have a category that no source has in 'ward'" in check.finding
    )


def test_share_outside_the_range_of_the_sources():
    assert _outside(np.array([50.0, 200.0]), np.arange(101.0)) == 0.5


def test_a_column_that_has_moved_within_reach_is_in_order():
    frame = table(np.random.default_rng(4))
    frame.loc[frame["site"] == "T", "z"] += 1.0
    assert extrapolation_check(searched(frame).result_).level == "ok"


def drawn(rng, share, n=300):
    y = (rng.random(n) < share).astype(int)
    return rng.normal(1.5 * y[:, None], 1, (n, 2)), y


def problem_of(rng, shares, target):
    frames = []
    for name, share in zip("TABCDEF", [target, *shares], strict=True):
        X, y = drawn(rng, share)
        frames.append(pd.DataFrame({"site": name, "x": X[:, 0], "z": X[:, 1], "y": y}))
    return ShiftProblem.from_frame(
        pd.concat(frames, ignore_index=True), site="site", label="y", target="T",
        target_labels="oracle",
    )  # fmt: skip


def test_other_frequencies_are_announced_where_the_sources_speak_for_them(rng):
    problem = problem_of(rng, (0.05, 0.1, 0.2, 0.3, 0.35, 0.4), 0.8)
    found = label_shift(problem.sources, problem.target.X)
    assert found.label == "1"
    assert found.expected < 0.7 < found.mixed < 0.9  # the truth is .8
    assert found.trust > 0.5
    check = prevalence_check(found)
    assert check.level == "problem"
    assert f"{100 * found.mixed:.0f} %" in check.finding


def test_other_inputs_alone_are_no_other_frequencies(rng):
    # p(y|x) is the same everywhere: the sources do not speak for other frequencies.
    frames = []
    for name, mean in zip("TABCDEF", (1.5, -0.5, -0.3, 0.0, 0.2, 0.4, 0.6), strict=True):
        x = rng.normal(mean, 1, 300)
        y = (rng.random(300) < 1 / (1 + np.exp(-x))).astype(int)
        frames.append(pd.DataFrame({"site": name, "x": x, "y": y}))
    problem = ShiftProblem.from_frame(
        pd.concat(frames), site="site", label="y", target="T", target_labels="oracle"
    )
    found = label_shift(problem.sources, problem.target.X)
    assert found.trust < 0.3
    assert prevalence_check(found).level == "ok"


def test_levels_of_the_frequency():
    def level(expected, mixed, trust):
        return prevalence_check(LabelShift("ill", expected, mixed, 0.1, 0.3, 6, trust)).level

    assert level(0.2, 0.8, 0.0) == "ok"
    assert level(0.01, 0.05, 0.5) == "caution"  # few, but three times as many as expected
    assert level(0.2, 0.32, 0.5) == "caution"
    assert level(0.2, 0.8, 0.5) == "problem"
    assert level(0.1, 0.29, 1.0) == "caution"  # the sources have seen such frequencies


def test_one_frequency_is_told_once():
    check = prevalence_check(LabelShift("ill", 0.3, 1.0, 0.0, 0.8, 3, 1.0))
    assert "But it may be 100 % if only" in check.finding


def test_enough_sites_and_rows(sound):
    assert enough_check(sound.result_).level == "ok"


def test_rare_classes_few_sites_and_giants_are_mentioned(sound):
    result = sound.result_
    data = result.context.data
    rare = tuple(np.where(np.arange(len(y)) < 1, "yes", "no") for y in data.y_validation)
    context = replace(result.context, data=replace(data, y_validation=rare))
    few = replace(result.choice.risk, lam=result.choice.risk.lam * (np.arange(6) < 3))
    # All but one row of the other sources are gone.
    first, *others = result.problem.sources
    giant = replace(result.problem, sources=(first, *(site.take([0]) for site in others)))
    choice = replace(result.choice, risk=few)
    check = enough_check(replace(result, problem=giant, context=context, choice=choice))
    assert check.level == "caution"
    assert "6 of 'yes'" in check.finding
    assert "mostly one of that site" in check.finding
    assert "There are 3 sources only" in check.finding


def test_share_of_the_variance_in_the_tail():
    # One loss of 100 among 99 of 0, mean 1: 99^2 of 99^2 + 99 is its own.
    assert tail_share([np.r_[np.zeros(99), 100.0]]) == pytest.approx(0.99)


def test_heavy_tails_are_mentioned():
    frame = table(np.random.default_rng(5), n=200)
    frame.loc[frame.index % 100 == 0, "y"] += 60.0
    assert "dominated by a few rows" in enough_check(searched(frame).result_).finding


def test_verdict_of_a_sound_search(sound):
    assert str(sound.verdict_) == "trust"
    assert [check.level for check in sound.checks()] == ["ok"] * 11


def poisson(y, p):
    return p - y * np.log(p)


def asymmetric(y, p):
    return np.where(y == "yes", 20.0, 1.0) * (y != p)


@pytest.mark.parametrize(
    "settings",
    [
        {"risk": "naive"},
        {"risk": "variance_reduced"},
        {"loss": "zero_one"},
        {"loss": asymmetric},
        {"final": "best"},
        {"labels": 25},
        {"subject": "patient"},
        {"sources": 1},
        {"sources": 2},
        {"constant": True},
    ],
    ids=lambda settings: " ".join(settings),
)
@pytest.mark.filterwarnings("ignore")
def test_checks_of_every_kind_of_search(settings):
    settings = dict(settings)
    frame = table(np.random.default_rng(6), signal=2.0, classes=True, n=60)
    few, sources = settings.pop("labels", 0), settings.pop("sources", 6)
    frame = frame[frame["site"].isin(list("TABCDEF")[: sources + 1])].copy()
    frame["patient"] = np.arange(len(frame)) // 3
    group = settings.pop("subject", None)
    if settings.pop("constant", False):
        frame["x"] = 1.0
    own = frame["site"] == "T"
    frame.loc[own & (own.cumsum() > few), "y"] = None
    problem = ShiftProblem.from_frame(
        frame if group else frame.drop(columns="patient"), site="site", label="y", target="T",
        target_labels="use" if few else "hide", subject=group,
    )  # fmt: skip
    space = {"C": FloatDistribution(0.01, 1e2, log=True)}
    search = ShiftSearch(
        LogisticRegression(), space, n_trials=2, sampler="random", progress=False, **settings
    ).fit(problem)
    assert len(search.checks()) >= 7
    assert all(check.headline or check.level == "ok" for check in search.checks())
    assert str(search.verdict_)


@pytest.mark.filterwarnings("ignore:the target lies outside")
def test_a_loss_without_a_value_at_0():
    rng = np.random.default_rng(8)
    frame = table(rng)
    frame["y"] = rng.poisson(np.exp(0.3 * frame["x"])).astype(float)
    problem = ShiftProblem.from_frame(
        frame, site="site", label="y", target="T", target_labels="oracle", task="regression"
    )
    space = {"alpha": FloatDistribution(1e-3, 1.0, log=True)}
    search = ShiftSearch(
        PoissonRegressor(), space, loss=poisson, n_trials=2, sampler="random", progress=False
    ).fit(problem)
    assert skill_check(search.result_).level in ("ok", "caution")


def test_the_best_constant_vote_depends_on_the_costs():
    y = np.array(["no"] * 90 + ["yes"] * 10)
    votes = best_constant(y, loss_named(asymmetric), np.array(["no", "yes"]))
    assert votes.tolist() == [0.0, 1.0]


def test_rows_in_turn_are_drawn_from_all_classes():
    rng = np.random.default_rng(9)
    sites = []
    for name in "AB":
        y = np.arange(12_000) % 2
        sites.append(Site(name, rng.normal(y[:, None], 1), y))
    assert 0 < label_shift(sites, sites[0].X[:500]).expected < 1


@pytest.mark.filterwarnings("ignore")
def test_labels_that_contradict_the_sources_are_announced():
    rng = np.random.default_rng(10)
    frame = table(rng, n=150)
    own = frame["site"] == "T"
    frame.loc[own, "y"] = 4 * rng.normal(size=own.sum())
    frame.loc[own & (own.cumsum() > 100), "y"] = np.nan
    problem = ShiftProblem.from_frame(
        frame, site="site", label="y", target="T", target_labels="use"
    )
    space = {"alpha": FloatDistribution(0.01, 1e3, log=True)}
    search = ShiftSearch(Ridge(), space, n_trials=2, sampler="random", progress=False).fit(problem)
    assert "contradict the sources" in str(search.verdict_)
