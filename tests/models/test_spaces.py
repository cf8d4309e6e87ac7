from __future__ import annotations

import json
import warnings

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from scipy import stats
from sklearn import ensemble, linear_model, neighbors, neural_network
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from shiftune.errors import ProblemError, SettingsError
from shiftune.models import _penalised, spaces
from shiftune.models._space import as_space, check_names, format_range

READY = {
    make.__name__: make
    for make in (
        spaces.svm,
        spaces.lightgbm,
        spaces.lightgbm_paper,
        spaces.xgboost,
        spaces.hist_gradient_boosting,
        spaces.random_forest,
        spaces.linear,
        spaces.kernel,
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
        "linear": (_penalised.ProductsClassifier(), _penalised.ProductsRegressor()),
        "kernel": (_penalised.KernelClassifier(), _penalised.KernelRegressor()),
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
        """And they fit the rows about as well as a constant does, or better."""
        model = models(name)[task == "regression"]
        if model is None:
            pytest.skip("there is no such model")
        X, classes, numbers = data
        space = READY[name]()
        as_space(space, model)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for params in draws(space):
                model.set_params(**params)
                if task == "classification":
                    right = (model.fit(X, classes).predict(X) == classes).mean()
                    assert right > 0.9 * max(classes.mean(), 1 - classes.mean())
                else:
                    assert ((model.fit(X, numbers).predict(X) - numbers) ** 2).mean() < 1.1

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
        as_space(space, pipeline)
        (params,) = draws(space, 1)
        pipeline.set_params(**params)

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


class TestCheck:
    ANY = FloatDistribution(0, 1)

    @pytest.mark.parametrize(
        ("key", "estimator", "message"),
        [
            ("gama", SVC(), "'gama' is not a parameter of SVC; did you mean 'gamma'?"),
            ("Gamma", SVC(), "did you mean 'gamma'?"),
            ("svc__C", SVC(), "did you mean 'C'?"),
            ("zzzz", linear_model.Ridge(), "'zzzz' is not a parameter of Ridge; it has ['alpha', "),
            ("C", make_pipeline(StandardScaler(), SVC()), "did you mean 'svc__C'?"),
            ("SVC__C", make_pipeline(StandardScaler(), SVC()), "did you mean 'svc__C'?"),
            ("svc__gama", make_pipeline(StandardScaler(), SVC()), "did you mean 'svc__gamma'?"),
            ("gama", make_pipeline(StandardScaler(), SVC()), "did you mean 'svc__gamma'?"),
            ("svcC", make_pipeline(StandardScaler(), SVC()), "did you mean 'svc__C'?"),
            (1, SVC(), "1 is not a parameter of SVC; parameters are named by text"),
        ],
    )
    def test_unknown_names(self, key, estimator, message):
        with pytest.raises(ProblemError) as error:
            as_space({key: self.ANY}, estimator)
        assert message in str(error.value)

    def test_every_unknown_name_is_told_and_steps_are_told_apart(self):
        pipeline = Pipeline([("first", SVC()), ("second", SVC())])
        with pytest.raises(ProblemError) as error:
            as_space(spaces.svm(), pipeline)
        assert "'gamma' is no" in str(error.value)
        assert "did you mean 'first__C' or 'second__C'?" in str(error.value)

    def test_options_beyond_the_named_parameters(self):
        lgb = pytest.importorskip("lightgbm")
        with pytest.raises(ProblemError, match="If LGBMRegressor takes 'path_smooth' as an option"):
            as_space({"path_smooth": self.ANY}, lgb.LGBMRegressor())
        as_space({"path_smooth": self.ANY}, lgb.LGBMRegressor(path_smooth=0.0))
        with pytest.raises(ProblemError, match="If LGBMRegressor takes"):
            as_space({"m__path_smooth": self.ANY}, Pipeline([("m", lgb.LGBMRegressor())]))

    def test_parameters_that_are_listed_only_with_a_value(self):
        """As those of CatBoost."""

        class Terse(linear_model.Ridge):
            def __init__(self, alpha=None, tol=None):
                self.alpha, self.tol = alpha, tol

            def get_params(self, deep=True):
                return {name: value for name, value in vars(self).items() if value is not None}

        check_names(Terse(), ["alpha"])
        check_names(make_pipeline(Terse()), ["terse__tol"])
        with pytest.raises(SettingsError, match="did you mean 'alpha'"):
            check_names(Terse(), ["alfa"])

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ([0.1, 1], CategoricalDistribution([0.1, 1])),
            (np.array([0.1, 1.0]), CategoricalDistribution([0.1, 1.0])),
            ((0.1, 1), FloatDistribution(0.1, 1)),
            ((np.float64(0.1), 1, "log"), FloatDistribution(0.1, 1, log=True)),
            ((1, 8), IntDistribution(1, 8)),
            ((1, 8, "log"), IntDistribution(1, 8, log=True)),
            (range(2, 9, 3), IntDistribution(2, 8, step=3)),
            (stats.uniform(1, 4), FloatDistribution(1, 5)),
            (stats.loguniform(0.1, 10), FloatDistribution(0.1, 10, log=True)),
            (stats.randint(2, 7), IntDistribution(2, 6)),
        ],
    )
    def test_other_forms(self, given, expected):
        assert as_space({"C": given}, SVC()) == {"C": expected}

    @pytest.mark.parametrize(
        "value",
        [
            3,
            None,
            "rbf",
            (1, 2, 3),
            (1, 2, 3, 4),
            (True, False),
            stats.norm(),
            range(0),
            [],
            (2, 1),
        ],
    )
    def test_values_that_are_no_distributions(self, value):
        with pytest.raises(SettingsError, match="the values of 'C' are "):
            as_space({"C": value}, SVC())

    def test_empty(self):
        with pytest.raises(ProblemError, match="empty"):
            as_space({}, SVC())

    def test_no_mapping_and_no_estimator(self):
        with pytest.raises(ProblemError, match=r"mapping .* got list"):
            as_space(["C"], SVC())
        for wrong in (SVC, "SVC"):
            with pytest.raises(ProblemError, match="must be an instance"):
                as_space(spaces.svm(), wrong)

    def test_names_alone(self):
        check_names(SVC(), ["C", "gamma"])
        with pytest.raises(ProblemError, match="'c' is not a parameter of SVC; did you mean 'C'"):
            check_names(SVC(), {"c": 1.0})

    def test_ranges_in_words(self):
        assert format_range(IntDistribution(1, 100, log=True)) == "1 to 100, whole, log"
        assert format_range(CategoricalDistribution(["rbf", "poly"])) == "rbf or poly"

    def test_a_prefix_without_underscores(self):
        with pytest.raises(ProblemError, match="such as 'svc__'; got 'svc'"):
            spaces.svm(prefix="svc")


class _Network:
    """Module of a network, as skorch takes it: a class, whose arguments have its name in front."""

    def __init__(self, units=4):
        self.units = units


class _Net(BaseEstimator):
    def __init__(self, module=_Network, kind=type):
        self.module = module
        self.kind = kind


def test_arguments_of_a_class_are_parameters():
    assert list(as_space({"module__units": (1, 8)}, _Net())) == ["module__units"]
    with pytest.raises(SettingsError, match="did you mean 'module__units'"):
        as_space({"module__unit": (1, 8)}, _Net())
