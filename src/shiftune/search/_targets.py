"""Several targets of one search: the result of each, a table of all, and a plan of labels.

With the default estimator, trials train on the sources alone and are compared by the sources' mean
losses, so trials and final model are the same for every target. The adjustment to its rows, and
what follows from it, is computed for each.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import compress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from shiftune import _interrupts
from shiftune._options import at_least
from shiftune._wording import percent
from shiftune.columns._column import kind_of
from shiftune.errors import DataError, DataWarning, OverlapWarning, ProblemError, SettingsError
from shiftune.predictor._selection import Choice
from shiftune.search._loop import trial_predictions
from shiftune.search._storage import candidates
from shiftune.search._trial import finished_trials
from shiftune.search._updating import label_worth

if TYPE_CHECKING:
    from shiftune.risk import RiskEstimate
    from shiftune.search._result import SearchResult

# Labels in the table of targets.
LABELS = 30
# Mean distance from the sources (`column_shifts`) from which a column is special, and their number.
_SPECIAL, _MOST_SPECIAL = 0.3, 2
# Numbers of labels, between which gains are interpolated; the first ones gain most.
_COUNTS = (1, 3, 10, 30, 100, 300, 1000)
_MOST_URGENT = ("do not use", "with care", "trust")


def result_at(result: SearchResult, site: Any, name: str = "new") -> SearchResult:
    """Return the result of a search for another target; see `ShiftSearch.at`."""
    result = result.origin or result
    problem, settings = result.problem.at(site, name=name), result.settings
    if problem is result.problem:
        return result
    if settings.one_target or result.choice.predictions is None:
        raise SettingsError(
            f"{settings.one_target or 'no predictions were kept'}; run a search with "
            "problem.at(site), or with risk='adjusted', which serves all targets"
        )
    if len(problem.names) == 1 < len(result.problem.names):
        raise DataError(
            f"without {problem.target.name!r} there is one source, which does not show how far "
            "sites differ; add a source to treat this one as the target"
        )
    data = result.context.data
    if list(data.names) == problem.names:
        estimator = settings.fitted_risk(problem.target, problem.sources)
        context = replace(result.context, risk=estimator)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # about groups, raised by the search
            context = settings.context(problem, settings.split(problem), None)
    kept = [name in context.data.names for name in data.names]
    losses = {what: list(compress(own, kept)) for what, own in result.losses.items()}
    risk, gain = context.estimate(losses["model"]), None
    if "single" in losses:
        gain = context.estimate(losses["single"]).minus(risk)
    predictions, of_single = result.choice.predictions, result.choice.of_single
    if not all(kept):
        rows = data.validation_rows(problem.names)
        predictions, of_single = predictions[rows], None if of_single is None else of_single[rows]
    choice = Choice(result.choice.weights, risk, gain, predictions, of_single)
    return replace(result, problem=problem, context=context, choice=choice, origin=result)


def risks_at(result: SearchResult) -> dict[int, RiskEstimate]:
    """Estimate the risk of the trials whose predictions are kept, at another target."""
    origin, context = result.origin or result, result.context
    trials = [t for t in finished_trials(result.study) if t.number in origin.trials.index]
    kept = trial_predictions(
        result.settings, origin.context, result.study, result.store, candidates(trials)
    )
    rows = origin.context.data.validation_rows(result.problem.names)
    losses = {n: context.data.losses(kept[n][rows], result.loss) for n in sorted(kept)}
    return {n: context.estimate(of_trial) for n, of_trial in losses.items()}


# ---------------------------------------------------------------- all targets


def target_table(result: SearchResult, *, sources: bool = False) -> pd.DataFrame:
    """Table of `ShiftSearch.target_table`."""
    rows = [_row(target) for target in _each(result, [t.name for t in result.problem.targets])]
    targets = most_urgent_first(pd.DataFrame(rows).set_index("site"))
    if not sources:
        return targets
    asked = [_expected(site) for site in _each(result, result.problem.names)]
    losses = dict(zip(result.context.data.names, result.losses["model"], strict=True))
    asked = [{**row, "truth": float(losses[row["site"]].mean())} for row in asked]
    return pd.concat([targets, pd.DataFrame(asked).set_index("site")])


def most_urgent_first(table: pd.DataFrame) -> pd.DataFrame:
    """Sort a table of targets by verdict, then by what labels would gain."""
    urgency = table["verdict"].map(_MOST_URGENT.index)
    gain = -table[f"gain_{LABELS}"].fillna(0)
    return table.iloc[np.lexsort([gain, urgency])]


def _each(result: SearchResult, sites: Iterable[str]) -> Iterator[SearchResult]:
    """Yield the result for every site, one at a time: a thousand would not fit in memory."""
    for site in sites:
        _interrupts.check()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)  # the verdict has it
            yield result_at(result, site)


def _expected(result: SearchResult) -> dict[str, Any]:
    low, high = result.risk.interval()
    target = {"site": result.target, "rows": len(result.problem.target)}
    return target | {"risk": result.risk.value, "low": low, "high": high}


def _row(result: SearchResult) -> dict[str, Any]:
    gain = np.nan
    if len(result.problem.target) >= LABELS and result.problem.labelled_target is None:
        with suppress(ProblemError):
            gain = float(label_worth(result, LABELS)["gain"].iloc[-1])
    verdict = {"verdict": str(result.verdict.trust), "reason": result.verdict.reason}
    numbers = [check.figures["outside"] for check in result.checks if "outside" in check.figures]
    categories = [column.unseen for column in result.problem.columns.values()]
    what = {"outside": max([*numbers, *categories]), "special": special(result)}
    return {**_expected(result), **verdict, **what, f"gain_{LABELS}": gain}


def special(result: SearchResult) -> str:
    """Say in which columns the rows of the target differ most from those of the sources."""
    columns, remarks = result.problem.columns, []
    for name, distance in result.shifts.mean(axis=1).items():
        unseen = 0.0 if (column := columns.get(str(name))) is None else column.unseen
        if max(unseen, distance) >= _SPECIAL:
            remarks.append((str(name), unseen))
    target = pd.DataFrame(result.problem.target.X).rename(columns=str)
    shown = []
    for name, unseen in remarks[:_MOST_SPECIAL]:
        words = f"{name}: {percent(unseen)} new" if unseen >= _SPECIAL else name
        if words == name and kind_of(target[name]) == "number":
            higher = target[name].median() > np.median(result.medians[name].to_numpy(float))
            words += " higher" if higher else " lower"
        shown.append(words)
    more = len(remarks) - len(shown)
    return ", ".join([*shown, *[f"{more} more"] * (more > 0)])


# ---------------------------------------------------------------- where labels should go


def label_plan(
    result: SearchResult,
    budget: int,
    labelled: Mapping[str, int] = MappingProxyType({}),
    *,
    level: float = 0.95,
) -> pd.DataFrame:
    """Table of `ShiftSearch.label_plan`; some rows of the sites may be labelled already."""
    at_least(1)(budget, "budget")
    tables = {}
    for site_result in _each(result, [target.name for target in result.problem.targets]):
        n_labelled = labelled.get(site_result.target, 0)
        most = min(int(budget), len(site_result.problem.target) - n_labelled)
        counts = [*(m for m in _COUNTS if m < most), most]
        tables[site_result.target] = label_worth(
            site_result, counts, level=level, labelled=n_labelled
        )
    gains = {site: dict(zip(t.index, t["gain"], strict=True)) for site, t in tables.items()}
    labels = shares(gains, int(budget))
    rows = []
    for site, worth in tables.items():
        m = labels[site]
        gain = {c: np.interp(m, worth.index, worth[c]) for c in ("gain", "gain_low", "gain_high")}
        rows.append({"site": site, "labels": m, "risk": worth["risk"].iloc[0], **gain})
    plan = pd.DataFrame(rows).set_index("site")
    return plan.sort_values(["labels", "gain"], ascending=False, kind="stable")


def shares(gains: Mapping[str, Mapping[int, float]], budget: int) -> dict[str, int]:
    """Divide labels among sites so that the sum of their gains is largest.

    Gains are by numbers of labels, 0 among them. Between these they are interpolated, on the least
    concave curve that is not below them; the steepest piece of any site is filled first.

    >>> shares({"A": {0: 0, 10: 3, 20: 4}, "B": {0: 0, 10: 2, 20: 3.9}}, 25)
    {'A': 10, 'B': 15}
    """
    labels, pieces = dict.fromkeys(gains, 0), []
    for site, curve in gains.items():
        m, counts = 0, sorted(curve)
        while m < counts[-1]:
            slope, further = max(((curve[n] - curve[m]) / (n - m), n) for n in counts if n > m)
            if slope <= 0:
                break
            pieces.append((slope, site, further - m))
            m = further
    for _, site, most in sorted(pieces, key=lambda piece: -piece[0]):
        labels[site] += min(most, budget)
        budget -= min(most, budget)
    return labels
