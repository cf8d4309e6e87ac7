"""The mean of a site's effect without any label: from what is known of the site's rows.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/site_means.py --losses FOLDER/losses --seed 31

The intercepts of the sources' effects are regressed on the means of their columns and on their mean
prediction (ridge over sites; the strength is chosen by leaving sites out). The predicted intercept
of the target is added to its predictions where this lowers the left-out sites' losses by some
standard errors. Prints the loss relative to the ensemble as it is, in percent.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
from pools import FAMILIES
from trials import cells_in, read
from updates import ensemble_effects

from shiftune.effects import SiteEffects, Spread

STRENGTHS = (np.inf, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
SURE = (0.0, 1.0, 2.0)
FEWEST_SITES = 6
# Of the sources' intercepts, in units of a row's noise.
WIDE = 1.5


def ridge(S: np.ndarray, b: np.ndarray, w: np.ndarray, at: np.ndarray, strength: float):
    """Predict effects at sites with features `at` from those of other sites."""
    centre, middle = np.average(b, axis=0, weights=w), np.average(S, axis=0, weights=w)
    if np.isinf(strength):
        return np.repeat(centre[None], len(at), axis=0)
    root = np.sqrt(w)[:, None]
    A = (S - middle) * root
    dual = np.linalg.solve(A @ A.T + strength * np.eye(len(A)), (b - centre) * root)
    return centre + (at - middle) @ A.T @ dual


def predicted(effects: SiteEffects, target: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the predicted intercepts of the target, and by how many errors they would help."""
    sources = effects.sources
    spread = Spread(intercept=WIDE * np.sqrt(effects.noise))
    b = np.array([s.effect(np.arange(len(s)), spread)[:, 0] for s in sources])
    S = np.array([np.append(s.Z[:, 2:].mean(axis=0), s.scaled.mean(axis=0)) for s in sources])
    width = np.maximum(S.std(axis=0), 1e-9) * np.sqrt(S.shape[1])
    at, S = np.clip((target - S.mean(axis=0)) / width, -3, 3)[None], (S - S.mean(axis=0)) / width
    w = np.array([len(s) / (len(s) + 20) for s in sources])
    before = np.array([effects.row_losses(s.y, s.scaled).mean() for s in sources])
    best = (0.0, np.zeros(b.shape[1]), 0.0)
    for strength in STRENGTHS:
        gains = []
        for j, source in enumerate(sources):
            rest = np.arange(len(sources)) != j
            own = ridge(S[rest], b[rest], w[rest], S[[j]], strength)
            gains.append(1 - effects.row_losses(source.y, source.scaled + own).mean() / before[j])
        if np.mean(gains) > best[0]:
            errors = np.mean(gains) / (np.std(gains, ddof=1) / np.sqrt(len(gains)))
            best = (np.mean(gains), ridge(S, b, w, at, strength)[0], float(errors))
    return best[1], best[2]


def scored(files: dict[str, Path], dataset: str, target: int, seed: int) -> dict[str, object]:
    """Score one problem."""
    warnings.simplefilter("ignore")
    trials, effects, at_target = ensemble_effects(read(files, dataset, target, seed))
    rows = effects.role(trials.X_target, at_target, trials.y_target)
    row: dict[str, object] = {"dataset": dataset} | {f"{sure:g} errors": 0.0 for sure in SURE}
    if len(effects.sources) < FEWEST_SITES:
        return row
    known = np.append(rows.Z[:, 2:].mean(axis=0), rows.scaled.mean(axis=0))
    added, errors = predicted(effects, known)
    before, after = (effects.row_losses(rows.y, rows.scaled + a).mean() for a in (0.0, added))
    percent = 100 * (after / before - 1)
    return row | {f"{sure:g} errors": percent * (errors > sure) for sure in SURE}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--losses", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    cells = cells_in(args.losses, args.seed, FAMILIES, "real")
    work = [joblib.delayed(scored)(files, *key, args.seed) for key, files in cells.items()]
    rows = pd.DataFrame(joblib.Parallel(n_jobs=args.jobs)(work))
    means = rows.groupby("dataset").mean()
    print(means.agg(["mean", "min", "max"]).round(2).to_string())
    print((means != 0).sum().to_string())


if __name__ == "__main__":
    main()
