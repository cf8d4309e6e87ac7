"""Peers in the arena: the importance-weighted scorer and DEV of skada, as they are installed.

They need the packages skada and pot (the extra ``arena``), which bring no deep-learning framework
with them. Written for skada 0.6; ``python benchmarks/arena/check_peers.py`` compares the scores
with those that a user gets from skada for fitted models.

The scorers are handed what a user would hand them: the sources' validation rows and all rows of
the target, without its labels. They treat all sources as one.

- *IW*: kernel densities of both (bandwidth 1 in the units of the features) and the score
  ``sum(w L) / sum(w)`` with w = p_T / p_S.
- *DEV*: w from a logistic regression that separates two thirds of the source rows from target rows;
  on the other third, ``mean(w L) + eta (mean(w) - 1)`` with eta = -cov(w L, w) / var(w). The
  features are those of the table; from a pipeline skada would take the last transformer's, which
  differ between configurations and are not kept in a cell.

*DEV (skada)* is not this formula, which is the paper's. skada's w has the shape (n, 1), so losses
of shape (n,), such as those of its own log loss, are broadcast to (n, n) and the score becomes
``mean(w) mean(L) - L_1 L_2 (mean(w) - 1)``, with the losses of whichever two rows come first.
*DEV corrected* is the same class given losses of shape (n, 1), for which it is the formula.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType

import numpy as np
from problems import Problem
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

# skada's convention: domains of sources are positive, of targets negative.
SOURCE, TARGET = 1, -2
MASKED = -1


def peer_scores(problem: Problem, cell: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return every peer's estimate of the target risk of each configuration, (P,).

    Parameters
    ----------
    problem
        The problem that the cell was computed from; the target's labels are not looked at.
    cell
        The cell's arrays, of which ``pooled`` (P, n_val) and ``train`` (n_all,) are used.
    """
    X, train = np.concatenate(problem.X), cell["train"]
    losses = np.asarray(cell["pooled"], dtype=float)
    scaler = StandardScaler().fit(X[train])
    scores = {}
    with imported_skada() as skada:
        for features, seen in (("raw", lambda x: x), ("scaled", scaler.transform)):
            rows = Rows(seen(X[~train]), seen(problem.X_target), losses)
            scores[f"skada IW ({features})"] = rows.importance_weighted(skada)
            scores[f"DEV (skada, {features})"] = rows.dev(skada, lambda own: own)
            scores[f"DEV corrected ({features})"] = rows.dev(skada, lambda own: own[:, None])
    return scores


@contextmanager
def imported_skada() -> Iterator[ModuleType]:
    """Import skada, and leave scikit-learn as it was.

    The import of skada switches scikit-learn's metadata routing on for the whole process.
    """
    with config_context(enable_metadata_routing=True), warnings.catch_warnings():
        try:
            import skada
        except ImportError as error:
            raise ImportError(
                "The arena's peers need the packages skada and pot: pip install --no-deps skada pot"
            ) from error
        # A user gets these scores too: equal weights, and a logistic regression stopped early.
        warnings.filterwarnings("ignore", message="All weights are zero")
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        yield skada


class Rows:
    """Rows as skada's scorers want them, with the number of each source row as its label.

    By this number the loss of a row is found again after skada has split and shuffled.
    """

    def __init__(self, sources: np.ndarray, target: np.ndarray, losses: np.ndarray) -> None:
        n, n_target = len(sources), len(target)
        self.X = np.concatenate([sources, target])
        self.number = np.concatenate([np.arange(n), np.full(n_target, MASKED)])
        self.domain = np.repeat([SOURCE, TARGET], [n, n_target])
        self.losses = losses

    def importance_weighted(self, skada: ModuleType) -> np.ndarray:
        # The weights do not depend on the configuration: one call scores all of them.
        scorer = skada.metrics.ImportanceWeightedScorer(greater_is_better=False)
        return -scorer(StoredLosses(self.losses), self.X, self.number, sample_domain=self.domain)

    def dev(self, skada: ModuleType, shaped: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        # skada's DEV refuses models that have no predict_proba. A model that only stands for its
        # losses has one, so that regression, too, has a score.
        model = Pipeline([("losses", StoredLosses(self.losses))])
        discriminator = FittedOnce()

        def risk(own: np.ndarray) -> float:
            scorer = skada.metrics.DeepEmbeddedValidation(
                domain_classifier=discriminator,
                loss_func=lambda number, _: shaped(own[number]),
                random_state=0,
            )
            return -scorer(model, self.X, self.number, sample_domain=self.domain)

        return np.array([risk(own) for own in self.losses])


class StoredLosses(ClassifierMixin, BaseEstimator):
    """Stands for P fitted models of which the losses (P, n) are known."""

    # What skada passes beside X and y, in the way that scikit-learn wants it declared.
    __metadata_request__score = {"sample_weight": True}  # noqa: RUF012
    __metadata_request__predict_proba = {"sample_domain": True, "allow_source": True}  # noqa: RUF012

    def __init__(self, losses: np.ndarray) -> None:
        self.losses = losses

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def score(self, X, number, sample_weight=None, sample_domain=None, allow_source=False):
        return np.average(self.losses[:, number], axis=1, weights=sample_weight)

    def predict_proba(self, X, sample_domain=None, allow_source=False):
        return X  # not looked at: the loss function looks losses up instead of computing them


class FittedOnce(LogisticRegression):
    """DEV's default discriminator, fitted for the first configuration and kept for the others.

    The rows and the random state are the same, so each would get the same one.
    """

    def __sklearn_clone__(self) -> FittedOnce:
        return self

    def fit(self, X, y):
        return self if hasattr(self, "coef_") else super().fit(X, y)
