"""Metrics that people use, estimated for a site that no model has seen.

A metric of a site is a number of its labels and predictions (`Metric`); its influence values show
how far each row moves it, so its standard error follows.
"""

from shiftune.metrics.by_name import METRICS, metric_named, metrics_for
from shiftune.metrics.metric import Metric

__all__ = ["METRICS", "Metric", "metric_named", "metrics_for"]
