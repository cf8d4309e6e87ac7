"""Score the estimators on cells whose losses are computed. Only this module reads target labels."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from cells import Cell
from estimators import ESTIMATORS, Judged
from problems import Problem, problem
from scipy.stats import spearmanr
from threadpoolctl import threadpool_limits
from view import View

import shiftune
from shiftune.risk import RegressionAdjusted

LABELS = (10, 30, 100)
DRAWS = 4
# Of the target's rows that may be labelled; on the others the choice is scored.
MOST_LABELLED = 0.6
FEWEST_CONFIGURATIONS = 5


def scores(cell: Cell, folder: Path, out: Path, *, peers: bool) -> None:
    """Score a cell's estimators, with and without labels, and write what came of it."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays = dict(np.load(folder / cell.name))
        target = arrays.pop("target").astype(float)
        if len(target) < FEWEST_CONFIGURATIONS:
            return
        p = problem(cell.dataset, cell.target, cell.seed)
        view = View(p, arrays)
        judged = {(e.name, e.group, e.fits): e.judge(view) for e in ESTIMATORS}
        if peers:
            from peers import peer_scores

            estimates = peer_scores(p, arrays)
            judged |= {(name, "peers", 0): Judged(values) for name, values in estimates.items()}
        truth = target.mean(axis=1)
        rows = [
            about(cell, p)
            | {"estimator": name, "group": group, "fits": fits}
            | scored(found, truth)
            for (name, group, fits), found in judged.items()
        ]
        few = [about(cell, p) | row for row in _with_labels(view, target)]
        _write(few, file_of(cell, out, "labels"))
        _write(rows, file_of(cell, out, "scores"))


def file_of(cell: Cell, out: Path, kind: str) -> Path:
    """Return where a cell's scores are kept, for the code as it is now."""
    return out / f"{cell.name}.{version()}.{kind}.csv"


def about(cell: Cell, p: Problem) -> dict[str, object]:
    """Return the columns that identify a cell in a table."""
    return {
        "dataset": cell.dataset,
        "kind": p.kind,
        "task": p.task,
        "target": p.target,
        "family": cell.family,
        "seed": cell.seed,
    }


def scored(found: Judged, truth: np.ndarray) -> dict[str, float]:
    """Return the scores of an estimator's choice."""
    chosen = int(np.argmin(found.order))
    nan = np.full(len(truth), np.nan)
    low, high = (nan if x is None else x for x in (found.low, found.high))
    return {
        "value": found.risks[chosen] if found.is_risk else np.nan,
        "loss": truth[chosen],
        "best": truth.min(),
        "median": np.median(truth),
        "rank": spearmanr(found.order, truth).statistic,
        "low": low[chosen],
        "high": high[chosen],
    }


def _with_labels(view: View, target: np.ndarray) -> list[dict[str, object]]:
    """Label some rows of the target, choose with them, score on the others."""
    losses = view.out_of_site
    risk = RegressionAdjusted().fit(view.problem.X_target, losses.X)
    sources = [losses.by_site(row) for row in losses.L]
    naive, mean = view.pooled.L.mean(axis=1), losses.L.mean(axis=1)
    without = np.array([risk.estimate(own).criterion for own in sources])
    rows = []
    for draw in range(DRAWS):
        order = np.random.default_rng([draw, 11]).permutation(target.shape[1])
        for m in LABELS:
            if m > MOST_LABELLED * target.shape[1]:
                continue
            labelled, truth = target[:, order[:m]], target[:, order[m:]].mean(axis=1)
            own = labelled.mean(axis=1)
            both = [risk.estimate([*s, row]) for s, row in zip(sources, labelled, strict=True)]
            estimates = {
                "naive": naive,
                "adjusted, no labels": without,
                "labels alone": own,
                "labels + out of site": own + mean,
                "adjusted": np.array([found.criterion for found in both]),
            }
            estimates |= {
                f"adjusted, sources worth {worth}": (worth * without + m * own) / (worth + m)
                for worth in (20, 50, 200)
            }
            share = _share_by_distance(without, target[:, order[m:]], m)
            estimates["adjusted, distance known"] = (1 - share) * without + share * own
            rows += [
                {"draw": draw, "labels": m, "estimator": name}
                | {k: v for k, v in scored(Judged(x), truth).items() if k in KEPT}
                for name, x in estimates.items()
            ]
    return rows


def _share_by_distance(without: np.ndarray, hidden: np.ndarray, m: int) -> float:
    """Return the share that m labels have if the target's distance to the sources is known.

    It reads the hidden labels, and shows how much is lost by estimating the distance. The better
    half of the configurations counts.
    """
    better = np.argsort(hidden.mean(axis=1))[: (len(hidden) + 1) // 2]
    losses = hidden[better] - hidden[better].mean(axis=0)
    one_row = losses.var(axis=1).mean()
    away = losses.mean(axis=1) - without[better]
    between = max(0.0, away.var() - one_row / hidden.shape[1])
    return between / (between + one_row / m) if one_row > 0 else 0.0


KEPT = ("loss", "best", "median")


def _write(rows: list[dict[str, object]], path: Path) -> None:
    part = path.with_suffix(".part")
    pd.DataFrame(rows).to_csv(part, index=False)
    part.rename(path)


def version() -> str:
    """Digest of the evaluating code: scores of other code are not mixed with its own."""
    code = hashlib.sha256()
    package = Path(shiftune.__file__).parent
    for folder in (package / "ratio", package / "risk"):
        for path in sorted(folder.glob("*.py")):
            code.update(path.read_bytes())
    for name in ("estimators.py", "view.py", "evaluate.py"):
        code.update((Path(__file__).parent / name).read_bytes())
    return code.hexdigest()[:8]


def gathered(out: Path) -> None:
    """Join the cells' files, of the code as it is now, to scores.csv and so on."""
    for kind in ("scores", "labels", "training", "ratios"):
        files = sorted(out.glob(f"*.npz.{version()}.{kind}.csv"))
        tables = [pd.read_csv(f) for f in files if f.stat().st_size > 1]
        if tables:
            pd.concat(tables).to_csv(out / f"{kind}.csv", index=False, float_format="%.6g")
