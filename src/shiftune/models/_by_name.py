"""Models by name: pipelines from columns of any kind, each with a ready search space.

The parts of a pipeline, the table of models, and how one of them is made for a table of some size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    TransformerMixin,
    clone,
    is_classifier,
)
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import LabelEncoder, StandardScaler

from shiftune import _names
from shiftune._names import AUTO, ModelName, Task, complete
from shiftune._wording import check_choice, how_to_install, loss_name
from shiftune.columns import Columns
from shiftune.columns._column import ColumnKind, as_text
from shiftune.errors import DataError, MissingPackageError, SettingsError
from shiftune.rows._encoding import MISSING, one_hot

if TYPE_CHECKING:
    from shiftune.models._space import Space


class ColumnReader(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scikit-learn transformer that reads columns; missing categories are text."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        """Learn nothing."""
        self.fitted_ = True
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the columns as floats and text; their names become text."""
        if not isinstance(X, pd.DataFrame):
            raise DataError(
                f"the model reads a DataFrame with the columns {list(self.columns)}, got "
                f"{type(X).__name__}"
            )
        read, values = self.columns.read(X), {}
        for name in self.columns.numbers:
            values[str(name)] = read[name].to_numpy(dtype=float, na_value=np.nan)
        for name in self.columns.categories:
            text = read[name] if read[name].dtype == object else as_text(read[name])
            values[str(name)] = text.fillna(MISSING)
        return pd.DataFrame(values, read.index)


def preparation(columns: Columns | None) -> Pipeline:
    """Return a pipeline from columns of any kind to a float array without gaps.

    Without columns the rows are arrays of numbers.

    Numbers and dates: the median where they are missing, with a 0/1 column that marks it; scaled to
    mean 0 and standard deviation 1. Categories: a 0/1 column for each of the 20 most frequent,
    missing being one of them, and one for all others.
    """
    filled = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    numbers = Pipeline([("fill", filled), ("scale", StandardScaler())])
    if columns is None:
        return numbers
    names = [[*map(str, part)] for part in (columns.numbers, columns.categories)]
    encoder = ColumnTransformer(
        [("numbers", numbers, names[0]), ("categories", one_hot(), names[1])]
    )
    return Pipeline([("read", ColumnReader(columns)), ("encode", encoder)])


def needs_numbers(model: Any, classes: NDArray[Any]) -> bool:
    """Whether a model is a classifier of XGBoost, and the classes are not 0, 1, 2, ..."""
    if not type(model).__module__.startswith("xgboost.") or not is_classifier(model):
        return False
    return list(classes) != list(range(len(classes)))


class NumberedClasses(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier of any classes, around one that needs numbers, such as XGBoost's."""

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a clone of the classifier to the numbers of the classes."""
        self.encoder_ = LabelEncoder().fit(y)
        self.classes_ = self.encoder_.classes_
        numbers = self.encoder_.transform(y)
        self.classifier_ = clone(self.classifier).fit(X, numbers, sample_weight=sample_weight)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict classes, as they were given."""
        return np.asarray(self.encoder_.inverse_transform(self.classifier_.predict(X)))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict probabilities of shape (n, C), in the order of `classes_`."""
        return np.asarray(self.classifier_.predict_proba(X))


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Recipe of a model that is available by name; `spaces` has its space under the same name.

    Attributes
    ----------
    about : str
        Description in a few words.
    module : str
        Module of its classes.
    classes : dict from task to name
        One for every task that the model is for.
    options : dict
        Arguments of the classes.
    scaled_label : bool
        Whether the regressor needs a standardised label.
    wrapper : function or None
        Wrapper of the classifier, and the prefix of the model's parameters in it.
    """

    about: str
    module: str
    classes: Mapping[Task, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    scaled_label: bool = False
    wrapper: tuple[Callable[[Any], Any], str] | None = None

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Tasks that the model has a class for."""
        return tuple(self.classes)


class TableSize(NamedTuple):
    """Size of the data that a model is fitted to, which limits what it may cost.

    `rows` is the fewest that any fit has, `columns` the number after `preparation`, `outside` the
    share of the target's rows with a value beyond those of all sources.
    """

    rows: int
    columns: int
    outside: float = 0.0
    classes: int = 0


@dataclass(frozen=True, slots=True)
class ReadyModel:
    """A pipeline for a table's columns, the model inside it, and its ready space.

    Attributes
    ----------
    pipeline : Pipeline
        Reads data frames.
    bare : estimator
        The model itself; parameters go by its names in files and on the screen.
    prefix : str
        Prefix of these names in the pipeline.
    space : Space
        The ready space, in the bare model's names.
    """

    pipeline: Pipeline
    bare: Any
    prefix: str
    space: Space

    def in_pipeline(self, space: Space) -> Space:
        """Return a space in the pipeline's names."""
        return {self.prefix + name: distribution for name, distribution in space.items()}


def _calibrated(classifier: Any) -> Any:
    from sklearn.calibration import CalibratedClassifierCV

    return CalibratedClassifierCV(classifier, cv=3, ensemble=False)


# Trials run side by side in processes of their own; threads of several models on the same cores
# wait for each other, and on small tables already those of a single one.
_ONE_THREAD = {"n_jobs": 1}
# LightGBM's own choice between histograms by rows and by columns depends on a measured time.
_LIGHTGBM = {"verbosity": -1, "force_row_wise": True, "max_bin": 63, **_ONE_THREAD}


def _both(stem: str) -> dict[Task, str]:
    return {"regression": f"{stem}Regressor", "classification": f"{stem}Classifier"}


MODELS: dict[ModelName, KnownModel] = complete(
    _names.MODELS,
    {
        "lightgbm": KnownModel(
            "boosted trees, LightGBM", "shiftune.models._boosted", _both("Boosted"), _LIGHTGBM
        ),
        "lightgbm_l1": KnownModel(
            "boosted trees, LightGBM, for absolute errors",
            "shiftune.models._boosted",
            {"regression": "BoostedRegressor"},
            {"objective": "l1", **_LIGHTGBM},
        ),
        "xgboost": KnownModel(
            "boosted trees, XGBoost",
            "xgboost",
            _both("XGB"),
            _ONE_THREAD,
            wrapper=(NumberedClasses, "classifier__"),
        ),
        "hist_gradient_boosting": KnownModel(
            "boosted trees, scikit-learn", "sklearn.ensemble", _both("HistGradientBoosting")
        ),
        "random_forest": KnownModel("averaged trees", "sklearn.ensemble", _both("RandomForest")),
        "linear": KnownModel(
            "linear, with products of columns", "shiftune.models._penalised", _both("Products")
        ),
        "kernel": KnownModel(
            "kernel machine, Nystroem features", "shiftune.models._penalised", _both("Kernel")
        ),
        "ridge": KnownModel(
            "linear, squared penalty", "sklearn.linear_model", {"regression": "Ridge"}
        ),
        "elastic_net": KnownModel(
            "linear, sparse",
            "sklearn.linear_model",
            {"regression": "ElasticNet"},
            {"max_iter": 5000},
            scaled_label=True,
        ),
        "logistic": KnownModel(
            "linear, for classes",
            "sklearn.linear_model",
            {"classification": "LogisticRegression"},
            {"max_iter": 1000},
        ),
        "svm": KnownModel(
            "support vectors, RBF kernel",
            "sklearn.svm",
            {"regression": "SVR", "classification": "SVC"},
            scaled_label=True,
            wrapper=(_calibrated, "estimator__"),
        ),
        "knn": KnownModel("nearest neighbours", "sklearn.neighbors", _both("KNeighbors")),
        "mlp": KnownModel(
            "neural network, one hidden layer",
            "sklearn.neural_network",
            _both("MLP"),
            {"max_iter": 2000},
            scaled_label=True,
        ),
    },
)

# The families of "auto": unlike each other, and in the order of their cost. With forests beside
# them the ensemble was worse in the arena (`benchmarks/results/ensembles.md`).
AUTO_FAMILIES: tuple[ModelName, ...] = ("linear", "kernel", "lightgbm")

# Boosted trees of a model: rows times columns times trees stay below this, so that a fit, and a
# prediction of 10,000 rows, take less than half a second; but this many rounds may always be grown.
# Twice as many, with half the least rate, were no better (`benchmarks/results/boosted.md`).
_CELLS_OF_ALL_TREES = 3_000_000
_ENOUGH_ROUNDS = 100
# Squares and products of 20 columns are 230 features; of more columns they would be thousands.
_MOST_SQUARED = 20
# Nor are there any where a larger share of the target's rows lies beyond all sources: squares and
# products are wrong there first (`benchmarks/results/ensembles.md`).
_MOST_OUTSIDE = 0.25


def ready_model(
    name: str,
    task: Task,
    columns: Columns | Mapping[str, ColumnKind] | None,
    *,
    size: TableSize | None = None,
) -> ReadyModel:
    """Return a model by name, for a table with these columns.

    Parameters
    ----------
    name : one of `MODELS`
    task : {"classification", "regression"}
    columns : Columns, or mapping from column names to "number", "category" or "date", or None
        The columns that the model reads; None for arrays of numbers.
    size : TableSize, optional
        Limits the number of neighbours by the rows, squares and products to tables of few
        columns, and the number of boosted trees.

    Examples
    --------
    >>> model = ready_model("svm", "regression", {"age": "number"})
    >>> type(model.bare).__name__, model.prefix, sorted(model.space)
    ('SVR', 'model__regressor__', ['C', 'gamma'])
    """
    model = MODELS[check_choice(name, MODELS, "model")]
    if task not in model.tasks:
        others = [other for other, m in MODELS.items() if task in m.tasks]
        raise SettingsError(
            f"the model {name!r} is for {model.tasks[0]}, not for {task}; models for {task}: "
            f"{', '.join(others)}"
        )
    try:
        module = import_module(model.module)
    except ImportError as error:
        missing = error.name or model.module
        raise MissingPackageError(
            f"the model {name!r} needs the package {missing}: {how_to_install(missing)}"
        ) from error
    # Optuna, which spaces are made of, is loaded by searches only: no stored model needs it.
    from shiftune.models import spaces

    bare, space = getattr(module, model.classes[task])(**model.options), getattr(spaces, name)()
    if size is not None:
        _limit(bare, space, size)
    inside, prefix = bare, ""
    if task == "classification" and model.wrapper is not None:
        wrap, prefix = model.wrapper
        inside = wrap(bare)
    elif task == "regression" and model.scaled_label:
        inside = TransformedTargetRegressor(bare, transformer=StandardScaler())
        prefix = "regressor__"
    if columns is not None and not isinstance(columns, Columns):
        columns = Columns.of_kinds(columns)
    pipeline = Pipeline([*preparation(columns).steps, ("model", inside)])
    return ReadyModel(pipeline, bare, f"model__{prefix}", space)


def _limit(bare: Any, space: Space, size: TableSize) -> None:
    """Bound the cost of a model, and leave out what a table of this size has no use for."""
    from optuna.distributions import IntDistribution

    neighbours = space.get("n_neighbors")
    if isinstance(neighbours, IntDistribution):
        # The paper's estimators train on half of the rows.
        most = max(1, min(neighbours.high, size.rows // 2))
        space["n_neighbors"] = IntDistribution(neighbours.low, most, log=neighbours.log)
    for rounds in ("n_estimators", "max_iter"):
        if isinstance(grown := space.get(rounds), IntDistribution):
            trees = size.classes if size.classes > 2 else 1  # of a round
            most = _CELLS_OF_ALL_TREES // (size.rows * max(size.columns, 1) * trees or 1)
            most = min(grown.high, max(most, _ENOUGH_ROUNDS))
            space[rounds] = IntDistribution(grown.low, most, log=grown.log)
    if "degree" in space:
        if size.columns <= _MOST_SQUARED and size.outside <= _MOST_OUTSIDE:
            bare.set_params(degree=2)
        else:
            del space["degree"]


def expand_auto(wanted: Iterable[str], task: Task | None = None, loss: Any = None) -> list[str]:
    """Return names of models, each once, with those that "auto" stands for in its place.

    For absolute errors of quantities LightGBM also minimises these, in a family of its own.

    >>> expand_auto(["ridge", "auto", "linear"])[:3]
    ['ridge', 'linear', 'kernel']
    """
    boosted = "lightgbm" if find_spec("lightgbm") else "hist_gradient_boosting"  # what is installed
    auto = [boosted if name == "lightgbm" else name for name in AUTO_FAMILIES]
    loss = loss_name(loss) if isinstance(loss, str) else getattr(loss, "name", None)
    if boosted == "lightgbm" and task == "regression" and loss == "absolute":
        auto.append("lightgbm_l1")  # `benchmarks/results/l1.md`
    names = [family for name in wanted for family in (auto if name == AUTO else [name])]
    return list(dict.fromkeys(names))
