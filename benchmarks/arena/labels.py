"""A few labels of hidden targets, through the package: updates, their intervals, other uses.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/labels.py --out FILE --seeds 62 [--pictures FOLDER]

Every cell runs `ShiftSearch("auto", n_trials=24)` without labels. Then 10, 30 and 100 random rows
of the target are labelled, twice, and the loss on its other rows is measured: without labels; after
`search.update`; with the effect of the site alone, the half of the update that trains nothing; with
the labels as training rows, once each ("refit"); and of the final model trained on labels alone.
Also the estimated risk with its 90 % interval, and what `label_worth` promised.

FILE is a CSV file with a row for every draw of labels; cells that it has are not computed again.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import joblib
import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, for `reproduction`

from cells import losses_of, predictions_of
from pictures import USES, uses_of_labels
from problems import Problem, cells_in_turn, problem
from regret import mean
from reproduction.figures import save
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch

LABELS, REPEATS, LEVEL = (10, 30, 100), 2, 0.9
KEY = ["dataset", "target", "seed"]
# Of the target's rows that may be labelled; on the others the predictor is scored.
MOST_LABELLED = 0.6


def labelled_first(rows: int, seed: int, labels: int, repeat: int) -> np.ndarray:
    """Order of the target's rows, of which the first are labelled."""
    return np.random.default_rng([seed, labels, repeat]).permutation(rows)


def draws(rows: int) -> list[tuple[int, int]]:
    """Numbers of labels, and repeats of each."""
    return [(m, r) for m in LABELS if m <= MOST_LABELLED * rows for r in range(REPEATS)]


def scored(trials: int, dataset: str, target: int, seed: int) -> list[dict[str, object]]:
    """Search once, then score every draw of labels."""
    p = problem(dataset, target, seed)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(_scored(p, seed, trials))
    print(dataset, p.target, seed, flush=True)
    return [{"dataset": dataset, "target": target, "seed": seed} | row for row in found]


def _scored(p: Problem, seed: int, trials: int) -> Iterator[dict[str, object]]:
    site = np.repeat([f"s{j}" for j in range(len(p.X))], [len(x) for x in p.X])
    X, y = np.concatenate(p.X), np.concatenate(p.y)
    classes = None if p.task == "regression" else np.unique(y)
    given = ShiftProblem.from_arrays(X, y, site, p.X_target, task=p.task)
    cpu = time.process_time()
    search = ShiftSearch("auto", n_trials=trials, random_state=seed, progress=False).fit(given)
    cpu = time.process_time() - cpu
    worth = search.label_worth(LABELS) if len(p.X) > 1 else None
    for m, repeat in draws(len(p.y_target)):
        order = labelled_first(len(p.y_target), seed, m, repeat)
        own, others = order[:m], order[m:]
        few = p.X_target[own], p.y_target[own]

        def loss(predicted: np.ndarray, others=others) -> float:
            return float(losses_of(predicted, p.y_target[others], classes).mean())

        def predict(model: object, others=others) -> np.ndarray:
            return predictions_of(model, p.X_target[others], classes)

        def trained(X: np.ndarray, y: np.ndarray, loss=loss, predict=predict) -> float:
            try:
                return loss(predict(clone(search.predictor_).fit(X, y)))
            except Exception:  # for example, a single class
                return np.nan

        start = time.process_time()
        updated = search.update(*few)
        seconds = time.process_time() - start
        low, high = updated.risk_.interval(LEVEL)
        plain, both = predict(search), predict(updated)
        effect = both
        if updated.used_:  # the other half of the update
            refitted = predict(updated.predictor_.refitted_)
            effect = both + (plain - refitted) / 2 if classes is None else 2 * both - refitted
        yield {
            "labels": m,
            "repeat": repeat,
            "sources": len(p.X),
            "before": loss(plain),
            "update": loss(both),
            "used": updated.used_,
            "effect": loss(effect),
            "refit": trained(np.concatenate([X, few[0]]), np.concatenate([y, few[1]])),
            "alone": trained(*few),
            "estimate": updated.risk_.value,
            "low": low,
            "high": high,
            "promised": np.nan if worth is None else worth["gain"][m],
            "seconds": round(cpu, 1),
            "update_seconds": round(seconds, 2),
        }


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Percent by number of labels: means over draws and cells, then over tables."""
    found = {}
    for m, own in rows.groupby("labels"):
        table = own["dataset"]
        percent = {
            how: (100 * own[how] / own["before"] - 100).groupby(table).mean()
            for how in ("update", "effect", "refit", "alone")
        }
        change = mean(percent["update"])
        covered = own["update"].between(own["low"], own["high"])
        found[m] = {
            "tables": table.nunique(),
            "update": change.value,
            "low": change.low,
            "high": change.high,
            "median": percent["update"].median(),
            "worst": percent["update"].max(),
            "its table": percent["update"].idxmax(),
            "better": (percent["update"] < 0).mean(),
            "worst run": (100 * own["update"] / own["before"] - 100).max(),
            **{how: own.mean() for how, own in percent.items() if how != "update"},
            **{f"{how} median": own.median() for how, own in percent.items() if how != "update"},
            "covered": covered.groupby(table).mean().mean(),
            "half width": ((own["high"] - own["low"]) / 2 / own["update"]).median(),
            "estimate / truth": (own["estimate"] / own["update"]).median(),
            "used": own["used"].mean(),
        }
    return pd.DataFrame(found).T


def relative(rows: pd.DataFrame, what: str) -> pd.DataFrame:
    """Loss of every use relative to no labels, by number of labels: mean or median of tables."""
    ratios = rows[list(USES)].div(rows["before"], axis=0)
    return ratios.groupby([rows["labels"], rows["dataset"]]).mean().groupby("labels").agg(what)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--targets", type=int, default=2)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--pictures", type=Path, help="folder for two pictures")
    args = parser.parse_args()
    known = pd.read_csv(args.out) if args.out.exists() else pd.DataFrame(columns=KEY)
    done = set(known[KEY].itertuples(index=False, name=None))
    cells = [c for c in cells_in_turn(args.datasets, args.targets, args.seeds) if c not in done]
    pooled = joblib.Parallel(n_jobs=args.jobs, return_as="generator_unordered")
    for rows in pooled(joblib.delayed(scored)(args.trials, *cell) for cell in cells):
        known = pd.concat([known, pd.DataFrame(rows)], ignore_index=True)
        known.to_csv(args.out, index=False, float_format="%.6g")
    if args.pictures:
        for what in ("mean", "median"):
            figure = uses_of_labels(relative(known, what), what)
            save(figure, args.pictures / f"labels-{what}", kinds=["svg"])
    for seed, rows in [*known.groupby("seed"), ("all", known)]:
        print(f"seed {seed}")
        print(summary(rows).T.to_string(float_format=lambda value: f"{value:.2f}"))


if __name__ == "__main__":
    main()
