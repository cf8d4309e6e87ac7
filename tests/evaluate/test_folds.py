"""Folds: whole sites, or rows and groups of a single one; who trains the model of which row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from tests.evaluate.studies import losses, study

from shiftune import ShiftProblem, ShiftSearch
from shiftune.errors import DataError, SettingsError
from shiftune.evaluate import loss_named
from shiftune.evaluate._fits import FOLDS, assign_folds, row_folds
from shiftune.risk import RegressionAdjusted
from shiftune.search._settings import check_settings

SQUARED = loss_named("squared")
ALPHA = {"alpha": FloatDistribution(1e-2, 1e4, log=True)}


class TestAssignFolds:
    def test_by_hand(self):
        # Largest first, each to the emptiest fold: 9 | 6 | 4 | 3, then 2 to the last.
        assert assign_folds(np.array([4, 6, 3, 9, 2])).tolist() == [2, 1, 3, 0, 3]
        assert assign_folds(np.array([60, 30, 30, 20, 20, 20]), 3).tolist() == [0, 1, 2, 1, 2, 1]

    @given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(2, 6))
    def test_sizes(self, sizes, most):
        sizes = np.array(sizes)
        folds = assign_folds(sizes, most)
        # No fold is empty, and none has more rows than another by more than a site of its own.
        assert sorted(set(folds.tolist())) == list(range(min(most, len(sizes))))
        rows = np.bincount(folds, sizes)
        for fold in range(len(rows)):
            assert rows[fold] - sizes[folds == fold].min() <= rows.min()

    def test_sites_of_one_size_keep_their_order(self):
        assert assign_folds(np.full(6, 10)).tolist() == [0, 1, 2, 3, 0, 1]


class TestRowFolds:
    def test_every_fold_has_all_labels_in_their_proportions(self):
        y = np.repeat(["a", "b", "c"], [40, 20, 8]).astype(object)
        folds = row_folds(np.random.default_rng(0).permutation(y), None, 0)
        y = np.random.default_rng(0).permutation(y)
        for label, number in zip("abc", (10, 5, 2), strict=True):
            assert np.bincount(folds[y == label], minlength=FOLDS).tolist() == [number] * FOLDS

    def test_quantities_are_dealt_in_their_order(self):
        y = np.random.default_rng(1).normal(size=43)
        folds = row_folds(y, None, 3)
        assert folds[np.argsort(y)].tolist() == (np.arange(43) % FOLDS).tolist()

    @given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(0, 5))
    def test_groups_stay_together(self, groups, seed):
        groups = np.array(groups)
        y = (np.arange(len(groups)) % 2).astype(float)
        folds = row_folds(y, groups, seed)
        assert all(len(set(folds[groups == g])) == 1 for g in groups)
        different = len(set(groups.tolist()))
        assert len(set(folds.tolist())) == min(FOLDS, different)

    def test_the_seed_decides_between_equal_labels(self):
        y = np.zeros(40)
        one, same, other = (row_folds(y, None, seed) for seed in (0, 0, 1))
        assert one.tolist() == same.tolist() != other.tolist()


class Sites(RegressorMixin, BaseEstimator):
    """Predicts 1 for rows whose x it has met in training (x is the number of the site)."""

    def fit(self, X, y):
        self.seen_ = np.unique(X[:, 0])
        return self

    def predict(self, X):
        return np.isin(X[:, 0], self.seen_).astype(float)


def numbered(*sizes, **given):
    """Return sites whose x is their number, and whose labels are 0 and 1 in turn."""
    return study(
        [(np.full((n, 1), float(j)), np.arange(n) % 2.0) for j, n in enumerate(sizes)], **given
    )


def test_no_model_has_seen_the_site_that_it_predicts():
    data = numbered(4, 6, 3, 9, 2, 5)
    assert losses(Sites(), data, SQUARED).predictions.tolist() == [0.0] * 29
    assert data.out_of_site
    # One model of all rows, as the paper's estimators have it, knows every site.
    pooled = replace(data, train_folds=np.full(29, -1), folds=np.zeros(29, dtype=int))
    assert losses(Sites(), pooled, SQUARED).predictions.tolist() == [1.0] * 29
    assert not pooled.out_of_site


def test_a_group_that_spans_sites_is_never_on_both_sides():
    class Groups(Sites):
        """Predicts 1 for rows whose second column it has met."""

        def fit(self, X, y):
            return super().fit(X[:, 1:], y)

        def predict(self, X):
            return super().predict(X[:, 1:])

    # Patients 0 to 9 of site 0; 5 to 14 of site 1; 20 to 29 of site 2.
    patients = [np.arange(10), np.arange(5, 15), np.arange(20, 30)]
    sites = [(np.column_stack([np.full(10, j), own]), np.arange(10.0) % 2)
             for j, own in enumerate(patients)]  # fmt: skip
    data = study(sites, groups=tuple(patients), train_groups=np.concatenate(patients))
    assert losses(Groups(), data, SQUARED).predictions.tolist() == [0.0] * 30
    assert data.trains(0).tolist() == [False] * 15 + [True] * 15
    assert data.trains(2).tolist() == [True] * 20 + [False] * 10
    # Without the codes of the training rows, patients 5 to 9 would be on both sides.
    blind = losses(Groups(), replace(data, train_groups=None), SQUARED).predictions
    assert blind.sum() == 10


def hospitals(rng, few=0, sites=5):
    def drawn(n, shift):
        X = rng.normal(shift, 1, (n, 3))
        return X, X @ [1.0, 0.5, 0.0] + rng.normal(size=n)

    sources = {f"h{j}": drawn(80 + j, rng.normal(0, 0.5)) for j in range(sites)}
    X, y = drawn(100, 0)
    labelled = (X[:few], y[:few]) if few else None
    return ShiftProblem.from_sites(sources, X[few:], labelled_target=labelled)


def context_of(problem, **options):
    search = ShiftSearch(Ridge(), ALPHA, **options)
    settings = check_settings(search.get_params(deep=False), problem)
    return settings.context(problem, settings.split(problem), None)


class TestStudyOfASearch:
    @pytest.mark.parametrize("sites", [2, 3, 5, 9])
    def test_every_row_is_trained_on_and_predicted_once(self, sites):
        problem = hospitals(np.random.default_rng(0), sites=sites)
        data = context_of(problem).data
        sizes = [len(site) for site in problem.sources]
        assert len(data.y_train) == len(data.folds) == sum(sizes)
        assert data.X_validation is data.X_train  # no second copy
        by_hand = np.repeat(assign_folds(np.array(sizes)), sizes)
        assert data.folds.tolist() == data.train_folds.tolist() == by_hand.tolist()
        assert len(context_of(problem).data.fold_numbers) == min(sites, FOLDS)
        times_trained = sum(data.trains(fold) for fold in range(min(sites, FOLDS)))
        assert set(times_trained) == {min(sites, FOLDS) - 1}

    def test_labelled_rows_of_the_target_train_no_trial(self):
        data = context_of(hospitals(np.random.default_rng(0), few=12)).data
        assert len(data.folds) - len(data.train_folds) == 12
        assert data.names[-1] == data.labelled_target == "target"
        # The model that has the most training rows predicts them.
        trained = [data.trains(fold).sum() for fold in range(FOLDS)]
        assert set(data.folds[-12:].tolist()) == {int(np.argmax(trained))}
        assert data.sources == ["h0", "h1", "h2", "h3", "h4"]

    @pytest.mark.filterwarnings("ignore:there is only one source")
    def test_one_source_falls_back_on_its_rows_and_says_so(self):
        problem = hospitals(np.random.default_rng(0), sites=1)
        data = context_of(problem).data
        assert np.bincount(data.folds).tolist() == [20, 20, 20, 20]
        assert data.folds.tolist() == data.train_folds.tolist()
        assert not data.out_of_site
        search = ShiftSearch(Ridge(), ALPHA, n_trials=2, progress=False).fit(problem)
        assert "There is one source, so its rows are predicted" in search.summary()["how_estimated"]
        assert search.risk_.names == ("h0",)

    @pytest.mark.filterwarnings("ignore:there is only one source")
    def test_one_source_with_groups_is_dealt_by_groups(self):
        rng = np.random.default_rng(0)
        X, patients = rng.normal(size=(60, 2)), np.arange(60) // 6
        problem = ShiftProblem.from_arrays(X, X[:, 0], ["a"] * 60, X_target=X, subject=patients)
        data = context_of(problem).data
        for patient in range(10):
            assert len(set(data.folds[patients == patient])) == 1
        for fold in range(FOLDS):
            trained = set(patients[data.trains(fold)].tolist())
            assert trained.isdisjoint(patients[data.folds == fold].tolist())

    @pytest.mark.parametrize("risk", ["naive", "unbiased", "variance_reduced"])
    def test_other_estimators_have_one_fit_of_split_rows(self, risk):
        problem = hospitals(np.random.default_rng(0))
        search = ShiftSearch(Ridge(), ALPHA, n_trials=1, risk=risk, progress=False).fit(problem)
        data = search.result_.context.data
        assert set(data.train_folds.tolist()) == {-1}
        assert set(data.folds.tolist()) == {0}
        assert data.trains(0).all()
        assert not data.out_of_site
        assert len(data.y_train) + len(data.folds) <= sum(len(site) for site in problem.sources)

    def test_shares_are_for_other_estimators(self):
        problem = hospitals(np.random.default_rng(0))
        with pytest.raises(SettingsError, match="trains and evaluates on every row"):
            context_of(problem, shares=(0, 0.7, 0.3))
        assert len(context_of(problem, shares=(0, 0.7, 0.3), risk="naive").data.folds) == 123

    @pytest.mark.filterwarnings("ignore:there is only one source")
    def test_one_row_alone(self):
        problem = ShiftProblem.from_sites(
            {"a": ([[1.0]], [2.0])}, [[1.0], [1.0]], task="regression"
        )
        with pytest.raises(DataError, match=r"'a' is the only source and has one row"):
            context_of(problem)

    def test_groups_that_are_at_all_sites(self):
        rng = np.random.default_rng(0)
        X, patients = rng.normal(size=(40, 2)), np.arange(40) % 10
        problem = ShiftProblem.from_arrays(
            X, X[:, 0], np.repeat(["a", "b"], 20), X_target=X, subject=patients
        )
        with pytest.raises(DataError, match=r"no subject is left to train on.*B-1 instead of 1"):
            context_of(problem)


def test_default_search():
    """The default estimate is what the steps give by hand."""
    problem = hospitals(np.random.default_rng(0))
    search = ShiftSearch(
        Ridge(), ALPHA, n_trials=5, sampler="random", final="best", progress=False
    ).fit(problem)
    sites = problem.sources
    folds = assign_folds(np.array([len(site) for site in sites]))
    found = {}
    for number, alpha in search.trials_["param_alpha"].items():
        of_sites = []
        for site, fold in zip(sites, folds, strict=True):
            others = [s for s, f in zip(sites, folds, strict=True) if f != fold]
            model = Ridge(alpha=alpha).fit(
                np.vstack([s.X for s in others]), np.concatenate([s.y for s in others])
            )
            of_sites.append((model.predict(site.X) - site.y) ** 2)
        found[number] = of_sites
    estimator = RegressionAdjusted().fit(problem.target.X, [s.X for s in sites])
    for number, of_sites in found.items():
        by_hand = estimator.estimate(of_sites)
        row = search.trials_.loc[number]
        assert row["risk"] == pytest.approx(by_hand.value)
        assert row["stderr"] == pytest.approx(by_hand.stderr)
        shares = by_hand.lam * by_hand.n
        assert row["criterion"] == pytest.approx(shares @ [own.mean() for own in of_sites])
    assert search.best_index_ == search.trials_["criterion"].idxmin()
    assert search.study_.best_value == search.trials_["criterion"].min()
    assert search.result_.context.data.weights is None
    low, high = search.risk_.interval(0.9)
    assert low < 1 < high  # the noise's variance


def test_few_labels_judge_and_do_not_train():
    problem = hospitals(np.random.default_rng(2), few=20)
    search = ShiftSearch(Ridge(), ALPHA, n_trials=3, progress=False).fit(problem)
    assert search.risk_.names[-1] == "target"
    assert search.risk_.n[-1] == 20
    assert search.risk_.labelled_target
    by_hand = Ridge(**search.best_params_).fit(  # they train half of the final model only
        np.vstack([s.X for s in problem.sources]), np.concatenate([s.y for s in problem.sources])
    )
    np.testing.assert_allclose(search.best_estimator_.coef_, by_hand.coef_)


def test_few_labels_have_a_fixed_share_in_all_that_is_compared():
    problem = hospitals(np.random.default_rng(4), few=20)
    search = ShiftSearch(Ridge(), ALPHA, n_trials=5, final="best", progress=False).fit(problem)
    compared = [search.result_.choice.risk, search.default_risk(), *search.result_.risks.values()]
    for risk in compared:
        assert risk.sources["share"]["target"] == pytest.approx(20 / 120)


def test_an_adjusted_estimator_with_other_settings():
    problem = hospitals(np.random.default_rng(3))
    space = {"alpha": CategoricalDistribution([1.0])}
    plain, less = (
        ShiftSearch(Ridge(), space, n_trials=1, risk=risk, progress=False).fit(problem)
        for risk in ("adjusted", RegressionAdjusted(prior_r2=1e-9))
    )
    assert plain.risk_.value != less.risk_.value
    assert plain.study_.best_value == less.study_.best_value  # chosen without the adjustment
