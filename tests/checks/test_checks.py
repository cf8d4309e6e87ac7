"""Each check reaches each of its levels, names the sites and says what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from optuna.distributions import FloatDistribution
from sklearn.linear_model import Ridge

from shiftune import ShiftProblem, ShiftSearch
from shiftune.checks.agreement import agreement_check
from shiftune.checks.influence import influence_check
from shiftune.checks.labels import labels_check
from shiftune.checks.overlap import overlap_check
from shiftune.errors import OverlapWarning, ProblemError
from shiftune.report import run_checks
from shiftune.risk import RegressionAdjusted, estimate
from shiftune.search.selection import winner
from shiftune.stability import LabelStability

NAMES = ["B", "C", "D"]


def said(rng, scales=(1.0, 1.0, 1.0), weights=None, n=300, method="variance_reduced"):
    losses = [rng.exponential(scale, n) for scale in scales]
    return estimate(losses, weights or [np.ones(n)] * 3, method, names=NAMES)


def adjusted(rng, scales, own=()):
    rows = [rng.normal(size=(300, 1)) for _ in range(1 + len(scales))]
    losses = [rng.exponential(scale, 300) for scale in scales]
    more = [np.array(own)] if len(own) else []
    estimator = RegressionAdjusted().fit(rows[0], rows[1:])
    return estimator.estimate(
        [*losses, *more], names=[*NAMES[: len(scales)], *(["A"] if more else [])]
    )


# ---------------------------------------------------------------- overlap


@pytest.mark.parametrize(
    ("scale", "out_of_reach", "level"),
    [
        ([1, 1, 1], 0.01, "ok"),
        ([1, 1, 1e-9], 0.01, "ok"),
        ([1, 1, 1], 0.15, "caution"),
        ([0.7, 0.7, 0.7], 0.01, "caution"),
        ([1, 1e-9, 1e-9], 0.01, "caution"),
        ([1, 1, 1], 0.4, "problem"),
    ],
)
def test_overlap(scale, out_of_reach, level, rng):
    risk = said(rng, weights=[np.full(300, float(s)) for s in scale])
    check = overlap_check(risk, out_of_reach, weighted=True)
    assert check.level == level
    assert "'B'" in check.finding
    assert (check.advice == "Nothing to do.") == (level == "ok")
    for name, s in zip(NAMES, scale, strict=True):
        assert s > 0.5 or f"{name!r}" in check.finding.split("left out")[0]


def test_overlap_of_an_estimate_that_fell_back(rng):
    with pytest.warns(OverlapWarning):
        risk = said(rng, weights=[np.full(300, 1e-9)] * 3)
    check = overlap_check(risk, 0.0, weighted=True)
    assert check.level == "problem"
    assert "the plain mean loss" in check.finding


def test_overlap_without_weights(rng):
    check = overlap_check(said(rng, method="naive"), 0.02, weighted=False)
    assert check.level == "ok"
    assert "without weights" in check.finding


@pytest.mark.parametrize(
    ("doubtful", "level", "words"),
    [
        ([], "ok", "from all sources together; 2 %"),
        (["D"], "ok", "By itself 'D' has few rows like the target's"),
        (["B", "D"], "ok", "By themselves 'B' and 'D' have few rows"),
        (NAMES, "caution", "By themselves 'B', 'C' and 'D' have few rows"),
    ],
)
def test_overlap_of_an_adjusted_estimate(doubtful, level, words, rng):
    risk = adjusted(rng, (1, 1, 1))
    check = overlap_check(risk, 0.02, weighted=False, doubtful=doubtful)
    assert check.level == level
    assert words in check.finding


# ---------------------------------------------------------------- labels


def stability(p_value, gain, p_level=(1.0, 1.0, 1.0), not_tested="", classes=()):
    sites = pd.DataFrame(
        {"n": 100, "shift": [0.1, -0.52, 0.3], "p_level": p_level, "p_value": p_value}, NAMES
    ).assign(not_tested=not_tested)
    if classes:
        sites["class"] = list(classes)
    return LabelStability(p_value, 0.4, gain, 0.01, sites)


@pytest.mark.parametrize(
    ("found", "level", "words"),
    [
        (stability(0.3, -0.01), "ok", "p = 0.3"),
        (stability(0.01, 0.003, (1, 0.001, 1)), "ok", "too little to matter"),
        (stability(0.01, 0.03, (1, 0.001, 1)), "caution", "labels at 'C' lie 0.52 below"),
        (stability(0.01, 0.03), "caution", "at 'C' the inputs act differently"),
        (stability(1e-9, 0.2, (1, 1e-9, 1)), "problem", "20 % less squared error"),
        (
            stability(1e-9, 0.2, (1, 1, 1e-9), classes="yyy"),
            "problem",
            "label y is 30 percentage points more frequent at 'D'",
        ),
        (stability(1.0, 0.0, not_tested="no row"), "caution", "cannot be told"),
        (None, "caution", "not two labelled sites"),
    ],
)
def test_labels(found, level, words):
    check = labels_check(found)
    assert (check.level, check.name) == (level, "same labels")
    assert words in check.finding
    assert check.advice


# ---------------------------------------------------------------- agreement


@pytest.mark.parametrize(
    ("scales", "level"), [((1, 1, 1), "ok"), ((1, 1, 1.25), "caution"), ((1, 1, 2.5), "problem")]
)
def test_agreement(scales, level, rng):
    check = agreement_check(said(rng, scales))
    assert check.level == level
    if level != "ok":
        assert check.figures["one_more_site_low"] >= 0
        assert f"{check.figures['one_more_site_high']:.4g}" in check.finding


def test_agreement_where_the_interval_counts_the_differences(rng):
    check = agreement_check(adjusted(rng, (1, 1, 2.5)))
    assert check.level == "caution"
    assert "which the interval counts" in check.finding
    assert "instead of the interval" not in check.advice
    assert agreement_check(adjusted(rng, (1, 1, 1))).level == "ok"


def test_labelled_rows_that_contradict_the_sources(rng):
    check = agreement_check(adjusted(rng, (1, 1, 1), own=[50.0, 60.0, 55.0, 52.0, 51.0]))
    assert check.level == "caution"
    assert "own labelled rows say 53.6, and the sources" in check.finding
    assert check.figures["own_p_value"] < 0.01


def test_labelled_rows_agree_in_most_cases(rng):
    """Where the target is one of the sites, the 5 % level is kept (100 draws, 3 se above)."""
    found = [
        agreement_check(adjusted(rng, (1, 1, 1), own=rng.exponential(size=40))) for _ in range(100)
    ]
    assert np.mean([check.figures["own_p_value"] < 0.05 for check in found]) < 0.115


def test_labelled_rows_of_the_target_are_no_source(rng):
    risk = adjusted(rng, (1, 1, 1), own=[0.5, 2.0, 1.5, 0.2, 0.8])
    assert risk.labelled_target
    assert agreement_check(risk).level == "ok"
    check = influence_check([risk], 0)
    assert check.level == "ok"
    assert "'A'" not in check.finding
    assert overlap_check(risk, 0.0, weighted=False).figures["sources"] == 3


def test_agreement_of_one(rng):
    risk = said(rng, weights=[np.ones(300), np.full(300, 1e-9), np.full(300, 1e-9)])
    assert agreement_check(risk).level == "caution"


# ---------------------------------------------------------------- influence


def pairs(rng, extra):
    """Two models on the same rows; the second has `extra` loss at every source."""
    rows = [rng.exponential(size=200) for _ in NAMES]
    both = (rows, [row + more for row, more in zip(rows, extra, strict=True)])
    return [estimate(losses, method="naive", names=NAMES) for losses in both]


def test_nobody_decides(rng):
    check = influence_check(pairs(rng, (0.5, 0.5, 0.5)), 0)
    assert check.level == "ok"
    assert "the same parameters would be chosen" in check.finding


def test_another_choice_that_is_as_good(rng):
    """By C and D the second model is better by a hair, by B clearly worse."""
    noise = rng.normal(size=200)
    hair = noise - noise.mean() - 0.01
    risks = pairs(rng, (0.3, hair, hair))
    assert winner(risks) == 0
    check = influence_check(risks, 0)
    assert check.level == "ok"
    assert "Without 'B' other parameters would be chosen, but" in check.finding


def test_one_source_decides_the_choice(rng):
    """By C and D the second model is better, by B far worse: without B the choice is the other."""
    risks = pairs(rng, (0.9, -0.2, -0.2))
    assert winner(risks) == 0
    check = influence_check(risks, 0)
    assert check.level == "problem"
    assert "Without 'B' other parameters would be chosen" in check.finding


def test_one_source_moves_the_estimate(rng):
    check = influence_check([said(rng, (1, 1, 6), method="naive")], 0)
    assert check.level == "caution"
    assert "Without 'D'" in check.finding
    assert "outside its 95 % interval" in check.finding


def test_one_source_has_nearly_all_of_the_say(rng):
    losses = [rng.exponential(size=n) for n in (2000, 50, 50)]
    risk = estimate(losses, method="naive", names=NAMES)
    check = influence_check([risk], 0)
    assert check.level == "caution"
    assert "'B' has 95 % of the say" in check.finding


def test_one_source_is_left(rng):
    risk = said(rng, weights=[np.ones(300), np.full(300, 1e-9), np.full(300, 1e-9)])
    check = influence_check([risk], 0)
    assert check.level == "problem"
    assert "rest on 'B' alone" in check.finding


# ---------------------------------------------------------------- a whole search


def fitted(rng, shift=0.0, **settings):
    means = {"A": 0.2, "B": 0.0, "C": 0.3, "D": -0.3}
    frames = []
    for name, mean in means.items():
        x = rng.normal(mean, 1, (200, 2))
        y = x[:, 0] + rng.normal(0, 0.5, 200) + shift * (name == "C")
        frames.append(pd.DataFrame({"site": name, "x": x[:, 0], "z": x[:, 1], "y": y}))
    problem = ShiftProblem.from_frame(
        pd.concat(frames, ignore_index=True),
        site="site",
        label="y",
        target="A",
        target_labels="oracle",
    )
    space = {"alpha": FloatDistribution(0.01, 1e4, log=True)}
    search = ShiftSearch(Ridge(), space, n_trials=6, sampler="random", **settings)
    return search.fit(problem)


def test_a_search_that_is_in_order():
    checks = fitted(np.random.default_rng(1)).checks()
    assert [check.name for check in checks] == [
        "overlap",
        "same labels",
        "risks agree",
        "no source decides alone",
    ]
    assert [check.level for check in checks] == ["ok"] * 4
    text = str(checks)
    assert text.count("Nothing to do.") >= 3
    assert max(map(len, text.splitlines())) <= 96


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"risk": "naive"},
        {"risk": "variance_reduced"},
        {"risk": "random_effects"},
    ],
)
def test_a_site_with_other_labels_is_named(settings, rng):
    checks = {check.name: check for check in fitted(rng, shift=1.5, **settings).checks()}
    assert checks["same labels"].level == "problem"
    assert "labels at 'C' lie 1." in checks["same labels"].finding
    assert checks["risks agree"].level != "ok"


def test_an_oracle_assumes_nothing(rng):
    (check,) = run_checks(fitted(rng, risk="oracle"))
    assert check.level == "ok"


def test_before_fit():
    with pytest.raises(ProblemError, match="has not been fitted"):
        ShiftSearch(Ridge(), {}).checks()


def test_two_sources_hardly_tell_how_far_a_third_may_differ(rng):
    check = agreement_check(adjusted(rng, (1, 1)))
    assert check.level == "caution"
    assert "so few sites" in check.finding
