"""How far the adjustment to the target's rows is trusted when models are compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shiftune.risk.ridge import RidgeSystem
from shiftune.rows.moments import MomentRows

Floats = NDArray[np.float64]

# With a single source nothing can be learned about the adjustment.
UNKNOWN = 0.5


def trust_in_adjustment(
    losses: Floats, ridge: RidgeSystem, n: NDArray[np.intp], shares: Floats
) -> float:
    r"""Share of the adjustment that would have compared the models best at the sources.

    .. math:: \gamma = \frac{\sum_j a_j^\top b_j}{\sum_j a_j^\top a_j}, \quad 0 \le \gamma \le 1

    Every source j takes the target's role. Over the models, :math:`b_j` is the mean loss at j less
    the mean over the other sources, and :math:`a_j` what the adjustment of the other sources to the
    rows of j adds to that mean; both less their means over the models, since only differences
    between models matter. :math:`\gamma a_j` is the least-squares fit to :math:`b_j`. Where only
    the rows' distributions differ it is near 1, where p(y|x) does it is often near 0, and an
    adjustment that extrapolates wildly is ignored.

    Parameters
    ----------
    losses : array of shape (P, n)
        Of several models, on the rows of all sources.
    ridge : RidgeSystem
        Of these rows.
    n : array of shape (k,)
        Numbers of rows.
    shares : array of shape (k,)
        Of the sources; they add up to 1.
    """
    if len(n) < 2:
        return UNKNOWN
    losses = losses - losses[0]  # models that do not differ must not differ by rounding errors
    starts, rows = np.cumsum(n) - n, len(ridge.rows)
    parts = [ridge.rows.part(start, start + m) for start, m in zip(starts, n, strict=True)]
    sums = np.array([part.sums(np.ones(len(part))) for part in parts])
    means, weighted = sums / n[:, None], shares @ (sums / n[:, None])
    losses_by_site = np.add.reduceat(losses, starts, axis=1) / n
    weighted_losses = losses_by_site @ shares
    products = _products(losses, ridge.rows)
    fitted = explained = 0.0
    for j, part in enumerate(parts):
        start, stop, rest = starts[j], starts[j] + n[j], 1 - shares[j]
        gap = means[j] - (weighted - shares[j] * means[j]) / rest
        move = ridge.solve_without(start, stop, gap)
        # Losses of the other sources' rows times these rows, which are centred without those of j.
        others = products - _products(losses[:, start:stop], part)
        total = losses_by_site @ n - losses_by_site[:, j] * n[j]
        mean = (ridge.total - sums[j]) / (rows - n[j])
        a = (others - np.outer(total, mean)) @ move
        b = losses_by_site[:, j] - (weighted_losses - shares[j] * losses_by_site[:, j]) / rest
        a, b = a - a.mean(), b - b.mean()
        fitted, explained = fitted + float(a @ b), explained + float(a @ a)
    return float(np.clip(fitted / explained, 0, 1)) if explained > 0 else 0.0


def _products(losses: Floats, rows: MomentRows) -> Floats:
    """Sums over rows of losses times numbers: (P, n) and (n, p) -> (P, p)."""
    found = np.zeros((len(losses), rows.width))
    for some, Z in rows.chunks():
        found += losses[:, some] @ Z
    return found
