"""Recalibration of what is handed over: learned on answers of models that had not seen the site.

The map for the rows of a site is learned on the other sites, and the site judges it, so the gain
is that of a map at one more site.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shiftune import interrupts
from shiftune.evaluate.answers import Answers
from shiftune.evaluate.fitting import StudyData
from shiftune.evaluate.losses import Loss
from shiftune.predictor.calibration import MAPS, Map
from shiftune.predictor.choice import Choice, Recalibration
from shiftune.predictor.selection import MOST_FOLDS
from shiftune.risk.few_labels import shared_alike
from shiftune.risk.influence import ALL, without_source
from shiftune.risk.result import Estimate, RiskEstimate
from shiftune.spelling import check_choice

Floats = NDArray[np.float64]


def recalibrate(
    choice: Choice,
    asked: str,
    data: StudyData,
    loss: Loss,
    estimate: Callable[[Sequence[Floats]], RiskEstimate],
) -> Choice:
    """Recalibrate what is handed over; its answers and its risk are then those after the map.

    "auto" takes the map of highest gain if that exceeds its standard error for one more site,
    otherwise none. Where it takes one, every site is judged with the kind that the others would
    take.

    Parameters
    ----------
    choice : Choice
    asked : "auto" or one of `MAPS`
    data : StudyData
        Labels of the rows that were answered.
    loss : Loss
    estimate : function
        From the losses of every site, k arrays, to the risk.
    """
    answers, risk = choice.answers, choice.risk
    if answers is None or not answers.unseen_share:
        why = "no answers of models that had not seen the site were kept"
        return replace(choice, calibration=Recalibration(asked, obstacle=why))
    rows = _Rows(answers, risk, data)
    if rows.sites < 2:
        why = "a map is learned on some sites and judged by others, and there is only one"
        return replace(choice, calibration=Recalibration(asked, obstacle=why))

    def judged(mapped: Answers) -> RiskEstimate:
        return shared_alike(estimate(data.losses(mapped, loss)), risk)

    tried = {kind: rows.nested(kind) for kind in (MAPS if asked == "auto" else (asked,))}
    after = {kind: judged(mapped) for kind, mapped in tried.items()}
    gains = {kind: risk.minus(own) for kind, own in after.items()}
    kind = clear(gains) if asked == "auto" else asked
    if kind == "none":
        return replace(choice, calibration=Recalibration(asked, gains=gains))
    mapped, with_map = tried[kind], after[kind]
    if asked == "auto":
        kinds = [_clear_without(name, risk, after) for name in risk.names]
        if set(kinds) != {kind}:
            mapped = rows.mixed(kinds, tried)
            with_map = judged(mapped)
    found = Recalibration(asked, kind, risk.minus(with_map), gains, rows.learn(kind))
    return replace(choice, answers=mapped, risk=with_map, calibration=found)


def clear(gains: Mapping[str, Estimate]) -> str:
    """Return the kind of highest gain, or "none" where that is within its standard error.

    An interval of 95 % above 0 would leave half of the gain of naive Bayes and boosted trees
    behind; with one standard error, no ensemble of the arena is recalibrated
    (`benchmarks/results/metrics.md`).
    """
    best = max(gains, key=lambda kind: gains[kind].value)
    return best if gains[best].value > gains[best].stderr else "none"


def _clear_without(name: str, before: RiskEstimate, after: Mapping[str, RiskEstimate]) -> str:
    """Return the kind that is clear without one site."""
    j = before.names.index(name)
    if before.lam[j] * before.n[j] >= ALL:
        return "none"
    rest = without_source(before, name)
    return clear({kind: rest.minus(without_source(risk, name)) for kind, risk in after.items()})


class _Rows:
    """Validation rows, their answers, and folds of the sites that learn.

    Labelled rows of the target and sites without a share in the risk do not.
    """

    def __init__(self, answers: Answers, risk: RiskEstimate, data: StudyData) -> None:
        assert data.classes is not None  # `ShiftSearch` refuses values
        self.answers = answers
        self.codes = np.searchsorted(data.classes, np.concatenate(data.y_validation))
        learns = (risk.lam > 0) & (np.array(data.names) != data.labelled_target)
        self.sites = int(learns.sum())
        fold = np.where(learns, (np.cumsum(learns) - 1) % MOST_FOLDS, -1)
        self.site = data.validation_sites
        self.fold = fold[self.site]
        # As in the estimate: a site's share grows with its rows, up to a bound.
        self.w = data.row_coefficients(risk.lam[self.site])

    def learn(self, kind: str, without: int = -1) -> Map:
        """Learn a map on unseen-site answers, without those of a fold of sites."""
        interrupts.check()
        used = (self.fold >= 0) & (self.fold != without)
        return MAPS[check_choice(kind, MAPS, "map")](
            self.answers.unseen[used], self.codes[used], self.w[used]
        )

    def nested(self, kind: str) -> Answers:
        """Return answers after maps that were learned without the site of the row."""
        known, unseen = (np.empty(each.shape) for each in (self.answers.known, self.answers.unseen))
        for fold in np.unique(self.fold):
            rows, change = self.fold == fold, self.learn(kind, fold)
            known[rows] = change(self.answers.known[rows])
            unseen[rows] = change(self.answers.unseen[rows])
        return replace(self.answers, known=known, unseen=unseen)

    def mixed(self, kinds: Sequence[str], tried: Mapping[str, Answers]) -> Answers:
        """Return the answers of another kind of map for every site, shape (k,)."""
        known, unseen = self.answers.known.astype(float), self.answers.unseen.astype(float)
        for j, kind in enumerate(kinds):
            if kind in tried:
                rows = self.site == j
                known[rows], unseen[rows] = tried[kind].known[rows], tried[kind].unseen[rows]
        return replace(self.answers, known=known, unseen=unseen)
