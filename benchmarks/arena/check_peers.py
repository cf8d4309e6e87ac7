"""Check that the peers' scores are those that a user of skada gets for fitted models.

    python benchmarks/arena/check_peers.py

Two logistic regressions on generated sites are scored by skada's classes in the documented way,
each by itself, and by ``peer_scores`` from their losses. Needs no data.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from peers import MASKED, SOURCE, TARGET, imported_skada, peer_scores
from problems import problem
from sklearn import get_config
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler


def log_losses(y: np.ndarray, chances: np.ndarray) -> np.ndarray:
    return -np.log(chances[np.arange(len(y)), y])


def main() -> None:
    before = get_config()
    drawn = problem("hospitals near", 0, 0)
    # A column in other units, so that raw and standardised features differ.
    units = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 20.0])
    p = replace(
        drawn,
        X=[x * units for x in drawn.X],
        X_target=drawn.X_target * units,
        y_target=np.full(len(drawn.X_target), np.nan),  # a score that reads labels is NaN
    )
    X, y = np.concatenate(p.X), (np.concatenate(p.y) > 0).astype(int)
    train = np.random.default_rng(0).random(len(X)) < 0.7
    scaler = StandardScaler().fit(X[train])
    for features, seen in (("raw", lambda x: x), ("scaled", scaler.transform)):
        expected, logs, wrong = by_skada(seen(X), y, train, seen(p.X_target))
        got = {
            "skada IW": peer_scores(p, {"train": train, "pooled": wrong})[f"skada IW ({features})"]
        }
        ours = peer_scores(p, {"train": train, "pooled": logs})
        got["DEV (skada)"] = ours[f"DEV (skada, {features})"]
        got["DEV corrected"] = ours[f"DEV corrected ({features})"]
        for name, scores in expected.items():
            np.testing.assert_allclose(got[name], scores, rtol=1e-12)
            print(f"{name}, {features}: {scores[0]:.6f} {scores[1]:.6f}, the same by both ways")
    if get_config() != before:
        raise AssertionError("the peers have left a setting of scikit-learn changed")


def by_skada(
    X: np.ndarray, y: np.ndarray, train: np.ndarray, X_target: np.ndarray
) -> tuple[dict[str, list[float]], np.ndarray, np.ndarray]:
    """Return skada's scores, the log losses (2, n_val) and the mistakes (2, n_val)."""
    rows = np.concatenate([X[~train], X_target])
    labels = np.concatenate([y[~train], np.full(len(X_target), MASKED)])
    domain = np.repeat([SOURCE, TARGET], [(~train).sum(), len(X_target)])
    scores: dict[str, list[float]] = {"skada IW": [], "DEV (skada)": [], "DEV corrected": []}
    logs, wrong = [], []
    with imported_skada() as skada:
        accuracy = skada.metrics.ImportanceWeightedScorer()
        dev = skada.metrics.DeepEmbeddedValidation(random_state=0)
        corrected = skada.metrics.DeepEmbeddedValidation(
            loss_func=lambda y, chances: log_losses(y, chances)[:, None], random_state=0
        )
        for C in (1e-4, 1.0):
            model = skada.make_da_pipeline(
                LogisticRegression(C=C).set_score_request(sample_weight=True)
            ).fit(X[train], y[train], sample_domain=np.full(train.sum(), SOURCE))
            given = (model, rows, labels)
            scores["skada IW"].append(1 - accuracy(*given, sample_domain=domain))
            scores["DEV (skada)"].append(-dev(*given, sample_domain=domain))
            scores["DEV corrected"].append(-corrected(*given, sample_domain=domain))
            chances = model.predict_proba(
                X[~train], sample_domain=domain[domain == SOURCE], allow_source=True
            )
            logs.append(log_losses(y[~train], chances))
            wrong.append((chances.argmax(axis=1) != y[~train]).astype(float))
    return scores, np.array(logs), np.array(wrong)


if __name__ == "__main__":
    main()
