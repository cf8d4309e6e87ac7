"""Number of boosting rounds, chosen on sites that a model has not seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from shiftune.evaluate.answers import Answers
from shiftune.evaluate.fitting import Evaluated, StudyData, evaluated, fit_rows
from shiftune.evaluate.losses import Loss
from shiftune.evaluate.plan import TrialLosses, can_leave_out, without_sources
from shiftune.evaluate.rounds import number_of_rounds, predictions_at, rounds_parameter
from shiftune.evaluate.site_shares import site_shares
from shiftune.evaluate.unseen_sites import LeaveSourcesOut
from shiftune.problem.site import rows_of

Floats = NDArray[np.float64]

# Numbers of rounds that are compared differ by this factor, from the first on.
STEP, FIRST = 1.15, 4
# A fit goes on to so many times the largest number of rounds that the sites before it choose, and
# this many more: their curves have clearly risen there.
SLACK, MORE = 2.0, 20
# Groups of sites whose models are fitted to the end; at least half of all groups.
FEWEST_TO_THE_END = 2


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """Choose the number of boosting rounds of every trial on unseen sites.

    The models that leave a group of sites out are fitted once, with many rounds; their predictions
    after fewer rounds give a curve of losses for every site. The number of rounds for the target
    is that of the lowest mean curve. A site itself is judged with the number that the *other*
    sites choose, so that the estimate is not biased by the choice, and the model of all sites is
    fitted with no more rounds than any of these.

    Half of these fits, and at least two, go on to the end. The others end at twice the largest
    number that the sites before them choose, with any one of them left out, plus 20. Where a choice
    is then the last number that all curves have, the fits that ended early are repeated to the end.

    Other models than boosted trees are fitted by `plan` as they are.

    Parameters
    ----------
    plan : LeaveSourcesOut
        With extra fits.
    """

    plan: LeaveSourcesOut

    def losses(self, model: Any, data: StudyData, loss: Loss) -> TrialLosses:
        """Return the mixed losses, and the number of rounds in `params`."""
        name = rounds_parameter(model)
        folds = [] if name is None else self._fitted(model, name, data, loss)
        if name is None or not (curves := _curves(folds)):
            return self.plan.losses(model, data, loss)
        chosen = Chosen.of(curves, data)
        of_sites = {site: chosen.without(site) for site in data.names}
        needed = max(chosen.rounds, *of_sites.values())
        model = clone(model).set_params(**{name: needed})
        fitted = _Fold(*fit_rows(model, data), np.ones(len(data.X_validation), dtype=np.bool_))
        known = unseen = fitted.evaluated(of_sites, data, loss)
        for fold in folds:
            own = fold.evaluated(of_sites, data, loss, known.at(fold.rows))
            unseen = unseen.with_rows(fold.rows, own)
        u = self.plan.unseen
        losses = (1 - u) * known.losses + u * unseen.losses
        answers = None
        if known.answers is not None and unseen.answers is not None:
            answers = Answers(known.answers, unseen.answers, u)
        mean = data.mean_loss(known.losses)
        return TrialLosses(data.by_site(losses), mean, answers, {name: chosen.rounds})

    def _fitted(self, model: Any, name: str, data: StudyData, loss: Loss) -> list[_Fold]:
        """Fit the models that leave a group of sites out, and compute the curves of its sites."""
        most = rounds = number_of_rounds(model)
        groups = self.plan.groups(data.source_rows)
        folds: dict[tuple[str, ...], _Fold] = {}
        ended_early = []

        def fitted(group: tuple[str, ...]) -> None:
            names = [site for site in data.names if site in group]
            if names and can_leave_out(group, data):
                others = without_sources(group, data)
                own = clone(model).set_params(**{name: rounds})
                fold = _Fold(*fit_rows(own, others, names), data.validation_rows(names))
                fold.curves.update(fold.curves_of(names, data, loss, checkpoints(rounds)))
                folds[group] = fold

        for group in groups:
            if rounds < most:
                ended_early.append(group)
            fitted(group)
            curves = _curves(folds.values())
            if curves and len(folds) >= max(FEWEST_TO_THE_END, len(groups) / 2):
                chosen = Chosen.of(curves, data)
                rounds = chosen.enough(most)
        if ended_early and chosen.largest == chosen.steps[-1]:
            rounds = most
            for group in ended_early:
                fitted(group)
        return list(folds.values())


def _curves(folds: Iterable[_Fold]) -> dict[str, dict[int, float]]:
    return {site: own for fold in folds for site, own in fold.curves.items()}


def checkpoints(most: int) -> list[int]:
    """Return the numbers of rounds that are compared, up to `most`.

    >>> checkpoints(10)
    [4, 5, 6, 7, 8, 9, 10]
    """
    found = [min(FIRST, most)]
    while found[-1] < most:
        found.append(min(max(found[-1] + 1, round(found[-1] * STEP)), most))
    return found


@dataclass(frozen=True, slots=True)
class Chosen:
    """Numbers of rounds that sites choose.

    Attributes
    ----------
    curves : array of shape (k, S)
        Mean losses of k sites after each of S numbers of rounds.
    shares : array of shape (k,)
    steps : S numbers of rounds
    names : k names
    """

    curves: Floats
    shares: Floats
    steps: tuple[int, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, curves: Mapping[str, Mapping[int, float]], data: StudyData) -> Chosen:
        """Take the numbers of rounds that the curves of all sites have."""
        steps = sorted(set.intersection(*(set(own) for own in curves.values())))
        rows = dict(zip(data.names, map(len, data.y_validation), strict=True))
        n = np.array([rows[site] for site in curves])
        values = np.array([[own[step] for step in steps] for own in curves.values()])
        return cls(values, site_shares(n), tuple(steps), tuple(curves))

    @property
    def rounds(self) -> int:
        """The choice of all sites."""
        return self.without("")

    def without(self, site: str) -> int:
        """Return the choice of all sites but one."""
        others = np.array([name != site for name in self.names])
        if not others.any():
            others[:] = True
        mean = self.shares[others] @ self.curves[others]
        return self.steps[int(np.argmin(mean))]

    @property
    def largest(self) -> int:
        """The largest choice, of all sites or of all but one."""
        return max(self.rounds, *(self.without(site) for site in self.names))

    def enough(self, most: int) -> int:
        """Return the number of rounds to which further fits go on, `most` where curves still fall.

        >>> curves = np.array([[1.0, 2.0, 3.0], [1.0, 0.5, 3.0]])
        >>> chosen = Chosen(curves, np.array([0.5, 0.5]), (4, 5, 6), ("B", "C"))
        >>> chosen.largest, chosen.enough(1000)  # without B; the first step from 2 * 5 + 20 on
        (5, 32)
        """
        if self.largest == self.steps[-1]:
            return most
        limit = SLACK * self.largest + MORE
        return next((step for step in checkpoints(most) if step >= limit), most)


class _Fold:
    """A fitted model, and the validation rows that it is judged on.

    Attributes
    ----------
    rows : array of shape (n,)
        Mask of these among all validation rows.
    curves : dict from sites to a dict from numbers of rounds to mean losses
    """

    def __init__(self, fitted: Any, X: Any, rows: NDArray[np.bool_]) -> None:
        self.fitted, self.X, self.rows = fitted, X, rows
        self.curves: dict[str, dict[int, float]] = {}

    def curves_of(
        self, names: Sequence[str], data: StudyData, loss: Loss, steps: Sequence[int]
    ) -> dict[str, dict[int, float]]:
        """Compute the curves of sites; rows of a class that the model has not seen do not count."""
        y, sites = np.concatenate(data.y_validation)[self.rows], data.validation_sites[self.rows]
        weights = np.ones(len(y))
        if data.sample_weight is not None:
            weights = np.concatenate(data.sample_weight)[self.rows]
        counted = np.ones(len(y), dtype=np.bool_)
        if loss.needs == "predict_proba":
            counted = np.isin(y, self.fitted.classes_)
        X = rows_of(self.X, counted)
        places = {site: data.validation_rows([site])[self.rows][counted] for site in names}
        places = {site: own for site, own in places.items() if own.any()}
        curves: dict[str, dict[int, float]] = {site: {} for site in places}
        for step, predicted in zip(
            steps, predictions_at(self.fitted, X, loss.needs, steps), strict=True
        ):
            own = evaluated(
                predicted, self._classes, y[counted], loss, data.classes, sites[counted]
            ).losses
            for site, at in places.items():
                curves[site][step] = float(np.average(own[at], weights=weights[counted][at]))
        return curves

    def evaluated(
        self,
        of_sites: Mapping[str, int],
        data: StudyData,
        loss: Loss,
        unknown: Evaluated | None = None,
    ) -> Evaluated:
        """Return losses and answers of the rows, after as many rounds as their site is to have."""
        y, sites = np.concatenate(data.y_validation)[self.rows], data.validation_sites[self.rows]
        rounds = np.array([of_sites[site] for site in data.names])[data.validation_sites]
        steps = np.unique(rounds[self.rows]).tolist()
        found: Evaluated | None = None
        for step, predicted in zip(
            steps, predictions_at(self.fitted, self.X, loss.needs, steps), strict=True
        ):
            every = evaluated(predicted, self._classes, y, loss, data.classes, sites, unknown)
            at = rounds[self.rows] == step
            found = every if found is None else found.with_rows(at, every.at(at))
        assert found is not None  # there are validation rows
        return found

    @property
    def _classes(self) -> NDArray[Any] | None:
        found = getattr(self.fitted, "classes_", None)
        return None if found is None else np.asarray(found)
