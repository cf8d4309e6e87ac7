"""One estimand: every place that tells the error at a new site has the same figure."""

from __future__ import annotations

import numpy as np
import pytest
from optuna.distributions import FloatDistribution
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

from shiftune import ShiftProblem, ShiftSearch
from shiftune.checks._of_result import skill_check

SITES, ROWS = 6, 60
SAME = 1e-9  # another order of the same sums


def problem(kind, *, groups=False, few=0):
    """Return sites whose labels differ by an offset, and a target that is shifted."""
    rng = np.random.default_rng(0)

    def drawn(shift):
        X = rng.normal(shift, 1, (ROWS, 2))
        score = X[:, 0] + rng.normal(0, 0.5) + rng.normal(size=ROWS)
        if kind == "regression":
            return X, score
        if kind == "two classes":
            return X, np.where(score > 0, "ill", "well")
        return X, np.array(["a", "b", "c"])[np.digitize(score, [-0.5, 0.5])]

    X, y = (
        np.concatenate(part) for part in zip(*[drawn(j / 9) for j in range(SITES)], strict=True)
    )
    X_target, y_target = drawn(0.5)
    labelled = (X_target[:few], y_target[:few]) if few else None
    return ShiftProblem.from_arrays(
        X,
        y,
        np.repeat(list("BCDEFG"), ROWS),
        X_target[few:],
        subject=np.arange(len(y)) // 4 if groups else None,
        labelled_target=labelled,
    )


def searched(given, **options):
    if given.task == "regression":
        model, space = Ridge(), {"alpha": FloatDistribution(1e-2, 1e3, log=True)}
    else:
        model, space = LogisticRegression(), {"C": FloatDistribution(1e-3, 10, log=True)}
    options = {"n_trials": 4, "sampler": "random", "progress": False, **options}
    return ShiftSearch(model, space, **options).fit(given)


@pytest.mark.filterwarnings("ignore::shiftune.errors.DataWarning")
@pytest.mark.parametrize("final", ["ensemble", "best"])
@pytest.mark.parametrize("groups", [False, True], ids=["rows", "groups"])
@pytest.mark.parametrize("kind", ["regression", "two classes", "three classes"])
def test_risk_skill_and_label_worth_are_one_figure(kind, groups, final):
    search = searched(problem(kind, groups=groups), final=final)
    result = search.result_
    skill = skill_check(result).figures
    assert skill["model"] == search.risk_.value
    data = result.context.data
    of_predictions = result.context.estimate(
        data.losses(result.choice.predictions, search.result_.loss)
    )
    assert search.risk_.value == pytest.approx(of_predictions.value, rel=SAME)
    worth = search.label_worth(5).loc[0]
    assert worth["risk"] == pytest.approx(search.risk_.value, rel=SAME)
    document = search.summary()
    assert document["comparisons"][0]["value"] == document["risk"]["value"] == search.risk_.value
    (loss,) = (each for each in document["figures"] if each["name"] == search.result_.loss.name)
    assert loss["value"] == search.risk_.value


@pytest.mark.parametrize("loss", ["log_loss", "brier"])
def test_losses_of_predictions_that_are_sure(loss):
    """A tree's leaves have probabilities of 0 and 1, and it errs at some sites."""
    search = ShiftSearch(
        DecisionTreeClassifier(), {"max_depth": [8]}, n_trials=1, loss=loss, progress=False
    ).fit(problem("two classes"))
    P = search.result_.choice.predictions
    assert P.min() == 0
    assert search.label_worth(5).loc[0, "risk"] == pytest.approx(search.risk_.value, rel=SAME)
    assert skill_check(search.result_).figures["model"] == search.risk_.value


@pytest.mark.filterwarnings("ignore::shiftune.errors.DataWarning")
def test_with_labels_of_the_target_the_figure_is_that_of_the_updated_model():
    search = searched(problem("regression", few=12))
    updated = search.result_.updated
    assert search.risk_.value == updated.risk_.value
    # The others are compared without labels, on the same rows as the model.
    skill = skill_check(search.result_).figures
    assert skill["model"] == search.result_.choice.risk.value


def test_the_adjustment_that_the_estimate_has_is_the_same_for_both():
    """A target far from the sources: figures agree although they are adjusted."""
    search = searched(problem("regression"))
    risk = search.risk_
    assert abs(risk.value - risk.criterion) > 1e-3
    assert search.label_worth(5).loc[0, "risk"] == pytest.approx(risk.value, rel=SAME)
