"""A result as one document, which page, model card, notebook, screen and best.json show.

It holds JSON values alone: figures that others may compute with, and the sentences about them.
`docs/result.md` has its fields. What templates share to write them is in `_wording.py`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution

from shiftune import _wording
from shiftune._names import Level
from shiftune._provenance import RESULT_FORMAT, made_with, versions_in_words
from shiftune._wording import (
    MOST_STEPS,
    NOT_ESTIMABLE,
    loss_in_words,
    metric_in_words,
    number,
    percent,
    short_names,
)
from shiftune.checks import Check, Trust, verdict_of
from shiftune.checks._of_result import (
    CONSTANT,
    FREQUENT,
    SKILL,
    beside_metrics,
    loss_is_informative,
    telling_metrics,
    uninformative_metrics,
)
from shiftune.effects import without_effect
from shiftune.effects._site_effects import to_scale
from shiftune.effects._updated import predictions_of
from shiftune.errors import SettingsError
from shiftune.models._space import format_range
from shiftune.predictor._conformal import class_sets
from shiftune.problem._site import Features
from shiftune.risk._result import Estimate, RiskEstimate
from shiftune.search._result import SearchResult, model_name
from shiftune.search._targets import LABELS
from shiftune.search._trial import finished_trials, paired_difference
from shiftune.search._updating import Updated

LEVEL_OF = {
    Trust.DO_NOT_USE: Level.PROBLEM,
    Trust.WITH_CARE: Level.CAUTION,
    Trust.TRUST: Level.OK,
}
_SERIOUS_FIRST = (Level.PROBLEM, Level.CAUTION, Level.OK)
_OF_CHECK = ("name", "level", "headline", "finding", "advice", "figures")


def summary(
    result: SearchResult,
    checks: Sequence[Check] | None = None,
    *,
    settings: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a result as a document; see `SearchResult.summary`.

    `checks` are those of the result by default. `settings` is what a reader needs to repeat the
    search; a command among them has the advice name its options.
    """
    checks = result.checks if checks is None else checks
    verdict, problem = verdict_of(checks), result.problem
    constants = [check.figures for check in checks if check.name == SKILL and check.figures]
    constant = constants[0] if constants else {}
    metrics = _metrics(result, constant.get("constant"))
    by_name = {figure["name"]: figure for figure in metrics}
    first = [by_name[name] for name in telling_metrics(result)]
    loss = _loss(result, constant.get("constant"))
    shown = [loss, *first] if loss["name"] in _KNOWN else [*first, loss]
    gain = result.choice.gain
    worth = result.worth_of_labels
    document = {
        "format": RESULT_FORMAT,
        "title": f"{problem.label or 'Predictions'} at {result.target}",
        "question": sentence("question", problem, result.target),
        "target": result.target,
        "target_rows": len(problem.target),
        "label": problem.label,
        "task": problem.task,
        "classes": None if problem.task == "regression" else list(problem.classes),
        "loss": result.loss.name,
        "loss_title": loss_in_words(result.loss.name),
        "verdict": {
            "trust": verdict.trust,
            "level": verdict.reasons[0].level if verdict.reasons else Level.OK,
            "reason": verdict.reason or "no check found anything",
        },
        "checks": [
            {key: getattr(check, key) for key in _OF_CHECK}
            for check in sorted(checks, key=lambda check: _SERIOUS_FIRST.index(check.level))
        ],
        "figures": shown,
        "picture": _picture(result, shown),
        "comparisons": _comparisons(result, constant),
        "next_steps": _next_steps(result, checks, estimable=loss["estimable"]),
        "risk": risk_record(result.risk),
        "sites": _sites(result),
        "adjusted": result.overlap.used,
        "columns": _columns(result),
        "column_importance": None
        if result.column_importance is None
        else _records(result.column_importance),
        "most_shifted": list(result.shifts.index[:3]),
        "models": list(filter(None, result.families)) or [model_name(result.model)],
        "model": result.family.name or model_name(result.model),
        "params": result.best_params,
        "parameters": _parameters(result),
        "members": [{"trial": n, **row} for n, row in result.members.to_dict("index").items()],
        "ensemble_gain": None if gain is None else estimate_record(gain),
        "trials": _trials(result),
        "metrics": metrics,
        "site_metrics": _records(result.metrics.by_site),
        "labels": {
            "used": 0 if problem.labelled_target is None else len(problem.labelled_target),
            "updated": result.updated and update_record(result.updated, result.predictor, result),
            "obstacle": result.updater.obstacle,
            "worth": None if worth is None else _records(worth),
        },
        "sets": _sets(result),
        "notes": [*problem.notes, *result.notes],
        "how_estimated": sentence("how_estimated", result, _own_labels(result.risk)),
        "assumptions": sentence("assumptions", result),
        "sample": _sample(result),
        "provenance": _provenance(result, settings),
    }
    plain: dict[str, Any] = _plain(document)
    if "command" in (settings or {}):
        for part in (*plain["checks"], *plain["next_steps"]):
            part["advice"] = _with_options(part["advice"])
    return plain


def _plain(value: Any) -> Any:
    """Return values as JSON has them: no numbers that are not finite, no types of NumPy."""
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or type(value) in (bool, int, float) else str(value)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return frame.reset_index().to_dict("records")  # type: ignore[return-value]


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as JSON values, with the index as a column."""
    rows: list[dict[str, Any]] = _plain(_records(frame))
    return rows


# Settings in Python, as the command line has them.
_IN_COMMANDS = (
    (re.compile(r"\b(risk|ratio)='(\w+)'"), r"--\1 \2"),
    (re.compile(r"search\.plot_sources\(\) shows"), "The report shows"),
    (re.compile(r"\(trial_timeout\)"), "(--trial-timeout)"),
    (re.compile(r"search\.update\b"), "shiftune update"),
    (re.compile(r"problem\.diagnose\(\) or the command "), ""),
    (re.compile(r"\bbest_params_"), "the parameters"),
)


def _with_options(advice: str) -> str:
    for pattern, words in _IN_COMMANDS:
        advice = pattern.sub(words, advice)
    return advice


# ---------------------------------------------------------------- the result


_MEANINGS = {
    "log_loss": "of predicted probabilities; lower is better",
    "brier": "of predicted probabilities; lower is better",
    "zero_one": "share of wrong classes; lower is better",
    "squared": "mean squared error; lower is better",
    "auc": "how well cases are ranked: 0.5 is chance, 1 is perfect",
    "o_e": "cases observed to cases expected: 1 is perfect",
    "calibration_slope": "1 is perfect; below 1, predictions are too extreme",
    "accuracy": "share of right classes; higher is better",
    "balanced_accuracy": "mean share of right ones of every class; higher is better",
    "r2": "0 is no better than the mean, 1 is perfect",
    "bias": "prediction less label: 0 is perfect",
}
# Losses that people know; beside others, a metric is first.
_KNOWN = ("absolute", "zero_one")
_SHORT = {CONSTANT: "a constant", FREQUENT: "most frequent class"}
# Ratio of the ends of an axis from which it is logarithmic.
_WIDE = 4.0
_OF_METRIC = ("low", "high", "better", "lowest", "lowest_site", "highest", "highest_site", "note")


def _meaning(name: str, better: str, label: str | None) -> str:
    if name in ("rmse", "mae", "absolute"):
        return f"typical error, in units of {label or 'the label'}"
    return _MEANINGS.get(name, f"{better} is better")


def _figure(
    row: Mapping[str, Any],
    title: str,
    meaning: str,
    beside: tuple[float | None, str],
    *,
    estimable: bool,
) -> dict[str, Any]:
    """Return a figure from a row of the table of metrics, beside chance or a constant."""
    figure = {"name": row["metric"], "title": title, "value": row["estimate"], "level": 0.95}
    about = {"meaning": meaning, "constant": beside[0], "constant_is": beside[1]}
    return figure | {key: row[key] for key in _OF_METRIC} | about | {"estimable": estimable}


def _loss(result: SearchResult, constant: float | None) -> dict[str, Any]:
    name, (low, high) = result.loss.name, result.risk.interval()
    sites = result.risk.sources["estimate"].dropna().sort_values(kind="stable")
    row = {"metric": name, "estimate": result.risk.value, "low": low, "high": high}
    row |= {"better": "lower", "note": "" if high > low else "the interval has no width"}
    for end, place in (("lowest", 0), ("highest", -1)):
        row |= {end: sites.iloc[place], f"{end}_site": sites.index[place]}
    meaning = _meaning(name, "lower", result.problem.label)
    informative = loss_is_informative(result, result.risk, constant)
    beside = constant, CONSTANT
    return _figure(row, loss_in_words(name), meaning, beside, estimable=informative)


def _metrics(result: SearchResult, constant: float | None) -> list[dict[str, Any]]:
    """Return all metrics, with what chance or a constant gives where that is known."""
    nothing, about = uninformative_metrics(result, constant), beside_metrics(result, constant)
    figures = []
    for row in _records(result.metrics.table):
        name = row["metric"]
        meaning = _meaning(name, row["better"], result.problem.label)
        beside, estimable = about.get(name, (None, "")), name not in nothing
        figures.append(_figure(row, metric_in_words(name), meaning, beside, estimable=estimable))
    return figures


def _picture(result: SearchResult, figures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what one axis shows: a figure, and what to compare it with.

    It is the first that can be estimated and compared with chance or a constant, if there is one.
    """
    estimated = [figure for figure in figures if figure["value"] is not None]
    telling = (f for f in estimated if f["estimable"] and f["constant"] is not None)
    shown = next(telling, estimated[0])
    name, estimated = shown["name"], shown["estimable"]
    metrics, by_source = result.metrics.by_site["value"], result.risk.sources["estimate"]
    values = {
        "expected": [shown["value"]] if estimated else [],
        "sites": (by_source if name == result.loss.name else metrics.loc[name]).dropna().tolist(),
        "constant": [shown["constant"]],
        "plain_cv": [result.plain_cv.get(name)],
    }
    title, beside = f"expected at {result.target}", shown["constant_is"]
    names = title, "each site", _SHORT.get(beside, beside), "plain cross-validation"
    low, high = (shown["low"], shown["high"]) if estimated else (None, None)
    seen = [low, high] if estimated else values["sites"] or [shown["value"]]
    rows = []
    for (kind, numbers), title in zip(values.items(), names, strict=True):
        there = [value for value in numbers if value is not None and np.isfinite(value)]
        if kind == "expected":
            words = _wording.estimate_in_words(shown) if estimated else "cannot be estimated"
        else:
            ends = sorted({min(there, default=0), max(there, default=0)})
            words = " to ".join(_wording.written_like(end, (min(seen), max(seen))) for end in ends)
        if there or kind == "expected":
            rows.append({"kind": kind, "name": title, "values": there, "says": words})
    rows[0] |= {"low": low, "high": high}
    every = [value for row in rows for value in row["values"]]
    every += [end for end in (low, high) if end is not None]
    wide = shown["better"] != "higher" and min(every) > 0 and max(every) > _WIDE * min(every)
    return {
        "title": shown["title"],
        "better": shown["better"] + ("" if "to" in shown["better"] else " is better"),
        "scale": "logarithmic" if wide else "linear",
        "rows": rows,
    }


def _comparisons(result: SearchResult, constant: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return what other choices would give, the final model first.

    All are without the effect of the target's labels, and their gaps are to it.
    """
    risk, name = result.choice.risk, "this model"
    if result.updated is not None:
        name += f" without {result.target}'s labels"
    rows = [{"name": name, **_compared(result, risk, constant.get("constant")), "gap": None}]
    if constant:
        ends = ("value", ""), ("low", "_low"), ("high", "_high")
        of_it, gap = (
            {end: constant[of + suffix] for end, suffix in ends} for of in ("constant", "gain")
        )
        rows.append({"name": CONSTANT, **of_it, "gap": gap})
    if (default := result.default.risk) is not None:
        compared = _compared(result, default, constant.get("constant"))
        gap = estimate_record(paired_difference(default, result.choice.risk))
        rows.append({"name": "default parameters", **compared, "gap": gap})
    return rows


def _compared(result: SearchResult, risk: RiskEstimate, constant: float | None) -> dict[str, Any]:
    low, high = risk.interval()
    informative = loss_is_informative(result, risk, constant)
    return {"value": risk.value, "low": low, "high": high, "estimable": informative}


def _next_steps(
    result: SearchResult, checks: Sequence[Check], *, estimable: bool
) -> list[dict[str, str]]:
    serious = sorted(
        (check for check in checks if check.level is not Level.OK and check.advice),
        key=lambda check: check.level is not Level.PROBLEM,
    )
    steps = [{"about": check.name, "advice": check.advice} for check in serious]
    if (worth := result.worth_of_labels) is None:
        return steps[:MOST_STEPS]
    few = worth.iloc[[0, min(2, len(worth) - 1)]]  # about 30 labels
    # Programs and the screen offer to draw rows only where labels help.
    about = "labels" if _lower_by_labels(few) or not estimable else "worth of labels"
    advice = f"Label rows of {result.target}: how much that lowers the loss {NOT_ESTIMABLE}."
    if estimable:
        advice = _worth_in_words(few, result.target)
    return [*steps[: MOST_STEPS - 1], {"about": about, "advice": advice}]


def rollout(result: SearchResult, targets: pd.DataFrame, sources: pd.DataFrame) -> dict[str, Any]:
    """Return what the overview shows of a search with several targets.

    `targets` and `sources` are rows of `ShiftSearch.target_table`; the latter may be none.
    """
    label = result.problem.label or "Predictions"
    rows = [row | {"value": row["risk"]} for row in records(targets)]
    tried = [
        row | {"value": row["risk"], "held": row["low"] <= row["truth"] <= row["high"]}
        for row in _records(sources)
    ]
    verdicts = Counter(row["verdict"] for row in rows)
    return {
        "title": f"{label} at {_wording.count(len(rows), 'site')}",
        "question": sentence("rollout", result.problem, len(rows)),
        "loss_title": loss_in_words(result.loss.name),
        "labels": LABELS,
        "targets": rows,
        "sources": _plain(tried),
        "verdicts": {trust: verdicts[trust] for trust in LEVEL_OF},
        "level_of": LEVEL_OF,
    }


# ---------------------------------------------------------------- estimates


def estimate_record(estimate: Estimate, level: float = 0.95) -> dict[str, Any]:
    """Return an estimate with its interval; unknown values are None."""
    low, high = estimate.interval(level)
    figures = {"value": estimate.value, "stderr": estimate.stderr, "low": low, "high": high}
    record: dict[str, Any] = _plain({**figures, "level": level})
    return record


def risk_record(risk: RiskEstimate) -> dict[str, Any]:
    """Return an estimated risk with its interval and method."""
    words = {"method": risk.method, "fallback": risk.fallback}
    return estimate_record(risk) | words | {"coverage": risk.coverage}


def _own_labels(risk: RiskEstimate) -> tuple[int, float] | None:
    """Return the number of labelled rows of the target, and their share in the estimate."""
    if not risk.labelled_target:
        return None
    return int(risk.n[-1]), float(risk.lam[-1] * risk.n[-1])


def _sets(result: SearchResult) -> str:
    """Say that most prediction sets hold all classes, at sites that the model has not seen."""
    predictions, level = result.choice.predictions, 0.9
    if result.context.data.classes is None or predictions is None:
        return ""
    try:
        q = result.site_scores.quantile(level)
    except SettingsError:  # no probabilities, or too few sites
        return ""
    whole = float(class_sets(np.asarray(predictions), q).all(axis=1).mean())
    if whole <= 0.5:
        return ""
    return (
        f"Prediction sets that hold at a new site ({percent(level)}) have all classes in "
        f"{percent(whole)} of the rows, so they are uninformative there."
    )


def _sample(result: SearchResult) -> dict[str, Any] | None:
    """Return what was drawn of a larger table; None if all was read."""
    if (sample := result.problem.sample) is None:
        return None
    return {
        "rows": sample.rows,
        "rows_drawn": sample.rows_drawn,
        "most_of_a_site": sample.cap,
    }


# ---------------------------------------------------------------- sites and columns


def _sites(result: SearchResult) -> list[dict[str, Any]]:
    """Return all sites with labels, those with the largest shares first."""
    estimated: dict[Any, Any] = result.risk.sources.to_dict("index")
    seen: dict[Any, Any] = result.overlap.table.to_dict("index")
    rows: dict[Any, int] = {site.name: len(site) for site in result.problem.labelled_sites}
    sites = []
    for name in dict.fromkeys([*seen, *estimated]):
        # A few labelled rows of the target itself are evaluated too, and overlap by definition.
        look = seen.get(name, {"verdict": "labelled rows of the target", "level": Level.OK})
        about = estimated.get(name, {})
        # An estimate that fell back may use a source all the same.
        out = about.get("left_out", "") if not about.get("share") else ""
        sites.append(
            {
                "name": name,
                "rows": rows.get(name, about.get("n")),
                "evaluated": about.get("n"),
                **{key: about.get(key) for key in ("estimate", "low", "high", "share")},
                "left_out": out,
                "effective": look.get("ess_share"),
                **{key: look.get(key) for key in ("mean_weight", "uncovered", "level")},
                "verdict": f"left out: {out}" if out else look["verdict"],
            }
        )
    return sorted(sites, key=lambda site: -(site["share"] or 0))


_OF_COLUMN = ("kind", "missing", "used", "remark", "beyond")


def _columns(result: SearchResult) -> list[dict[str, Any]]:
    """Return all columns of the table, with the mean distance of target and sources."""
    columns = result.problem.columns
    shifts = result.shifts.mean(axis=1).to_dict()
    return [
        {
            "name": name,
            **{fact: getattr(column, fact) for fact in _OF_COLUMN},
            "shift": shifts.get(name),
        }
        for name, column in {**columns, **columns.left_out}.items()
    ]


# ---------------------------------------------------------------- trials and parameters


def _trials(result: SearchResult) -> dict[str, Any]:
    return {
        "asked": result.settings.n_trials,
        "finished": len(finished_trials(result.study)),
        "evaluated": len(result.risks),
        "failed": int((result.trials["state"] == "FAIL").sum()),
        "best": result.chosen,
        "alone": len(result.risks) > 1 and result.choice.risk is result.risks[result.chosen],
        "tied": len(result.tied),
        "default_failure": result.default.failure,
    }


def _parameters(result: SearchResult) -> list[dict[str, str]]:
    """Describe every parameter of the best trial; texts are empty where there is no value."""
    chosen = result.best_trial.params
    default: dict[str, Any] = {}
    for family in result.families.values():
        default |= family.defaults()
    short = short_names(result.distributions)
    return [
        {
            "name": name,
            "short_name": short[name],
            "chosen": number(chosen[name]),
            "default": number(default[name]) if name in default else "",
            "searched": _searched(distribution, chosen[name]),
        }
        for name, distribution in result.distributions.items()
        if name in chosen
    ]


# Of the width of a range, on its scale.
_NEAR_AN_END = 0.01


def _searched(distribution: BaseDistribution, chosen: Any) -> str:
    """Describe the searched range, and whether the chosen value lies at its end."""
    end = "; chosen at its end" if _at_an_end(distribution, chosen) else ""
    return format_range(distribution) + end


def _at_an_end(distribution: BaseDistribution, chosen: Any) -> bool:
    if not isinstance(distribution, FloatDistribution | IntDistribution) or distribution.single():
        return False
    ends = np.array([distribution.low, chosen, distribution.high], dtype=float)
    low, value, high = np.log(ends) if distribution.log else ends
    return bool(min(value - low, high - value) <= _NEAR_AN_END * (high - low))


def _provenance(result: SearchResult, settings: Mapping[str, str] | None) -> dict[str, Any]:
    fingerprint = result.problem.fingerprint()
    chosen = result.options | {"data fingerprint": fingerprint} if settings is None else settings
    return {
        "fingerprint": fingerprint,
        "seed": result.settings.random_state,
        "versions": made_with()["versions"],
        "settings": {**chosen, "versions": chosen.get("versions") or versions_in_words()},
        "parameters": repr(result.best_trial.params),
    }


# ---------------------------------------------------------------- what labels change

# A figure that would keep this share is hardly lower.
_HARDLY_LOWER = 0.95
_WIDTH = "the width of its 95 % interval"


def _worth_in_words(worth: pd.DataFrame, target: str) -> str:
    """Describe what labels are expected to change, from `SearchResult.worth_of_labels`."""
    return sentence("worth", worth.index[1:].tolist(), _lower_by_labels(worth), target)


def _lower_by_labels(worth: pd.DataFrame) -> dict[str, list[str]]:
    """Return what is lower with labels, in percent for each number of labels."""
    lower = {}
    for column, what in (("risk", "the loss there"), ("half_width", _WIDTH)):
        now, *then = worth[column].tolist()
        if min(then) < _HARDLY_LOWER * now:
            lower[what] = [f"{100 * (1 - after / now):.0f}" for after in then]
    return lower


def update_record(updated: Updated, predictor: Any, result: SearchResult) -> dict[str, Any]:
    """Return risks, the gain, and the site's effect on the predictions of the target's rows.

    The predictor is the one that predicts, updated unless `updated.used_` is False; without it,
    how far predictions move is unknown.
    """
    effect, table = updated.effect_, updated.metrics_
    # Intercept and slope come first; columns can be thousands.
    several = "class" in effect.index.names
    first = effect.groupby("class", sort=False).head(2) if several else effect[:2]
    figures = []
    if updated.unlike_ <= 0.5:  # metrics are those of sources with labels, which it is like
        rows: dict[Any, Any] = table.dropna(subset="estimate").to_dict("index")
        for name in telling_metrics(result):
            if row := rows.get(name):
                ends = {"value": row["estimate"], "low": row["low"], "high": row["high"]}
                figures.append({"title": metric_in_words(name), **ends})
    record = {
        "labels": updated.labels_,
        "used": updated.used_,
        "unlike": updated.unlike_,
        "before": risk_record(updated.before_),
        "after": risk_record(updated.risk_),
        "gain": estimate_record(updated.gain_),
        "figures": figures,
        "metrics": _records(table),
        "effect": _records(first),
        "shift": [] if predictor is None else _shift(predictor, result.problem.target.X),
    }
    loss = loss_in_words(result.loss.name)
    record["says"] = {
        "change": sentence("change", record, result.target, loss),
        "effect": "" if predictor is None else sentence("effect", record, result.target),
    }
    plain: dict[str, Any] = _plain(record)
    return plain


def _shift(after: Any, X: Features) -> list[dict[str, Any]]:
    """Return how far labels move the target's predictions: values, or log odds by class.

    Of two classes, those of the second; of several, what moves most is first.
    """
    classes = getattr(after, "classes_", None)
    now, before = (
        to_scale(predictions_of(model, X, values=classes is None))
        for model in (after, without_effect(after))
    )
    scale = "value" if classes is None else "log odds"
    names = [None] if classes is None else [*map(str, classes)][-now.shape[1] :]
    means = (now - before).mean(axis=0).tolist()
    pairs = sorted(zip(names, means, strict=True), key=lambda pair: -abs(pair[1]))
    return [
        {
            "class": name,
            "scale": scale,
            "mean": mean,
            "odds": None if name is None else np.exp(mean),
        }
        for name, mean in pairs
    ]


# ---------------------------------------------------------------- what templates share

# What templates call beside Jinja's own filters.
_FILTERS = {
    "counted": _wording.count,
    "estimate": _wording.estimate_in_words,
    "figure": _wording.figure_in_words,
    "listed": _wording.listed,
    "lower_by": _wording.lower_by,
    "most_important": _wording.most_important,
    "number": _wording.number,
    "params": _wording.params_in_words,
    "percent": _wording.percent,
    "shortened": _wording.shortened,
    "updated_model": _wording.updated_model,
}
_LIMITS = {
    "most_classes": _wording.MOST_CLASSES,
    "most_columns": _wording.MOST_COLUMNS,
    "most_sites": _wording.MOST_SITES,
}


@cache
def template(name: str, **options: Any) -> jinja2.Template:
    """Return a template by its file; in HTML all that is filled in is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("shiftune.report"),
        autoescape=name.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        **options,
    )
    environment.filters |= _FILTERS
    environment.globals |= _LIMITS
    return environment.get_template(name)


def sentence(name: str, *facts: Any) -> str:
    """Return a sentence of a document, by the name of its macro."""
    text: str = getattr(template("sentences.j2").module, name)(*facts)
    return " ".join(text.split())
