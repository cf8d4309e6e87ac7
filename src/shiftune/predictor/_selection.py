"""The final model: the best trial, or an ensemble, chosen on predictions of the trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shiftune import _interrupts
from shiftune.evaluate._fits import Predictions, StudyData, losses_of_rows
from shiftune.evaluate._losses import Loss
from shiftune.risk._heterogeneity import ALL
from shiftune.risk._result import Estimate, RiskEstimate

Floats = NDArray[np.float64]
# From losses of every source to the risk at the target.
Estimator = Callable[[Sequence[Floats]], RiskEstimate]

# The best trials, as many of every model family, among which members are chosen. The sampler puts
# later trials beside the best one: the best of all families together would be nearly one model
# (`benchmarks/results/ensembles.md`).
CANDIDATES = 12
# How often one of them is added.
ROUNDS = 15
# Every member is stored, and runs for every prediction.
MOST_MEMBERS = 8
# Rows on which members are chosen.
_MOST_ROWS = 20_000
# Sites are left out of the choice in at most this many groups.
_MOST_FOLDS = 20


class Candidates:
    r"""The best trials of a search, of which a weighted mean becomes the final model.

    Members are chosen one at a time, with replacement (Caruana et al. 2004): the candidate is added
    that makes the criterion of the averaged predictions lowest, and a member's weight is how often
    it was added. The criterion is a weighted mean of the losses *of the averaged predictions*,

    .. math:: \sum_i c_i\, \ell\Big(\sum_m a_m h_{m,-f(i)}(x_i), y_i\Big) ,

    each by models that have not seen the row's fold of sites f(i).

    Parameters
    ----------
    predictions : mapping from trial numbers to predictions
        The best of every family by the criterion are the candidates. Where a fold of sites is held
        out of the choice, it is held out of this, too; `numbers` has the candidates of all choices,
        the best first.
    y : k arrays of shape (n_j,)
        Labels of the rows that were predicted.
    row_shares : array of shape (n,)
        :math:`c_i`: the share of the row's site, divided by its rows.
    loss : Loss
    classes : array of shape (C,), or None for quantities
    family : mapping from trial numbers to names, optional
        Model family of every trial; by default there is one.
    most_rows : int
        Members are chosen on about so many rows, spread evenly over those of every site and
        class; with more than three classes on fewer, since every class has a probability.

    Examples
    --------
    Two models that err in opposite directions, and one that is useless:

    >>> from shiftune.evaluate import loss_named
    >>> y = [np.array([0.0, 1.0]), np.array([2.0, 3.0])]
    >>> predictions = {0: np.arange(4) + 0.1, 1: np.arange(4) + 5.0, 2: np.arange(4) - 0.1}
    >>> found = Candidates(predictions, y, np.full(4, 0.25), loss_named("squared"), None)
    >>> sorted(found.members(found.weights(rounds=2)).items())
    [(0, 0.5), (2, 0.5)]
    """

    def __init__(
        self,
        predictions: Mapping[int, Predictions],
        y: Sequence[NDArray[np.generic]],
        row_shares: Floats,
        loss: Loss,
        classes: NDArray[np.generic] | None,
        family: Mapping[int, str] | None = None,
        most_rows: int = _MOST_ROWS,
    ) -> None:
        self.y, self.loss, self.classes = np.concatenate(list(y)), loss, classes
        site = np.repeat(np.arange(len(y)), [len(labels) for labels in y])
        # Every so many rows of a site, and of a class there, are kept, with the share of all.
        alike = site
        if classes is not None:
            labels, code = np.unique(self.y, return_inverse=True)
            alike = np.unique(site * len(labels) + code, return_inverse=True)[1]
        cost = 1 if classes is None else max(1, len(classes) // 2)
        step, place = -(-len(self.y) * cost // most_rows), _place_among(alike)
        self._rows = np.flatnonzero(place % step == 0)
        thinning = np.bincount(alike) / np.bincount(alike[self._rows])
        self._row_shares = row_shares[self._rows] * thinning[alike[self._rows]]
        several = len(np.unique(site[row_shares != 0])) > 1
        self.folds = site % _MOST_FOLDS if several else place // step % 2
        self._in_fold = np.eye(self.folds.max() + 1)[self.folds[self._rows]]
        # The best trials by all folds, and by all but each, are the candidates.
        thinned = {number: p[self._rows] for number, p in predictions.items()}
        alone = {number: self._criterion(p, 1)[0] for number, p in thinned.items()}
        ranked = sorted(alone, key=lambda number: float(alone[number].sum()))
        parts = np.array([alone[number] for number in ranked])
        names = ["" if family is None else family[number] for number in ranked]
        kind = np.unique(names, return_inverse=True)[1]
        best: dict[int | None, NDArray[np.bool_]] = {None: _best(parts.sum(axis=1), kind)}
        best |= {j: _best(parts.sum(axis=1) - site, kind) for j, site in enumerate(parts.T)}
        wanted = np.any(list(best.values()), axis=0)
        self._eligible = {without: eligible[wanted] for without, eligible in best.items()}
        self.numbers = [ranked[i] for i in np.flatnonzero(wanted)]
        self.predictions = [predictions[number] for number in self.numbers]
        self._thinned = np.stack([thinned[number] for number in self.numbers])
        self._parts: dict[tuple[int, ...], Floats] = {}

    def weights(self, without: int | None = None, rounds: int = ROUNDS) -> Floats:
        """Choose members, `without` a fold of sites; return weights, which add up to 1.

        One round chooses the best single candidate.
        """
        counts = np.zeros(len(self.predictions), dtype=np.intp)
        for _ in range(rounds):
            by_fold = self._criterion_with_one_more(counts)
            criterion = by_fold.sum(axis=1)
            if without is not None:
                criterion = criterion - by_fold[:, without]
            criterion = np.where(self._eligible[without], criterion, np.inf)
            if np.count_nonzero(counts) == MOST_MEMBERS:
                criterion = np.where(counts > 0, criterion, np.inf)
            counts[int(np.argmin(criterion))] += 1
        return np.asarray(counts / counts.sum())

    def members(self, weights: Floats) -> dict[int, float]:
        """Return the weights by trial number, the heaviest first, without those of 0."""
        order = [i for i in np.argsort(-weights, kind="stable") if weights[i] > 0]
        return {self.numbers[i]: float(weights[i]) for i in order}

    def nested_predictions(self, rounds: int = ROUNDS) -> Predictions:
        """Predictions of ensembles, each of the rows of a fold that is held out of its choice.

        Every fold of sites is held out once; the models are those of the trials, so nothing is
        fitted again. With a single site that counts its rows are assigned to two folds.
        """
        nested = np.empty(self.predictions[0].shape)
        for fold in range(int(self.folds.max()) + 1):
            rows, weights = self.folds == fold, self.weights(fold, rounds)
            nested[rows] = sum(weights[i] * self.predictions[i][rows] for i in weights.nonzero()[0])
        return nested

    def _criterion(self, together: Predictions, size: int) -> Floats:
        """Return each fold's part of the criterion, for several models' predictions end to end."""
        _interrupts.check()
        y = np.tile(self.y[self._rows], size)
        losses = losses_of_rows(together, y, self.loss, self.classes)
        return np.asarray(self._row_shares * losses.reshape(size, -1) @ self._in_fold)

    def _criterion_with_one_more(self, counts: NDArray[np.intp]) -> Floats:
        """Return each fold's part of the criterion if a candidate is added, (candidates, folds).

        Choices that leave out different folds begin with the same members, so this is kept.
        """
        key = tuple(int(count) for count in counts)
        if key not in self._parts:
            p, size = self._thinned, len(self.predictions)
            means = (np.tensordot(counts.astype(float), p, axes=1) + p) / (counts.sum() + 1)
            flat = means.astype(p.dtype).reshape(size * len(self._rows), *p.shape[2:])
            self._parts[key] = self._criterion(flat, size)
        return self._parts[key]


def _place_among(numbers: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the place of every row among those of the same number; all numbers occur."""
    order, rows = np.argsort(numbers, kind="stable"), np.bincount(numbers)
    place = np.empty(len(numbers), dtype=np.intp)
    place[order] = np.arange(len(numbers)) - np.repeat(rows.cumsum() - rows, rows)
    return place


def _best(criterion: Floats, family: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Mark the candidates: of every family the same number of its best trials."""
    order = np.argsort(criterion, kind="stable")
    best = np.empty(len(order), dtype=bool)
    best[order] = _place_among(family[order]) < max(1, CANDIDATES // (family.max() + 1))
    return best


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Trials of the final model, their weights, and the estimated risk of their weighted mean.

    Attributes
    ----------
    weights : dict from trial number to weight
        The members, the heaviest first; weights add up to 1.
    risk : RiskEstimate
        On sites that were held out of the choice of trials.
    gain : Estimate or None
        Risk of the best single trial less that of the ensemble, paired row by row, both estimated
        on sites that were held out of the choice. None where no ensemble was tried.
    predictions, of_single : arrays of shape (n,) or (n, C), or None
        Of the evaluated rows, by trials chosen without the row's site; `risk` is of these. And
        those of the best single trial, likewise.
    """

    weights: dict[int, float]
    risk: RiskEstimate
    gain: Estimate | None = None
    predictions: Predictions | None = None
    of_single: Predictions | None = None


def choose(
    alone: Choice,
    predictions: Mapping[int, Predictions],
    data: StudyData,
    loss: Loss,
    estimate: Estimator,
    family: Mapping[int, str] | None = None,
) -> Choice:
    """Choose members and weights by the mean losses of the sites.

    The best trial alone, from `best_alone`, is kept where it is all that is chosen, or where the
    ensemble is worse beyond doubt (95 % interval), both estimated on sites that were held out of
    the choice. Where the difference may be chance, the ensemble is kept
    (`benchmarks/arena/ensembles.py`).
    """
    shares = data.row_coefficients(np.repeat(alone.risk.lam, alone.risk.n))
    candidates = Candidates(predictions, data.y_validation, shares, loss, data.classes, family)
    nested, single = candidates.nested_predictions(), candidates.nested_predictions(1)
    together = estimate(data.losses(nested, loss))
    gain = estimate(data.losses(single, loss)).minus(together)
    weights = candidates.weights()
    if np.count_nonzero(weights) == 1 or gain.interval()[1] < 0:
        return replace(alone, gain=gain)
    return Choice(candidates.members(weights), together, gain, nested, single)


def best_alone(
    best: int,
    risk: RiskEstimate,
    predictions: Mapping[int, Predictions],
    data: StudyData,
    loss: Loss,
    estimate: Estimator,
) -> Choice:
    """Choose the best trial alone; each site evaluates the trial that the others would choose.

    The lowest of many estimates is too low. So the trial is chosen once more without each site, by
    the mean losses of the others, and the site's rows have the losses of that choice: nothing is
    fitted again. The estimate of the best trial, `risk`, stays as it is where it rests on one site,
    or is not for a new site: with density ratios every source stands for a part of the target, and
    cannot be spared.
    """
    of_best, shares = predictions.get(best), risk.lam * risk.n
    unchanged = Choice({best: 1.0}, risk, predictions=of_best)
    if of_best is None or len(predictions) == 1 or shares.max() >= ALL or risk.new_site is None:
        return unchanged
    means = np.array([[site.mean() for site in data.losses(p, loss)] for p in predictions.values()])
    parts = means * shares
    chosen = np.array(list(predictions))[(parts.sum(axis=1)[:, None] - parts).argmin(axis=0)]
    if np.all(chosen == best):
        return unchanged
    nested = of_best.copy()
    for number in set(chosen) - {best}:
        rows = np.repeat(chosen == number, risk.n)
        nested[rows] = predictions[number][rows]
    return Choice({best: 1.0}, estimate(data.losses(nested, loss)), predictions=nested)
