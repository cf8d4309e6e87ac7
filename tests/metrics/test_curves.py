"""Curves and thresholds at a new site, where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from shiftune.errors import SettingsError
from shiftune.metrics import calibration_curve, decision_curve, threshold_for
from shiftune.metrics._curves import check_two_classes
from shiftune.metrics._metric import SitePredictions
from shiftune.metrics._new_site import NewSite

A, B = 0.4, 0.7


@pytest.fixture(scope="module")
def new_site():
    """Six sites of 800 rows, labels of log odds A + B logit(p) with an effect of sd 0.1."""
    rng = np.random.default_rng(0)
    p = [expit(rng.normal(0, 1.2, 800)) for _ in range(6)]
    truth = [expit(A + rng.normal(0, 0.1) + B * logit(own)) for own in p]
    y = [(rng.random(800) < own).astype(int) for own in truth]
    X = [rng.normal(0, 1, (800, 2)) for _ in range(6)]
    given = SitePredictions(tuple("BCDEFG"), y, p, X, classes=np.array(["no", "yes"]))
    return NewSite(given, rng.normal(0, 1, (300, 2)))


def test_calibration_curve_is_the_true_one(new_site):
    curve = calibration_curve(new_site)
    truth = expit(A + B * logit(curve.index.to_numpy()))
    assert ((curve["low"] < truth) & (truth < curve["high"])).all()
    assert np.abs(curve["observed"] - truth).max() < 0.05
    assert (curve["high"] - curve["low"]).min() > 0.02  # site-to-site variation is included


def test_the_curve_of_a_source(new_site):
    own = calibration_curve(new_site, "C")
    assert (own["low"] < own["observed"]).all()
    assert (own["observed"] < own["high"]).all()
    with pytest.raises(SettingsError, match="source 'Z'"):
        calibration_curve(new_site, "Z")


def test_decision_curve(new_site):
    curve = decision_curve(new_site)
    share = np.mean([own.mean() for own in new_site.predictions.y])
    t = curve.index.to_numpy()
    assert np.abs(curve["all"] - (share - (1 - share) * t / (1 - t))).max() < 0.3
    middle = curve[(t > 0.5) & (t < 0.7)]
    assert (middle["net_benefit"] > middle["all"]).all()
    assert (middle["low"] < middle["net_benefit"]).all()


@pytest.mark.parametrize("wish", [0.5, 0.9])
def test_threshold_for_a_sensitivity_is_the_highest_one(new_site, wish):
    chosen = threshold_for(new_site, sensitivity=wish)
    assert chosen.metrics.loc["sensitivity", "estimate"] >= wish
    y, p = np.concatenate(new_site.predictions.y), np.concatenate(new_site.predictions.p)
    assert np.mean(p[y == 1] >= chosen.threshold) == pytest.approx(wish, abs=0.04)
    assert chosen.metrics.loc["predicted", "estimate"] == pytest.approx(
        np.mean(p >= chosen.threshold), abs=0.03
    )


def test_threshold_for_a_specificity(new_site):
    chosen = threshold_for(new_site, specificity=0.8)
    assert 0.8 <= chosen.metrics.loc["specificity", "estimate"] < 0.86


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({}, "give either"),
        ({"sensitivity": 0.8, "specificity": 0.8}, "give either"),
        ({"sensitivity": 7}, "between 0 and 1, got 7"),
    ],
)
def test_mistakes(new_site, wishes, words):
    with pytest.raises(SettingsError, match=words):
        threshold_for(new_site, **wishes)


def test_quantities_have_no_such_curves():
    given = SitePredictions(("B",), [np.zeros(9)], [np.zeros(9)], [np.zeros((9, 1))])
    with pytest.raises(SettingsError, match="two classes"):
        check_two_classes(NewSite(given, np.zeros((9, 1))))
    with pytest.raises(SettingsError, match="no predictions"):
        check_two_classes(None)
