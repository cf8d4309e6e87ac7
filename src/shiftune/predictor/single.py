"""The best trial alone, judged at sites that had no say in its choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from shiftune.evaluate.answers import Answers
from shiftune.evaluate.fitting import StudyData
from shiftune.evaluate.losses import Loss
from shiftune.predictor.choice import Choice
from shiftune.risk.few_labels import shared_alike
from shiftune.risk.influence import ALL, without_source
from shiftune.risk.result import RiskEstimate

Floats = NDArray[np.float64]


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

    Parameters
    ----------
    best : int
        Number of the best trial.
    risks : mapping from trial numbers to estimates
    answers : mapping from trial numbers to answers
        Of the trials that are compared.
    data : StudyData
        Labels of the rows that were answered.
    loss : Loss
    estimate : function
        From the losses of every site, k arrays, to the risk.
    compared_by : function
        From the risk of a trial, and its losses of every site, to the value that is minimised.
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
