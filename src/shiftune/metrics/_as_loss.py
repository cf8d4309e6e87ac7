r"""Metrics that are no means over rows, as losses of a search.

A metric :math:`\theta_j` of site j with influence values :math:`\psi_{ij}`, which have mean 0 (for
the AUC, placement values), becomes a loss of rows whose mean over the site is :math:`1 - \theta_j`:

.. math:: \ell_{ij} = 1 - \theta_j - \psi_{ij} .

So trials are estimated, compared in pairs and averaged into ensembles as with any other loss, and
an adjustment to the target's rows is right to first order.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftune._names import SITE_LOSSES
from shiftune._wording import listed, loss_name
from shiftune.errors import DataError, DataWarning
from shiftune.evaluate._losses import Loss, loss_named
from shiftune.metrics._by_name import METRICS
from shiftune.metrics._metric import Floats, Metric
from shiftune.metrics._new_site import too_few
from shiftune.problem._site import Site

Sites = NDArray[np.intp]


def tuned_loss(given: str | Loss | Callable[..., Any]) -> Loss:
    """Return the loss of a search from what `ShiftSearch(loss=)` takes.

    >>> auc = tuned_loss("roc_auc")
    >>> auc(["no", "no", "yes"], [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]], ["no", "yes"]).mean()
    np.float64(0.5)
    """
    if isinstance(given, str) and (name := loss_name(given)) in SITE_LOSSES:
        return metric_loss(METRICS[name])
    return loss_named(given)


def metric_loss(metric: Metric) -> Loss:
    """Make a loss of a metric of probabilities that is at most 1, and higher where it is better."""
    by_site = metric.by_site
    assert by_site is not None  # as all of `SITE_LOSSES` have it

    def losses(y: NDArray[Any], P: Floats, classes: NDArray[Any], sites: Sites) -> Floats:
        codes, p = np.searchsorted(classes, y), P[:, 1] if len(classes) == 2 else P
        with np.errstate(divide="ignore", invalid="ignore"):
            values = by_site(codes, p, sites)
        if np.isnan(values).any():
            raise DataError(f"{metric.name} compares classes, and all rows of a site are of one")
        return np.asarray(1 - values)

    return Loss(losses, metric.name, needs="predict_proba", within_site=True)


def judging_sites(sites: Sequence[Site], loss: Loss) -> tuple[Site, ...]:
    """Return the sites at which a loss has a value; the others only train, with a warning."""
    if not loss.within_site:
        return tuple(sites)
    metric = METRICS[loss_name(loss.name)]
    classes = np.unique(np.concatenate([site.labels for site in sites]))
    why = {
        site.name: too_few(metric, np.searchsorted(classes, site.labels), len(classes))
        for site in sites
    }
    without = [f"{name!r} ({reason})" for name, reason in why.items() if reason]
    kept = tuple(site for site in sites if not why[site.name])
    if not kept:
        raise DataError(
            f"no source has a value of {loss.name} on its validation rows: "
            f"{listed(without, quoted=False)}; take the loss 'log_loss'"
        )
    if without:
        warnings.warn(
            f"{loss.name} has no value on the validation rows of {listed(without, quoted=False)}: "
            "models are trained there, but not judged",
            DataWarning,
            stacklevel=3,
        )
    return kept
