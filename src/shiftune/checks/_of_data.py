"""Checks of the data: sites, rows and labels, and how far they support an estimate at the target.

Site effects, leakage, overlap, class frequencies, extrapolation: each function returns a `Check`.
Evidence for the levels: `benchmarks/situations.py`, `benchmarks/results/alarms.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from shiftune._names import Level
from shiftune._wording import count, figures, listed, loss_in_words, percent
from shiftune.checks._checks import MOST_NAMES, NOTHING_TO_DO, Check
from shiftune.checks._label_shift import LabelShift, far_apart
from shiftune.columns._column import ColumnKind
from shiftune.evaluate._fits import StudyData
from shiftune.problem._site import rows_of
from shiftune.ratio._overlap import MANY_UNCOVERED, SOME_UNCOVERED
from shiftune.risk import RegressionAdjusted, RiskEstimate
from shiftune.rows._encoding import drawn_rows, kinds_of, level_columns, number_columns
from shiftune.search._result import SearchResult

_Floats = NDArray[np.float64]

# ---------------------------------------------------------------- site effects

_SITE_EFFECTS = "site effects"
# So many labels of a site show most of its effect; smaller sites are extrapolated.
_MANY_LABELS = 300
# Estimated risks of real sites without labels are off by about 10 % (median) with the best
# estimators: a larger gain is worth advice, one below a tenth of that is not worth a sentence.
_LARGE_GAIN, _SMALL_GAIN = 0.1, 0.01


def site_effects_check(result: SearchResult) -> Check:
    """Tell how much lower the loss would be if labels of a site showed what is particular to it.

    Every source is treated as the target with labels of its own (`shiftune.effects.SiteEffects`).
    Either similar cases have different outcomes at different sites, or the models miss something
    where sites differ; labels help with both, and without them the two cannot be told apart
    (`benchmarks/results/site_effects.md`). Always in order: the interval of the risk includes such
    effects, and holds where they are large, too (`benchmarks/results/alarms.md`).
    """
    effects, loss = result.updater.effects, loss_in_words(result.loss.name)
    weights = [site.sample_weight for site in effects.sources]
    plain, labelled = (
        np.array([np.average(site, weights=w) for site, w in zip(losses, weights, strict=True)])
        for losses in (effects.source_losses(0), effects.source_losses(_MANY_LABELS))
    )
    gains = plain - labelled
    before = plain.mean() or 1.0  # models without any error
    gain, stderr = gains.mean() / before, gains.std(ddof=1) / np.sqrt(len(gains)) / before
    numbers = {"gain": float(gain), "gain_stderr": float(stderr)}
    if gain < _SMALL_GAIN:
        finding = (
            "The model misses little that is particular to a site: many labels of it would lower "
            f"the {loss} by less than 1 %."
        )
        return Check(_SITE_EFFECTS, Level.OK, finding, NOTHING_TO_DO, numbers)
    relative = dict(zip(result.context.data.sources, gains / before, strict=True))
    most = listed(sorted(relative, key=lambda name: -relative[name])[:MOST_NAMES])
    finding = (
        f"The model misses what is particular to a site: {_MANY_LABELS} labels of it would lower "
        f"the {loss} by {percent(gain)} on average, most at {most}. Either similar cases have "
        "different outcomes there, or their columns lack something."
    )
    advice = NOTHING_TO_DO
    if gain >= _LARGE_GAIN:
        advice = (
            "Label some target rows. Look for the cause (how outcomes are recorded, instruments, a "
            "missing column) and add it as a column. The interval includes such effects, if the "
            "target differs as the sources do."
        )
    return Check(_SITE_EFFECTS, Level.OK, finding, advice, numbers)


# ---------------------------------------------------------------- leakage

_LEAKAGE = "label leakage"
# Share of the model's gain over a constant that one column alone reaches.
_NEARLY_AS_GOOD = 0.9
# Share of the squared error of a constant that is gone: with one column, with the model, and with
# a column that can only be the label itself.
_SUSPICIOUS, _TOO_GOOD, _THE_LABEL = 0.9, 0.98, 0.995
# Rows on which the columns are tried.
_MOST_ROWS = 20_000
# A column of numbers is cut into at most so many bins, of at least so many rows.
_MOST_BINS, _ROWS_PER_BIN = 100, 5


def leakage_check(result: SearchResult) -> Check:
    """Look for a column that knows the label, and for a loss that is too good to be true.

    Every column predicts the label by itself: by the mean label of its bin or category, or by a
    line. Squared errors (Brier scores) are compared with those of a constant. A problem: one
    column alone takes away 99.5 % of that error. A caution: one column takes away 90 %, and 90 %
    of what the model does; or the model takes away 98 %, though no single column does.
    """
    errors, constant = _column_errors(result.context.data)
    model = _model_error(result)
    best = float(errors.min()) if len(errors) else constant
    numbers = {"constant": constant, "best_column": best}
    if constant == 0:
        return Check(_LEAKAGE, Level.OK, "All labels are the same.", NOTHING_TO_DO, numbers)
    gone, by_model = 1 - best / constant, 1 - model / constant
    near = 1 - errors / constant >= max(_SUSPICIOUS, _NEARLY_AS_GOOD * by_model)
    named = [str(name) for name in errors[near].sort_values(kind="stable").index]
    if named:
        level = Level.PROBLEM if gone >= _THE_LABEL else Level.CAUTION
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
        return Check(_LEAKAGE, level, finding, advice, numbers, headline)
    if by_model >= _TOO_GOOD:
        return Check(
            _LEAKAGE,
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
    return Check(_LEAKAGE, Level.OK, finding, NOTHING_TO_DO, numbers)


def _column_errors(data: StudyData) -> tuple[pd.Series, float]:
    """Squared error of the label by every column alone, and by a constant.

    Learned and measured in the folds of a trial, like the model's.
    """
    kinds = kinds_of(data.X_train)
    folds = [_errors_in_fold(data, fold, kinds) for fold in data.fold_numbers]
    sizes = np.unique(data.folds, return_counts=True)[1]
    errors = sum(n * error for n, (error, _) in zip(sizes, folds, strict=True)) / sizes.sum()
    return errors, float(np.average([constant for _, constant in folds], weights=sizes))


def _errors_in_fold(
    data: StudyData, fold: int, kinds: Mapping[Any, ColumnKind]
) -> tuple[pd.Series, float]:
    """Return the same for one fold, learned from the rows that its model is trained on."""
    train, test = np.flatnonzero(data.trains(fold)), np.flatnonzero(data.folds == fold)
    train, test = (rows[drawn_rows(len(rows), _MOST_ROWS)] for rows in (train, test))
    X, X_test = rows_of(data.X_train, train), rows_of(data.X_validation, test)
    Y = _columns(data.y_train[train], data.classes)
    Y_test = _columns(np.concatenate(data.y_validation)[test], data.classes)
    mean = Y.mean(axis=0)
    errors = []
    for x, new in zip(number_columns(X, kinds).T, number_columns(X_test, kinds).T, strict=True):
        codes, codes_test = _bins(x, new)
        by_bin = _means(codes, Y, mean)[codes_test]
        errors.append(min(_error(by_bin, Y_test), _error(_line(x, Y, mean, new), Y_test)))
    for x, new in zip(level_columns(X, kinds).T, level_columns(X_test, kinds).T, strict=True):
        codes, levels = pd.factorize(x)
        places = pd.Index(levels).get_indexer(pd.Index(new))
        # Categories that training rows lack have the number after the last.
        codes_test = np.where(places < 0, len(levels), places)
        errors.append(_error(_means(codes, Y, mean)[codes_test], Y_test))
    # Numbers and dates come first, then categories.
    names = sorted(kinds, key=lambda name: kinds[name] == "category") or range(len(errors))
    return pd.Series(errors, index=[str(name) for name in names], dtype=float), _error(mean, Y_test)


def _model_error(result: SearchResult) -> float:
    """Squared error of the model; infinite where it predicts no means or probabilities."""
    predictions, data = result.choice.predictions, result.context.data
    votes = data.classes is not None and result.loss.needs == "predict"
    if predictions is None or votes:
        return np.inf
    y = np.concatenate(data.y_validation)
    predicted = np.asarray(predictions, dtype=float).reshape(len(y), -1)
    return _error(predicted, _columns(y, data.classes))


def _share(share: float) -> str:
    """Write a share; those near 1 with a decimal: 99.7 %, 44 %."""
    return f"{100 * share:.1f} %" if 0.99 < share < 1 else percent(share)


def _columns(y: NDArray[Any], classes: NDArray[Any] | None) -> _Floats:
    """Labels as numbers, shape (n, 1), or 0/1 columns of the classes, shape (n, C)."""
    return y.astype(float)[:, None] if classes is None else (y[:, None] == classes).astype(float)


def _error(predicted: _Floats, Y: _Floats) -> float:
    return float(np.mean(np.sum((Y - predicted) ** 2, axis=1)))


def _means(codes: NDArray[np.intp], Y: _Floats, mean: _Floats) -> _Floats:
    """Mean label of every code; one more row of the overall mean counts with each."""
    size = int(codes.max(initial=0)) + 2  # the last one is for codes that training rows lack
    counts = np.bincount(codes, minlength=size)[:, None] + 1
    sums = np.stack([np.bincount(codes, column, minlength=size) for column in Y.T], axis=1)
    return np.asarray((sums + mean) / counts)


def _line(x: _Floats, Y: _Floats, mean: _Floats, new: _Floats) -> _Floats:
    """Least-squares line through a column; missing values have the mean label."""
    centre = np.nanmean(x) if not np.isnan(x).all() else 0.0
    away, away_new = np.nan_to_num(x - centre), np.nan_to_num(new - centre)
    squares = float(away @ away)
    slope = away @ (Y - mean) / squares if squares > 0 else np.zeros(Y.shape[1])
    return np.asarray(mean + np.outer(away_new, slope))


def _bins(x: _Floats, new: _Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Number of the quantile bin; missing values have a bin of their own."""
    numbers = x[~np.isnan(x)]
    bins = min(_MOST_BINS, max(len(numbers) // _ROWS_PER_BIN, 1))
    edges = np.unique(np.quantile(numbers, np.arange(1, bins) / bins)) if len(numbers) else numbers

    def codes(values: _Floats) -> NDArray[np.intp]:
        return np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values))

    return codes(x), np.minimum(codes(new), int(codes(x).max()) + 1)


# ---------------------------------------------------------------- overlap

_OVERLAP = "overlap"
# Below this a RiskEstimate, too, mentions the share of the target that is covered.
_COVERED = 0.9
_DIAGNOSE = "problem.diagnose() or the command shiftune diagnose"


def overlap_check(
    risk: RiskEstimate, uncovered: float, shifted: Sequence[str], *, weighted: bool
) -> Check:
    """Check which sources cover the target, and how much of it none covers.

    `shifted` names columns, the one that shifts most first.

    A problem: no source overlaps enough, so the estimate fell back, or more than a quarter of the
    target's rows are unlike any row of the sources in an estimate with weights (for an adjusted
    one "extrapolation" finds whether it matters). A caution: more than a tenth of them are, or the
    weights cover less than 90 % of the target, or one source of several is left.
    """
    names = list(risk.source_names)
    counted = [name for name, lam in zip(names, risk.lam, strict=False) if lam > 0]
    rows = float(risk.ess[risk.lam > 0].sum())
    coverage = risk.coverage if weighted and not risk.fallback else 1.0
    numbers = {
        "sources": float(len(names)),
        "sources_used": float(len(counted)),
        "effective_rows": rows,
        "coverage": coverage,
        "uncovered": uncovered,
    }
    unlike = f"{percent(uncovered)} of the target's rows are unlike any row of the sources"
    finding = f"{_basis(risk, counted, rows, weighted=weighted)}; {unlike}"
    if coverage < _COVERED:
        finding += f", and the weights cover only about {percent(coverage)} of the target"
    finding += "."
    drop = (
        "Drop columns that identify the site but do not matter "
        f"(shifted most: {listed(shifted[:MOST_NAMES])})"
    )
    if risk.fallback:
        advice = (
            f"Do not rely on the estimated risk; {_DIAGNOSE} has the reasons. {drop}, try "
            "ratio='ulsif', or label some target rows."
        )
        headline = "no source overlaps enough with the target"
        return Check(_OVERLAP, Level.PROBLEM, finding, advice, numbers, headline)
    if uncovered > SOME_UNCOVERED or coverage < _COVERED:
        many = uncovered > MANY_UNCOVERED and risk.method != "adjusted"
        advice = (
            "Find out what is special about target rows that no source covers; add a source that "
            "has such rows, or label some of them. The estimate does not cover them, and the model "
            "has to extrapolate."
        )
        headline = unlike
        if uncovered <= SOME_UNCOVERED:
            headline = f"the weights cover only {percent(coverage)} of the target"
        level = Level.PROBLEM if many else Level.CAUTION
        return Check(_OVERLAP, level, finding, advice, numbers, headline)
    if weighted and len(counted) == 1 < len(names):
        headline = f"the estimate rests on {counted[0]!r} alone"
        advice = f"{drop}: {headline}. Why others are left out: {_DIAGNOSE}."
        return Check(_OVERLAP, Level.CAUTION, finding, advice, numbers, headline)
    return Check(_OVERLAP, Level.OK, finding, NOTHING_TO_DO, numbers)


def _basis(risk: RiskEstimate, counted: list[str], rows: float, *, weighted: bool) -> str:
    """Describe what the estimate rests on."""
    out = [name for name, why in zip(risk.names, risk.left_out, strict=True) if why]
    if risk.fallback:
        instead = "uncorrected mean loss" if risk.method == "naive" else "self-normalised mean"
        return (
            f"No source overlaps enough with the target ({listed(out)} {_verb(out, 'does', 'do')} "
            f"not), so the estimate is the {instead}"
        )
    if weighted:
        who = f"{listed(counted)} {_verb(counted, 'overlaps', 'overlap')} with the target"
        if out:
            who += f", {listed(out)} {_verb(out, 'is', 'are')} left out"
        return f"{who}. Together they are worth about {rows:.0f} labelled target rows"
    if risk.method == "adjusted":
        return "The estimate is adjusted to the target's rows, from all sources together"
    return "The estimate uses all sources as they are, without weights"


def _verb(names: list[str], one: str, several: str) -> str:
    return one if len(names) == 1 else several


# ---------------------------------------------------------------- class frequencies

_PREVALENCE = "class frequencies"
# Difference of the likely from the expected frequency.
_LARGE = 0.07
# With fewer, how likely it is is a guess.
_FEWEST_SOURCES = 5


def prevalence_check(shift: LabelShift) -> Check:
    """Check whether another frequency of the classes explains the target's rows.

    Where rows of a class look alike at every site and only the classes' frequencies differ, the
    model expects the wrong frequency at the target (`shiftune.checks._label_shift`). A caution:
    the frequency is likely to be 5 percentage points higher than expected, or twice as high, as
    far as that would have been right at the sources. A problem: 7 points, at worst outside the
    range of the sources, of which there are at least five.
    """
    outside = not shift.lowest <= shift.mixed <= shift.highest
    numbers = {
        "expected": shift.expected,
        "mixed": shift.mixed,
        "lowest": shift.lowest,
        "highest": shift.highest,
    }
    if far_apart(shift.expected, shift.mixed):
        numbers["trust"] = shift.trust
    about = (
        f"{percent(shift.expected)} of the target's rows are expected to be {shift.label!r}, as "
        "similar rows of the sources are"
    )
    if not far_apart(shift.expected, shift.likely):
        finding = f"{about}; nothing contradicts it."
        return Check(_PREVALENCE, Level.OK, finding, NOTHING_TO_DO, numbers)
    likely = ", or ".join(dict.fromkeys((percent(shift.likely), percent(shift.mixed))))
    finding = (
        f"{about}. But it may be {likely} if only the "
        "classes' frequencies differ between sites, as they partly do at the sources (there "
        f"{percent(shift.lowest)} to {percent(shift.highest)})."
    )
    advice = (
        f"Find out how frequent {shift.label!r} is at the target. If it is not as expected, "
        "probabilities and the estimated risk are wrong there; some ten labels (search.update) "
        "correct the level."
    )
    sure = shift.likely - shift.expected >= _LARGE and outside and shift.sources >= _FEWEST_SOURCES
    level = Level.PROBLEM if sure else Level.CAUTION
    headline = f"{shift.label!r} may be far more frequent at the target than the sources suggest"
    return Check(_PREVALENCE, level, finding, advice, numbers, headline)


# ---------------------------------------------------------------- extrapolation

_EXTRAPOLATION = "extrapolation"
# The sources' range of a column: the middle 98 % of their rows.
_TAIL = 0.01
# Share of the target's rows outside of it, and distance of the estimates without and with full
# adjustment in half widths of the 90 % interval: a caution; a problem; a problem, too.
_SOME_OUTSIDE, _MANY_OUTSIDE, _MOST_OUTSIDE = 0.1, 0.25, 0.6
_SOME_APART, _FAR_APART, _STILL_APART = 0.4, 0.6, 0.2
_LEVEL = 0.9


def extrapolation_check(result: SearchResult) -> Check:
    """Check how far the target reaches beyond the sources, in numbers and in categories.

    A caution, besides those of `_range_check`: a tenth of the target's rows have a category that
    no source has, of which neither the model nor the estimate knows anything.
    """
    check = _range_check(result)
    columns = result.problem.columns
    new = [name for name, column in columns.items() if column.unseen >= _SOME_OUTSIDE]
    if not new:
        return check
    most = max(columns[name].unseen for name in new)
    rows = _rows_of_target(result, most, "has", "have")
    finding = f"{rows} a category that no source has in {listed(new, MOST_NAMES)}"
    numbers = {**check.figures, "unseen": most}
    if check.level is not Level.OK:
        findings = f"{check.finding} {finding}."
        return Check(_EXTRAPOLATION, check.level, findings, check.advice, numbers, check.headline)
    advice = "Add a source that has such rows, or label some: nothing is known of them."
    return Check(_EXTRAPOLATION, Level.CAUTION, f"{finding}.", advice, numbers, finding)


def _range_check(result: SearchResult) -> Check:
    """Compare estimates that differ in how far they are continued beyond the sources.

    Where the target lies at the edge of the sources or beyond, what happens there follows from
    the adjustment alone, and the rows do not show how much of it is right. So the mean loss
    without any adjustment is compared with that adjusted fully, without a cautious prior. A
    problem: a quarter of the target's rows lie outside the sources' range in some column (that of
    98 % of their rows), and the two are 0.6 half widths of the 90 % interval apart; or 60 % of the
    rows, and 0.2. A caution: a tenth of the rows, and 0.4. Labelled rows of the target lessen the
    distance by their share in the estimate.
    """
    outside = _outside_shares(result)
    names = [name for name, share in outside.items() if share >= _SOME_OUTSIDE]
    most = max(outside.values(), default=0.0)
    predictions, context, risk = result.choice.predictions, result.context, result.risk
    estimates = None
    if predictions is not None and isinstance(context.risk, RegressionAdjusted):
        estimates = context.risk.least_and_most_adjusted(result.losses["model"])
    rows = _rows_of_target(result, most, "lies", "lie")
    beyond = f"{rows} at the edge of the sources' range or beyond in {listed(names, MOST_NAMES)}"
    if estimates is None:  # not an adjusted estimate: the range alone
        numbers = {"outside": most}
        if most < _MANY_OUTSIDE:
            finding = "Most of the target's rows lie within the sources' range of every column."
            return Check(_EXTRAPOLATION, Level.OK, finding, NOTHING_TO_DO, numbers)
        advice = (
            "Add a source that has such rows, or label some: the estimate knows little of them."
        )
        return Check(_EXTRAPOLATION, Level.CAUTION, f"{beyond}.", advice, numbers, beyond)
    ends = sorted(estimates)
    half = float(stdtrit(risk.dof, 0.5 + _LEVEL / 2)) * risk.stderr
    of_target = float(risk.lam[-1] * risk.n[-1]) if risk.labelled_target else 0.0
    apart = (1 - of_target) * (ends[1] - ends[0]) / half if half > 0 else 0.0
    numbers = {"outside": most, "apart": apart, "lowest": ends[0], "highest": ends[1]}
    far = (most >= _MANY_OUTSIDE and apart >= _FAR_APART) or (
        most >= _MOST_OUTSIDE and apart >= _STILL_APART
    )
    if not far and (most < _SOME_OUTSIDE or apart < _SOME_APART):
        finding = "Rows of the target beyond the range of the sources hardly change the estimate."
        return Check(_EXTRAPOLATION, Level.OK, finding, NOTHING_TO_DO, numbers)
    low, high = figures(*ends)
    finding = (
        f"{beyond}, and the estimated risk depends on how far the losses are adjusted for it: "
        f"{low} without, {high} fully."
    )
    advice = (
        "Add a source that reaches as far as the target, or label some target rows: both figures "
        "may be wrong by far where the loss bends outside the sources' range."
    )
    level = Level.PROBLEM if far else Level.CAUTION
    return Check(_EXTRAPOLATION, level, finding, advice, numbers, beyond)


def _rows_of_target(result: SearchResult, share: float, *verbs: str) -> str:
    n = round(share * len(result.problem.target))
    return f"{count(n, 'row')} of the target ({percent(share)}) {verbs[n != 1]}"


def _outside_shares(result: SearchResult) -> dict[str, float]:
    """Share of the target's rows outside the sources' range, by column, the largest first."""
    target, sources = result.problem.target.X, result.context.data.X_train
    kinds = kinds_of(target)
    X, rows = number_columns(target, kinds), number_columns(sources, kinds)
    names = [name for name, kind in kinds.items() if kind != "category"] or range(X.shape[1])
    shares = {str(name): _outside(t, x) for name, t, x in zip(names, X.T, rows.T, strict=True)}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _outside(target: _Floats, sources: _Floats) -> float:
    """Share of the target's values outside the middle 98 % of the sources' values."""
    asked, seen = target[~np.isnan(target)], sources[~np.isnan(sources)]
    if not len(asked) or not len(seen):
        return 0.0
    low, high = np.quantile(seen, [_TAIL, 1 - _TAIL])
    if low == high:  # the sources' values hardly differ, so they have no range
        return 0.0
    return float(np.sum((asked < low) | (asked > high)) / len(target))
