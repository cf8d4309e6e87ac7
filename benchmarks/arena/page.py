"""The arena's report in Markdown, with its pictures; every figure in it is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pictures
import tables
from criteria import GUARDED, LEAST_COVERED, MOST_FITS, criteria, text
from matplotlib.figure import Figure
from regret import CAP, CELL, DRAWS, LEVEL, NAIVE, PUBLISHED, ratio_of_means
from reproduction.figures import save
from reproduction.markdown import pipe_table
from results import read

# With fewer there are hardly others to choose by.
FEWEST_DATASETS = 3
KINDS = {"real": "Real tables", "generated": "Generated problems"}


def write_report(folder: Path, out: Path, default: str = "adjusted") -> None:
    """Write the report, and its pictures beside it in a folder of its name.

    Parameters
    ----------
    folder
        Has scores.csv, and any of labels.csv, training.csv and ratios.csv.
    out
        The report, such as benchmarks/results/arena.md.
    default
        The estimator that is held against the demands on a default.
    """
    scores = read(folder, "scores")
    if scores is None:
        raise FileNotFoundError(f"{folder} has no scores.csv; run the arena's evaluation first")
    missing = {NAIVE, default} - set(scores["estimator"])
    if missing:
        raise ValueError(f"{folder / 'scores.csv'} has no rows of {sorted(missing)}")
    labels, training, ratios = (read(folder, name) for name in ("labels", "training", "ratios"))
    place = out.with_suffix("")
    parts = [_head(scores), _demands(scores, labels, default)]
    parts += [
        "\n\n".join(_compared(rows, kind, family, default, place))
        for kind in KINDS
        for family, rows in scores[scores["kind"] == kind].groupby("family", sort=False)
    ]
    parts += [_coverage(scores, default, place)]
    parts += [_leave_one_out(scores, default), _generated(scores, default)]
    parts += [_part(labels, "labels", lambda frame: _few_labels(frame, default, place))]
    parts += [_part(training, "training", _training)]
    parts += [_part(ratios, "ratios", lambda frame: _ratios(frame, scores))]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n\n".join(part.strip() for part in parts if part) + "\n", encoding="utf-8")


def _head(scores: pd.DataFrame) -> str:
    cells = scores.drop_duplicates(CELL)
    of = ["kind", "family"]
    sizes = pd.DataFrame(
        {
            "data sets": cells.groupby(of, sort=False)["dataset"].nunique(),
            "targets": cells.drop_duplicates([*of, "dataset", "target"]).groupby(of).size(),
            "seeds": cells.groupby(of)["seed"].nunique(),
            "cells": cells.groupby(of).size(),
        }
    )
    return f"""
# The arena

Which estimator chooses best for a target whose labels are hidden. A cell is one data set, target,
family of models and seed.

{pipe_table(sizes)}

*Regret*: (true target loss of the chosen configuration - best of the pool) / (median of the pool -
best), at most {CAP:g}; averaged over the cells of a data set, then over data sets. *Relative*: the
ratio of two such means, on the cells that both have; in brackets its {100 * LEVEL:g} %
interval, by {DRAWS} bootstrap draws of data sets, the same for both. *Risk error*: median of
|estimate - true loss| / true loss. *Rank*: mean Spearman correlation of true losses and what
configurations are chosen by, over a pool. *Covered*: share of the nominal 90 % intervals with the
true loss in them; *half-width* of these: median, relative to the true loss. *Worst data set*: where
the chosen configurations' mean true loss lies highest above that of naive's choices, in percent of
the latter (and as a loss).
"""


def _demands(scores: pd.DataFrame, labels: pd.DataFrame | None, default: str) -> str:
    found = list(criteria(scores, labels, default))
    words = {True: "met", False: "not met", None: "reported"}
    table = pd.DataFrame(
        {
            "measured": [one.measured for one in found],
            "": [words[one.met] for one in found],
        },
        pd.Index([one.demand for one in found], name="asked of a default"),
    )
    return f"## Is *{default}* fit to be the default?\n\n{pipe_table(table)}"


def _compared(
    scores: pd.DataFrame, kind: str, family: str, default: str, place: Path
) -> Iterator[str]:
    """Yield the parts on one kind and family."""
    table = tables.overall(scores)
    yield f"## {KINDS[kind]}, {family}"
    main = kind == "real" and family == "trees"
    if main:
        yield _picture(pictures.forest(table, default), place, "regret")
    yield pipe_table(_written(table))
    names = _main_estimators(table, default)
    by_dataset = tables.per_dataset(scores, names)
    yield "Regret per data set:"
    yield pipe_table(_rounded(by_dataset, 2))
    if main and PUBLISHED in names and default in names:
        yield _picture(pictures.datasets(by_dataset, default), place, "datasets")
    seeds = tables.per_seed(scores)
    if seeds.shape[1] > 1:
        yield "Regret relative to naive, of single seeds:"
        spread = {"lowest": seeds.min(axis=1), "highest": seeds.max(axis=1)}
        yield pipe_table(_rounded(seeds.rename(columns="seed {}".format).assign(**spread), 2))


def _written(table: pd.DataFrame) -> pd.DataFrame:
    """Return the overall table as text."""
    worst = [
        f"{row['worst']} {row['worst_percent']:+.1f} % ({row['worst_loss']:+.3f})"
        if name != NAIVE
        else ""
        for name, row in table.iterrows()
    ]
    return pd.DataFrame(
        {
            "group": table["group"],
            "extra fits": table["fits"],
            "data sets": table["datasets"],
            "regret": table["regret"].map("{:.2f}".format),
            "relative to naive": _texts(table, "relative", "low", "high"),
            f"to {PUBLISHED}": _texts(table, "published", "published_low", "published_high"),
            "risk error": _percent(table["risk_error"]),
            "rank": table["rank"].map("{:.2f}".format),
            "covered": _percent(table["coverage"]),
            "half-width": _percent(table["half_width"]),
            "worst data set": worst,
        }
    )


def _main_estimators(table: pd.DataFrame, default: str) -> list[str]:
    """Naive, VR as published, the default, and the lowest regret of every other group."""
    main = [name for name in (NAIVE, PUBLISHED, default) if name in table.index]
    others = table[~table["group"].isin(table.loc[main, "group"])]
    everywhere = others[others["cells"] == table["cells"].max()]
    return main + [str(name) for name in everywhere.groupby("group", sort=False)["regret"].idxmin()]


def _coverage(scores: pd.DataFrame, default: str, place: Path) -> str:
    found = {}
    for kind in KINDS:
        table = tables.coverage(scores[scores["kind"] == kind])
        if len(table):
            found[kind] = table
    if not found:
        return ""
    drawn = _picture(pictures.intervals(found, LEVEL, LEAST_COVERED, default), place, "coverage")
    both = pd.DataFrame({kind: _texts(table) for kind, table in found.items()})
    text = "Share of the nominal 90 % intervals that cover, all families; mean over data sets."
    order = [name for name in dict.fromkeys(scores["estimator"]) if name in both.index]
    return f"## Intervals\n\n{text}\n\n{pipe_table(both.loc[order].fillna(''))}\n\n{drawn}"


def _leave_one_out(scores: pd.DataFrame, default: str) -> str:
    real = scores[scores["kind"] == "real"]
    rows, shown = {}, ""
    for family, own in real.groupby("family", sort=False):
        if own["dataset"].nunique() < FEWEST_DATASETS:
            continue
        each = own.groupby("estimator", sort=False)[["group", "fits"]].first()
        group = scores.loc[scores["estimator"] == default, "group"].iloc[0]
        lists = {
            f"all, at most {MOST_FITS} extra fits": each["fits"] <= MOST_FITS,
            "all without extra fits": each["fits"] == 0,
            f"group {group}": each["group"] == group,
        }
        for what, kept in lists.items():
            table = tables.leave_one_out(own, list(each.index[kept]))
            times = table["chosen"].value_counts()
            rows[family, what] = {
                "relative to naive": text(ratio_of_means(table["regret"], table[NAIVE])),
                "chosen (times)": ", ".join(f"{name} ({count})" for name, count in times.items()),
            }
            shown = shown or f"{family}, {what}:\n\n{pipe_table(_rounded(table, 2))}"
    if not rows:
        return ""
    index = pd.MultiIndex.from_tuples(rows, names=["family", "of which"])
    return f"""
## Leave one data set out

For each data set, the estimator of a list that has the lowest mean regret on all others is used on
this one; its regret there, over all data sets.

{pipe_table(pd.DataFrame(list(rows.values()), index))}

{shown}
"""


def _generated(scores: pd.DataFrame, default: str) -> str:
    own = scores[scores["kind"] == "generated"]
    if own.empty:
        return ""
    losses = tables.true_losses(own, list(dict.fromkeys(own["estimator"])))
    losses.columns = [" ".join(key) for key in losses.columns]
    parts = [
        "## Generated problems: true losses and the oracle",
        "Mean true loss of the chosen configuration; the oracle takes the best of the pool.",
        pipe_table(_rounded(losses, 3)),
    ]
    there = set(own["estimator"])
    for to in (name for name in (PUBLISHED, GUARDED) if {name, default} <= there):
        gaps = tables.gap_closed(own, default, to)
        table = pd.DataFrame(
            {
                "cells": gaps["cells"],
                "oracle": gaps["oracle"].map("{:.3f}".format),
                to: gaps["to"].map("{:.3f}".format),
                default: gaps["loss"].map("{:.3f}".format),
                "difference": _texts(gaps, "above", "above_low", "above_high", digits=3),
                "gap closed": _texts(gaps, "closed", "low", "high"),
            }
        )
        parts += [
            f"How much of the gap of {to} to the oracle *{default}* closes (intervals over draws):",
            pipe_table(table),
        ]
    return "\n\n".join(parts)


def _few_labels(labels: pd.DataFrame, default: str, place: Path) -> str:
    parts = ["## Few labelled target rows"]
    parts.append(
        "Regret relative to naive by number of labelled target rows, scored on the others; mean "
        "over draws of the labelled rows."
    )
    for kind, family, own in _kinds(labels):
        table = tables.few_labels(own)
        parts += [f"{KINDS[kind]}, {family}:", pipe_table(_across(_texts(table), "labels"))]
        if kind == "real" and family == "trees":
            parts.append(_picture(pictures.labels(table, default), place, "labels"))
    return "\n\n".join(parts)


def _training(training: pd.DataFrame) -> str:
    parts = ["## Training weights"]
    parts.append(
        "True target loss relative to models trained without weights: of the chosen configuration, "
        "and of the best of the pool. Geometric mean over data sets of the ratios of mean losses."
    )
    for kind, family, own in _kinds(training):
        by_dataset = tables.training_weights(own)
        overall = tables.over_training_weights(by_dataset)
        parts += [
            f"{KINDS[kind]}, {family}:",
            pipe_table(_across(_texts(overall, digits=3), "of")),
            pipe_table(_rounded(_across(by_dataset["chosen"], "weights", "chosen_by"), 3)),
        ]
    return "\n\n".join(parts)


def _ratios(ratios: pd.DataFrame, scores: pd.DataFrame) -> str:
    parts = [
        "## Density ratios",
        "Regret relative to naive, by the ratio that estimators are given.",
    ]
    for kind, family, own in _kinds(ratios):
        same = scores[(scores["kind"] == kind) & (scores["family"] == family)]
        if NAIVE not in set(same["estimator"]):
            continue
        table = _across(_texts(tables.by_ratio(own, same)), "ratio")
        parts += [f"{KINDS[kind]}, {family}:", pipe_table(table)]
    return "\n\n".join(parts)


def _part(frame: pd.DataFrame | None, name: str, section: Callable[[pd.DataFrame], str]) -> str:
    return f"There is no {name}.csv, so this section is empty." if frame is None else section(frame)


def _kinds(frame: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    for kind in KINDS:
        for family, own in frame[frame["kind"] == kind].groupby("family", sort=False):
            yield kind, str(family), own


def _texts(
    table: pd.DataFrame,
    value: str = "value",
    low: str = "low",
    high: str = "high",
    digits: int = 2,
) -> pd.Series:
    texts = [
        f"{v:.{digits}f} ({a:.{digits}f} to {b:.{digits}f})" if np.isfinite(v) else ""
        for v, a, b in table[[value, low, high]].to_numpy()
    ]
    return pd.Series(texts, table.index, name=value)


def _percent(values: pd.Series) -> pd.Series:
    return values.map(lambda value: "" if np.isnan(value) else f"{100 * value:.0f} %")


def _rounded(table: pd.DataFrame, digits: int) -> pd.DataFrame:
    return table.apply(
        lambda column: (
            column.map(lambda v: "" if np.isnan(v) else f"{v:.{digits}f}")
            if column.dtype.kind == "f"
            else column
        )
    )


def _across(cells: pd.Series, *levels: str) -> pd.DataFrame:
    """Lay levels of the index out as columns."""
    table = cells.unstack(list(levels), sort=False)  # noqa: PD010 - pivoting would sort the rows
    if table.columns.nlevels > 1:
        table.columns = [", ".join(map(str, key)) for key in table.columns]
    return table if table.dtypes.eq(float).all() else table.fillna("")


def _picture(figure: Figure, place: Path, name: str) -> str:
    save(figure, place / name, kinds=["svg"])
    return f"![{name}]({place.name}/{name}.svg)"
