"""From losses and weights to the estimated target risk."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftune.errors import DataError, OverlapWarning, SettingsError
from shiftune.ratio.guard import NEGLIGIBLE, Guard, effective_rows
from shiftune.ratio.verdict import Verdict
from shiftune.risk import lambdas
from shiftune.risk.assembly import estimated
from shiftune.risk.lambdas import Divergence
from shiftune.risk.normalised import normalised_by_source, self_normalised
from shiftune.risk.result import RiskEstimate
from shiftune.risk.sample import Sample, laid_out, read_sample
from shiftune.spelling import check_choice

Method = Literal[
    "naive",
    "unbiased",
    "lambda",
    "variance_reduced",
    "self_normalised",
    "oracle",
]
METHODS: tuple[Method, ...] = get_args(Method)


def estimate(
    losses: Sequence[ArrayLike],
    weights: Sequence[ArrayLike] | None = None,
    method: Method = "variance_reduced",
    *,
    guard: bool | Guard = True,
    divergence: Divergence = "plug_in",
    lam: ArrayLike | None = None,
    names: Sequence[str] | None = None,
) -> RiskEstimate:
    r"""Estimate the risk of a model at the target from its losses at the sources.

    .. math:: \hat f = \sum_j \lambda_j \sum_i w_{ij} L_{ij}, \qquad \sum_j \lambda_j n_j = 1

    A pure function: no model, no data frame, no random numbers. Read as a meta-analysis, source
    j reports :math:`m_j = \mathrm{mean}(wL)` with variance :math:`\mathrm{Div}_j / n_j`.

    Parameters
    ----------
    losses : k arrays of shape (n_j,)
        Loss of the model on every row of every source.
    weights : k arrays of shape (n_j,), optional
        Density ratios at the same rows. Not read by "naive" and "oracle". Labelled rows of the
        target itself are an additional source with weights 1.
    method : str
        - "naive": mean loss over all rows, no correction;
        - "unbiased": :math:`\lambda_j = 1/n`;
        - "lambda": the weights `lam`;
        - "variance_reduced": the paper's estimator, the inverse-variance mean of the sources;
        - "self_normalised": :math:`\sum w L / \sum w` over all rows, for weights whose mean is
          not 1;
        - "oracle": `losses` are those on labelled target rows (experiments only).
    guard : bool or Guard
        Leave out sources whose weights show that they do not overlap with the target, and shrink
        the divergences of small sources (`Guard.prior_rows`). False gives the published
        estimator exactly. Where no source can be used by itself, the estimate falls back, with an
        `OverlapWarning`: on self-normalised weights if together the sources have
        `Guard.min_ess_together` effective rows, else on "naive".
    divergence : {"plug_in", "cross_fitted"}
        Where "variance_reduced" takes the divergences from; see
        `shiftune.risk.lambdas.variance_reduced`.
    lam : k numbers, for method "lambda"
    names : k names of the sources, optional

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> losses = [rng.exponential(size=200), rng.exponential(size=200)]
    >>> weights = [np.ones(200), rng.exponential(size=200)]
    >>> risk = estimate(losses, weights, names=["B", "C"])
    >>> low, high = risk.interval(0.95)
    >>> bool(low < 1 < high), risk.sources["share"].round(2).to_list()
    (True, [0.7, 0.3])
    """
    check_choice(method, METHODS, "risk estimator")
    if method in ("naive", "oracle"):
        sample = read_sample(losses, None, names)
        return _weighted(sample, lambdas.unbiased(sample), method)
    if weights is None:
        raise SettingsError(f"method={method!r} needs weights, one array per source")
    sample = read_sample(losses, weights, names)
    if method == "self_normalised":
        return self_normalised(sample)
    limits = Guard() if guard is True else guard
    reasons = (None,) * len(sample.n) if limits is False else _objections(sample, limits)
    counts = np.array([reason is None for reason in reasons])
    if not counts.any():
        return _fallback(sample, reasons, method, limits)
    if limits is False and not sample.w.any():
        raise DataError("all weights of all sources are 0; the density ratio has failed")
    used = sample if counts.all() else sample.only(counts)
    if method == "unbiased":
        lam_used = lambdas.unbiased(used)
    elif method == "lambda":
        everyone = lambdas.given(sample, lam)[sample.rows(counts)]
        if everyone.sum() == 0:
            return _fallback(sample, reasons, method, limits)
        lam_used = everyone / everyone.sum()
    else:
        lam_used = lambdas.variance_reduced(
            used, divergence, prior_rows=0.0 if limits is False else limits.prior_rows
        )
    lam_rows = np.zeros(len(sample.L))
    lam_rows[sample.rows(counts)] = lam_used
    return _weighted(sample, lam_rows, method, reasons)


def _objections(sample: Sample, guard: Guard) -> tuple[Verdict | None, ...]:
    means, ess = sample.means(sample.w), effective_rows(sample.w, sample.starts)
    return tuple(
        guard.objection(int(n), float(mean), float(rows))
        for n, mean, rows in zip(sample.n, means, ess, strict=True)
    )


def _fallback(
    sample: Sample, reasons: tuple[Verdict | None, ...], method: str, limits: Guard | bool
) -> RiskEstimate:
    """Return a rougher estimate where no source overlaps enough with the target by itself."""
    ess = effective_rows(sample.w, sample.starts)
    together = np.where(sample.means(sample.w) >= NEGLIGIBLE, ess, 0.0)
    if isinstance(limits, Guard) and together.sum() >= limits.min_ess_together:
        found = normalised_by_source(sample, together / together.sum())
        instead = f"self-normalised weights with {together.sum():.0f} effective rows in all"
    else:
        uncorrected = laid_out(sample.L, np.ones(len(sample.L)), sample.n, sample.names)
        found = _weighted(uncorrected, lambdas.unbiased(sample), "naive")
        found = replace(found, mean_weights=sample.means(sample.w), ess=ess)
        instead = "naive, the uncorrected mean loss of all sources"
    objections = "; ".join(
        f"{name!r}: {reason}" for name, reason in zip(sample.names, reasons, strict=True) if reason
    )
    warnings.warn(
        f"no source overlaps enough with the target, so '{method}' falls back on {instead}; that "
        f"is a rough guess ({objections})",
        OverlapWarning,
        stacklevel=3,
    )
    return replace(
        found,
        left_out=reasons,
        fallback=f"no source overlaps enough, so {method} fell back on {instead}",
    )


def _weighted(
    sample: Sample,
    lam_rows: NDArray[np.float64],
    method: str,
    reasons: tuple[Verdict | None, ...] | None = None,
) -> RiskEstimate:
    z = sample.w * sample.L
    estimates = sample.means(z)
    centred = z - sample.rows(estimates)
    found = estimated(sample, lam_rows, estimates, centred, method)
    return replace(found, value=float(lam_rows @ z), left_out=reasons or found.left_out)
