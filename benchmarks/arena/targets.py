"""Several targets of one search: what sharing the trials costs, where labels go, and the scale.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/targets.py shared --out FOLDER --seeds 81
    python benchmarks/arena/targets.py shared --out FOLDER --seeds 907 --numbers 10 --trials 50
    SHIFTUNE_DATA=FOLDER python benchmarks/arena/targets.py plans --out FOLDER --seeds 81
    python benchmarks/arena/targets.py scale --out FOLDER --numbers 10 100 1000
    python benchmarks/arena/targets.py summary --out FOLDER

``shared``: 3 and 8 sites of a table, drawn at random, are the targets; the others are the sources.
One search has all targets, and is compared with a search of each of the first three: from the same
sources, without the rows of the other targets, with the same random numbers. A further search of
all targets has other random numbers, which shows how much these matter. ``shared.csv`` has a row
per target with its loss and the 90 % interval of `risk_`, ``cpu.csv`` one per search; with 10
targets only the CPU of the search of all and of that of the first are compared.

``plans``: 60 % of the rows of every target are known to a search. `label_plan` divides a budget
among the targets, or all get the same number; the labels are drawn at random among these rows, each
target is updated by its own, and the other 40 % have the losses that are summed. ``plans.csv`` has
a row per draw.

``scale``: generated targets of 30 to 90 rows, each number of them in a process of its own.

The CSV files are continued: rows that they have are not computed again, but those of the scale.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, for `reproduction`

from cells import losses_of, predictions_of
from problems import MOST_SOURCE_ROWS, MOST_TARGET_ROWS, real_datasets, table, targets
from regret import geometric_mean, mean, ratio_of_means
from row_file import RowFile
from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch

NUMBERS, CPU_NUMBER, FEWEST_SOURCES = (3, 8), 10, 3
ALONE = 3  # targets that also have a search of their own
BUDGETS, LEVEL = (30, 100, 300), 0.9
KNOWN = 0.6
# Left out unless they are named: not among the tables of `sites`; of many classes, so that a search
# takes ten times as long.
PAPER, SLOW = ("gvhd", "parkinson"), ("vowel_speakers", "wisdm_users")

CELL = ("dataset", "seed", "targets")
SHARED = (
    (*CELL, "target"),
    (
        *("sources", "rows", "loss", "value", "low", "high"),
        *("alone", "alone_value", "alone_low", "alone_high", "other_seed"),
        *("same_columns", "same_trials", "same_members"),
    ),
)
CPU = (*CELL, "search"), ("fit", "table")
PLANS = (
    (*CELL, "budget", "draw"),
    (*("before", "plan", "equal", "promised", "promised_equal", "labelled", "most"),),
)
SCALE = ("targets", "sources", "source_rows", "trials", "step"), ("cpu_seconds", "peak_mb")


class Sites(NamedTuple):
    """Rows of a table with the columns "site" and "y", and the sites that are targets."""

    rows: pd.DataFrame
    targets: list[str]
    task: str

    def problem(self, asked: Sequence[str]) -> ShiftProblem:
        """Return the problem of some of the targets; the rows of the others are left out."""
        rest = set(self.targets) - set(asked)
        rows = self.rows[~self.rows["site"].isin(rest)].reset_index(drop=True)
        roles = {"site": "site", "label": "y", "target": list(asked)}
        return ShiftProblem.from_frame(rows, **roles, task=self.task)

    def of(self, site: str) -> pd.DataFrame:
        """Return the rows of a site."""
        return self.rows[self.rows["site"] == site]


def sites_of(dataset: str, number: int, seed: int) -> Sites | None:
    """Draw targets and rows; None where fewer than three sites would be left as sources."""
    X, y, site, task, names = table(dataset)
    drawn = targets(dataset, number, seed)
    if len(drawn) < number or len(np.unique(site)) < number + FEWEST_SOURCES:
        return None
    rng = np.random.default_rng([seed, number, *dataset.encode()])
    most = {s: MOST_TARGET_ROWS if s in drawn else MOST_SOURCE_ROWS for s in np.unique(site)}
    of_sites = [rng.permutation(np.flatnonzero(site == s))[:m] for s, m in most.items()]
    kept = np.sort(np.concatenate(of_sites))
    rows = pd.DataFrame(X[kept], columns=[f"x{j}" for j in range(X.shape[1])])
    # Names may be numbers, which would be written in another way after reading.
    rows["site"], rows["y"] = [f"site {names[s]}" for s in site[kept]], y[kept]
    return Sites(rows, [f"site {names[s]}" for s in drawn], task)


def search_of(
    problem: ShiftProblem, seed: int, trials: int
) -> tuple[ShiftSearch, dict[str, float]]:
    """Fit the default search; return it with the CPU seconds of the fit and of `targets_`."""
    start = time.process_time()
    search = ShiftSearch("auto", n_trials=trials, random_state=seed, progress=False).fit(problem)
    fitted = time.process_time()
    search.targets_  # noqa: B018 - computed now
    end = time.process_time()
    return search, {"fit": round(fitted - start, 2), "table": round(end - fitted, 2)}


def loss_at(model: Any, rows: pd.DataFrame, problem: ShiftProblem) -> float:
    """Return the mean loss of a model on labelled rows."""
    classes = None if problem.task == "regression" else problem.classes
    return float(
        losses_of(predictions_of(model, rows, classes), rows["y"].to_numpy(), classes).mean()
    )


# ---------------------------------------------------------------- shared trials


def shared(sites: Sites, seed: int, trials: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a row per target, and the CPU seconds of every search."""
    together, cpu = search_of(sites.problem(sites.targets), seed, trials)
    seconds, rows = {"shared": cpu}, []
    if len(sites.targets) == CPU_NUMBER:
        first = sites.targets[0]
        seconds[first] = search_of(sites.problem([first]), seed, trials)[1]
        return rows, seconds
    other, _ = search_of(sites.problem(sites.targets), seed + 1000, trials)
    for i, site in enumerate(sites.targets):
        one, own = together.at(site), sites.of(site)
        low, high = one.risk_.interval(LEVEL)
        row = {
            "target": site,
            "sources": len(one.problem_.sources),
            "rows": len(own),
            "loss": loss_at(one, own, one.problem_),
            "value": one.risk_.value,
            "low": low,
            "high": high,
            "other_seed": loss_at(other, own, other.problem_),
        }
        if i < ALONE:
            alone, seconds[site] = search_of(sites.problem([site]), seed, trials)
            low, high = alone.risk_.interval(LEVEL)
            params = [s.trials_.filter(regex="^(model|param_)") for s in (one, alone)]
            row |= {
                "alone": loss_at(alone, own, alone.problem_),
                "alone_value": alone.risk_.value,
                "alone_low": low,
                "alone_high": high,
                "same_columns": list(one.problem_.columns) == list(alone.problem_.columns),
                "same_trials": params[0].equals(params[1]),
                "same_members": one.members_["weight"].equals(alone.members_["weight"]),
            }
        rows.append(row)
    return rows, seconds


def run_shared(
    out: Path, datasets: Sequence[str], seeds: Iterable[int], trials: int, numbers: Sequence[int]
) -> None:
    """Write the rows of all cells that the files do not have."""
    rows_file, cpu_file = RowFile(out / "shared.csv", *SHARED), RowFile(out / "cpu.csv", *CPU)
    for cell in _cells(datasets, seeds, numbers):
        if (*cell, "shared") in cpu_file or (sites := sites_of(cell[0], cell[2], cell[1])) is None:
            continue
        rows, seconds = shared(sites, cell[1], trials)
        named = dict(zip(CELL, cell, strict=True))
        for row in rows:
            rows_file.add(named | row)
        for search, cpu in reversed(seconds.items()):  # a cell that has "shared" is whole
            cpu_file.add(named | {"search": search} | cpu)
        print(cell, seconds["shared"], flush=True)


# ---------------------------------------------------------------- plans of labels


def equal_shares(most: dict[str, int], budget: int) -> dict[str, int]:
    """Divide labels evenly; what a site cannot take goes to the others.

    >>> equal_shares({"A": 9, "B": 1, "C": 9}, 12)
    {'A': 6, 'B': 1, 'C': 5}
    """
    found = dict.fromkeys(most, 0)
    for _ in range(min(budget, sum(most.values()))):
        site = min((s for s in most if found[s] < most[s]), key=lambda s: found[s])
        found[site] += 1
    return found


def plans(
    sites: Sites, seed: int, draws: int, trials: int, budgets: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Yield a row for every budget and draw of labels."""
    rng = np.random.default_rng([seed, 7])
    hidden: dict[str, np.ndarray] = {}
    known: dict[str, np.ndarray] = {}
    for site in sites.targets:
        rows = rng.permutation(sites.of(site).index)
        known[site], hidden[site] = np.split(rows, [round(KNOWN * len(rows))])
    unseen = np.concatenate(list(hidden.values()))
    seen = sites._replace(rows=sites.rows.drop(index=unseen))
    search = ShiftSearch("auto", n_trials=trials, random_state=seed, progress=False)
    search.fit(seen.problem(sites.targets))
    each = {site: search.at(site) for site in sites.targets}
    scored = {site: sites.rows.loc[rows] for site, rows in hidden.items()}
    before = {s: loss_at(each[s], scored[s], each[s].problem_) for s in each}
    most = {site: len(rows) for site, rows in known.items()}
    for draw in range(draws):
        order = {
            s: np.random.default_rng([seed, draw, i]).permutation(known[s])
            for i, s in enumerate(known)
        }
        losses: dict[tuple[str, int], float] = {(s, 0): before[s] for s in each}

        def summed(labels: dict[str, int], order=order, losses=losses) -> float:
            for site, m in labels.items():
                if (site, m) not in losses:
                    few = sites.rows.loc[order[site][:m]]
                    updated = each[site].update(few, few["y"])
                    losses[site, m] = loss_at(updated, scored[site], each[site].problem_)
            return sum(losses[key] for key in labels.items())

        for budget in budgets:
            plan = search.label_plan(budget)
            labels = plan["labels"].to_dict()
            equal = equal_shares(most, budget)
            worth = [each[s].label_worth(m)["gain"].iloc[-1] if m else 0 for s, m in equal.items()]
            yield {
                "budget": budget,
                "draw": draw,
                "before": sum(before.values()),
                "plan": summed(labels),
                "equal": summed(equal),
                "promised": plan["gain"].sum(),
                "promised_equal": sum(worth),
                "labelled": int((plan["labels"] > 0).sum()),
                "most": int(plan["labels"].max()),
            }


def run_plans(
    out: Path, datasets: Sequence[str], seeds: Iterable[int], trials: int, draws: int
) -> None:
    """Write the rows of all cells that the file does not have: 8 targets, or 3 of few sites."""
    file = RowFile(out / "plans.csv", *PLANS)
    for dataset, seed, _ in _cells(datasets, seeds, (0,)):
        drawn = ((n, sites_of(dataset, n, seed)) for n in reversed(NUMBERS))
        number, sites = next(((n, s) for n, s in drawn if s is not None), (0, None))
        if sites is None or (dataset, seed, number, BUDGETS[-1], draws - 1) in file:
            continue
        for row in plans(sites, seed, draws, trials, BUDGETS):
            file.add(dict(zip(CELL, (dataset, seed, number), strict=True)) | row)
        print(dataset, seed, number, flush=True)


# ---------------------------------------------------------------- scale


def generated(number: int, sources: int, source_rows: int) -> pd.DataFrame:
    """Return a table of sources and of targets of 30 to 90 rows without labels, 6 columns."""
    rng = np.random.default_rng(0)
    sizes = [source_rows] * sources + rng.integers(30, 91, number).tolist()
    names = [f"source {j}" for j in range(sources)] + [f"target {j}" for j in range(number)]
    X = np.repeat(rng.normal(0, 0.5, (len(sizes), 6)), sizes, axis=0) + rng.normal(
        size=(sum(sizes), 6)
    )
    level = np.repeat(rng.normal(0, 0.5, len(sizes)), sizes)
    df = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)]).assign(site=np.repeat(names, sizes))
    df["y"] = X @ rng.normal(size=6) + np.sin(2 * X[:, 0]) + level + rng.normal(size=len(X))
    return df.assign(y=df["y"].where(df["site"].str.startswith("source")))


def scaled(
    out: Path, number: int, sources: int, source_rows: int, trials: int, asked: Sequence[str]
) -> None:
    """Write CPU seconds of every step, and the peak of memory after it in MB."""
    file, df = RowFile(out / "scale.csv", *SCALE), generated(number, sources, source_rows)
    search = ShiftSearch("auto", n_trials=trials, random_state=0, progress=False)
    steps: dict[str, Callable[[Any], Any]] = {
        "problem": lambda _: ShiftProblem.from_frame(
            df, site="site", label="y", target="unlabelled"
        ),
        "fit": search.fit,
        "targets_": lambda _: search.targets_,
        "label_plan": lambda _: search.label_plan(10 * number),
    }
    made: Any = None
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in ("problem", "fit", *asked):
            start = time.process_time()
            made = steps[step](made)
            seconds = round(time.process_time() - start, 2)
            peak = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            row = (number, sources, source_rows, trials, step, seconds, peak)
            file.add(dict(zip([*SCALE[0], *SCALE[1]], row, strict=True)))
            print(row, flush=True)


def run_scale(out: Path, numbers: Sequence[int], others: tuple[Any, ...]) -> None:
    """Measure each number of targets in a new process."""
    spawn = multiprocessing.get_context("spawn")
    for number in numbers:
        process = spawn.Process(target=scaled, args=(out, number, *others))
        process.start()
        process.join()


# ---------------------------------------------------------------- what the files say


def summary(out: Path) -> None:
    """Print the tables of the results page."""
    cpu, shared_rows = pd.read_csv(out / "cpu.csv"), out / "shared.csv"  # with 10 targets CPU alone
    for number, every in (
        pd.read_csv(shared_rows).groupby("targets") if shared_rows.exists() else ()
    ):
        own = every.dropna(subset="alone")
        print(f"\n{number} targets: {len(own)} of {len(every)}, {own['dataset'].nunique()} tables")
        print(own[["same_columns", "same_trials", "same_members"]].mean().to_string())
        for what, some in (("alone", own), ("other_seed", every)):
            percent = 100 * some["loss"] / some[what] - 100
            _print_tables(f"loss against {what}, %", percent, some["dataset"])
        of = {"shared": (own, "loss", ""), "alone": (own, "alone", "alone_")}
        for what, (some, loss, how) in {**of, "shared, all": (every, "loss", "")}.items():
            low, high = some[f"{how}low"], some[f"{how}high"]
            inside = some[loss].between(low, high).astype(float)
            _print_tables(f"covered, {what}", inside, some["dataset"])
            print(f"    half width {((high - low) / 2 / some[loss]).median():.3f}")
    cpu["all"] = cpu["fit"] + cpu["table"]
    for number, own in cpu.groupby("targets"):
        one, several = (
            own[own["search"].eq("shared") == which].groupby("dataset")[["fit", "table", "all"]]
            for which in (False, True)
        )
        per_table, alone = several.mean(), one.mean()
        ratio = per_table["all"] / alone["all"]
        means = per_table.mean().to_dict(), alone.mean().to_dict()
        print(f"\nCPU, {number} targets: {means[0]}, one {means[1]}")
        print(
            f"  sum {ratio_of_means(per_table['all'], alone['all'])}; mean {geometric_mean(ratio)}"
        )
        print(f"  median {ratio.median():.2f}, highest {ratio.max():.2f} ({ratio.idxmax()})")
    if (out / "plans.csv").exists():
        _summary_of_plans(pd.read_csv(out / "plans.csv"))


def _summary_of_plans(rows: pd.DataFrame) -> None:
    for budget, own in rows.groupby("budget"):
        print(f"\nbudget {budget}: {len(own)} draws")
        for how in ("plan", "equal"):
            gained = 100 - 100 * own[how] / own["before"]
            _print_tables(f"{how} gains, % of the loss", gained, own["dataset"])
            promised = own["promised" if how == "plan" else "promised_equal"]
            _print_tables("  promised", 100 * promised / own["before"], own["dataset"])
        percent = 100 * own["plan"] / own["equal"] - 100
        _print_tables("plan against equal, %", percent, own["dataset"])
        print(
            f"  labelled sites {(own['labelled'] / own['targets']).mean():.2f} of all, "
            f"most {(own['most'] / own['budget']).mean():.2f} of the budget"
        )


def _print_tables(what: str, values: pd.Series, dataset: pd.Series) -> None:
    """Print mean over tables with its interval, median and extremes."""
    each = values.groupby(dataset).mean()
    found = mean(each)
    print(
        f"  {what}: {found.value:.3f} ({found.low:.3f} to {found.high:.3f}), median "
        f"{each.median():.3f}, lowest {each.min():.3f} ({each.idxmin()}), highest {each.max():.3f} "
        f"({each.idxmax()}); single {values.min():.2f} to {values.max():.2f}"
    )


def _cells(
    datasets: Sequence[str], seeds: Iterable[int], numbers: Sequence[int]
) -> Iterator[tuple[str, int, int]]:
    """Yield data set, seed and number of targets; the data sets are shuffled."""
    shuffled = np.random.default_rng(0).permutation(list(datasets))
    yield from ((str(name), seed, n) for seed in seeds for name in shuffled for n in numbers)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("shared", "plans", "scale", "summary"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[81])
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--numbers", type=int, nargs="+", help="of targets")
    parser.add_argument("--source-rows", type=int, default=300)
    parser.add_argument("--sources", type=int, default=8)
    parser.add_argument("--steps", nargs="+", default=["targets_", "label_plan"])
    args = parser.parse_args()
    if args.part == "summary":
        return summary(args.out)
    if args.part == "scale":
        others = args.sources, args.source_rows, args.trials, args.steps
        return run_scale(args.out, args.numbers or [10, 100, 1000], others)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        without = {*PAPER, *SLOW}
        datasets = args.datasets or [name for name in real_datasets() if name not in without]
        if args.part == "shared":
            numbers = args.numbers or (*NUMBERS, CPU_NUMBER)
            return run_shared(args.out, datasets, args.seeds, args.trials, numbers)
        return run_plans(args.out, datasets, args.seeds, args.trials, args.draws)


if __name__ == "__main__":
    main()
