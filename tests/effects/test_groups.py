"""Labels of a few groups: judged without their own group, and counted as few."""

from __future__ import annotations

import numpy as np

from shiftune.effects import SiteEffects
from shiftune.evaluate._losses import loss_named


def test_labels_of_few_patients():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(60, 1)) for _ in range(8)]
    y = [x[:, 0] + rng.normal(0, 1) + rng.normal(0, 0.2, 60) for x in X]
    effects = SiteEffects([x[:, 0] for x in X], X, y, loss_named("squared"), None)
    new, patients = rng.normal(size=(12, 1)), np.arange(12) // 3
    labels = new[:, 0] + np.array([2.0, -2.0, 1.0, -1.0])[patients]
    of_rows = effects.update(new, new[:, 0], labels)
    same = effects.update(new, new[:, 0], labels, np.arange(12)[::-1])
    np.testing.assert_array_equal(of_rows.own_losses, same.own_losses)
    of_groups = effects.update(new, new[:, 0], labels, patients)
    # Without its other visits, a patient's effect is not known.
    assert of_groups.own_losses.mean() > of_rows.own_losses.mean()
    assert of_groups.spread == effects.spread(4)
    one = effects.update(new, new[:, 0], labels, np.zeros(12, dtype=int))
    assert not one.effect.any()
    np.testing.assert_allclose(one.own_losses, one.own_losses_before)
