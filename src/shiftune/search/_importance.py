"""Importance of columns at the target, by permutation at sites that the models have not seen.

Values are drawn from the target's rows. Permuting within the sources would show the importance
there; at the target it may be half or twice as large (`benchmarks/results/importance.md`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from shiftune.errors import OverlapWarning, SettingsError
from shiftune.evaluate._fits import Predicted, StudyData, fit_predict, losses_of_fits
from shiftune.problem._site import Features, rows_of
from shiftune.risk import RegressionAdjusted
from shiftune.risk._result import Estimate, by_group
from shiftune.rows._encoding import drawn_rows

if TYPE_CHECKING:
    from shiftune.search._result import SearchResult

Losses = list[NDArray[np.float64]]  # k arrays of shape (n_j,)

# Rows of all sources, and of the target, that are read; more hardly narrow an interval that
# includes the differences between sites.
_MOST_ROWS = 10_000
# Values that every row gets for a column; their luck is part of the interval.
_REPEATS = 3
_NUMBERS = ("importance", "low", "high", "shift", "adjustment", "adjustment_low", "adjustment_high")


def importance(result: SearchResult, timeout: float | None, level: float) -> pd.DataFrame:
    """Return the table of `ShiftSearch.importance`."""
    end = np.inf if timeout is None else time.monotonic() + timeout
    if result.context.data.train_folds.min() < 0 or result.choice.predictions is None:
        raise SettingsError(
            "importance needs predictions of all rows by models that have not seen them: values, "
            "classes or probabilities; search with risk='adjusted' and a loss that reads these"
        )
    sample, columns = _Sample(result), list(result.problem.columns.values())
    # The parts of a date move together; dates in tables that stay as they are have none.
    there = list(pd.DataFrame(sample.tables[0]))
    features = [c.features if c.features[0] in there else [c.name] for c in columns]
    fitted, several = sample.adjusted(there), len(sample.losses) > 1
    by_feature = result.shifts.mean(axis=1)
    shifts = np.array([max(by_feature[str(name)] for name in names) for names in features])
    table = pd.DataFrame(np.nan, pd.Index([c.name for c in columns], name="column"), _NUMBERS)
    table["shift"] = shifts
    table["note"] = "" if several else "no interval: there is only one source"
    for done, c in enumerate(np.argsort(-shifts, kind="stable")):
        if done and time.monotonic() >= end:
            table.iloc[c, -1] = "not done: the time limit was reached"
            continue
        increase = fitted.estimate(sample.increases(features[c])).signed(nonnegative=False)
        if sample.data.groups is not None:
            increase = by_group(increase, sample.data.groups)
        alone = _adjustment(sample.adjusted(features[c]), sample.losses)
        table.iloc[c, [0, 4]] = increase.value, alone.value
        if several:
            table.iloc[c, [1, 2, 5, 6]] = *increase.interval(level), *alone.interval(level)
    return table.sort_values("importance", ascending=False, kind="stable")


def _adjustment(fitted: RegressionAdjusted, losses: Losses) -> Estimate:
    """Move of the mean loss to the target's rows, the sum of the sites' parts, which vary."""
    moves = fitted.coefficients_ - np.repeat(fitted.shares_ / fitted.n_, fitted.n_)
    every, k = np.concatenate(losses), len(losses)
    parts = np.add.reduceat(moves * (every - every.mean()), np.cumsum(fitted.n_) - fitted.n_)
    return Estimate(float(parts.sum()), float(parts.var() * k**2 / max(k - 1, 1)), max(k - 1, 1))


def fold_models(result: SearchResult) -> list[tuple[float, dict[int, Predicted]]]:
    """Weights of the members, and each of them fitted without each fold of the sources."""
    data, needs = result.context.data, result.loss.needs
    folds = np.unique(data.folds[data.validation_sites < len(data.sources)]).tolist()
    return [
        (w, {f: fit_predict(result.model_of(m), data, f, needs, keep=True) for f in folds})
        for m, w in result.choice.weights.items()
    ]


class _Sample:
    """Rows of the sources and of the target, and the final model fitted without each fold.

    `losses` are those of its out-of-site predictions; `donors` are the rows of the target from
    which the rows of the sources get values, shape (3, n).
    """

    def __init__(self, result: SearchResult) -> None:
        self.risk, self.loss, data = result.context.risk, result.loss, result.context.data
        seed, target = result.settings.random_state, result.problem.target
        self.data = _drawn(data, max(_MOST_ROWS // len(data.sources), 1), seed)
        X, site = self.data.X_validation, self.data.validation_sites
        drawn, weights = drawn_rows(len(target), _MOST_ROWS, seed), target.sample_weight
        self.target_weights = np.ones(len(drawn)) if weights is None else weights[drawn]
        sources = [rows_of(X, site == j) for j in range(len(self.data.names))]
        self.tables = [rows_of(target.X, drawn), *sources]
        shares = self.target_weights / self.target_weights.sum()
        self.donors = np.random.default_rng(seed).choice(len(drawn), (_REPEATS, len(X)), p=shares)
        self.fits = result.fold_models
        self.losses = self._losses(X, self.data)

    def adjusted(self, features: Sequence[Any]) -> RegressionAdjusted:
        """Fit the estimator of the mean loss at the target on some features."""
        like = self.risk if isinstance(self.risk, RegressionAdjusted) else RegressionAdjusted()
        target, *sources = (pd.DataFrame(X)[features] for X in self.tables)
        weights = self.data.sample_weight and [self.target_weights, *self.data.sample_weight]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)  # raised when the search began
            fitted: RegressionAdjusted = clone(like).fit(target, sources, weights)
        return fitted

    def increases(self, features: Sequence[Any]) -> Losses:
        """Increase of the losses by values of the target in these features."""
        data, donors = self.data, self.donors.ravel()
        repeats = np.tile(np.arange(len(data.folds)), _REPEATS)
        moved: Any = rows_of(data.X_validation, repeats).copy()
        target: Any = self.tables[0]
        for name in features:
            if isinstance(moved, pd.DataFrame):
                moved[name] = target[name].array[donors]
            else:
                moved[:, name] = target[donors, name]
        repeated = replace(  # as if every one had sites of its own
            data,
            folds=np.tile(data.folds, _REPEATS),
            y_validation=data.y_validation * _REPEATS,
            names=data.names * _REPEATS,
            sample_weight=data.sample_weight and data.sample_weight * _REPEATS,
        )
        k, losses = len(data.names), self._losses(moved, repeated)
        return [np.mean(losses[j::k], axis=0) - before for j, before in enumerate(self.losses)]

    def _losses(self, X: Features, data: StudyData) -> Losses:
        parts = {fold: rows_of(X, data.folds == fold) for fold in data.fold_numbers}
        together: Any = 0.0
        for weight, fits in self.fits:
            predicted = {}
            for fold, fit in fits.items():
                output = np.asarray(getattr(fit.model, self.loss.needs)(parts[fold]))
                predicted[fold] = fit._replace(output=output)
            predictions: Any = losses_of_fits(predicted, data, self.loss).predictions
            together = together + weight * predictions
        return data.losses(together, self.loss)


def _drawn(data: StudyData, most: int, seed: int) -> StudyData:
    """Return at most so many evaluated rows of every source."""
    k, site = len(data.sources), data.validation_sites
    places = np.split(np.arange(len(site)), np.flatnonzero(np.diff(site)) + 1)[:k]
    rows = np.concatenate([place[drawn_rows(len(place), most, seed)] for place in places])

    def those(values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(
            np.split(np.concatenate(values)[rows], np.flatnonzero(np.diff(site[rows])) + 1)
        )

    return replace(
        data,
        X_validation=rows_of(data.X_validation, rows),
        y_validation=those(data.y_validation),
        folds=data.folds[rows],
        names=data.names[:k],
        labelled_target="",
        groups=data.groups and those(data.groups),
        sample_weight=data.sample_weight and those(data.sample_weight),
    )
