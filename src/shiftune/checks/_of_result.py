"""All checks of a result, and those of the model and its estimated risk.

Skill, informative intervals, agreement of the sources, influence of one source, enough
sites, rows and trials; the checks of the data are in `_of_data.py`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from optuna.samplers import BruteForceSampler, GridSampler
from scipy.special import stdtr

from shiftune._names import Level
from shiftune._wording import (
    NOT_ESTIMABLE,
    count,
    figures,
    interval_in_words,
    listed,
    loss_in_words,
    metric_in_words,
    number,
    percent,
)
from shiftune.checks._checks import MOST_NAMES, NOTHING_TO_DO, SIGNIFICANT, Check, Checks, chance
from shiftune.checks._label_shift import label_shift
from shiftune.checks._of_data import (
    extrapolation_check,
    overlap_check,
    prevalence_check,
)
from shiftune.errors import ProblemError
from shiftune.evaluate._fits import constant_predictions
from shiftune.problem import pooled
from shiftune.ratio._overlap import uncovered_shares
from shiftune.risk._heterogeneity import (
    ALL,
    heterogeneity_of,
    values_without,
    without_source,
)
from shiftune.risk._result import RiskEstimate
from shiftune.search._families import unused
from shiftune.search._result import SearchResult
from shiftune.search._trial import finished_trials


def run_checks(result: SearchResult) -> Checks:
    """Check what can make a result worthless; the checks print as text.

    `docs/checks.md` has a table of them; `verdict_of` sums them up.
    """
    if result.settings.risk.uses_target_labels:
        finding = "The target's own labels were used, so nothing is assumed."
        return Checks([Check("overlap", Level.OK, finding, NOTHING_TO_DO, {})])
    risk, problem = result.risk, result.problem
    counted = {name for name, lam in zip(risk.names, risk.lam, strict=True) if lam > 0}
    X = result.context.data.X_validation  # of all sites
    if result.settings.shares is not None or len(counted) < len(risk.names):
        X, _ = pooled([site for site in problem.labelled_sites if site.name in counted])
    uncovered = float(uncovered_shares(problem.target.X, [X])[0])
    weighted = result.context.data.weights is not None
    frequencies = []
    if problem.task == "classification" and problem.labelled_target is None:
        # There may be too few sources or classes.
        with suppress(ProblemError):
            frequencies = [prevalence_check(label_shift(problem.sources, problem.target.X))]
    skill = skill_check(result)
    return Checks(
        [
            skill,
            width_check(result, skill),
            result.leakage,
            overlap_check(risk, uncovered, list(result.shifts.index), weighted=weighted),
            extrapolation_check(result),
            *frequencies,
            *result.site_effects,
            agreement_check(result.choice.risk),
            influence_check(result.choice.risk),
            enough_check(result),
            trials_check(result),
        ]
    )


# ---------------------------------------------------------------- skill

SKILL = "better than a constant"
# Chance of being no better, from which on it is mentioned, or a problem.
_SOME_CHANCE, _LIKELY = 0.2, 0.75


def skill_check(result: SearchResult) -> Check:
    """Compare the final model with a constant, at sites that neither has seen.

    The constant is the best one for the sources' labels: class frequencies, the mean, a quantile.
    A problem: the chance that its risk at the target is lower is 3 in 4 (from the paired
    difference). A caution: it exceeds 1 in 5, or there are no predictions to compare. Where a model
    has seen all sites, so has the constant.
    """
    predictions, data = result.choice.predictions, result.context.data
    if predictions is None:
        return Check(
            SKILL,
            Level.CAUTION,
            "Whether the model is better than a constant is unknown: no predictions were kept.",
            "Compare the model with a constant yourself.",
            {},
            "skill is unknown",
        )
    with_model = result.choice.risk
    constant = constant_predictions(data, result.loss).astype(predictions.dtype)
    without = result.context.estimate(data.losses(constant, result.loss))
    gain = without.minus(with_model)
    chance_of_none = float(stdtr(gain.dof, -gain.value / gain.stderr)) if gain.stderr else 0.5
    low, high = gain.interval()
    numbers = {
        "constant": without.value,
        "model": with_model.value,
        "constant_low": without.interval()[0],
        "constant_high": without.interval()[1],
        "gain": gain.value,
        "gain_low": low,
        "gain_high": high,
        "chance_of_none": chance_of_none,
    }
    model, plain = figures(with_model.value, without.value)
    loss = loss_in_words(result.loss.name)
    where = "at sites" if data.out_of_site else "on rows"
    certain = "may be" if _SOME_CHANCE < chance_of_none < _LIKELY else "is"
    better = "better" if gain.value > 0 else "no better"
    finding = (
        f"The model {certain} {better} than a constant {where} that it has not seen: {loss} "
        f"{model} with the model, {plain} with the same prediction for every row; the chance that "
        f"it is no better is {percent(chance_of_none)}."
    )
    if chance_of_none >= _LIKELY:
        advice = (
            "Predict the constant, look for columns that explain more, or label a few target rows, "
            "which show what the site's own level is."
        )
        headline = "the model is no better than a constant"
        return Check(SKILL, Level.PROBLEM, finding, advice, numbers, headline)
    if chance_of_none > _SOME_CHANCE:
        advice = (
            "Add rows or sites, or label a few target rows: the model may be better at some sites "
            "only."
        )
        headline = "it is not certain that the model is better than a constant"
        return Check(SKILL, Level.CAUTION, finding, advice, numbers, headline)
    return Check(SKILL, Level.OK, finding, NOTHING_TO_DO, numbers)


# ---------------------------------------------------------------- uninformative intervals

_WIDTH = "interval width"
# Metrics beside the loss, by how much they say to most readers.
_TELLING = ("auc", "o_e", "rmse", "r2", "balanced_accuracy", "accuracy")
_MOST_METRICS = 2
# An interval is uninformative if it contains good models and errors of so many times a constant's:
# a model that may be three times as bad as none is not known. Narrower intervals of few sites still
# rule something out. Of squares it is nine times, so that RMSE, squared error and R2 agree.
_TIMES = 3.0
# Of a share such as the AUC: half of all possible values is what separates chance from perfect.
_HALF = 0.5


def telling_metrics(result: SearchResult) -> list[str]:
    """Return the metrics that stand beside the loss: those asked for, or those that say most."""
    table, loss = result.metrics.table, result.loss.name
    names = [str(name) for name in table.index if name != loss]
    if result.settings.metrics is None:
        estimable = table.index[table["estimate"].notna()]
        names = [name for name in _TELLING if name in estimable]
    return names[:_MOST_METRICS]


def is_informative(
    scale: str, better: Any, ends: tuple[float, float], constant: float | None, *, squared: bool
) -> bool:
    """Whether an interval is informative about a figure of a `Metric`'s scale and direction.

    `constant` is the figure of a constant, None where it is unknown.
    """
    low, high = ends
    times = _TIMES**2 if squared else _TIMES
    if not np.isfinite(high - low):
        return False
    if scale == "logit":
        return high - low <= _HALF
    if scale == "log_of_rest":  # 1 less the share of a constant's squared error, as R2 is
        return low >= 1 - times or high <= 0
    if scale == "log" and better == 1.0:  # O:E, which may be three times too low and too high
        return low > 1 / times or high < times
    if better == 1.0:  # calibration slope: from predictions without any order to far too cautious
        return low > 0 or high < 2
    if constant is None or better != "lower":
        return True
    return high <= times * constant or low >= constant


_CHANCE = "chance"
CONSTANT, FREQUENT = "constant learned at the sources", "always the most frequent class"


def beside_metrics(
    result: SearchResult, constant: float | None
) -> dict[str, tuple[float | None, str]]:
    """Return what chance or a constant gives, by metric; `constant` is the loss of a constant."""
    beside: dict[str, tuple[float | None, str]] = {"auc": (0.5, _CHANCE)}
    if result.problem.task == "classification":
        labels = np.concatenate([site.labels for site in result.problem.sources])
        shares = np.unique(labels, return_counts=True)[1] / len(labels)
        beside["accuracy"] = float(shares.max()), FREQUENT
        beside["balanced_accuracy"] = 1 / len(shares), _CHANCE
        brier = 1 - float(shares @ shares)
        beside["brier"] = brier / 2 if len(shares) == 2 else brier, CONSTANT
        if len(shares) == 2:
            beside["average_precision"] = float(shares[1]), _CHANCE
    elif result.loss.name == "squared" and constant is not None and constant >= 0:
        beside["rmse"] = constant**0.5, CONSTANT
    return beside


def uninformative_metrics(result: SearchResult, constant: float | None) -> set[str]:
    """Return the metrics whose intervals are uninformative."""
    beside = beside_metrics(result, constant)
    rows = result.metrics.table[["low", "high"]].to_dict("index")
    return {
        metric.name
        for metric in result.asked_metrics
        if not np.isnan(low := rows[metric.name]["low"])
        and not is_informative(
            metric.scale,
            metric.better,
            (low, rows[metric.name]["high"]),
            beside.get(metric.name, (None, ""))[0],
            squared=metric.name == "r2",
        )
    }


def loss_is_informative(result: SearchResult, risk: Any, constant: float | None) -> bool:
    """Whether the interval of an estimate of the tuned loss is informative."""
    name = result.loss.name
    scale = "logit" if name == "zero_one" else "log"
    return is_informative(scale, "lower", risk.interval(), constant, squared=name == "squared")


def width_check(result: SearchResult, skill: Check) -> Check:
    """Check whether the intervals of the figures that readers see first are informative.

    A problem: none is; or that of the loss is not, or none beside it, and the model is not surely
    better than a constant, so that little is known about it. A caution: one is not, or that of the
    loss has no width.
    """
    risk, name = result.risk, loss_in_words(result.loss.name)
    constant = skill.figures.get("constant")
    low, high = risk.interval()
    nothing = uninformative_metrics(result, constant)
    rows: dict[Any, Any] = result.metrics.table.to_dict("index")
    shown = [m for m in telling_metrics(result) if pd.notna(rows[m]["estimate"])]
    wide = {
        metric_in_words(name): (rows[name]["low"], rows[name]["high"])
        for name in shown
        if name in nothing
    }
    of_loss, of_others = loss_is_informative(result, risk, constant), len(wide) < len(shown)
    if not of_loss:
        wide[name] = low, high
    unskilled = skill.level is not Level.OK and not (of_loss and (of_others or not shown))
    level = Level.PROBLEM if unskilled or not (of_loss or of_others) else Level.CAUTION
    advice = (
        "Add sites: the width is mostly that of the differences between few sites. Or label some "
        "target rows, which show the site itself."
    )
    numbers = {"low": low, "high": high, "intervals": float(len(wide))}
    if not wide and high > low:
        finding = "Every interval is narrow enough to be informative."
        return Check(_WIDTH, Level.OK, finding, NOTHING_TO_DO, numbers)
    if not wide:
        finding = f"The interval of the {name} has no width, although it is not known exactly."
        return Check(_WIDTH, level, finding, advice, numbers, "the interval has no width")
    intervals = (f"{name} {interval_in_words(*ends)}" for name, ends in wide.items())
    finding = (
        f"Uninformative 95 % intervals: {listed(intervals, quoted=False)}. They contain good "
        "models and models far worse than a constant or chance."
    )
    headline = f"{listed(wide, quoted=False)} {NOT_ESTIMABLE}"
    if unskilled:
        headline += ", and the model may be no better than a constant"
    return Check(_WIDTH, level, finding, advice, numbers, headline)


# ---------------------------------------------------------------- agreement

_AGREEMENT = "site heterogeneity"
# "High" in the words of Higgins and others (2003), Measuring inconsistency in meta-analyses, BMJ
# 327: 25 % is low, 50 % moderate, 75 % high.
_HIGH = 0.75


def agreement_check(risk: RiskEstimate) -> Check:
    """Check whether the sources' estimates of the chosen model's risk differ significantly.

    A caution: they do (Cochran's Q, 5 % level) and the interval does not include it, or fewer than
    two can be compared, or labelled rows of the target contradict the sources. A problem: at least
    three quarters of the variation (I^2) are not sampling error, and the interval does not include
    it. (Intervals that do include it cover no less often where sources disagree;
    `benchmarks/results/alarms.md`.)
    """
    check = _among_sources(risk)
    if not risk.labelled_target:
        return check
    labels, others, p_value = _own_labels(risk)
    numbers = check.figures | {"own_labels": labels, "by_sources": others, "own_p_value": p_value}
    if p_value >= SIGNIFICANT:
        return replace(check, figures=numbers)
    target = risk.names[-1]
    return replace(
        check,
        headline=f"labels of {target!r} contradict the sources",
        level=Level.PROBLEM if check.level is Level.PROBLEM else Level.CAUTION,
        finding=f"{check.finding} But the labelled rows of {target!r} itself give "
        f"{number(labels, 4)} and the sources {number(others, 4)}: sampling error and "
        f"site-to-site variation do not explain the difference ({chance(p_value)}).",
        advice=f"Trust the labels of {target!r} and add more: it is unlike the sources, which help "
        "little.",
        figures=numbers,
    )


def _own_labels(risk: RiskEstimate) -> tuple[float, float, float]:
    """Risk by the target's labels, risk by the sources, and p value of the difference."""
    by_labels, sources = float(risk.estimates[-1]), without_source(risk, risk.names[-1])
    spread = np.sqrt(sources.variance + risk.divergences[-1] / risk.n[-1])
    if spread == 0:
        return by_labels, sources.value, float(by_labels == sources.value)
    p_value = 2 * stdtr(sources.dof, -abs(by_labels - sources.value) / spread)
    return by_labels, sources.value, float(p_value)


def _among_sources(risk: RiskEstimate) -> Check:
    test = heterogeneity_of(risk)
    if test is None:
        return Check(
            _AGREEMENT,
            Level.CAUTION,
            "Agreement of the sources cannot be tested: fewer than two are in the estimate.",
            "Add sources, or label some target rows: how far sites differ is unknown, and the "
            "interval may be too narrow.",
            {},
            "only one source is in the estimate",
        )
    numbers = {
        "q": test.q,
        "p_value": test.p_value,
        "i_squared": test.i_squared,
    }
    if test.p_value >= SIGNIFICANT:
        finding = (
            f"The {test.k} sources agree about the risk within sampling error "
            f"({chance(test.p_value)})."
        )
        return Check(_AGREEMENT, Level.OK, finding, NOTHING_TO_DO, numbers)
    finding = (
        f"The {test.k} sources disagree about the risk by more than sampling error "
        f"({chance(test.p_value)}); {percent(test.i_squared)} of the variation between them is "
        "real (I²)."
    )
    if risk.between is not None:
        return Check(
            _AGREEMENT,
            Level.OK,
            f"{finding} The risk varies from site to site by about "
            f"{number(risk.between**0.5, 4)} (standard deviation); the interval includes this "
            "variation.",
            "Target labels narrow the interval, and so does a column that explains the "
            "differences. search.plot_sources() shows which sources disagree.",
            numbers,
        )
    otherwise = (
        "some sites have harder cases (an estimate with weights corrects for that)"
        if risk.method == "naive"
        else "the density ratios are off (try ratio='ulsif')"
    )
    return Check(
        _AGREEMENT,
        Level.PROBLEM if test.i_squared >= _HIGH else Level.CAUTION,
        f"{finding} The interval of the risk does not include these differences.",
        "Use risk='adjusted', whose interval does. Either similar cases have different outcomes "
        f"at different sites, or {otherwise}. search.plot_sources() shows which sources disagree.",
        numbers,
        "the sources disagree about the risk",
    )


# ---------------------------------------------------------------- influence

_INFLUENCE = "no source decides alone"
# Effective number of sources, 1 / sum of their squared shares: nearer to one than to two. (Of two
# sources, one with a share of 79 %; of three or more, one with some 80 %.)
_NEARER_TO_ONE = 1.5


def influence_check(risk: RiskEstimate) -> Check:
    """Check how far the estimate depends on one source.

    A problem: only one source is in the estimate. A caution: without some source the risk lies
    outside its 95 % interval, or one source has so large a share that the estimate is nearer to
    that of one source than of two. (The choice without each source is not compared: a rule for it
    applied in none of 27 searches, `benchmarks/results/alarms.md`.)
    """
    table = _without_each(risk)
    heaviest, share = str(table["share"].idxmax()), float(table["share"].max())
    if share >= ALL:
        return Check(
            _INFLUENCE,
            Level.PROBLEM,
            f"Estimate and choice rest on {heaviest!r} alone.",
            "Add another source that overlaps with the target, or label some target rows: if "
            f"{heaviest!r} differs from the target in a way that matters, both are wrong.",
            {"largest_share": 1.0, "sources": 1.0},
            f"all rests on {heaviest!r} alone",
        )
    low, high = risk.interval()
    away = [str(s) for s in table.index[(table["without"] < low) | (table["without"] > high)]]
    numbers = {
        "largest_share": share,
        "effective_sources": float(table["share"].sum() ** 2 / np.sum(table["share"] ** 2)),
        "largest_change": float((table["without"] - risk.value).abs().max()),
        "sources": float(len(table)),
    }
    farthest = str((table["without"] - risk.value).abs().idxmax())
    finding = (
        f"Without {farthest!r}, the most influential source, the risk would be "
        f"{number(float(table['without'].to_dict()[farthest]), 4)} instead of "
        f"{number(risk.value, 4)}"
    )
    if away:
        ends = f"{number(low, 4)} to {number(high, 4)}"
        advice = (
            f"Find out what is special about {listed(away, MOST_NAMES)}: the interval is too "
            "narrow for the influence of one source."
        )
        return Check(
            _INFLUENCE,
            Level.CAUTION,
            f"{finding}, outside its 95 % interval ({ends}).",
            advice,
            numbers,
            f"{listed(away, MOST_NAMES)} moves the estimate out of its interval",
        )
    if numbers["effective_sources"] < _NEARER_TO_ONE:
        advice = f"Make sure that {heaviest!r} is like the target beyond what the table shows"
        if risk.method == "variance_reduced":
            advice += "; risk='unbiased' gives the other sources larger shares"
        finding += f". {heaviest!r} has {percent(share)} of the weight in the estimate."
        headline = f"{heaviest!r} has most of the weight"
        return Check(_INFLUENCE, Level.CAUTION, finding, f"{advice}.", numbers, headline)
    return Check(_INFLUENCE, Level.OK, f"{finding}.", NOTHING_TO_DO, numbers)


def _without_each(risk: RiskEstimate) -> pd.DataFrame:
    """Share of every source in the estimate, where it has any, and the estimate without it."""
    table = pd.DataFrame(
        {"share": risk.lam * risk.n, "without": values_without(risk, risk.estimates)},
        index=pd.Index(risk.names, name="site"),
    )
    return table[(table["share"] > 0) & table.index.isin(risk.source_names)]


# ---------------------------------------------------------------- enough sites and rows

_ENOUGH = "enough sites and rows"
# From fewer sites the variance between sites is hardly known.
_FEW_SOURCES = 4
# Rows of a class with which the loss is estimated.
_FEW_OF_A_CLASS = 20
# Share of the rows that one site has.
_GIANT = 0.8
# Share of the losses' variance within sites that comes from one row in a hundred.
_HEAVY_TAIL = 0.75


def enough_check(result: SearchResult) -> Check:
    """Check whether sites and rows are enough to see how far a new site may differ.

    A caution: fewer than four sources; a class with fewer than 20 rows among those that evaluate
    the model; one source with more than 80 % of the training rows; or one row in a hundred makes up
    three quarters of the losses' variance within sites.
    """
    data, risk, predictions = result.context.data, result.choice.risk, result.choice.predictions
    sources = int(np.sum(risk.lam[: len(risk.source_names)] > 0))
    numbers = {"sources": float(sources)}
    reasons: list[str] = []
    if sources < _FEW_SOURCES:
        reasons.append(f"{count(sources, 'source')} only, too few to show how far sites differ")
    if data.classes is not None:
        y = np.concatenate(data.y_validation)
        counts = {str(c): int(np.sum(y == c)) for c in data.classes}
        numbers["fewest_of_a_class"] = float(min(counts.values()))
        rare = [f"{rows} of {name!r}" for name, rows in counts.items() if rows < _FEW_OF_A_CLASS]
        if rare:
            named = listed(rare, MOST_NAMES, quoted=False)
            reasons.append(f"only few rows of a class to evaluate the model: {named}")
    rows = np.array([len(site) for site in result.problem.sources])
    numbers["largest_source"] = float(rows.max() / rows.sum()) if len(rows) > 1 else 0.0
    if numbers["largest_source"] > _GIANT:
        reasons.append(
            f"few training rows besides those of {result.problem.names[rows.argmax()]!r}, which "
            f"has {percent(numbers['largest_source'])} of them, so the model is mostly one of that "
            "site"
        )
    if predictions is not None:
        numbers["tail"] = share = tail_share(result.losses["model"])
        if share > _HEAVY_TAIL:
            reasons.append(
                f"losses dominated by a few rows: 1 % of them have {percent(share)} of the variance"
            )
    if not reasons:
        finding = f"{count(sources, 'source')}, no rare class, no giant site, no heavy tail."
        return Check(_ENOUGH, Level.OK, finding, NOTHING_TO_DO, numbers)
    advice = (
        "Add sites or rows, or label a few target rows: the true uncertainty may be larger than "
        "the interval."
    )
    return Check(
        _ENOUGH, Level.CAUTION, f"There are {'; '.join(reasons)}.", advice, numbers, reasons[0]
    )


_TRIALS = "enough trials"
# Share of the trials that were asked for, below which a search has ended early.
_FINISHED = 0.5


def trials_check(result: SearchResult) -> Check:
    """Check whether the search is complete: a caution if it ended early, or if trials failed.

    Early: less than half of the trials asked for, and the sampler has not tried everything.
    """
    trials, asked = finished_trials(result.study), result.settings.n_trials
    numbers = {"asked": float(asked), "finished": float(len(trials))}
    evaluated = len((result.origin or result).risks)
    numbers["evaluated"] = float(evaluated)
    notes = list(unused(result.families, trials))
    whole = isinstance(result.settings.sampler, GridSampler | BruteForceSampler)
    if len(trials) < _FINISHED * asked and not whole:
        advice = "run more trials: better parameters, or a better model, may not have been tried"
        notes.insert(0, (f"only {len(trials)} of {count(asked, 'trial')} finished", advice))
    if not notes:
        finding = f"{count(evaluated, 'trial')} evaluated, of {asked} asked for."
        return Check(_TRIALS, Level.OK, finding, NOTHING_TO_DO, numbers)
    texts = ("; ".join(dict.fromkeys(parts)) for parts in zip(*notes, strict=True))
    finding, advice = (f"{text[0].upper()}{text[1:]}." for text in texts)
    headline = "; ".join(what.partition(" (")[0] for what, _ in notes)
    return Check(_TRIALS, Level.CAUTION, finding, advice, numbers, headline)


def tail_share(losses: list[NDArray[np.float64]]) -> float:
    """Share of the variance within sites that one row in a hundred makes up."""
    squares = np.sort(np.concatenate([(site - site.mean()) ** 2 for site in losses]))[::-1]
    total = float(squares.sum())
    return float(squares[: max(len(squares) // 100, 1)].sum()) / total if total > 0 else 0.0
