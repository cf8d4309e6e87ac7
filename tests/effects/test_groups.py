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
    new, who = rng.normal(size=(12, 1)), np.arange(12) // 3
    labels = new[:, 0] + np.array([2.0, -2.0, 1.0, -1.0])[who]
    of_rows = effects.update(effects.rows(new, new[:, 0], labels))
    same = effects.update(effects.rows(new, new[:, 0], labels, np.arange(12)[::-1]))
    np.testing.assert_allclose(np.sort(of_rows.own_losses), np.sort(same.own_losses), rtol=1e-6)
    of_groups = effects.update(effects.rows(new, new[:, 0], labels, who))
    # Without its other visits, a patient's effect is not known.
    assert of_groups.own_losses.mean() > of_rows.own_losses.mean()
    # One patient shows the site no better than one row does.
    one = effects.update(effects.rows(new, new[:, 0], labels + 1, np.zeros(12, dtype=int)))
    np.testing.assert_allclose(one.own_losses, effects.losses(labels + 1, new), rtol=1e-6)
