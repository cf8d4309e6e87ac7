"""The check of risk estimators: sound ones pass, each broken promise is caught."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count

import numpy as np
import pytest

from shiftune.risk import ESTIMATORS, Guard, estimate
from shiftune.testing import check_risk_estimator

plain = partial(estimate, method="unbiased", guard=False)


@pytest.mark.parametrize("guard", [True, False, Guard(prior_rows=0)], ids=["on", "off", "no prior"])
@pytest.mark.parametrize(
    "options",
    [
        {"method": "unbiased"},
        {"divergence": "plug_in"},
        {"divergence": "cross_fitted"},
    ],
    ids=lambda options: next(iter(options.values())),
)
def test_ours(options, guard):
    check_risk_estimator(partial(estimate, guard=guard, **options))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_ours_by_name(name):
    check_risk_estimator(name)


def test_naive():
    naive = partial(estimate, method="naive")
    check_risk_estimator(naive, corrects=False)
    with pytest.raises(AssertionError, match=r"true target risk, 0\.990"):
        check_risk_estimator(naive)


def self_normalised(losses, weights, names):
    """Weights with mean 1 in every source: an estimator as others may write it."""
    relative = [w / w.mean() for w in weights]
    found = plain(losses, relative, names=names)
    psi = [
        w * (loss - m) / found.n.sum()
        for w, loss, m in zip(relative, losses, found.estimates, strict=True)
    ]
    influence = np.concatenate(psi)
    return replace(found, influence=influence, variance=float(influence @ influence))


def test_others():
    check_risk_estimator(self_normalised)


def a_number(losses, weights, names):
    return plain(losses, weights, names=names).value


def not_finite(losses, weights, names):
    return replace(plain(losses, weights, names=names), value=float("nan"))


def negative_variance(losses, weights, names):
    found = plain(losses, weights, names=names)
    return replace(found, variance=-found.variance)


def no_names(losses, weights, names):
    return plain(losses, weights)


def half_the_rows(losses, weights, names):
    return plain([x[::2] for x in losses], [w[::2] for w in weights], names=names)


def not_centred(losses, weights, names):
    found = plain(losses, weights, names=names)
    z = np.concatenate(weights) * np.concatenate(losses) / found.n.sum()
    return replace(found, influence=z, variance=float(z @ z))


def variance_of_another(losses, weights, names):
    return replace(plain(losses, weights, names=names), variance=1.0)


def changes_its_input(losses, weights, names):
    for w in weights:
        w /= w.mean()
    return plain(losses, weights, names=names)


def changes_it_back(losses, weights, names):
    for w in weights:
        w *= 2.0
    found = plain(losses, [w / 2 for w in weights], names=names)
    for w in weights:
        w /= 2.0
    return found


calls = count()


def remembers(losses, weights, names):
    found = plain(losses, weights, names=names)
    return replace(found, value=found.value + 1e-12 * next(calls))


def first_source_counts_double(losses, weights, names):
    share = np.array([2.0, 1.0, 1.0]) / 4
    lam = share / [len(loss) for loss in losses]
    return estimate(losses, weights, "lambda", lam=lam, guard=False, names=names)


def later_rows_count_more(losses, weights, names):
    return plain(losses, [w * np.linspace(0, 2, len(w)) for w in weights], names=names)


def another_unit(losses, weights, names):
    return plain([np.log1p(loss) for loss in losses], weights, names=names)


def same_error_in_any_unit(losses, weights, names):
    found = plain(losses, weights, names=names)
    scale = 0.03 / max(found.stderr, 1e-300)
    return replace(found, variance=0.03**2, influence=found.influence * scale)


def never_perfect(losses, weights, names):
    found = plain(losses, weights, names=names)
    return found if found.value else replace(found, value=1e-6)


def too_sure(losses, weights, names):
    found = plain(losses, weights, names=names)
    return replace(found, variance=found.variance / 9, influence=found.influence / 3)


def forgets_the_weights(losses, weights, names):
    return plain(losses, [np.ones(len(w)) for w in weights], names=names)


def upside_down(losses, weights, names):
    return plain(losses, [1 / w for w in weights], names=names)


def upside_down_with_mean_1(losses, weights, names):
    turned = [1 / w for w in weights]
    return self_normalised(losses, turned, names)


def forgets_the_last_source(losses, weights, names):
    zero = [*weights[:-1], np.zeros(len(weights[-1]))]
    return plain(losses, zero, names=names)


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (a_number, "a RiskEstimate, got float"),
        (not_finite, "value is finite"),
        (negative_variance, "not negative"),
        (no_names, "names are those given"),
        (half_the_rows, "n counts the rows"),
        (not_centred, "add up to 0"),
        (variance_of_another, "sum of the squared influence"),
        (changes_its_input, "not changed"),
        (changes_it_back, "read-only"),
        (remembers, "bit for bit"),
        (first_source_counts_double, "order of the sources"),
        (forgets_the_last_source, "order of the sources"),
        (later_rows_count_more, "order of the rows"),
        (another_unit, "give the risk times"),
        (same_error_in_any_unit, "give the standard error times"),
        (never_perfect, "without errors"),
        (too_sure, "standard error is the spread of the values"),
        (forgets_the_weights, "true target risk"),
        (upside_down, "true target risk"),
        (upside_down_with_mean_1, "true target risk"),
    ],
)
def test_broken_ones_are_caught(broken, promise):
    with pytest.raises(AssertionError, match=promise):
        check_risk_estimator(broken)
