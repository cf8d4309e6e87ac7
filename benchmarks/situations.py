"""Situations in which the interval covers, or a check must say that it may not.

    python benchmarks/situations.py [--runs 200] [--only NAME ...] [--jobs 2] [--out FILE]

In every situation sites are drawn, a small search runs with the default estimator, and the loss of
its final model is measured on many new rows of the target. Counted are the 90 % intervals that
cover it, and the verdicts. A situation is in order where the interval covers in at least 85 % of
the runs, or a check has the level "problem" in at least 90 % of them. (The test of p(y|x) is left
out: it takes seconds, and is not a problem for an estimate whose interval includes what it finds.)
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from optuna.distributions import FloatDistribution
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftune import ShiftProblem, ShiftSearch
from shiftune._names import Level
from shiftune.checks import Trust, run_checks, verdict_of
from shiftune.evaluate._losses import loss_named

LEVEL = 0.9
NEW_ROWS = 20_000
COVERS, ALARMED = 0.85, 0.9

Floats = np.ndarray


@dataclass
class Situation:
    """Law of the sites: how x and y of a site are drawn."""

    about: str
    sizes: tuple[int, ...] = (150,) * 8
    columns: int = 5
    apart: float = 0.5  # sd of the sites' means of a column
    intercepts: float = 0.3  # sd of the sites' levels of y
    slopes: float = 0.0  # sd of the sites' slopes
    curve: float = 0.3  # of the squares of the first column
    target_shift: tuple[float, ...] = ()  # further shift of the target's first columns
    target_level: float | None = None  # level of the target's y, if it is not drawn
    noise: Callable[[np.random.Generator, int], Floats] = field(
        default=lambda rng, n: rng.standard_normal(n)
    )
    task: str = "regression"
    prevalence: tuple[float, float] | None = None  # range at the sources
    target_prevalence: float | None = None
    odds: float = -0.5  # level of the log odds
    visits: int = 1  # rows of a patient
    patients: float = 0.0  # sd of the patients' levels of y


NORMAL = Situation("exchangeable sites")
CLASSES = replace(NORMAL, task="classification")
SITUATIONS = {
    "exchangeable": NORMAL,
    "covariate shift only": Situation(
        "p(y|x) the same, target 1 sd away", intercepts=0.0, target_shift=(1.0,)
    ),
    "2.5 sd curved": Situation(
        "target 2.5 sd away, where the loss bends", intercepts=0.0, target_shift=(2.5,)
    ),
    "200 columns": replace(NORMAL, about="200 columns", columns=200),
    "heavy tails": Situation(
        "noise of Student's t, 2.5 degrees of freedom", noise=lambda rng, n: rng.standard_t(2.5, n)
    ),
    "giant site": Situation("one site of 5,000 rows, seven of 60", sizes=(5000,) + (60,) * 7),
    "2 sources": replace(NORMAL, about="2 sources", sizes=(400,) * 2),
    "3 sources": replace(NORMAL, about="3 sources", sizes=(300,) * 3),
    "50 sources": replace(NORMAL, about="50 sources", sizes=(60,) * 50),
    "target unlike all": Situation(
        "target 3 sd away in three columns", target_shift=(3.0, 3.0, 3.0)
    ),
    "random slopes": Situation("slopes differ between sites", slopes=0.4),
    **{
        f"intercepts, {k} sources": Situation(
            "levels differ by 0.7 of the noise", sizes=(150,) * k, intercepts=0.7
        )
        for k in (3, 4, 6, 10)
    },
    **{
        f"slopes, {k} sources": Situation(
            "slopes differ between sites", sizes=(150,) * k, slopes=0.4
        )
        for k in (3, 4, 6, 10)
    },
    "outside, straight": Situation(
        "target 3 sd away, where nothing bends", curve=0.0, target_shift=(3.0,)
    ),
    "patients": Situation("ten rows of every patient", visits=10, patients=1.0),
    "label shift": replace(
        CLASSES,
        about="prevalence .1 to .35, at the target .75",
        prevalence=(0.1, 0.35),
        target_prevalence=0.75,
    ),
    "rare class": replace(CLASSES, about="1.2 % of the rows are positive", odds=-5.0),
}


class Sites:
    """Sites of a situation, drawn once; their rows can be drawn again."""

    def __init__(self, situation: Situation, seed: int) -> None:
        self.law, self.rng = situation, np.random.default_rng(seed)
        k, d = len(situation.sizes) + 1, situation.columns
        self.means = self.rng.normal(0, situation.apart, (k, d))
        far = situation.target_shift
        self.means[0, : len(far)] = far
        self.levels = self.rng.normal(0, situation.intercepts, k)
        if situation.target_level is not None:
            self.levels[0] = situation.target_level
        # Few columns matter, as in most tables.
        slopes = np.zeros(d)
        slopes[:5] = self.rng.normal(0, 0.6, 5)
        self.slopes = slopes + self.rng.normal(0, situation.slopes, (k, d)) * (np.arange(d) < 5)
        self.prevalence = None
        if situation.prevalence is not None and situation.target_prevalence is not None:
            self.prevalence = self.rng.uniform(*situation.prevalence, k)
            self.prevalence[0] = situation.target_prevalence

    def rows(self, site: int, n: int) -> tuple[Floats, Floats, Floats]:
        """Draw n rows of a site: columns, labels, patients."""
        law, rng = self.law, self.rng
        patients = -(-n // law.visits)
        who = np.repeat(np.arange(patients), law.visits)[:n]
        # Visits of a patient are alike.
        X = rng.standard_normal((patients, law.columns))[who]
        if law.visits > 1:
            X = 0.9 * X + 0.44 * rng.standard_normal((n, law.columns))
        if self.prevalence is not None:  # p(x|y) is the same everywhere
            y = rng.random(n) < self.prevalence[site]
            X = X + 0.8 * np.outer(y - 0.5, np.arange(law.columns) < 3)
            return X, y.astype(int), who
        X = X + self.means[site]
        signal = self.levels[site] + X @ self.slopes[site] + law.curve * X[:, 0] ** 2
        if law.task == "classification":
            odds = law.odds + signal
            return X, (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int), who
        own = rng.normal(0, law.patients, patients)[who] if law.patients else 0.0
        return X, signal + own + law.noise(rng, n), who

    def problem(self, rows: int | None = None) -> ShiftProblem:
        """Sources with labels, and rows of the target: as many as the median source has."""
        frames = []
        for j, n in enumerate(self.law.sizes, start=1):
            X, y, who = self.rows(j, n)
            frames.append(self._frame(X, f"s{j}", who).assign(y=y))
        X, _, who = self.rows(0, rows or int(np.median(self.law.sizes)))
        frames.append(self._frame(X, "target", who).assign(y=np.nan))
        group = "patient" if self.law.visits > 1 else None
        return ShiftProblem.from_frame(
            pd.concat(frames, ignore_index=True),
            site="site",
            target="target",
            label="y",
            **({"subject": group} if group else {}),
        )

    def _frame(self, X: Floats, site: str, who: Floats) -> pd.DataFrame:
        frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]).assign(site=site)
        patients = [f"{site}-{i}" for i in who]  # no patient is at two sites
        return frame.assign(patient=patients) if self.law.visits > 1 else frame


def search_of(law: Situation, problem: ShiftProblem, seed: int) -> ShiftSearch:
    """Search of a linear model's penalty, six trials."""
    if law.task == "classification":
        model, name = LogisticRegression(max_iter=300), "logisticregression__C"
    else:
        model, name = Ridge(), "ridge__alpha"
    space = {name: FloatDistribution(1e-2, 1e3, log=True)}
    search = ShiftSearch(
        make_pipeline(StandardScaler(), model), space, n_trials=6, random_state=seed, progress=False
    )
    return search.fit(problem)


def run(name: str, seed: int) -> dict:
    """Draw one problem of a situation; return what the search said, and the truth."""
    warnings.simplefilter("ignore")
    law = SITUATIONS[name]
    sites = Sites(law, seed)
    search = search_of(law, sites.problem(), seed)
    rows, y, _ = sites.rows(0, NEW_ROWS)
    X = pd.DataFrame(rows, columns=[f"x{i}" for i in range(rows.shape[1])])
    if law.task == "classification":
        losses = loss_named("log_loss")(y, search.predict_proba(X), search.classes_)
    else:
        losses = loss_named("squared")(y, search.predict(X))
    truth = float(losses.mean())
    low, high = search.risk_.interval(LEVEL)
    checks = run_checks(search.result_)
    return {
        "situation": name,
        "seed": seed,
        "truth": truth,
        "value": search.risk_.value,
        "low": low,
        "high": high,
        "covered": low <= truth <= high,
        "trust": verdict_of(checks).trust.value,
        "problems": ", ".join(c.name for c in checks if c.level is Level.PROBLEM),
        "cautions": ", ".join(c.name for c in checks if c.level is Level.CAUTION),
    }


def page(table: pd.DataFrame) -> str:
    """Return the result as Markdown."""
    lines = [
        f"{table['seed'].nunique()} runs each, seeds {table['seed'].min()} to "
        f"{table['seed'].max()}; nominal {LEVEL:.0%} intervals.",
        "",
        "| situation | covered | too low | median estimate / truth | width / truth | do not use | "
        "with care | in order |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, own in table.groupby("situation", sort=False):
        covered = own["covered"].mean()
        refused = (own["trust"] == Trust.DO_NOT_USE.value).mean()
        care = (own["trust"] == Trust.WITH_CARE.value).mean()
        error = 1.645 * np.sqrt(covered * (1 - covered) / len(own))
        fine = covered >= COVERS or refused >= ALARMED
        lines.append(
            f"| {name} | {covered:.2f} ± {error:.2f} | {(own['truth'] > own['high']).mean():.2f} | "
            f"{(own['value'] / own['truth']).median():.2f} | "
            f"{((own['high'] - own['low']) / own['truth']).median():.2f} | {refused:.2f} | "
            f"{care:.2f} | {'yes' if fine else '**no**'} |"
        )
    lines += ["", "Problems and cautions by name, as shares of the runs:", ""]
    for name, own in table.groupby("situation", sort=False):
        words = []
        for column in ("problems", "cautions"):
            found = Counter(n for names in own[column] for n in names.split(", ") if n)
            words += [f"{n} ({column[:-1]}) {c / len(own):.2f}" for n, c in found.most_common(6)]
        lines.append(f"- {name}: {'; '.join(words) or 'none'}")
    return "\n".join(lines)


def main() -> None:
    """Run the situations."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--only", nargs="*", default=list(SITUATIONS), choices=list(SITUATIONS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.runs)
    rows = []
    for name in arguments.only:
        rows += Parallel(n_jobs=arguments.jobs)(delayed(run)(name, seed) for seed in seeds)
        print(name, flush=True)
        if arguments.out:
            pd.DataFrame(rows).to_csv(arguments.out, index=False)
    print(page(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
