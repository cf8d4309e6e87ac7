"""View of a cell for estimators: everything but the target's labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from balanced import BalancedRatio
from problems import Problem


@dataclass
class Losses:
    """Losses of P configurations at n rows of the sources."""

    L: np.ndarray  # (P, n)
    rows: np.ndarray  # (N,), which of all rows of the sources these are
    site: np.ndarray  # (n,)
    X: list[np.ndarray]  # k arrays of shape (n_j, d)

    def by_site(self, values: np.ndarray) -> list[np.ndarray]:
        """Split values of the rows, (n, ...), by site."""
        return [values[self.site == j] for j in np.unique(self.site)]

    @cached_property
    def site_means(self) -> np.ndarray:
        """Mean loss of every configuration at every site, (P, k)."""
        return np.stack([own.mean(axis=0) for own in self.by_site(self.L.T)], axis=1)


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
    def X(self) -> np.ndarray:
        """Rows of all sources, (N, d)."""
        return np.concatenate(self.problem.X)

    @cached_property
    def pooled(self) -> Losses:
        """Losses of one model per configuration, at rows of sites that it knows."""
        return self._losses(self.cell["pooled"], ~self.cell["train"])

    @cached_property
    def out_of_site(self) -> Losses:
        """Losses of models that have not seen a row's site, at all rows: the package's."""
        return self._losses(self.cell["left_out"], np.full(len(self.X), True))

    @cached_property
    def one_fold(self) -> Losses:
        """The same at the rows of the group of most sites: what one fit per trial could give."""
        group = self.cell["group"]
        rows = (group == np.bincount(group).argmax())[self.cell["site"]]
        return self._losses(self.cell["left_out"][:, rows], rows)

    def _losses(self, values: np.ndarray, rows: np.ndarray) -> Losses:
        site = self.cell["site"][rows].astype(int)
        X = self.X[rows]
        return Losses(values.astype(float), rows, site, [X[site == j] for j in np.unique(site)])

    @cached_property
    def training_X(self) -> list[np.ndarray]:
        """Training rows, source by source: those that density ratios are learned from."""
        site, train = self.cell["site"], self.cell["train"]
        return [self.X[(site == j) & train] for j in np.unique(site)]

    @cached_property
    def balanced(self) -> np.ndarray:
        """Ratio of the target to the mixture of the sources at all rows, (N,)."""
        ratio = BalancedRatio().fit(self.problem.X_target, self.training_X)
        return ratio.weights([self.X])[0]

    def weights(self, name: str) -> np.ndarray:
        """Density ratio at all rows, (N,): "balanced", or one of the cell's."""
        return self.balanced if name == "balanced" else self.cell[name].astype(float)
