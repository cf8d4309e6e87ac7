"""Metrics by name: their values, influence values, weights, and where they are not defined."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm
from sklearn import metrics as sk

from shiftune.errors import SettingsError
from shiftune.evaluate import loss_named, pinball
from shiftune.metrics import METRICS, Metric, metric_named, metrics_for

rng = np.random.default_rng(0)
ROWS = 60
P3 = rng.dirichlet([1, 1, 1], ROWS)
Y3 = np.array([rng.choice(3, p=p) for p in P3])
P2, VALUES = P3[:, 1], rng.normal(0, 2, ROWS)
Y2, LABELS = (rng.random(ROWS) < P2).astype(int), VALUES + rng.normal(0, 1, ROWS)

SEVERAL = ("auc", "average_precision", "accuracy", "balanced_accuracy", "f1", "brier", "log_loss")
CASES = (
    [
        pytest.param(
            metric,
            *((LABELS, VALUES) if metric.task == "regression" else (Y2, P2)),
            id=metric.name,
        )
        for metric in METRICS.values()
    ]
    + [
        pytest.param(METRICS[name], Y2, P2.round(1), id=f"{name} with ties")
        for name in ("auc", "average_precision")
    ]
    + [pytest.param(METRICS[name], Y3, P3, id=f"{name} of 3 classes") for name in SEVERAL]
)


@pytest.mark.parametrize(
    ("metric", "y", "p"),
    CASES,
)
def test_influence_values_are_derivatives_by_the_weights(metric, y, p):
    influence = metric.influence_values(y, p)
    assert abs(influence.mean()) < 1e-6 * np.abs(influence).max()
    for row in (0, 7, 23):
        up, down = np.ones(ROWS), np.ones(ROWS)
        up[row] += 1e-5
        down[row] -= 1e-5
        slope = (metric(y, p, up) - metric(y, p, down)) / 2e-5
        assert ROWS * slope == pytest.approx(influence[row], rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    ("metric", "y", "p"),
    CASES,
)
def test_weights_are_repeated_rows(metric, y, p):
    times = rng.integers(1, 4, ROWS)
    repeated = metric(np.repeat(y, times), np.repeat(p, times, axis=0))
    assert metric(y, p, times) == pytest.approx(repeated)
    assert metric(y, p) == pytest.approx(metric(y, p, np.full(ROWS, 3.0)))


@pytest.mark.parametrize(
    ("name", "y", "p", "expected"),
    [
        ("auc", Y3, P3, sk.roc_auc_score(Y3, P3, multi_class="ovr")),
        ("auc", Y2, P2.round(1), sk.roc_auc_score(Y2, P2.round(1))),
        ("average_precision", Y2, P2.round(1), sk.average_precision_score(Y2, P2.round(1))),
        ("accuracy", Y3, P3, sk.accuracy_score(Y3, P3.argmax(1))),
        ("balanced_accuracy", Y3, P3, sk.balanced_accuracy_score(Y3, P3.argmax(1))),
        ("f1", Y3, P3, sk.f1_score(Y3, P3.argmax(1), average="macro")),
        ("f1", Y2, P2, sk.f1_score(Y2, P2 >= 0.5)),
        ("sensitivity@0.3", Y2, P2, sk.recall_score(Y2, P2 >= 0.3)),
        ("specificity@0.3", Y2, P2, sk.recall_score(Y2, P2 >= 0.3, pos_label=0)),
        ("brier", Y2, P2, sk.brier_score_loss(Y2, P2)),
        ("log_loss", Y2, P2, sk.log_loss(Y2, P2)),
        ("o_e", Y2, P2, Y2.mean() / P2.mean()),
        ("rmse", LABELS, VALUES, sk.mean_squared_error(LABELS, VALUES) ** 0.5),
        ("mae", LABELS, VALUES, sk.mean_absolute_error(LABELS, VALUES)),
        ("neg_median_absolute_error", LABELS, VALUES, -sk.median_absolute_error(LABELS, VALUES)),
        ("bias", LABELS, VALUES, np.mean(VALUES - LABELS)),
        ("coverage@0.9", LABELS, VALUES, np.mean(LABELS <= VALUES)),
        ("neg_log_loss", Y3, P3, -sk.log_loss(Y3, P3)),
        ("roc_auc", Y2, P2, sk.roc_auc_score(Y2, P2)),
        ("neg_mean_absolute_error", LABELS, VALUES, -sk.mean_absolute_error(LABELS, VALUES)),
    ],
)
def test_values_agree_with_scikit_learn(name, y, p, expected):
    metric = metric_named(name, "regression" if y is LABELS else "classification")
    assert metric(y, p) == pytest.approx(expected)


def test_net_benefit():
    """10 rows: 2 true positives, 1 false positive at odds of 1 to 4."""
    y, p = np.array([1, 1, 0] + [0] * 7), np.array([0.9, 0.5, 0.3] + [0.1] * 7)
    assert metric_named("net_benefit@0.2")(y, p) == pytest.approx((2 - 0.25) / 10)


def test_binormal_auc_and_its_standard_error():
    """Scores N(d, 1) and N(0, 1): AUC = Phi(d / sqrt 2); its variance by 400 draws, 4 sd = 14 %."""
    d, positives, negatives = 1.2, 40, 80
    draw = np.random.default_rng(1)
    y = np.repeat([1, 0], [positives, negatives])
    auc = metric_named("auc")
    values, variances = [], []
    for _ in range(400):
        p = draw.normal(d * y, 1)
        values.append(auc(y, p))
        variances.append(np.sum(auc.influence_values(y, p) ** 2) / len(y) ** 2)
    spread = np.std(values) / np.sqrt(400)
    assert np.mean(values) == pytest.approx(norm.cdf(d / np.sqrt(2)), abs=4 * spread)
    assert np.mean(variances) == pytest.approx(np.var(values), rel=0.2)


def test_known_calibration():
    """Labels from log odds a + b logit(p); 4 standard errors."""
    draw = np.random.default_rng(2)
    p = expit(draw.normal(0, 1.5, 20000))
    for a, b in ((0.0, 1.0), (0.0, 0.5), (0.7, 1.0)):
        truth = expit(a + b * np.log(p / (1 - p)))
        y = (draw.random(len(p)) < truth).astype(int)
        expected = {"calibration_slope": b, "o_e": truth.mean() / p.mean()}
        for name, value in expected.items():
            metric = METRICS[name]
            error = np.sqrt(np.mean(metric.influence_values(y, p) ** 2) / len(y))
            assert metric(y, p) == pytest.approx(value, abs=4 * error), name


def test_leaving_groups_out_gives_the_same_standard_error_as_influence_values():
    """20 groups: relative standard error of a variance sqrt(2 / 19), times 3."""
    draw = np.random.default_rng(3)
    p = draw.random(1000)
    y = (draw.random(1000) < p).astype(int)
    by_name = METRICS["brier"].influence_values(y, p)
    own = metric_named(lambda labels, q: np.mean((labels - q) ** 2)).influence_values(y, p)
    assert np.mean(own**2) == pytest.approx(np.mean(by_name**2), rel=3 * np.sqrt(2 / 19))


@pytest.mark.parametrize(
    "name", ["auc", "average_precision", "balanced_accuracy", "calibration_slope", "roc_auc"]
)
def test_one_class_only_has_no_value(name):
    assert np.isnan(metric_named(name)(np.zeros(9, dtype=int), np.linspace(0.1, 0.9, 9)))


def test_separated_classes_have_no_slope():
    y = np.repeat([0, 1], 5)
    assert np.isnan(METRICS["calibration_slope"](y, np.linspace(0.1, 0.9, 10)))


def test_predictions_that_hardly_differ_have_no_slope():
    y, p = np.tile([0, 1], 10), np.full(20, 1e-9) * np.arange(20)
    assert np.isnan(METRICS["calibration_slope"](y, p))
    assert np.isnan(METRICS["calibration_slope"].influence_values(y, p)).all()


def test_functions_and_scorers():
    def weighted(y, p, weights):
        return np.average(y == p, weights=weights)

    assert metric_named(weighted)([0, 1], [0, 0], weights=[3, 1]) == 0.75
    deviance = metric_named(sk.mean_pinball_loss, "regression")
    assert deviance([1.0, 2.0], [1.0, 4.0], weights=[1, 3]) == 0.75
    assert metric_named(lambda y, p: 7.0, "regression")([1.0], [2.0]) == 7.0


def test_default_sets():
    def names(loss, classes):
        return [metric.name for metric in metrics_for(None, loss_named(loss), classes)]

    two, three = np.arange(2), np.arange(3)
    assert names("log_loss", two)[0] == "auc"
    assert "o_e" not in names("log_loss", three)
    assert all(METRICS[name].needs == "classes" for name in names("zero_one", two))
    assert names("squared", None)[0] == "rmse"
    assert names(pinball(0.9), None)[0] == "coverage@0.9"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("acu", "did you mean 'auc'"),
        ("auc@0.2", "no metric with a threshold 'auc'"),
        ("sensitivity@much", "a number such as 0.2"),
        ("sensitivity@7", "between 0 and 1"),
        ("rmse", "is for regression"),
        (["auc", "auc"], "auc"),
    ],
)
def test_mistakes(given, words):
    with pytest.raises(SettingsError, match=words):
        metrics_for(given, loss_named("log_loss"), np.arange(2))


def test_one_metric_needs_no_list():
    mine = Metric("mine", lambda y, p, w: 0.0, "probabilities")
    for given in ("auc", mine, len):
        assert len(metrics_for(given, loss_named("log_loss"), np.arange(2))) == 1
