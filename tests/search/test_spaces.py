from __future__ import annotations

import copy
import json
import math
import pickle
import warnings

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from sklearn import ensemble, linear_model, neighbors, neural_network
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from shiftune.errors import ProblemError
from shiftune.search import spaces
from shiftune.search.space import Space, check, check_names

READY = {
    make.__name__: make
    for make in (
        spaces.svm,
        spaces.lightgbm,
        spaces.lightgbm_paper,
        spaces.xgboost,
        spaces.hist_gradient_boosting,
        spaces.random_forest,
        spaces.logistic,
        spaces.ridge,
        spaces.elastic_net,
        spaces.knn,
        spaces.mlp,
    )
}


def models(name):
    """Return the classifier and the regressor a space is for; None where there is none."""
    if name in ("lightgbm", "lightgbm_paper"):
        lgb = pytest.importorskip("lightgbm")
        quiet = {"n_jobs": 1, "verbosity": -1}
        return lgb.LGBMClassifier(**quiet), lgb.LGBMRegressor(**quiet)
    if name == "xgboost":
        xgb = pytest.importorskip("xgboost")
        return xgb.XGBClassifier(n_jobs=1), xgb.XGBRegressor(n_jobs=1)
    long = {"max_iter": 5000, "random_state": 0}
    return {
        "svm": (SVC(), SVR()),
        "hist_gradient_boosting": (
            ensemble.HistGradientBoostingClassifier(),
            ensemble.HistGradientBoostingRegressor(),
        ),
        "random_forest": (
            ensemble.RandomForestClassifier(30),
            ensemble.RandomForestRegressor(30),
        ),
        "logistic": (linear_model.LogisticRegression(), None),
        "ridge": (linear_model.RidgeClassifier(), linear_model.Ridge()),
        "elastic_net": (None, linear_model.ElasticNet()),
        "knn": (neighbors.KNeighborsClassifier(), neighbors.KNeighborsRegressor()),
        "mlp": (neural_network.MLPClassifier(**long), neural_network.MLPRegressor(**long)),
    }[name]


def draws(space, n=3, seed=0):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    return [study.ask(fixed_distributions=space).params for _ in range(n)]


@pytest.fixture(autouse=True)
def silent_optuna():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield
    optuna.logging.set_verbosity(before)


@pytest.fixture(autouse=True)
def one_thread():
    """On a busy machine the threads of small boosting models mostly wait for each other."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def data(rng):
    X = rng.normal(size=(120, 4))
    score = X[:, 0] - X[:, 1] ** 2 / 2 + rng.normal(size=120)
    return X, (score > 0).astype(int), (score - score.mean()) / score.std()


@pytest.mark.parametrize("name", READY)
class TestEverySpace:
    @pytest.mark.parametrize("task", ["classification", "regression"])
    def test_three_draws_can_be_fitted_without_a_warning(self, name, task, data):
        model = models(name)[task == "regression"]
        if model is None:
            pytest.skip("there is no such model")
        X, classes, numbers = data
        space = READY[name]()
        check(space, model)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for params in draws(space):
                model.set_params(**params)
                model.fit(X, classes if task == "classification" else numbers)
                assert np.isfinite(model.predict(X)).all()

    def test_both_ends_of_every_range_are_valid(self, name, data):
        X, classes, numbers = data
        for model, y in zip(models(name), (classes, numbers), strict=True):
            if model is None:
                continue
            for end in ("low", "high"):
                params = {
                    key: getattr(d, end)
                    for key, d in READY[name]().items()
                    if not isinstance(d, CategoricalDistribution)
                }
                small = {"max_iter": 5} if name == "mlp" else {}
                # Whether it converges there is not the question.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model.set_params(**params, **small).fit(X, y)

    def test_a_prefix_names_the_step_of_a_pipeline(self, name):
        model = next(m for m in models(name) if m is not None)
        pipeline = Pipeline([("scale", StandardScaler()), ("model", model)])
        space = READY[name](prefix="model__")
        check(space, pipeline)
        (params,) = draws(space, 1)
        pipeline.set_params(**params)
        plain = {key.removeprefix("model__"): value for key, value in params.items()}
        assert space.complexity(params) == READY[name]().complexity(plain)

    def test_draws_are_numbers_and_survive_a_journal(self, name, tmp_path):
        path = str(tmp_path / "journal.log")
        space = READY[name]()
        study = optuna.create_study(storage=JournalStorage(JournalFileBackend(path)))
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            trials = [study.ask(fixed_distributions=space) for _ in range(3)]
        for trial in trials:
            study.tell(trial, 0.0)
        read = optuna.load_study(
            study_name=study.study_name, storage=JournalStorage(JournalFileBackend(path))
        )
        for old, new in zip(trials, read.trials, strict=True):
            assert new.params == old.params == json.loads(json.dumps(old.params))
            assert new.distributions == space
            assert math.isfinite(space.complexity(new.params))

    def test_each_call_returns_a_space_of_its_own(self, name):
        READY[name]().clear()
        assert READY[name]()


class TestPaper:
    def test_svm(self):
        wide = FloatDistribution(5e-5, 5e3, log=True)
        assert spaces.svm() == {"gamma": wide, "C": wide}

    def test_lightgbm(self):
        assert spaces.lightgbm_paper() == {
            "max_depth": IntDistribution(2, 6),
            "colsample_bytree": FloatDistribution(0.1, 1.0),
            "learning_rate": FloatDistribution(1e-3, 1e-1, log=True),
            "reg_lambda": FloatDistribution(5e-5, 5e3, log=True),
        }


class TestComplexity:
    @pytest.mark.parametrize(
        ("name", "simple", "complex_"),
        [
            ("svm", {"C": 0.1}, {"C": 10.0}),
            ("svm", {"gamma": 0.1}, {"gamma": 10.0}),
            ("lightgbm", {"n_estimators": 50}, {"n_estimators": 51}),
            ("lightgbm", {"num_leaves": 4}, {"num_leaves": 5}),
            ("lightgbm", {"reg_lambda": 1.001}, {"reg_lambda": 1.0}),
            ("lightgbm", {"reg_lambda": 1e-3, "num_leaves": 4}, {"reg_lambda": 1e3}),
            ("lightgbm_paper", {"max_depth": 2}, {"max_depth": 3}),
            ("lightgbm_paper", {"max_depth": 5}, {"max_depth": 6}),
            ("lightgbm_paper", {"reg_lambda": 5e3}, {"reg_lambda": 4.999e3}),
            ("xgboost", {"max_depth": 2}, {"max_depth": 3}),
            ("xgboost", {"n_estimators": 100}, {"n_estimators": 1000}),
            ("hist_gradient_boosting", {"max_iter": 50}, {"max_iter": 51}),
            ("hist_gradient_boosting", {"max_leaf_nodes": 4}, {"max_leaf_nodes": 5}),
            ("hist_gradient_boosting", {"l2_regularization": 9.0}, {"l2_regularization": 1.0}),
            ("random_forest", {"min_samples_leaf": 64}, {"min_samples_leaf": 63}),
            ("random_forest", {"max_features": 0.1}, {"max_features": 0.2}),
            ("random_forest", {"min_samples_leaf": 3, "max_features": 1.0}, {"max_features": 0.1}),
            ("logistic", {"C": 0.1}, {"C": 0.2}),
            ("ridge", {"alpha": 2.0}, {"alpha": 1.0}),
            ("elastic_net", {"alpha": 2.0}, {"alpha": 1.0}),
            ("knn", {"n_neighbors": 100}, {"n_neighbors": 1}),
            ("knn", {"weights": "uniform"}, {"weights": "distance"}),
            ("knn", {"n_neighbors": 3, "weights": "distance"}, {"weights": "uniform"}),
            ("mlp", {"hidden_layer_sizes": 8}, {"hidden_layer_sizes": 9}),
            ("mlp", {"alpha": 1.0}, {"alpha": 0.1}),
        ],
    )
    def test_obvious_cases(self, name, simple, complex_):
        space = READY[name]()
        middle = {"n_neighbors": 2, "min_samples_leaf": 2, "num_leaves": 8}
        base = {**draws(space, 1)[0], **{key: v for key, v in middle.items() if key in space}}
        assert space.complexity(base | simple) < space.complexity(base | complex_)

    def test_changed_ranges_and_added_parameters_keep_it(self):
        space = spaces.lightgbm() | {
            "reg_lambda": FloatDistribution(1, 2),
            "path_smooth": FloatDistribution(0, 1),
        }
        assert isinstance(space, Space)
        assert math.isfinite(space.complexity(draws(space, 1)[0]))

    def test_a_fixed_parameter_is_left_out(self):
        space = spaces.svm()
        del space["gamma"]
        assert space.complexity({"C": 100.0}) == 2.0

    @pytest.mark.parametrize(
        "other",
        [
            {"gamma": CategoricalDistribution(["scale", "auto"])},
            {"gamma": CategoricalDistribution([0.1, "scale"])},
            {"kernel": CategoricalDistribution(["rbf", "linear"])},
        ],
    )
    def test_none_if_some_candidates_cannot_be_placed(self, other):
        assert (spaces.svm() | other).complexity is None
        assert (spaces.svm() | {"kernel": CategoricalDistribution(["rbf"])}).complexity is not None

    @pytest.mark.parametrize(
        ("name", "key"),
        [
            ("lightgbm", "num_leaves"),
            ("xgboost", "max_depth"),
            ("hist_gradient_boosting", "max_leaf_nodes"),
            ("random_forest", "min_samples_leaf"),
            ("ridge", "alpha"),
            ("knn", "n_neighbors"),
            ("mlp", "hidden_layer_sizes"),
        ],
    )
    def test_none_without_what_it_needs(self, name, key):
        space = READY[name](prefix="step__")
        del space[f"step__{key}"]
        assert space.complexity is None

    def test_no_limit_is_not_the_smallest_tree(self):
        """0 in XGBoost, -1 in LightGBM and None in scikit-learn mean trees of any depth."""
        for unlimited in (0, -1):
            space = spaces.xgboost() | {"max_depth": IntDistribution(unlimited, 8)}
            assert space.complexity is None
        space = spaces.lightgbm() | {"max_depth": IntDistribution(-1, 8)}
        base = draws(spaces.lightgbm(), 1)[0] | {"num_leaves": 100}
        shallow, any_depth = ({**base, "max_depth": depth} for depth in (2, -1))
        assert space.complexity(shallow) < space.complexity(any_depth)

    def test_a_candidate_that_cannot_be_placed_is_the_most_complex(self):
        assert spaces.svm().complexity({"C": 1.0}) == math.inf
        assert spaces.svm(prefix="svc__").complexity({"C": 1.0, "gamma": 1.0}) == math.inf

    def test_a_measure_of_the_users_own(self):
        space = Space({"depth": IntDistribution(1, 3)}, measure=lambda p: p["depth"])
        assert space.complexity({"depth": 2}) == 2
        assert Space({"depth": IntDistribution(1, 3)}).complexity is None


class TestCopies:
    @pytest.mark.parametrize(
        "copied",
        [
            lambda s: s.copy(),
            copy.copy,
            copy.deepcopy,
            lambda s: pickle.loads(pickle.dumps(s)),
            Space,
            lambda s: s | {},
            lambda s: {} | s,
            lambda s: s | s,
        ],
    )
    def test_keep_the_measure(self, copied):
        space = spaces.svm(prefix="svc__")
        other = copied(space)
        assert isinstance(other, Space)
        assert other is not space
        assert other == space
        assert other.complexity({"svc__C": 10.0, "svc__gamma": 10.0}) == 2.0
        other["svc__C"] = FloatDistribution(0, 1)
        assert space == spaces.svm(prefix="svc__")

    def test_the_right_side_wins(self):
        other = {"C": FloatDistribution(1, 2)}
        assert (spaces.svm() | other)["C"] == other["C"]
        assert (other | spaces.svm())["C"] == spaces.svm()["C"]
        space = spaces.svm()
        same = space
        space |= other
        assert space is same
        assert space["C"] == other["C"]
        assert space.complexity is not None

    def test_two_models_have_no_common_measure(self):
        both = spaces.svm(prefix="a__") | spaces.ridge(prefix="b__")
        assert len(both) == 3
        assert both.complexity is None
        space = spaces.svm(prefix="a__")
        space |= spaces.ridge(prefix="b__")
        assert space.complexity is None

    def test_a_space_without_a_measure_takes_the_others(self):
        space = Space({"pca__n_components": IntDistribution(1, 3)}) | spaces.ridge(prefix="ridge__")
        assert space.complexity({"pca__n_components": 2, "ridge__alpha": 10.0}) == -1.0

    def test_only_mappings_can_be_joined(self):
        with pytest.raises(TypeError):
            spaces.svm() | [1]
        with pytest.raises(TypeError):
            [1] | spaces.svm()


class TestCheck:
    ANY = FloatDistribution(0, 1)

    @pytest.mark.parametrize(
        ("key", "estimator", "message"),
        [
            ("gama", SVC(), "'gama' is no parameter of SVC; did you mean 'gamma'?"),
            ("Gamma", SVC(), "did you mean 'gamma'?"),
            ("svc__C", SVC(), "did you mean 'C'?"),
            ("zzzz", linear_model.Ridge(), "'zzzz' is no parameter of Ridge; it has ['alpha', "),
            ("C", make_pipeline(StandardScaler(), SVC()), "did you mean 'svc__C'?"),
            ("SVC__C", make_pipeline(StandardScaler(), SVC()), "did you mean 'svc__C'?"),
            ("svc__gama", make_pipeline(StandardScaler(), SVC()), "did you mean 'svc__gamma'?"),
            ("gama", make_pipeline(StandardScaler(), SVC()), "did you mean 'svc__gamma'?"),
            ("svcC", make_pipeline(StandardScaler(), SVC()), "did you mean 'svc__C'?"),
            (1, SVC(), "1 is no parameter of SVC; parameters are named by text"),
        ],
    )
    def test_unknown_names(self, key, estimator, message):
        with pytest.raises(ProblemError) as error:
            check({key: self.ANY}, estimator)
        assert message in str(error.value)

    def test_every_unknown_name_is_told_and_steps_are_told_apart(self):
        pipeline = Pipeline([("first", SVC()), ("second", SVC())])
        with pytest.raises(ProblemError) as error:
            check(spaces.svm(), pipeline)
        assert "'gamma' is no" in str(error.value)
        assert "did you mean 'first__C' or 'second__C'?" in str(error.value)

    def test_options_beyond_the_named_parameters(self):
        lgb = pytest.importorskip("lightgbm")
        with pytest.raises(ProblemError, match="If LGBMRegressor takes 'path_smooth' as an option"):
            check({"path_smooth": self.ANY}, lgb.LGBMRegressor())
        check({"path_smooth": self.ANY}, lgb.LGBMRegressor(path_smooth=0.0))
        with pytest.raises(ProblemError, match="If LGBMRegressor takes"):
            check({"m__path_smooth": self.ANY}, Pipeline([("m", lgb.LGBMRegressor())]))

    @pytest.mark.parametrize("value", [(0, 1), [0.1, 1.0], 3, None])
    def test_values_that_are_no_distributions(self, value):
        with pytest.raises(ProblemError, match=r"'C' are .* not an Optuna distribution; use Float"):
            check({"C": value}, SVC())

    @pytest.mark.parametrize("space", [{}, Space()])
    def test_empty(self, space):
        with pytest.raises(ProblemError, match="empty"):
            check(space, SVC())

    def test_no_mapping_and_no_estimator(self):
        with pytest.raises(ProblemError, match=r"mapping .* got list"):
            check(["C"], SVC())
        for wrong in (SVC, "SVC"):
            with pytest.raises(ProblemError, match="must be an instance"):
                check(spaces.svm(), wrong)

    def test_names_alone(self):
        check_names(SVC(), ["C", "gamma"])
        with pytest.raises(ProblemError, match="'c' is no parameter of SVC; did you mean 'C'"):
            check_names(SVC(), {"c": 1.0})

    def test_a_prefix_without_underscores(self):
        with pytest.raises(ProblemError, match="such as 'svc__'; got 'svc'"):
            spaces.svm(prefix="svc")
