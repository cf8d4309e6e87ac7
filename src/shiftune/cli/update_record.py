"""What labels have changed, as update.json and best.json hold it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.cli.job import TuneJob
from shiftune.cli.records import estimate_record, records, risk_record
from shiftune.effects.scale import LEAST_LIKELY
from shiftune.problem.site import Features
from shiftune.risk import by_group, estimate
from shiftune.risk.result import Estimate, RiskEstimate
from shiftune.search.updating import Updated

Floats = NDArray[np.float64]


def effect_record(updated: Updated, predictor: Any, X: Features) -> dict[str, Any]:
    """Return risks, the gain, and the site's effect.

    Parameters
    ----------
    updated : Updated
    predictor : fitted `UpdatedRegressor` or `UpdatedClassifier`
        What predicts.
    X : rows of the target
    """
    return {
        "labels": updated.labels_,
        "before": risk_record(updated.before_),
        "after": risk_record(updated.risk_),
        "gain": estimate_record(updated.gain_),
        "metrics": records(updated.metrics_),
        "effect": records(_first_terms(updated.effect_)),
        "shift": _shift(predictor, X),
    }


def update_record(
    job: TuneJob,
    model: Any,
    updated: Updated,
    X: Features,
    y: NDArray[Any],
    groups: NDArray[np.intp] | None = None,
) -> dict[str, Any]:
    """Return what has changed, and the first estimate beside the labels.

    Parameters
    ----------
    job : TuneJob
        Whose search is open.
    model : fitted estimator
        What the search handed over.
    updated : Updated
    X, y, groups : labelled rows of the target that the search did not have
    """
    result, target = job.search.result_, job.table.problem.target.X
    return {
        "target": job.table.problem.target.name,
        "label": job.options.label,
        "loss": result.loss.name,
        **effect_record(updated, updated.predictor_, target),
        "labels_of_tune": updated.labels_ - len(y),
        "first_estimate": _compared(result.risk, _losses(job, model, X, y), groups),
    }


def _first_terms(effect: pd.DataFrame) -> pd.DataFrame:
    """Return intercept and slope; columns can be thousands."""
    return (
        effect.groupby("class", sort=False).head(2) if "class" in effect.index.names else effect[:2]
    )


def _shift(after: Any, X: Features) -> list[dict[str, Any]]:
    """Return how far the effect moves the target's predictions: values, or log odds by class."""
    before = after.predictor_
    if not hasattr(after, "classes_"):
        moved = after.predict(X) - np.asarray(before.predict(X)).reshape(-1)
        return [{"class": None, "scale": "value", "mean": float(moved.mean())}]
    moved = _log_odds(after.predict_proba(X)) - _log_odds(before.predict_proba(X))
    return [
        {"class": str(name), "scale": "log odds", "mean": float(own.mean())}
        for name, own in zip(after.classes_, moved.T, strict=True)
    ]


def _log_odds(shares: Any) -> Floats:
    inside = np.clip(shares, LEAST_LIKELY, 1 - LEAST_LIKELY)
    return np.asarray(np.log(inside / (1 - inside)))


def _losses(job: TuneJob, model: Any, X: Features, y: NDArray[Any]) -> Floats:
    result = job.search.result_
    classes = result.context.data.classes
    return result.loss(y, getattr(model, result.loss.needs)(X), classes)


def _compared(
    first: RiskEstimate, losses: Floats, groups: NDArray[np.intp] | None
) -> dict[str, Any]:
    """Compare the estimate before any of these labels with the mean loss at their rows.

    They agree if the 95 % interval of the difference contains 0; a single row, or rows of a single
    group, show nothing.
    """
    found: dict[str, Any] = risk_record(first) | {"mean_loss": None, "agrees": None}
    m = len(losses)
    risk = by_group(
        estimate([losses], method="naive"), [np.arange(m) if groups is None else groups]
    )
    if risk.block_counts[0] < 2:
        return found | {"mean_loss": {"value": risk.value, "low": None, "high": None}}
    own = Estimate(risk.value, risk.variance * m / (m - 1), risk.dof)
    parts = np.array([first.variance, own.variance])
    total = float(parts.sum())
    dof = total**2 / float(np.sum(parts**2 / [first.dof, own.dof])) if total > 0 else own.dof
    about = estimate_record(own)
    if first.nonnegative:
        about["low"] = max(about["low"], 0.0)
    low, high = Estimate(own.value - first.value, total, dof).interval()
    return found | {"mean_loss": about, "agrees": bool(low <= 0 <= high)}
