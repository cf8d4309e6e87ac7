"""A random problem on its way through the API: a result with a width, or an error in words.

Most cases go through the cheap layers; some are searched, and the results of some are reported.
"""

from __future__ import annotations

import pickle
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from fuzz.problems import RandomProblem
from shiftune import ShiftProblem, ShiftSearch
from shiftune._names import LOSSES_OF
from shiftune.errors import ProblemError
from shiftune.ratio._density import ratio_named
from shiftune.risk import ESTIMATORS, RiskEstimate

Draw = Callable[[st.SearchStrategy[Any]], Any]

# How a case may end. An interval without width is a result where all losses are the same, or one
# row alone judges; a note has the reason.
RESULT, NO_WIDTH, ERROR = "result", "result, no width, the reason", "error in words"
ENDS = (RESULT, NO_WIDTH, ERROR)


def check_words(error: ProblemError) -> None:
    """An error is a sentence that names something."""
    words = str(error)
    assert len(words.split()) >= 4, f"no sentence: {words!r}"
    plain = ("all", "no trial", "default parameters cannot be evaluated")
    assert type(error) is not ProblemError or any(each in words for each in plain), repr(error)


def check_estimate(risk: RiskEstimate, notes: tuple[str, ...] = ()) -> None:
    """An estimate has a value, and an interval with a width; where it has none, a note has why."""
    assert np.isfinite(risk.value), f"the value is {risk.value}"
    low, high = risk.interval()
    assert np.isfinite([low, high]).all(), f"the interval is [{low}, {high}]"
    explained = any("the interval has no width" in note for note in notes)
    assert high > low or explained, f"the interval [{low}, {high}] has no width"
    assert low <= max(risk.value, 0.0 if risk.nonnegative else risk.value) <= high, (
        f"{risk.value} is not in [{low}, {high}]"
    )


def _width(risk: RiskEstimate) -> float:
    low, high = risk.interval()
    return high - low


def passed(given: RandomProblem, part: str, draw: Draw) -> str:
    """Take a problem through one part of the API; return how that ended.

    Anything but a result or a `ProblemError` with a sentence is raised, warnings of NumPy about
    our arithmetic included.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", category=RuntimeWarning, module=r"shiftune\..*")
        try:
            problem = given.read()
            found = PARTS[part](problem, draw)
        except ProblemError as error:
            check_words(error)
            return ERROR
    return NO_WIDTH if isinstance(found, ShiftSearch) and not _width(found.risk_) else RESULT


def _problem(problem: ShiftProblem, draw: Draw) -> None:
    assert repr(problem)
    assert all(isinstance(note, str) and note for note in problem.notes)
    assert len(problem.columns) <= problem.target.X.shape[1]  # a date is several
    assert problem.task == "regression" or len(problem.classes) > 1
    again = pickle.loads(pickle.dumps(problem))
    assert again.fingerprint() == problem.fingerprint()


SHARES = [(0.21, 0.49, 0.30), (0, 0.7, 0.3), (0.5, 0.25, 0.25), (0.34, 0.33, 0.33)]


def _split(problem: ShiftProblem, draw: Draw) -> None:
    shares = draw(st.sampled_from(SHARES))
    split = problem.split(shares, random_state=draw(st.integers(0, 99)))
    for site in problem.sources:
        parts = [
            part.rows
            for group in (split.density, split.train, split.validation)
            for part in group
            if part.name == site.name
        ]
        rows = np.sort(np.concatenate(parts))
        assert np.array_equal(rows, np.sort(site.rows)), f"rows of {site.name!r} were lost"


def _ratio(problem: ShiftProblem, draw: Draw) -> None:
    name = draw(st.sampled_from(["logistic", "logistic", "ulsif"]))
    table = problem.diagnose(name)
    assert list(table.index) == problem.names
    ratio = clone(ratio_named(name, 0)).fit(problem.target.X, [s.X for s in problem.sources])
    for w, site in zip(ratio.weights([s.X for s in problem.sources]), problem.sources, strict=True):
        assert w.shape == (len(site),)
        assert np.isfinite(w).all()
        assert (w >= 0).all()


LOSSES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "exponential": lambda rng, n: rng.exponential(size=n),
    "0 and 1": lambda rng, n: (rng.random(n) < 0.3).astype(float),
    "heavy": lambda rng, n: np.minimum(rng.pareto(0.5, n), 1e15),
    "tiny": lambda rng, n: rng.exponential(size=n) * 1e-25,
    "huge": lambda rng, n: rng.exponential(size=n) * 1e25,
    "one": lambda rng, n: (np.arange(n) == 0).astype(float),
    "signed": lambda rng, n: rng.standard_normal(n),
}


def _risk(problem: ShiftProblem, draw: Draw) -> None:
    names = [name for name in ESTIMATORS if name != "oracle"]
    risk = clone(ESTIMATORS[draw(st.sampled_from(names))])
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    loss = LOSSES[draw(st.sampled_from(list(LOSSES)))]
    sites = problem.sources
    losses = [loss(rng, len(site)) for site in sites]
    if len(np.unique(np.concatenate(losses))) < 2:
        return
    weights = [rng.exponential(size=len(site)) for site in sites] if risk.needs_ratio else None
    fitted = risk.fit(problem.target.X, [site.X for site in sites])
    found = fitted.estimate(losses, weights, names=problem.names)
    assert np.isfinite([found.value, found.stderr]).all()
    assert found.stderr >= 0
    back = RiskEstimate.from_record(found.condensed().to_record())
    assert back.value == found.value


def _models(problem: ShiftProblem, draw: Draw) -> tuple[Any, Any]:
    """A cheap model, and its space where it has no own."""
    classes, weighted = (
        problem.task == "classification",
        problem.sources[0].sample_weight is not None,
    )
    names = ["linear", "logistic"] if classes else ["linear", "ridge", "elastic_net"]
    if not weighted:
        names += ["knn"]
    model = draw(st.sampled_from([*names, "dummy", "own", "two"]))
    if model == "two":
        return names, None
    if model == "own":
        return (
            (LogisticRegression(), {"C": (0.1, 1)}) if classes else (Ridge(), {"alpha": (0.1, 1)})
        )
    if model == "dummy":
        strategies = ["prior", "uniform"] if classes else ["mean", "median"]
        return DummyClassifier() if classes else DummyRegressor(), {"strategy": strategies}
    return model, None


def _search(problem: ShiftProblem, draw: Draw) -> ShiftSearch:
    classes, weighted = (
        problem.task == "classification",
        problem.sources[0].sample_weight is not None,
    )
    model, space = _models(problem, draw)
    risks = ["adjusted", "naive"] if weighted else [n for n in ESTIMATORS if n != "oracle"]
    risk = draw(st.sampled_from(["adjusted"] * len(risks) + risks))
    search = ShiftSearch(
        model,
        space,
        loss=draw(st.sampled_from([None, None, *LOSSES_OF[problem.task]])),
        risk=risk,
        n_trials=draw(st.sampled_from([1, 2, 3])),
        sampler=draw(st.sampled_from(["random", "gp_lcb"])),
        final=draw(st.sampled_from([None, None, "ensemble", "best"])),
        progress=False,
        random_state=draw(st.integers(0, 9)),
    )
    search.fit(problem)
    check_estimate(search.risk_, search.result_.notes)
    predicted = search.predict(problem.target.X)
    assert len(predicted) == len(problem.target)
    if classes:
        assert set(predicted.tolist()) <= set(search.classes_.tolist())
    else:
        assert np.isfinite(predicted).all()
    _out_of_site(search)
    return search


def _out_of_site(search: ShiftSearch) -> None:
    """Check that every row was predicted by a model that has not seen its site or group."""
    data, predictions = search.result_.context.data, search.result_.choice.predictions
    rows = sum(map(len, data.y_validation))
    assert len(data.folds) == rows
    assert predictions is None or len(predictions) == rows
    if predictions is not None:
        assert np.isfinite(predictions).all()
    if not search.result_.settings.risk.out_of_site:
        assert (data.train_folds == -1).all()
        return
    for name in data.sources if data.out_of_site else []:
        assert len(set(data.folds[data.validation_rows([name])].tolist())) == 1, name
    for fold in search.result_.context.data.fold_numbers:
        trains = data.trains(fold)
        assert (data.train_folds[trains] != fold).all()
        if data.groups is not None and data.train_groups is not None:
            held_out = np.concatenate(data.groups)[data.folds == fold]
            assert not np.isin(data.train_groups[trains], held_out).any()


def _in_words(action: Callable[[], Any]) -> Any:
    """Run one method of a result, which may refuse in words."""
    try:
        return action()
    except ProblemError as error:
        check_words(error)
        return None


def _result(problem: ShiftProblem, draw: Draw) -> ShiftSearch:
    search = _search(problem, draw)
    X = problem.target.X
    for table in (search.metrics_, search.site_metrics_, search.trials_, search.members_):
        assert isinstance(table, pd.DataFrame)
    assert search.cv_results_
    assert search.best_score_ == -search.risk_.value
    _in_words(lambda: search.predict_interval(X))
    _in_words(lambda: search.predict_set(X))
    _in_words(search.calibration_curve)
    _in_words(search.decision_curve)
    _in_words(lambda: search.threshold_for(sensitivity=0.8))
    _in_words(search.label_worth)
    _in_words(lambda: search.default_risk())
    assert search._repr_html_()
    updated = _in_words(lambda: search.update(*_labels_of_target(problem, draw)))
    if updated is not None:
        check_estimate(updated.risk_, search.result_.notes)
        assert len(updated.predict(X)) == len(X)
    return search


def _labels_of_target(problem: ShiftProblem, draw: Draw) -> tuple[Any, Any]:
    """Some rows of the target, with labels as the sources have them."""
    m = min(len(problem.target), draw(st.sampled_from([1, 2, 5])))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    known = np.concatenate([site.labels for site in problem.sources])
    return problem.target.X[:m], rng.choice(known, m)


def _report(problem: ShiftProblem, draw: Draw) -> ShiftSearch:
    search = _search(problem, draw)
    assert str(search.checks())
    assert str(search.verdict_)
    with tempfile.TemporaryDirectory() as folder:
        page = search.report(Path(folder) / "report.html").read_text()
        assert "<script>alert(1)" not in page
        assert search.model_card(Path(folder) / "card.md").read_text()
    return search


PARTS = {
    "problem": _problem,
    "split": _split,
    "ratio": _ratio,
    "risk": _risk,
    "search": _search,
    "result": _result,
    "report": _report,
}
# How often: a report takes as long as hundreds of problems.
SHARES_OF_PARTS = ["problem"] * 20 + ["split"] * 12 + ["ratio"] * 8 + ["risk"] * 8 + ["search"] * 6
SHARES_OF_PARTS += ["result"] * 3 + ["report"]
