r"""Test of the regret bound (main theorem) on the toy problem, where the truth is known.

By the theorem, with probability at least :math:`1 - \delta`

.. math:: f(\theta_B) - f(\theta^\star) \le R_n + \sqrt{2 V(\hat f(\theta_B)) / \delta}
          + \sqrt{2 (V(\hat f(\theta^\star)) + V(\hat f(\hat\theta))) / \delta} ,

with :math:`\theta_B` the best of B trials and :math:`\hat\theta` the minimiser of the estimate.
It rests on the decomposition of the regret into

.. math:: \underbrace{\hat f(\theta_B) - \hat f(\hat\theta)}_{(A) = R_n}
          + \underbrace{f(\theta_B) - \hat f(\theta_B)}_{(B)}
          + \underbrace{\hat f(\hat\theta) - f(\theta^\star)}_{(C)}

and on a lemma each for (B) and (C), by Chebyshev's inequality. (C) is at most
:math:`\hat f(\theta^\star) - f(\theta^\star)`, at a fixed point. But lemma (B) takes
:math:`\theta_B` as fixed too, although it is chosen on the same rows: hence this study, which
counts how often lemmas and theorem hold. With fair overlap (c = 2) all do. Where sites hardly
overlap (c = 5, 100 rows) lemma (B) does not, for the variance reduced estimator, and the theorem
holds by its slack alone (reproduction/tests/test_regret.py).
"""

from reproduction.regret.objective import EstimatedRisk
from reproduction.regret.picture import figure
from reproduction.regret.run import RegretRun, regret_run
from reproduction.regret.study import coverage, regret_study, shrinkage

__all__ = [
    "EstimatedRisk",
    "RegretRun",
    "coverage",
    "figure",
    "regret_run",
    "regret_study",
    "shrinkage",
]
