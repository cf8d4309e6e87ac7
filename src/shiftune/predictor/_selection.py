"""What is handed over: the best trial, or an ensemble, chosen on the answers of trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shiftune import _interrupts
from shiftune.evaluate._answers import Answers, weighted_mean
from shiftune.evaluate._losses import Loss
from shiftune.evaluate._plan import StudyData
from shiftune.risk._adjusted import shared_alike
from shiftune.risk._estimator import RiskEstimator
from shiftune.risk._heterogeneity import ALL, without_source
from shiftune.risk._result import Estimate, RiskEstimate

Floats = NDArray[np.float64]

# The best trials, among which members are chosen, and how often one is added.
CANDIDATES = 12
ROUNDS = 15
# Every member is stored, and runs for every prediction.
MOST_MEMBERS = 8
# Rows on which members are chosen.
_MOST_ROWS = 20_000
# Losses that rank the rows of a site take about so many times as long.
_RANKED = 5
# Sites are left out of the choice in at most this many groups.
_MOST_FOLDS = 20
# Trials from which it is learned how far to trust the adjustment.
MOST_COMPARED = 24


class Candidates:
    r"""The best trials of a search, of which a weighted mean is handed over.

    Members are chosen one at a time, with replacement (Caruana et al. 2004): the candidate is added
    that makes the criterion of the averaged answers lowest, and a member's weight is how often it
    was added. The criterion is a weighted mean of the losses *of the averaged answers*, half by
    models that have seen the site and half by models that have not:

    .. math:: \sum_i c_i\, \Big[(1 - u)\, \ell\Big(\sum_m a_m h_m(x_i), y_i\Big)
              + u\, \ell\Big(\sum_m a_m h_{m,-g(i)}(x_i), y_i\Big)\Big] .

    Parameters
    ----------
    answers : mapping from trial numbers to answers
        The best of them by the criterion are the candidates. Where a fold of sites has no say in
        the choice, it has none in this either; `numbers` has the candidates of all choices, the
        best first.
    y : k arrays of shape (n_j,)
        Labels of the rows that were answered.
    row_shares : array of shape (n,)
        :math:`c_i`, as `RiskEstimator.row_shares` returns them.
    loss : Loss
    classes : array of shape (C,), or None for quantities
    most_rows : int
        Members are chosen on about so many rows, spread evenly over those of every site and
        class; with more than three classes on fewer, since every class has a probability.

    Examples
    --------
    Two models that err in opposite directions, and one that is useless:

    >>> from shiftune.evaluate import loss_named
    >>> y = [np.array([0.0, 1.0]), np.array([2.0, 3.0])]
    >>> high, low, useless = np.arange(4) + 0.1, np.arange(4) - 0.1, np.arange(4) + 5.0
    >>> answers = {i: Answers(a, a, 0.5) for i, a in enumerate([high, useless, low])}
    >>> found = Candidates(answers, y, np.full(4, 0.25), loss_named("squared"), None)
    >>> sorted(found.members(found.weights(rounds=2)).items())
    [(0, 0.5), (2, 0.5)]
    """

    def __init__(
        self,
        answers: Mapping[int, Answers],
        y: Sequence[NDArray[np.generic]],
        row_shares: Floats,
        loss: Loss,
        classes: NDArray[np.generic] | None,
        most_rows: int = _MOST_ROWS,
    ) -> None:
        self.y, self.loss, self.classes = np.concatenate(list(y)), loss, classes
        site = np.repeat(np.arange(len(y)), [len(own) for own in y])
        # Every so many rows of a site, and of a class there, are kept, with the share of all.
        alike = site
        if classes is not None:
            labels, code = np.unique(self.y, return_inverse=True)
            alike = np.unique(site * len(labels) + code, return_inverse=True)[1]
        cost = 1 if classes is None else max(1, len(classes) // 2)
        if loss.within_site:
            cost *= _RANKED
        step, place = -(-len(self.y) * cost // most_rows), _place_among(alike)
        self._rows = np.flatnonzero(place % step == 0)
        self._sites = site[self._rows]
        thinning = np.bincount(alike) / np.bincount(alike[self._rows])
        self._row_shares = row_shares[self._rows] * thinning[alike[self._rows]]
        several = len(np.unique(site[row_shares != 0])) > 1
        self.folds = site % _MOST_FOLDS if several else place // step % 2
        self._in_fold = np.eye(self.folds.max() + 1)[self.folds[self._rows]]
        # The best trials by all folds, and by all but each, are the candidates.
        thinned = {number: each.rows(self._rows) for number, each in answers.items()}
        alone = {number: self._criterion(each, 1)[0] for number, each in thinned.items()}
        ranked = sorted(alone, key=lambda number: float(alone[number].sum()))
        parts = np.array([alone[number] for number in ranked])
        best: dict[int | None, NDArray[np.bool_]] = {None: _best(parts.sum(axis=1))}
        best |= {j: _best(parts.sum(axis=1) - own) for j, own in enumerate(parts.T)}
        wanted = np.any(list(best.values()), axis=0)
        self._eligible = {without: eligible[wanted] for without, eligible in best.items()}
        self.numbers = [ranked[i] for i in np.flatnonzero(wanted)]
        self.answers = [answers[number] for number in self.numbers]
        self._known = np.stack([thinned[number].known for number in self.numbers])
        self._unseen = np.stack([thinned[number].unseen for number in self.numbers])
        self._parts: dict[tuple[int, ...], Floats] = {}

    def weights(self, without: int | None = None, rounds: int = ROUNDS) -> Floats:
        """Choose members; return the weights of all candidates, which add up to 1.

        Parameters
        ----------
        without : int, optional
            A fold of sites that has no say.
        rounds : int
            One round chooses the best single candidate.
        """
        counts = np.zeros(len(self.answers), dtype=np.intp)
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

    def mean(self, weights: Floats, rows: NDArray[np.bool_]) -> Answers:
        """Answers of a weighted mean of the candidates to some of the rows."""
        members = np.flatnonzero(weights)
        answers = [self.answers[i].rows(rows) for i in members]
        return weighted_mean(answers, weights[members].tolist())

    def nested_answers(self, rounds: int = ROUNDS) -> Answers:
        """Answers of ensembles to rows of sites that had no say in the choice of members.

        Every fold of sites is left out once; the models are those of the trials, so nothing is
        fitted again. With a single site that counts its rows are dealt to two folds.
        """
        first = self.answers[0]
        known = np.empty(first.known.shape)
        unseen = known if first.unseen is first.known else known.copy()
        for fold in range(int(self.folds.max()) + 1):
            rows = self.folds == fold
            mean = self.mean(self.weights(fold, rounds), rows)
            known[rows], unseen[rows] = mean.known, mean.unseen
        return Answers(known, unseen, first.unseen_share)

    def _criterion(self, together: Answers, size: int) -> Floats:
        """Return each fold's part of the criterion, for answers of several models end to end."""
        _interrupts.check()
        y = np.tile(self.y[self._rows], size)
        sites = None  # only losses of whole sites read them, and this is called very often
        if self.loss.within_site:
            sites = np.add.outer(np.arange(size) * (self._sites.max() + 1), self._sites).ravel()
        losses = together.losses(y, self.loss, self.classes, sites)
        return np.asarray(self._row_shares * losses.reshape(size, -1) @ self._in_fold)

    def _criterion_with_one_more(self, counts: NDArray[np.intp]) -> Floats:
        """Return each fold's part of the criterion if a candidate is added, (candidates, folds).

        Choices that leave out different folds begin with the same members, so this is kept.
        """
        key = tuple(int(count) for count in counts)
        if key not in self._parts:
            size = len(self.answers)
            known, unseen = (
                (np.tensordot(counts.astype(float), own, axes=1) + own) / (counts.sum() + 1)
                for own in (self._known, self._unseen)
            )
            flat = (size * len(self._rows), *known.shape[2:])
            together = replace(
                self.answers[0], known=known.reshape(flat), unseen=unseen.reshape(flat)
            )
            self._parts[key] = self._criterion(together, size)
        return self._parts[key]


def _place_among(numbers: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the place of every row among those of the same number; all numbers occur."""
    order, rows = np.argsort(numbers, kind="stable"), np.bincount(numbers)
    place = np.empty(len(numbers), dtype=np.intp)
    place[order] = np.arange(len(numbers)) - np.repeat(rows.cumsum() - rows, rows)
    return place


def _best(criterion: Floats) -> NDArray[np.bool_]:
    """Mark the candidates."""
    order = np.argsort(criterion, kind="stable")
    return np.isin(np.arange(len(criterion)), order[:CANDIDATES])


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Trials that are handed over, their weights, and the estimated risk of their weighted mean.

    Attributes
    ----------
    weights : dict from trial number to weight
        The members, the heaviest first; weights add up to 1.
    risk : RiskEstimate
        On sites that had no say in the choice of trials.
    gain : Estimate or None
        Risk of the best single trial less that of the ensemble, paired row by row, both judged on
        sites that had no say. None where no ensemble was tried.
    answers : Answers or None
        On the validation rows, by trials that were chosen without the site.
    """

    weights: dict[int, float]
    risk: RiskEstimate
    gain: Estimate | None = None
    answers: Answers | None = None


def choose(
    alone: Choice,
    answers: Mapping[int, Answers],
    data: StudyData,
    loss: Loss,
    estimator: RiskEstimator,
    estimate: Callable[[Sequence[Floats]], RiskEstimate],
) -> Choice:
    """Choose members and weights on the answers of trials.

    One trial is handed over where it is all that is chosen, or where the ensemble is worse beyond
    doubt (95 % interval), both judged on sites that had no say in the choice. Where the
    difference may be chance, the ensemble is kept (`benchmarks/arena/ensembles.py`). `alone` is
    the `best_alone`; the `row_shares` of the fitted estimator compare ensembles.
    """
    row_shares = estimator.row_shares(_better_half(alone.risk, answers, data, loss), alone.risk)
    shares = data.row_coefficients(row_shares)
    candidates = Candidates(answers, data.y_validation, shares, loss, data.classes)

    def judged(nested: Answers) -> RiskEstimate:
        return shared_alike(estimate(data.losses(nested, loss)), alone.risk)

    nested = candidates.nested_answers()
    together = judged(nested)
    gain = judged(candidates.nested_answers(1)).minus(together)
    weights = candidates.weights()
    if np.count_nonzero(weights) == 1 or gain.interval()[1] < 0:
        return replace(alone, gain=gain)
    return Choice(candidates.members(weights), together, gain, nested)


def _better_half(
    best: RiskEstimate, answers: Mapping[int, Answers], data: StudyData, loss: Loss
) -> Floats:
    """Losses of the better half of the trials by their mean over the sites, (at most 24, n)."""
    plain = np.repeat(best.lam, best.n)

    def losses(number: int) -> Floats:
        return np.concatenate(data.losses(answers[number], loss))

    order = sorted(answers, key=lambda number: float(plain @ losses(number)))
    kept = order[: min((len(order) + 1) // 2, MOST_COMPARED)]
    return np.array([losses(number) for number in kept])


def best_alone(
    best: int,
    risks: Mapping[int, RiskEstimate],
    answers: Mapping[int, Answers],
    data: StudyData,
    loss: Loss,
    estimate: Callable[[Sequence[Floats]], RiskEstimate],
    compared_by: Callable[[RiskEstimate, Sequence[Floats]], float],
) -> Choice:
    """Hand over the best trial alone; every site judges the trial that the others would choose.

    The lowest of many estimates is too low. So the trial is chosen once more without each site, on
    the estimates that there are, and the site's rows have the losses of that choice: nothing is
    fitted again. The estimate stays as it is where it rests on one site, or is not for a new site:
    with density ratios every source stands for a part of the target, and cannot be spared.
    `risks` and `answers` go by trial numbers, `compared_by` returns what the search minimises.
    """
    own, risk = answers.get(best), risks[best]
    unchanged = Choice({best: 1.0}, risk, answers=own)
    alone = len(answers) == 1 or np.max(risk.lam * risk.n) >= ALL
    if own is None or alone or risk.new_site is None:
        return unchanged
    values = np.empty((len(answers), len(risk.names)))
    for values_of_trial, (number, each) in zip(values, answers.items(), strict=True):
        # Means stand for the rows: with many sites, averaging them for each would take minutes.
        means = [own.mean(keepdims=True) for own in data.losses(each, loss)]
        values_of_trial[:] = [
            compared_by(without_source(risks[number], name), means) for name in risk.names
        ]
    chosen = np.array(list(answers))[values.argmin(axis=0)]
    if np.all(chosen == best):
        return unchanged
    known, unseen = own.known.copy(), own.unseen.copy()
    for number in set(chosen) - {best}:
        rows = np.repeat(chosen == number, risk.n)
        known[rows], unseen[rows] = answers[number].known[rows], answers[number].unseen[rows]
    nested = Answers(known, unseen, own.unseen_share)
    judged = shared_alike(estimate(data.losses(nested, loss)), risk)
    return Choice({best: 1.0}, judged, answers=nested)
