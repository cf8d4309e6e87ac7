"""View of a cell for estimators: everything but the target's labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from balanced import BalancedRatio
from problems import Problem


@dataclass
class View:
    """Losses of P configurations and the rows they belong to.

    Attributes
    ----------
    problem : Problem
        Its ``y_target`` is not read here.
    cell : mapping of arrays
        Without ``target``, the losses on the target.
    """

    problem: Problem
    cell: dict[str, np.ndarray]

    @cached_property
    def site(self) -> np.ndarray:
        """Site of every row of the sources, (n,)."""
        return self.cell["site"].astype(int)

    @cached_property
    def judged(self) -> np.ndarray:
        """Rows that are not trained on, (n,)."""
        return ~self.cell["train"]

    @cached_property
    def judged_site(self) -> np.ndarray:
        """Site of every validation row, (n_val,)."""
        return self.site[self.judged]

    @cached_property
    def X(self) -> np.ndarray:
        """Rows of all sources, (n, d)."""
        return np.concatenate(self.problem.X)

    @cached_property
    def judged_X(self) -> list[np.ndarray]:
        """Validation rows, source by source."""
        return self.by_site(self.X[self.judged])

    @cached_property
    def known(self) -> np.ndarray:
        """Losses of the models that saw all sources, at validation rows, (P, n_val)."""
        return self.cell["pooled"].astype(float)

    @cached_property
    def unseen_everywhere(self) -> np.ndarray:
        """Losses of models that never saw a row's site, at all rows, (P, n)."""
        return self.cell["left_out"].astype(float)

    @cached_property
    def unseen(self) -> np.ndarray:
        """The same at validation rows, (P, n_val)."""
        return self.unseen_everywhere[:, self.judged]

    @cached_property
    def half(self) -> np.ndarray:
        """Half known, half unseen sites, (P, n_val).

        As `LeaveSourcesOut` gives it, but for groups that are drawn and not dealt by size, and rows
        of a class that only their group has, which here cost what a chance of 1e-3 costs.
        """
        return (self.known + self.unseen) / 2

    @cached_property
    def of_one_model(self) -> np.ndarray:
        """Losses of the models without a group of about a quarter of the rows, (P, n_val).

        What one fit per trial could give.
        """
        rows = np.bincount(self.cell["group"].astype(int)[self.site[~self.judged]])
        group = int(np.argmin(np.abs(rows / rows.sum() - 1 / 4)))
        return self.cell["others"][:, group].astype(float)

    @cached_property
    def balanced(self) -> np.ndarray:
        """Ratio of the target to the mixture of the sources at validation rows, (n_val,)."""
        rows = [self.X[(self.site == j) & ~self.judged] for j in range(len(self.problem.X))]
        ratio = BalancedRatio().fit(self.problem.X_target, rows)
        return ratio.weights_at(self.X[self.judged], source=0)

    def weights(self, name: str) -> np.ndarray:
        """One of the cell's density ratios at the validation rows, (n_val,)."""
        return self.cell[name].astype(float)[self.judged]

    def by_site(self, values: np.ndarray) -> list[np.ndarray]:
        """Split values at validation rows (n_val, ...) by site."""
        return [values[self.judged_site == j] for j in np.unique(self.judged_site)]

    def site_means(self, losses: np.ndarray, site: np.ndarray | None = None) -> np.ndarray:
        """Mean loss of every configuration at every site, (P, K)."""
        where = self.judged_site if site is None else site
        return np.stack([losses[:, where == j].mean(axis=1) for j in np.unique(where)], axis=1)
