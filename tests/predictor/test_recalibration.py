"""Recalibration is learned on some sites and judged by others."""

import numpy as np
import pytest
from scipy.special import expit
from tests.predictor.labelled import labelled

from shiftune.evaluate.answers import Answers
from shiftune.evaluate.losses import loss_named
from shiftune.predictor import recalibration
from shiftune.predictor.choice import Choice
from shiftune.predictor.recalibration import clear, recalibrate
from shiftune.risk import RegressionAdjusted
from shiftune.risk.result import Estimate

LOG_LOSS = loss_named("log_loss")


def sites(slope, *, k=8, n=200, apart=0.0, seed=0, few=0, share=0.5):
    """Sites whose answers have log odds `slope` times too large; `few` labels of the target."""
    rng = np.random.default_rng(seed)
    sizes = [n] * k + [few] * bool(few)
    odds = [rng.normal(0, 1.0, size) for size in sizes]
    y = [(rng.random(len(own)) < expit(own + rng.normal(0, apart))).astype(int) for own in odds]
    p = expit(slope * np.concatenate(odds)).astype(np.float32)
    answers = np.column_stack([1 - p, p])
    names = [f"site {j}" for j in range(k)] + ["target"] * bool(few)
    data = labelled(
        y,
        names=tuple(names),
        labelled_target="target" if few else "",
        classes=np.array([0, 1]),
    )
    X = [np.zeros((size, 1)) for size in sizes[:k]]
    fitted = RegressionAdjusted().fit(np.zeros((50, 1)), X)

    def estimate(losses):
        return fitted.estimate(losses, names=names)

    given = Answers(answers, answers.copy(), share)
    choice = Choice({0: 1.0}, estimate(data.losses(given, LOG_LOSS)), answers=given)
    return choice, data, estimate


def recalibrated(asked, *about, **options):
    choice, data, estimate = sites(*about, **options)
    return choice, recalibrate(choice, asked, data, LOG_LOSS, estimate)


def test_an_overconfident_model_gains():
    before, after = recalibrated("auto", 4.0, few=20)
    found = after.calibration
    assert found.kind == "platt"
    assert found.map.slope == pytest.approx(1 / 4, abs=0.05)
    assert found.gain.interval()[0] > 0
    assert found.gain.value == pytest.approx(before.risk.value - after.risk.value)
    assert set(found.gains) == {"intercept", "platt", "isotonic"}
    # Labelled rows of the target go through the same map.
    np.testing.assert_allclose(after.answers.known[-20:], found.map(before.answers.known[-20:]))


def test_a_calibrated_model_stays_as_it_is():
    before, after = recalibrated("auto", 1.0)
    assert after.calibration.kind == "none"
    assert after.calibration.gain is None
    assert after.calibration.map is None
    assert after.answers is before.answers
    assert after.risk is before.risk


@pytest.mark.parametrize("asked", ["intercept", "platt"])
def test_without_miscalibration_the_gain_is_what_the_parameters_cost(asked):
    gains = []
    for seed in range(40):
        _, after = recalibrated(asked, 1.0, k=5, n=100, seed=seed)
        gains.append(after.calibration.gain.value)
    # By theory each parameter costs 1 / (2 rows that learned): 400 here. Judged on the rows that
    # learned, it would gain as much.
    cost = {"intercept": 1, "platt": 2}[asked] / (2 * 400)
    assert np.mean(gains) == pytest.approx(-cost, abs=4 * np.std(gains) / np.sqrt(40))
    assert np.mean(gains) < 0


def test_the_map_of_a_site_is_learned_without_it():
    choice, data, estimate = sites(1.0, k=3, n=300)
    one = recalibrate(choice, "platt", data, LOG_LOSS, estimate)
    data.y_validation[0][:] = 1 - data.y_validation[0]
    two = recalibrate(choice, "platt", data, LOG_LOSS, estimate)
    first = slice(0, 300)
    np.testing.assert_array_equal(one.answers.unseen[first], two.answers.unseen[first])
    assert not np.allclose(one.answers.unseen[300:], two.answers.unseen[300:])


def test_sites_that_differ_each_in_its_own_way_hide_a_small_gain():
    _, after = recalibrated("auto", 1.2, k=5, n=100, apart=1.0, seed=1)
    assert after.calibration.kind == "none"


def test_every_site_is_judged_with_the_kind_that_the_others_would_take(monkeypatch):
    kinds = {"site 0": "none", "site 2": "intercept"}
    monkeypatch.setattr(recalibration, "_clear_without", lambda name, *_: kinds.get(name, "platt"))
    before, after = recalibrated("auto", 5.0)
    assert after.calibration.kind == "platt"
    alone = {kind: recalibrated(kind, 5.0)[1] for kind in ("platt", "intercept")}
    expected = [before, alone["platt"], alone["intercept"]]
    for j, choice in enumerate(expected):
        rows = slice(200 * j, 200 * (j + 1))
        np.testing.assert_allclose(after.answers.unseen[rows], choice.answers.unseen[rows])
    assert after.risk.estimates[0] == pytest.approx(before.risk.estimates[0], rel=1e-6)


def test_the_kind_of_highest_gain_is_taken_if_it_is_clear():
    small, large = Estimate(0.1, 1e-6, 10.0), Estimate(0.2, 0.03, 10.0)
    assert clear({"intercept": small, "platt": large}) == "platt"
    assert clear({"intercept": small, "platt": Estimate(0.2, 0.05, 10.0)}) == "none"
    assert clear({"intercept": Estimate(0.0, 0.0, 10.0)}) == "none"


@pytest.mark.parametrize(
    ("options", "words"),
    [({"share": 0.0}, "had not seen the site"), ({"k": 1}, "there is only one")],
)
def test_an_obstacle_is_named(options, words):
    before, after = recalibrated("platt", 4.0, **options)
    assert words in after.calibration.obstacle
    assert after.risk is before.risk
