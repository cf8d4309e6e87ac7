"""Numbers of boosting rounds are chosen on sites that a model has not seen."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftune import ShiftProblem, ShiftSearch
from shiftune.errors import SettingsError
from shiftune.evaluate import EarlyStopping, LeaveSourcesOut, PooledFit, early_stopping
from shiftune.evaluate.early_stopping import Chosen, checkpoints
from shiftune.evaluate.losses import loss_named
from shiftune.evaluate.rounds import number_of_rounds, predictions_at, rounds_parameter
from shiftune.models.numbered_classes import NumberedClasses
from shiftune.report.explanations import how_estimated


def rows(n, seed, classes=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = X[:, 0] + rng.normal(0, 2, size=n)
    return X, y if classes is None else np.array(classes)[np.digitize(y, [0.0])]


def boosted():
    """Library, model and the argument with the number of rounds, of what is installed."""
    found = [
        ("sklearn", HistGradientBoostingRegressor(max_iter=9), "max_iter"),
        ("sklearn", GradientBoostingRegressor(n_estimators=9), "n_estimators"),
    ]
    for library, name, options in (
        ("lightgbm", "LGBMRegressor", {"verbosity": -1, "n_jobs": 1}),
        ("xgboost", "XGBRegressor", {"n_jobs": 1}),
        (
            "catboost",
            "CatBoostRegressor",
            {"verbose": 0, "thread_count": 1, "allow_writing_files": False},
        ),
    ):
        found.append((library, (name, options), "n_estimators"))
    return [pytest.param(*each, id=f"{each[0]}-{n}") for n, each in enumerate(found)]


@pytest.mark.parametrize(("library", "model", "name"), boosted())
def test_predictions_after_some_rounds_are_those_of_a_shorter_fit(library, model, name):
    module = pytest.importorskip(library)
    if isinstance(model, tuple):
        model = getattr(module, model[0])(n_estimators=9, **model[1])
    assert rounds_parameter(model) == name
    assert number_of_rounds(model) == 9
    X, y = rows(80, 0)
    early, last = predictions_at(model.fit(X, y), X, "predict", [4, 9])
    assert last == pytest.approx(model.predict(X))
    short = type(model)(**model.get_params() | {name: 4}).fit(X, y)
    assert early == pytest.approx(short.predict(X), abs=1e-5)


def test_models_inside_others():
    X, y = rows(60, 0, ["no", "yes"])
    inner = HistGradientBoostingClassifier(max_iter=5)
    model = make_pipeline(StandardScaler(), NumberedClasses(inner)).fit(X, y)
    assert rounds_parameter(model) == "numberedclasses__classifier__max_iter"
    (found,) = predictions_at(model, X, "predict_proba", [5])
    np.testing.assert_allclose(found, model.predict_proba(X))
    (classes,) = predictions_at(model, X, "predict", [9])  # more than it has
    assert classes.tolist() == model.predict(X).tolist()
    assert rounds_parameter(Ridge()) is None


def test_trees_that_change_are_left_alone():
    lightgbm = pytest.importorskip("lightgbm")
    assert rounds_parameter(lightgbm.LGBMRegressor(boosting_type="dart")) is None


def test_a_site_has_no_say_in_its_own_number():
    curves = np.array([[1.0, 3.0], [2.0, 1.9], [2.0, 1.9]])
    chosen = Chosen(curves, np.ones(3), (4, 5), ("B", "C", "D"))
    assert (chosen.rounds, chosen.without("B"), chosen.without("C")) == (4, 5, 4)
    assert checkpoints(3) == [3]
    assert checkpoints(1000)[-1] == 1000


@pytest.fixture(scope="module")
def search():
    sites = {name: rows(40, seed) for seed, name in enumerate("BCDE")}
    problem = ShiftProblem.from_sites(sites, rows(30, 9)[0])
    model = GradientBoostingRegressor(max_depth=2, n_estimators=5)
    space = {"n_estimators": (5, 40), "learning_rate": (0.1, 0.9)}
    return ShiftSearch(model, space, early_stopping=True, n_trials=3, progress=False).fit(problem)


def test_the_number_of_rounds_is_carried_into_the_refit(search):
    trials = search.study_.trials
    found = [trial.user_attrs["params"]["n_estimators"] for trial in trials]
    assert all(4 <= rounds < 40 for rounds in found)  # the labels are noise for the most part
    assert all("n_estimators" not in trial.params for trial in trials)
    assert search.best_params_["n_estimators"] == found[search.best_index_]
    assert search.best_estimator_.n_estimators_ == found[search.best_index_]
    for (_, member), number in zip(
        getattr(search.predictor_, "members", [("", search.predictor_)]), search.members_.index,
        strict=True,
    ):  # fmt: skip
        assert member.n_estimators == found[number]


def test_the_report_explains_the_models(search):
    assert "models that never saw that site" in how_estimated(search.result_)


def test_losses_are_those_of_plain_fits_with_the_chosen_numbers(search):
    data, loss = search.context_.data, loss_named("squared")
    model = GradientBoostingRegressor(max_depth=2, n_estimators=9, random_state=0)
    stopped = EarlyStopping(LeaveSourcesOut()).losses(model, data, loss)
    plain = {
        rounds: LeaveSourcesOut().losses(model.set_params(n_estimators=rounds), data, loss)
        for rounds in checkpoints(9)
    }
    for j, own in enumerate(stopped.by_source):
        means = [found.by_source[j].mean() for found in plain.values()]
        assert any(own.mean() == pytest.approx(mean) for mean in means)
    curve = {t: found.answers.unseen for t, found in plain.items()}
    y = np.concatenate(data.y_validation)
    unseen = {t: data.by_site((y - answers) ** 2) for t, answers in curve.items()}
    best = min(unseen, key=lambda t: sum(own.mean() for own in unseen[t]))
    assert stopped.params == {"n_estimators": best}


class Counted(GradientBoostingRegressor):
    """Notes the number of rounds of every fit."""

    fits: ClassVar[list[int]] = []

    def fit(self, X, y, sample_weight=None):
        self.fits.append(self.n_estimators)
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(
    ("steep", "to_the_end", "needs_more"),
    [
        # At B and C few rounds are best. D needs more, so E is fitted to the end, and D again.
        ("DE", [True, True, False, True, True], True),
        ("", [True, True, False, False], False),
        # B alone would end the others' fits.
        ("CDE", [True, True, True, True], True),
    ],
)
def test_fits_end_early_only_where_no_site_needs_more(
    search, monkeypatch, steep, to_the_end, needs_more
):
    def labels(y, X, sites):
        slope = np.where(np.isin(sites, ["B", "D"]), 1, -1)  # of sites that contradict each other
        return np.where(np.isin(sites, list(steep)), 9, slope) * X[:, 0] + y / 9

    data = search.context_.data
    data = replace(
        data,
        y_train=labels(data.y_train, data.X_train, data.train_sites),
        y_validation=tuple(
            labels(y, data.X_validation[data.validation_rows([site])], site)
            for site, y in zip(data.names, data.y_validation, strict=True)
        ),
    )
    model = Counted(max_depth=1, n_estimators=80, learning_rate=0.05, random_state=0)
    plan, loss = EarlyStopping(LeaveSourcesOut()), loss_named("squared")
    monkeypatch.setattr(Counted, "fits", [])
    found = plan.losses(model, data, loss)
    assert [n == 80 for n in Counted.fits[:-1]] == to_the_end  # the last fit is of all sites
    monkeypatch.setattr(early_stopping, "MORE", 1000)  # every fit goes on to the end
    whole = plan.losses(model, data, loss)
    assert found.params == whole.params
    assert (found.params["n_estimators"] > 40) == needs_more
    np.testing.assert_array_equal(np.concatenate(found.by_source), np.concatenate(whole.by_source))


def test_classes_that_a_model_has_not_seen():
    """Class "c" is at one site only: its rows keep the loss of the model that knows it."""
    sites = {n: rows(40, s, ["a", "b"]) for s, n in enumerate("BCD")}
    X, y = sites["D"]
    sites["D"] = X, np.where(np.arange(40) < 12, "c", y)
    problem = ShiftProblem.from_sites(sites, X)
    model = GradientBoostingClassifier(max_depth=1, n_estimators=12)
    search = ShiftSearch(model, {"max_depth": [1]}, early_stopping=True, n_trials=1, progress=False)
    assert np.isfinite(search.fit(problem).risk_.value)
    assert list(search.classes_) == ["a", "b", "c"]


def test_other_models_are_fitted_as_they_are(search):
    data, loss = search.context_.data, loss_named("squared")
    one, other = (
        plan.losses(Ridge(), data, loss)
        for plan in (EarlyStopping(LeaveSourcesOut()), LeaveSourcesOut())
    )
    np.testing.assert_array_equal(np.concatenate(one.by_source), np.concatenate(other.by_source))


@pytest.mark.parametrize(
    ("model", "space", "options", "words"),
    [
        (Ridge(), {"alpha": (1.0, 2.0)}, {}, "none among 'Ridge'"),
        (GradientBoostingRegressor(), {"n_estimators": (5, 9)}, {}, "no other parameter to tune"),
        (
            GradientBoostingRegressor(),
            {"max_depth": [1]},
            {"plan": PooledFit()},
            "not seen a site",
        ),
    ],
)
def test_mistakes(search, model, space, options, words):
    with pytest.raises(SettingsError, match=words):
        ShiftSearch(model, space, early_stopping=True, **options).fit(search.problem_)
