"""The paper's three experiments: data, learner and score of each."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from optuna.distributions import FloatDistribution
from sklearn.base import clone
from sklearn.svm import SVR

from reproduction.choosing import Choice, Learner, choose
from reproduction.data import load_gvhd, load_parkinson
from reproduction.settings import TRAIN_SHARE
from reproduction.toy import ConstantPrediction, toy_problem
from reproduction.weights import source_weights
from shiftune._files import atomic_write
from shiftune._wording import how_to_install
from shiftune.errors import DataError, MissingPackageError
from shiftune.evaluate._fits import fit, seeded
from shiftune.evaluate._losses import loss_named
from shiftune.models import spaces
from shiftune.problem import ShiftProblem, Site
from shiftune.search import ShiftSearch

if TYPE_CHECKING:
    from pathlib import Path

    from reproduction.choosing import MethodName
    from reproduction.settings import Setting

DATA, WEIGHTS = "data.json", "weights.csv"
MOST_STEPS = 500_000
# Column of Parkinson's features with the time of the recording.
TEST_TIME = 0


@dataclass(frozen=True, slots=True)
class Case:
    """One data set of an experiment: its seed, and for the toy problem its c."""

    seed: int
    c: float = np.nan


@dataclass(frozen=True, slots=True)
class Scored:
    """A choice and its loss at the target; for the toy problem also its true risk there."""

    choice: Choice
    score: float
    true_risk: float = np.nan


class Experiment(Protocol):
    """One of the paper's experiments."""

    @property
    def name(self) -> str:
        """Its name on the command line."""

    @property
    def options(self) -> dict[str, Any]:
        """Options that comparable runs share."""

    def prepare(self) -> None:
        """Raise a ProblemError if the data or the model is missing."""

    def cases(self, seeds: range) -> list[Case]:
        """Return the data sets for these seeds."""

    def run(self, method: MethodName, setting: Setting, case: Case) -> Scored:
        """Choose with one method in one setting, and score the choice."""

    def describe(self, folder: Path) -> None:
        """Write the facts about the data that the page quotes, unless they are there."""


@dataclass(frozen=True, slots=True)
class Toy:
    """The toy problem over c, with k sources and n rows per site.

    The weights of the sources are described on `weighed_seeds` problems.
    """

    budget: int = 50
    cs: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 5.0)
    k: int = 2
    n: int = 1000
    weighed_seeds: int = 60

    @property
    def name(self) -> str:
        """Its name on the command line."""
        return "toy"

    @property
    def options(self) -> dict[str, Any]:
        """Budget, sources and rows; further values of c can be added to the same runs."""
        return {"experiment": self.name, "budget": self.budget, "k": self.k, "n": self.n}

    def prepare(self) -> None:
        """Do nothing: data and model are always there."""

    def cases(self, seeds: range) -> list[Case]:
        """Return every c for every seed."""
        return [Case(seed, c) for seed in seeds for c in self.cs]

    def run(self, method: MethodName, setting: Setting, case: Case) -> Scored:
        """Choose theta; score it on the target's rows, as the paper does, and by its true risk."""
        toy = toy_problem(case.c, k=self.k, n=self.n, random_state=case.seed)
        learner = Learner(
            # The first trial is the model as given: -8 is far from what is best, as the paper has
            # no such trial, and 0 would be near it.
            ConstantPrediction(-8.0),
            {"theta": FloatDistribution(-8.0, 8.0)},
            "half_squared",
        )
        choice = choose(
            method,
            setting,
            toy.problem,
            learner,
            budget=self.budget,
            seed=case.seed,
            trained=False,
        )
        theta = choice.params["theta"]
        y = _oracle(toy.problem).labels
        return Scored(choice, float(toy.losses(theta, y).mean()), toy.true_risk(theta))

    def describe(self, folder: Path) -> None:
        """Write the weights of the sources by distance from the target."""
        if not (folder / WEIGHTS).exists():
            with atomic_write(folder / WEIGHTS) as part:
                source_weights(range(self.weighed_seeds), self.n).to_csv(part, index=False)


@dataclass(frozen=True, slots=True)
class Patients:
    """An experiment on real patients, one of whom is the target.

    Parkinson: an SVM and its mean absolute error. GvHD: LightGBM and binary cross-entropy.

    The chosen hyperparameters are scored as in the paper: the model is trained with them on 70 %
    of the target's labelled rows and its mean loss taken on the other 30 %.
    """

    name: Literal["parkinson", "gvhd"]
    budget: int = 50
    folder: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The budget; where the (checked) files lie makes no difference."""
        return {"experiment": self.name, "budget": self.budget}

    def prepare(self) -> None:
        """Read the data and import the model, before any run is begun."""
        _loaded(self.name, self.folder)
        LEARNERS[self.name]()

    def cases(self, seeds: range) -> list[Case]:
        """Return one data set per seed: the same patients, split differently."""
        return [Case(seed) for seed in seeds]

    def run(self, method: MethodName, setting: Setting, case: Case) -> Scored:
        """Choose, retrain on part of the target, score on the rest."""
        whole, learner = _loaded(self.name, self.folder), LEARNERS[self.name]()
        train, test = _halves(whole, case.seed)
        if method == "oracle":
            choice = self._oracle(setting, train, test, whole, learner, case.seed)
        else:
            seen = _oracle(whole) if setting.sees_all_target_rows else train
            problem = replace(whole, target=Site(seen.name, seen.X), oracle=None)
            choice = choose(method, setting, problem, learner, budget=self.budget, seed=case.seed)
        model = seeded(clone(learner.model).set_params(**choice.params), case.seed)
        fit(model, train.X, train.labels, None)
        loss = loss_named(learner.loss)
        predictions = getattr(model, loss.needs)(test.X)
        classes = model.classes_ if loss.needs == "predict_proba" else None
        return Scored(choice, float(loss(test.labels, predictions, classes).mean()))

    def describe(self, folder: Path) -> None:
        """Write the number of sources and, on Parkinson, how the label varies."""
        if not (folder / DATA).exists():
            whole = _loaded(self.name, self.folder)
            facts: dict[str, float] = {"sources": len(whole.sources)}
            if self.name == "parkinson":
                facts |= {
                    "between_patients": _share_between_sites(whole),
                    "error_by_time": _error_by_time(whole),
                }
            with atomic_write(folder / DATA) as part:
                part.write_text(json.dumps(facts, indent=2) + "\n")

    def _oracle(
        self,
        setting: Setting,
        train: Site,
        test: Site,
        whole: ShiftProblem,
        learner: Learner,
        seed: int,
    ) -> Choice:
        """Tune on the target itself: on its test rows, or within its training rows."""
        own = replace(
            whole,
            sources=(train,),
            target=Site("test rows", test.X),
            oracle=Site("test rows", test.X, test.labels),
        )
        sees = setting.oracle_sees_test
        search = ShiftSearch(
            learner.model,
            learner.space,
            loss=learner.loss,
            risk="oracle" if sees else "naive",
            shares=(0.0, 1.0, 0.0) if sees else (0.0, TRAIN_SHARE, 1 - TRAIN_SHARE),
            sampler=setting.sampler,
            n_trials=self.budget,
            progress=False,
            random_state=seed,
        ).fit(own)
        return Choice(search.best_params_, search.risk_)


def _svm() -> Learner:
    # A larger cache of kernel columns changes the time only: 4000 rows then fit in it.
    # With unscaled features, a large C and most of the weight on a few rows, libsvm would run for
    # hours; a usual fit takes some thousand steps.
    return Learner(SVR(kernel="rbf", cache_size=500, max_iter=MOST_STEPS), spaces.svm(), "absolute")


def _lightgbm() -> Learner:
    try:
        from lightgbm import LGBMClassifier
    except ImportError as error:
        raise MissingPackageError(
            f"the GvHD experiment tunes LightGBM; {how_to_install('lightgbm')}"
        ) from error
    model = LGBMClassifier(n_estimators=100, n_jobs=1, verbose=-1)
    return Learner(model, spaces.lightgbm_paper(), "log_loss")


LEARNERS = {"parkinson": _svm, "gvhd": _lightgbm}
LOADERS = {"parkinson": load_parkinson, "gvhd": load_gvhd}


@lru_cache(maxsize=2)
def _loaded(name: str, folder: str | None) -> ShiftProblem:
    """Read and check the files once per process."""
    return LOADERS[name](folder=folder)


def _oracle(problem: ShiftProblem) -> Site:
    if problem.oracle is None:
        raise DataError("the experiment needs the target's labels to score the choice")
    return problem.oracle


def _halves(problem: ShiftProblem, seed: int) -> tuple[Site, Site]:
    """The target's labelled rows for training and for scoring."""
    oracle = _oracle(problem)
    order = np.random.default_rng([seed, 70]).permutation(len(oracle))
    n_train = len(oracle) - int(len(oracle) * (1 - TRAIN_SHARE))
    return oracle.take(np.sort(order[:n_train])), oracle.take(np.sort(order[n_train:]))


def _share_between_sites(problem: ShiftProblem) -> float:
    """Share of the label's variance that lies between the sites."""
    labels = [site.labels for site in (*problem.sources, _oracle(problem))]
    everything = np.concatenate(labels)
    within = sum(((y - y.mean()) ** 2).sum() for y in labels)
    return float(1 - within / ((everything - everything.mean()) ** 2).sum())


def _error_by_time(problem: ShiftProblem) -> float:
    """Mean absolute error at the target of interpolating its label over the recording's time."""
    errors = []
    for seed in range(10):
        train, test = _halves(problem, seed)
        time, asked = (np.asarray(site.X)[:, TEST_TIME] for site in (train, test))
        order = np.argsort(time, kind="stable")
        found = np.interp(asked, time[order], train.labels[order])
        errors.append(np.abs(found - test.labels).mean())
    return float(np.mean(errors))
