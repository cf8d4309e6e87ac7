"""Metrics that are no means over rows, as losses."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from shiftune import ShiftProblem, ShiftSearch
from shiftune.errors import DataError, DataWarning, SettingsError
from shiftune.evaluate import bounded, loss_named
from shiftune.metrics._as_loss import tuned_loss
from shiftune.predictor import Candidates

CLASSES = np.array(["no", "yes"])


def binormal(rng, n, apart):
    """Scores of positives lie `apart` higher: the AUC is Phi(apart / sqrt 2)."""
    y = rng.integers(0, 2, n)
    p = norm.cdf(rng.normal(size=n) + apart * y)
    return CLASSES[y], np.column_stack([1 - p, p])


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("auc", roc_auc_score),
        ("average_precision", average_precision_score),
        ("f1", lambda y, p: f1_score(y, p >= 0.5)),
    ],
    ids=["auc", "average_precision", "f1"],
)
def test_the_mean_over_a_site_is_one_less_the_metric(name, metric):
    rng = np.random.default_rng(0)
    sites = [binormal(rng, n, 1.0) for n in (30, 80)]
    y, P = (np.concatenate(each) for each in zip(*sites, strict=True))
    P[:, 1] = P[:, 1].round(1)  # ties
    P[:, 0] = 1 - P[:, 1]
    number = np.repeat([0, 1], [30, 80])
    losses = tuned_loss(name)(y, P, CLASSES, number)
    for j in (0, 1):
        own = number == j
        assert losses[own].mean() == pytest.approx(1 - metric(y[own] == "yes", P[own, 1]))
    together = tuned_loss(name)(y, P, CLASSES)
    assert together.mean() == pytest.approx(1 - metric(y == "yes", P[:, 1]))


def test_the_mean_is_that_of_the_closed_form_and_differences_have_the_right_variance():
    rng, auc = np.random.default_rng(1), tuned_loss("auc")
    means, differences, variances = [], [], []
    for _ in range(400):
        y, P = binormal(rng, 150, 1.0)
        noisy = np.clip(P[:, 1] + rng.normal(0, 0.1, 150), 0, 1)
        first = auc(y, P, CLASSES)
        apart = auc(y, np.column_stack([1 - noisy, noisy]), CLASSES) - first
        means.append(first.mean())
        differences.append(apart.mean())
        variances.append(apart.var(ddof=1) / 150)
    standard_error = np.std(means) / np.sqrt(400)
    assert np.mean(means) == pytest.approx(1 - norm.cdf(1 / np.sqrt(2)), abs=4 * standard_error)
    # A variance of 400 draws has a standard error of 7 %.
    assert np.mean(variances) == pytest.approx(np.var(differences), rel=0.25)


class Scores(ClassifierMixin, BaseEstimator):
    """Ranks perfectly, with absurd probabilities; or knows the frequencies alone."""

    def __init__(self, ranks=True):
        self.ranks = ranks

    def fit(self, X, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.share_ = counts[1] / counts.sum()
        return self

    def predict_proba(self, X):
        x = np.asarray(X)[:, 0]
        p = 1e-6 / (1 + np.exp(-x)) if self.ranks else self.share_ + 1e-3 * np.sin(50 * x)
        return np.column_stack([1 - p, p])

    def predict(self, X):
        return self.classes_[(self.predict_proba(X)[:, 1] > 0.5).astype(int)]


def problem(sizes=(60, 60, 60, 60), one_class=()):
    rng, frames = np.random.default_rng(0), []
    for j, n in enumerate(sizes):
        x = rng.normal(size=n)
        y = np.where(rng.uniform(size=n) < norm.cdf(2 * x), "yes", "no")
        y[:] = "no" if j in one_class else y
        frames.append(pd.DataFrame({"x": x, "z": rng.normal(size=n), "y": y, "site": f"S{j}"}))
    frames[-1]["y"] = None
    return ShiftProblem.from_frame(
        pd.concat(frames), site="site", label="y", target=f"S{len(sizes) - 1}"
    )


@pytest.fixture(scope="module")
def by_auc():
    space = {"ranks": [True, False]}
    return ShiftSearch(Scores(), space, loss="roc_auc", n_trials=4, progress=False).fit(problem())


def test_a_search_by_auc_prefers_the_model_that_ranks(by_auc):
    space = {"ranks": [True, False]}
    by_log_loss = ShiftSearch(Scores(), space, n_trials=4, progress=False).fit(problem())
    assert by_auc.best_params_ == {"ranks": True}
    assert by_log_loss.best_params_ == {"ranks": False}
    assert 1 - by_auc.risk_.value == pytest.approx(by_auc.metrics_.loc["auc", "estimate"], abs=0.02)
    assert by_auc.best_score_ == -by_auc.risk_.value


def test_labels_cannot_update_a_model_tuned_by_auc(by_auc):
    rows = problem().target.X.head(10)
    with pytest.raises(SettingsError, match="all rows of a site together"):
        by_auc.update(rows, ["yes", "no"] * 5)


def test_sites_without_two_classes_train_only():
    given = problem((60, 60, 60, 60, 40), one_class=(2,))
    with pytest.warns(
        DataWarning, match=r"no value on the validation rows of 'S2' \(one class only"
    ):
        search = ShiftSearch(
            Scores(), {"ranks": [True]}, loss="auc", n_trials=1, progress=False
        ).fit(given)
    assert search.risk_.names == ("S0", "S1", "S3")
    assert set(search.site_metrics_.index.get_level_values("site")) == {"S0", "S1", "S3"}


@pytest.mark.filterwarnings("ignore::shiftune.errors.DataWarning")
@pytest.mark.parametrize("one_class", [(0,), (2,), (0, 1)])
def test_a_fold_without_a_site_that_can_be_judged(one_class):
    """Four sources are four folds; those of one class are predicted by nobody."""
    search = ShiftSearch(
        LogisticRegression(), {"C": (0.1, 1.0)}, loss="auc", n_trials=2, progress=False
    ).fit(problem((60,) * 5, one_class=one_class))
    names = tuple(f"S{j}" for j in range(4) if j not in one_class)
    assert search.risk_.names == names
    assert len(search.result_.choice.predictions) == 60 * len(names)
    assert len(search.checks()) > 5


def test_no_site_with_two_classes():
    rows = pd.DataFrame({"x": np.arange(60) / 7, "s": np.repeat(["A", "B", "C"], 20)})
    rows["y"] = rows["s"].map({"A": 0, "B": 1, "C": np.nan})
    given = ShiftProblem.from_frame(rows, site="s", label="y", target="C", task="classification")
    with pytest.raises(DataError, match="no source has a value of auc"):
        ShiftSearch(Scores(), {"ranks": [True]}, loss="auc", n_trials=1, progress=False).fit(given)


def test_members_are_chosen_on_rows_of_every_class():
    rng = np.random.default_rng(2)
    sizes = np.array([2000, 1000])
    y = [np.where(np.arange(n) % 500 == 3, "yes", "no") for n in sizes]
    all_y, site = np.concatenate(y), np.repeat([0, 1], sizes)
    good = np.where(all_y == "yes", 0.3, 0.2) + rng.uniform(0, 0.05, 3000)
    predictions = {
        number: np.column_stack([1 - p, p])
        for number, p in enumerate((rng.uniform(size=3000), good))
    }
    found = Candidates(predictions, y, np.full(3000, 1 / 3000), tuned_loss("auc"), CLASSES, 1000)
    assert found.members(found.weights(rounds=1)) == {1: 1.0}
    # Every class of a site keeps its share in the criterion.
    for j in (0, 1):
        for label in CLASSES:
            kept = (found._sites == j) & (all_y[found._rows] == label)
            own = (site == j) & (all_y == label)
            assert found._row_shares[kept].sum() == pytest.approx(own.mean())


def test_what_is_refused():
    with pytest.raises(DataError, match="auc compares classes, and all rows of a site are of one"):
        tuned_loss("auc")(["no"] * 3, [[0.9, 0.1]] * 3, CLASSES)
    with pytest.raises(SettingsError, match="there is no loss of single rows 'auc'"):
        loss_named("auc")
    with pytest.raises(SettingsError, match="bounded already"):
        bounded(tuned_loss("auc"), 1.0)
    with pytest.raises(SettingsError, match="tune 'squared'"):
        tuned_loss("r2")


def test_weights_of_rows_are_refused():
    frame = pd.DataFrame({"x": np.arange(90) / 7, "s": np.repeat(["A", "B", "C"], 30), "w": 2.0})
    frame["y"] = np.where(frame["s"] == "C", None, np.tile(["yes", "no"], 45))
    weighted = ShiftProblem.from_frame(frame, site="s", label="y", target="C", sample_weight="w")
    with pytest.raises(SettingsError, match="sample_weight cannot be tuned by auc"):
        ShiftSearch("logistic", loss="auc", n_trials=1, progress=False).fit(weighted)


def test_an_interval_does_not_go_below_0():
    rng = np.random.default_rng(0)
    sites = {}
    for j in range(4):
        x = rng.normal(size=(60, 1))
        sites[f"S{j}"] = (x, np.where(x[:, 0] + rng.normal(0, 0.2, 60) > 0, "yes", "no"))
    near = ShiftProblem.from_sites(sites, rng.normal(size=(60, 1)))
    found = ShiftSearch(Scores(), {"ranks": [True]}, loss="auc", n_trials=1, progress=False)
    low, high = found.fit(near).risk_.interval()
    assert 0 <= low <= high
