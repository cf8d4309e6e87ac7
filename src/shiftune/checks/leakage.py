"""Check that no column gives the label away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.checks.check import MOST_NAMES, NOTHING_TO_DO, Check
from shiftune.evaluate.fitting import StudyData
from shiftune.level import Level
from shiftune.problem.site import rows_of
from shiftune.rows.columns import kinds_of, level_columns, number_columns
from shiftune.rows.subsample import drawn_rows
from shiftune.search.result import SearchResult
from shiftune.wording import listed, percent

Floats = NDArray[np.float64]

# Share of the model's gain over a constant that one column alone reaches.
NEARLY_AS_GOOD = 0.9
# Share of the squared error of a constant that is gone: with one column, with the model, and with
# a column that can only be the label itself.
SUSPICIOUS, TOO_GOOD, THE_LABEL = 0.9, 0.98, 0.995
# Rows on which the columns are tried.
MOST_ROWS = 20_000
# A column of numbers is cut into at most so many bins, of at least so many rows.
MOST_BINS, ROWS_PER_BIN = 100, 5

NAME = "no column gives the label away"


def leakage_check(result: SearchResult) -> Check:
    """Look for a column that knows the label, and for a loss that is too good to be true.

    Every column predicts the label by itself: by the mean label of its bin or category, or by a
    line. Squared errors (Brier scores) are compared with those of a constant. A problem: one
    column alone takes away 99.5 % of that error. A caution: one column takes away 90 %, and 90 %
    of what the model does; or the model takes away 98 %, though no single column does.
    """
    errors, constant = column_errors(result.context.data)
    model = _model_error(result)
    best = float(errors.min()) if len(errors) else constant
    numbers = {"constant": constant, "best_column": best}
    if constant == 0:
        return Check(NAME, Level.OK, "All labels are the same.", NOTHING_TO_DO, numbers)
    gone, by_model = 1 - best / constant, 1 - model / constant
    near = 1 - errors / constant >= max(SUSPICIOUS, NEARLY_AS_GOOD * by_model)
    named = [str(name) for name in errors[near].sort_values(kind="stable").index]
    if named:
        level = Level.PROBLEM if gone >= THE_LABEL else Level.CAUTION
        finding = (
            f"Column {listed(named[:1])} alone takes away {_share(gone)} of the squared error of "
            "a constant."
        )
        if len(named) > 1:
            finding += f" {listed(named[1:], MOST_NAMES)} nearly as much."
        advice = (
            f"Make sure that {listed(named[:1])} is known when the prediction is needed and is not "
            "made from the label. If in doubt, run the search without it, and compare."
        )
        headline = f"column {listed(named[:1])} alone all but gives the label away"
        return Check(NAME, level, finding, advice, numbers, headline)
    if by_model >= TOO_GOOD:
        return Check(
            NAME,
            Level.CAUTION,
            f"The model takes away {_share(by_model)} of the squared error of a constant: perhaps "
            "too good to be true.",
            "Make sure that every column is known when the prediction is needed.",
            numbers,
            "the model is perhaps too good to be true",
        )
    finding = (
        f"The best single column takes away {_share(max(gone, 0))} of the squared error of a "
        "constant."
    )
    return Check(NAME, Level.OK, finding, NOTHING_TO_DO, numbers)


def column_errors(data: StudyData) -> tuple[pd.Series, float]:
    """Squared error of the label by every column alone, and by a constant.

    Learned from the training rows, measured on the validation rows of the sources.
    """
    train = drawn_rows(len(data.y_train), MOST_ROWS)
    test = drawn_rows(sum(map(len, data.y_validation)), MOST_ROWS)
    X, X_test = rows_of(data.X_train, train), rows_of(data.X_validation, test)
    Y = _columns(data.y_train[train], data.classes)
    Y_test = _columns(np.concatenate(data.y_validation)[test], data.classes)
    mean = Y.mean(axis=0)
    kinds = kinds_of([X, X_test])
    errors = []
    for x, new in zip(number_columns(X, kinds).T, number_columns(X_test, kinds).T, strict=True):
        codes, codes_test = _bins(x, new)
        by_bin = _means(codes, Y, mean)[codes_test]
        errors.append(min(_error(by_bin, Y_test), _error(_line(x, Y, mean, new), Y_test)))
    for x, new in zip(level_columns(X, kinds).T, level_columns(X_test, kinds).T, strict=True):
        codes, codes_test = _codes(x, new)
        errors.append(_error(_means(codes, Y, mean)[codes_test], Y_test))
    # Numbers and dates come first, then categories.
    names = sorted(kinds, key=lambda name: kinds[name] == "category") or range(len(errors))
    return pd.Series(errors, index=[str(name) for name in names], dtype=float), _error(mean, Y_test)


def _model_error(result: SearchResult) -> float:
    """Squared error of the model; infinite where its answers are no means or probabilities."""
    answers, data = result.choice.answers, result.context.data
    votes = data.classes is not None and result.loss.needs == "predict"
    if answers is None or votes:
        return np.inf
    y = np.concatenate(data.y_validation)
    predicted = np.asarray(answers.unseen, dtype=float).reshape(len(y), -1)
    return _error(predicted, _columns(y, data.classes))


def _share(share: float) -> str:
    """Write a share; those near 1 with a decimal.

    >>> _share(0.9971), _share(0.44)
    ('99.7 %', '44 %')
    """
    return f"{100 * share:.1f} %" if 0.99 < share < 1 else percent(share)


def _columns(y: NDArray[Any], classes: NDArray[Any] | None) -> Floats:
    """Labels as numbers, shape (n, 1), or 0/1 columns of the classes, shape (n, C)."""
    return y.astype(float)[:, None] if classes is None else (y[:, None] == classes).astype(float)


def _error(predicted: Floats, Y: Floats) -> float:
    return float(np.mean(np.sum((Y - predicted) ** 2, axis=1)))


def _means(codes: NDArray[np.intp], Y: Floats, mean: Floats) -> Floats:
    """Mean label of every code; one more row of the overall mean counts with each."""
    size = int(codes.max(initial=0)) + 2  # the last one is for codes that training rows lack
    counts = np.bincount(codes, minlength=size)[:, None] + 1
    sums = np.stack([np.bincount(codes, column, minlength=size) for column in Y.T], axis=1)
    return np.asarray((sums + mean) / counts)


def _line(x: Floats, Y: Floats, mean: Floats, new: Floats) -> Floats:
    """Least-squares line through a column; missing values have the mean label."""
    centre = np.nanmean(x) if not np.isnan(x).all() else 0.0
    away, away_new = np.nan_to_num(x - centre), np.nan_to_num(new - centre)
    squares = float(away @ away)
    slope = away @ (Y - mean) / squares if squares > 0 else np.zeros(Y.shape[1])
    return np.asarray(mean + np.outer(away_new, slope))


def _bins(x: Floats, new: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Number of the quantile bin; missing values have a bin of their own."""
    known = x[~np.isnan(x)]
    bins = min(MOST_BINS, max(len(known) // ROWS_PER_BIN, 1))
    edges = np.unique(np.quantile(known, np.arange(1, bins) / bins)) if len(known) else known

    def codes(values: Floats) -> NDArray[np.intp]:
        return np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values))

    return codes(x), np.minimum(codes(new), int(codes(x).max()) + 1)


def _codes(
    x: NDArray[np.object_], new: NDArray[np.object_]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Number of the category; those that training rows lack have the number after the last."""
    codes, known = pd.factorize(x)
    found = pd.Index(known).get_indexer(pd.Index(new))
    return codes, np.where(found < 0, len(known), found)
