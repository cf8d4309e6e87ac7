"""What users of scikit-learn, Optuna and pandas try, and what they get: a table of guesses.

Every guess is an expression. It is True, or raises a ProblemError with the given words.
"""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import optuna
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.base import clone, is_regressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftune import ShiftProblem, ShiftSearch
from shiftune.errors import ProblemError, SearchWarning


def fitted(estimator, space, problem, **options):
    settings = {"n_trials": 2, "sampler": "random", "final": "best"} | options
    return ShiftSearch(estimator, space, **settings).fit(problem)


@pytest.fixture(scope="module")
def names():
    """What the expressions can use."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(90, 2)), columns=["age", "dose"])
    y = X["age"].to_numpy() + rng.normal(size=90)
    sites = np.repeat(["B", "C", "D"], 30)
    X_target = X[:20] + 0.1
    problem = ShiftProblem.from_arrays(X, y, sites, X_target)
    classes = ShiftProblem.from_arrays(X, np.where(y > 0, "yes", "no"), sites, X_target)

    def fit(space, **options):
        return fitted(Ridge(), space, problem, **options)

    search = fit({"alpha": (0.1, 10.0)}, n_trials=3)
    return locals() | {
        "np": np,
        "pd": pd,
        "optuna": optuna,
        "stats": stats,
        "sparse": sparse,
        "pickle": pickle,
        "fitted": fitted,
        "make_pipeline": make_pipeline,
        "StandardScaler": StandardScaler,
        "clone": clone,
        "is_regressor": is_regressor,
        "Ridge": Ridge,
        "ShiftSearch": ShiftSearch,
        "ShiftProblem": ShiftProblem,
    }


WORKS = [
    # scikit-learn: attributes of a fitted search
    "search.best_score_ == -search.risk_.value",
    "search.cv_results_['params'][search.best_index_] == search.best_params_",
    "len(search.cv_results_['mean_test_score']) == 3",
    "'split2_test_score' in search.cv_results_",
    "pd.DataFrame(search.cv_results_).sort_values('rank_test_score').shape[0] == 3",
    "search.n_features_in_ == 2",
    "list(search.feature_names_in_) == ['age', 'dose']",
    "search.best_estimator_.alpha == search.best_params_['alpha']",
    "search.score(X, y) < 0",
    "search.predict(X[['dose', 'age']])[0] == search.predict(X)[0]",
    "search.predict(X.assign(ward='icu'))[0] == search.predict(X)[0]",
    "search.predict(X.to_numpy())[0] == search.predict(X)[0]",
    "search.predict(X[:0]).shape == (0,)",
    "clone(search).n_trials == 3",
    "search.get_params()['estimator__alpha'] == 1.0",
    "search.set_params(n_trials=3) is search",
    "is_regressor(search)",
    "not hasattr(search, 'predict_proba')",
    # Optuna: the study
    "len(search.study_.trials) == 3",
    "search.study_.best_params == search.best_params_",
    "search.study_.trials_dataframe().shape[0] == 3",
    # spaces in other forms
    "fit({'alpha': [1.0]}).best_params_ == {'alpha': 1.0}",
    "fit({'alpha': np.array([1.0])}).best_params_ == {'alpha': 1.0}",
    "1 <= fit({'alpha': (1, 8)}).best_params_['alpha'] <= 8",
    "1 <= fit({'alpha': (1.0, 8.0, 'log')}).best_params_['alpha'] <= 8",
    "set(fit({'alpha': range(3, 4)}).cv_results_['param_alpha'].compressed()) == {3}",
    "1 <= fit({'alpha': stats.uniform(1, 2)}).best_params_['alpha'] <= 3",
    "1 <= fit({'alpha': stats.loguniform(1, 2)}).best_params_['alpha'] <= 2",
    "fit({'alpha': stats.randint(1, 2)}).best_params_ == {'alpha': 1}",
    "fit(lambda trial: {'alpha': trial.suggest_int('alpha', 2, 2)}).trials_['param_alpha'][1] == 2",
    # losses by other names
    "fit({'alpha': [1.0]}, loss='mse').result_.loss.name == 'squared'",
    "fit({'alpha': [1.0]}, loss='neg_mean_absolute_error').result_.loss.name == 'absolute'",
    "fit({'alpha': [1.0]}, loss='mae').result_.loss.name == 'absolute'",
    # data in other forms
    "ShiftSearch(Ridge(), {'alpha': [1.0]}, n_trials=1).fit("
    "X, y, groups=sites, X_target=X_target).n_features_in_ == 2",
    "ShiftSearch(Ridge(), {'alpha': [1.0]}, n_trials=1).fit("
    "X.to_numpy().tolist(), list(y), groups=list(sites), X_target=X_target.to_numpy().tolist())"
    ".n_features_in_ == 2",
    "ShiftSearch(Ridge(), {'alpha': [1.0]}, n_trials=1).fit("
    "sparse.csr_matrix(X), y, groups=sites, X_target=sparse.csr_array(X_target))"
    ".predict(sparse.csr_matrix(X)).shape == (90,)",
    "ShiftProblem.from_frame(X.assign(s=sites, y=y), site='s', label='y', target='D', "
    "target_labels='oracle').names == ['B', 'C']",
    "ShiftProblem.from_sites([(X[:30], y[:30]), (X[30:60], y[30:60])], X_target).task "
    "== 'regression'",
    "list(ShiftProblem.from_arrays(X, y, pd.Series(sites), X_target).columns) == ['age', 'dose']",
    # weights of rows
    "ShiftProblem.from_arrays(X, y, sites, X_target, sample_weight=np.full(90, 2.0))"
    ".sources[0].sample_weight[0] == 2",
    "ShiftProblem.from_arrays(X, y, sites, X_target, sample_weight=pd.Series(np.full(90, 2.0)))"
    ".sources[0].sample_weight[0] == 2",
    "ShiftSearch(Ridge(), {'alpha': [1.0]}, n_trials=1).fit(X, y, groups=sites, "
    "X_target=X_target, sample_weight=np.arange(1, 91)).best_score_ < 0",
    "search.score(X, y, sample_weight=np.ones(90)) == search.score(X, y)",
    # the model as it was given, and what else GridSearchCV has
    "search.cv_results_['params'][0] == {'alpha': 1.0}",
    "fit({'alpha': (5.0, 6.0)}, n_trials=1).best_params_ == {'alpha': 1.0}",
    "fit({'alpha': (5.0, 6.0)}, n_trials=1).best_estimator_.alpha == 1.0",
    "search.best_index_ == search.cv_results_['rank_test_score'].argmin()",
    "len(search.trials_) == search.n_trials",
    "search.predictor_.predict(X).shape == (90,)",
    "search.refit() is search",
    "repr(search).startswith('ShiftSearch(')",
    "clone(search).set_params(estimator__alpha=3.0).estimator.alpha == 3.0",
    "pickle.loads(pickle.dumps(search)).predict(X)[0] == search.predict(X)[0]",
    "make_pipeline(StandardScaler(), Ridge()).fit(X, y) is not None and fitted("
    "make_pipeline(StandardScaler(), Ridge()), {'ridge__alpha': [1.0]}, problem)"
    ".best_params_ == {'ridge__alpha': 1.0}",
    # Optuna's study, and searches that are stopped
    "search.study_.trials[0].user_attrs['defaults']",
    "search.study_.best_value == search.trials_['criterion'].min()",
    "fit({'alpha': [1.0]}, callbacks=[lambda study, trial: study.stop()]).trials_.shape[0] == 1",
    "fit({'alpha': [1.0]}, timeout=1e-9).trials_.shape[0] == 1",
]

REFUSED = {
    "ShiftSearch(Ridge()).fit(problem)": "needs a search space",
    "ShiftSearch(Ridge, {'alpha': [1.0]}).fit(problem)": "must be a scikit-learn model",
    "ShiftSearch('rigde').fit(problem)": "did you mean 'ridge'",
    "fit({'Alpha': [1.0]})": "did you mean 'alpha'",
    "fit([{'alpha': [1.0]}])": "got list",
    "fit({'alpha': 1.0})": "give a list of choices, a range",
    "fit({'alpha': stats.norm()})": "uniform, loguniform or randint",
    "fit({'alpha': (2.0, 1.0)})": "the values of 'alpha'",
    "fit({'alpha': []})": "the values of 'alpha'",
    "fit({'alpha': [1.0]}, loss='brier_score')": "is for classes, and the labels are quantities",
    "fit({'alpha': [1.0]}, loss='r2')": "use loss='squared'",
    "fit({'alpha': [1.0]}, loss='log_loss')": "the loss 'log_loss' is for classes",
    "fitted('logistic', None, classes, loss='rmse')": (
        "the loss 'rmse' is for quantities, and the labels are classes; choose from log_loss, brier"
    ),
    "fitted(Ridge(), {'alpha': [1.0]}, classes, loss='mae')": "the loss 'mae' is for quantities",
    "fit({'alpha': [1.0]}, n_trials=0)": "n_trials",
    "ShiftSearch(Ridge(), {'alpha': [1.0]}).fit(X, y)": "X_target=",
    "clone(search).fit(problem, sample_weight=np.ones(90))": "sample_weight are part of it",
    "search.fit(problem, eval_set=[])": "give options of the model to its constructor",
    "clone(search).fit(X, y, groups=sites, X_target=X, sample_weight=np.zeros(90))": (
        "site 'B': the weight of row 0 is 0"
    ),
    "clone(search).fit(X, y, groups=sites, X_target=X, sample_weight=[1.0])": "sample_weight",
    "fit({'alpha': [1.0]}, catch='all')": "catch must be an exception class",
    "fit({'alpha': [1.0]}, callbacks=print)": "callbacks must be a list",
    "fit({'alpha': [1.0]}, sampler='grid')": "gp_lcb",
    "fit({'alpha': [1.0]}, random_state=None)": "random_state must be a whole number",
    "ShiftSearch(['ridge', 'ridge']).fit(problem)": "ridge",
    "ShiftSearch(Ridge(), {'alpha': [1.0]}).predict(X)": "call fit first",
    "ShiftSearch(Ridge(), {'alpha': [1.0]}).best_score_": "call fit first",
    "ShiftSearch(Ridge(), {'alpha': [1.0]}).cv_results_": "call fit first",
    "search.predict(X[['age']])": "reads: 'dose'",
    "search.predict(np.zeros((3, 5)))": "5 columns",
    "search.score(X, y[:5])": "5 labels",
    "ShiftProblem.from_arrays(np.zeros((90, 0)), y, sites, np.zeros((5, 0)))": "no feature columns",
    "ShiftProblem.from_arrays(X, np.stack([y, y], 1), sites, X_target)": "several labels",
    "ShiftProblem.from_arrays(X, np.array([(True, 1.0)] * 90, dtype='?,f8'), sites, X_target)": (
        "survival"
    ),
}


@pytest.mark.parametrize("guess", WORKS)
def test_works(guess, names):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SearchWarning)
        assert eval(guess, dict(names))


@pytest.mark.parametrize("guess", REFUSED)
def test_is_refused_in_words(guess, names):
    with pytest.raises(ProblemError) as error:
        eval(guess, dict(names))
    assert REFUSED[guess] in " ".join(str(error.value).split())


def test_a_root_is_tuned_by_its_square(names):
    with pytest.warns(SearchWarning, match="tunes the squared error"):
        found = fitted(Ridge(), {"alpha": [1.0]}, names["problem"], loss="rmse")
    assert found.result_.loss.name == "squared"
