"""Losses on sites that a model has never seen, as it will not have seen the target."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from shiftune.errors import SettingsError
from shiftune.evaluate.answers import Answers
from shiftune.evaluate.fitting import Predicted, StudyData, judge
from shiftune.evaluate.losses import Loss
from shiftune.evaluate.plan import (
    Fit,
    IndependentFits,
    TrialLosses,
    can_leave_out,
)


class LeaveSourcesOut(IndependentFits):
    r"""Evaluate a trial half on known and half on unseen sites.

    A model trained on all sources has seen other rows of every site on which it is evaluated;
    at the target it has seen none. So the sources are assigned to a few groups, a further model is
    trained without each group, and a row's loss is

    .. math:: L_i = (1 - u)\, \ell(h(x_i), y_i) + u\, \ell(h_{-g(i)}(x_i), y_i) .

    The first part has less noise (each model of the second has fewer sources), the second measures
    what matters; u = 1/2 chose better than either in `benchmarks/arena`.

    Parameters
    ----------
    extra_fits : int
        Groups, hence further fits of every trial; at most one per source. Rows of a class that
        only their own group has keep the loss of the model that knows it.
    unseen : float
        u, from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> LeaveSourcesOut(2).groups(np.array(["B"] * 5 + ["C"] * 3 + ["D"] * 3))
    [('B',), ('C', 'D')]
    """

    def __init__(self, extra_fits: int = 4, unseen: float = 0.5) -> None:
        if not isinstance(extra_fits, int | np.integer) or extra_fits < 2:
            raise SettingsError(
                "extra_fits must be a whole number >= 2 (without its only group no source is "
                f"left), got {extra_fits!r}"
            )
        if not 0 <= unseen <= 1:
            raise SettingsError(f"unseen must lie between 0 and 1, got {unseen!r}")
        self.extra_fits = int(extra_fits)
        self.unseen = unseen

    def __repr__(self) -> str:
        return f"LeaveSourcesOut(extra_fits={self.extra_fits}, unseen={self.unseen:g})"

    def groups(self, train_sites: NDArray[np.str_]) -> list[tuple[str, ...]]:
        """Assign the sites, the largest first, to groups of about equally many training rows."""
        names, rows = np.unique(train_sites, return_counts=True)
        groups: list[list[str]] = [[] for _ in range(min(self.extra_fits, len(names)))]
        if len(groups) < 2:
            return []
        sizes = np.zeros(len(groups))
        for j in np.argsort(-rows, kind="stable"):
            smallest = int(np.argmin(sizes))
            groups[smallest].append(str(names[j]))
            sizes[smallest] += rows[j]
        return [tuple(group) for group in groups]

    def fits(self, data: StudyData) -> list[Fit]:
        """Return the fit of all sources, and one without each group."""
        found = [Fit()]
        for group in self.groups(data.source_rows) if self.unseen > 0 else []:
            names = tuple(name for name in data.names if name in group)
            if names and can_leave_out(group, data):
                found.append(Fit(group, names))
        return found

    def combined(
        self, predicted: Mapping[Fit, Predicted], data: StudyData, loss: Loss
    ) -> TrialLosses:
        """Return the mixed losses."""
        known = unseen = judge(predicted[Fit()], data, loss)
        losses = known.losses.copy()
        for fit, found in predicted.items():
            if fit.judged_at is None:
                continue
            rows = data.validation_rows(fit.judged_at)
            own = judge(found, data, loss, fit.judged_at, known.at(rows))
            unseen = unseen.with_rows(rows, own)
            losses[rows] = (1 - self.unseen) * losses[rows] + self.unseen * own.losses
        answers = None
        if known.answers is not None and unseen.answers is not None:
            answers = Answers(known.answers, unseen.answers, self.unseen)
        return TrialLosses(data.by_site(losses), data.mean_loss(known.losses), answers)
