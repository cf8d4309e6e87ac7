"""Metrics that people use, estimated for a site that no model has seen.

A metric of a site is a number of its labels and predictions (`Metric`); its influence values show
how far each row moves it. Predictions at each source come from models that have not seen it, as
they will not have seen the target; from them follows the metric at the target.
"""

from shiftune.metrics._by_name import METRICS, metric_named, metrics_for
from shiftune.metrics._curves import (
    ChosenThreshold,
    calibration_curve,
    decision_curve,
    threshold_for,
)
from shiftune.metrics._metric import Metric
from shiftune.metrics._new_site import MetricTables, metric_tables

__all__ = [
    "METRICS",
    "ChosenThreshold",
    "Metric",
    "MetricTables",
    "calibration_curve",
    "decision_curve",
    "metric_named",
    "metric_tables",
    "metrics_for",
    "threshold_for",
]
