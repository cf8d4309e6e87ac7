from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from reproduction import markdown, published, tables
from scipy.stats import ttest_rel

from shiftune.errors import ProblemError

# The rows of the paper's table, as they stand in its LaTeX source.
PAPER = r"""
LI && \std{0.41507}{0.1669} && \std{0.19695}{0.0468} \\
DistBO && \std{1.54202}{0.1006} && \std{0.33015}{0.0600} \\
Naive && \std{1.10334}{0.0908}  && \std{0.02121}{0.0052} \\
Unbiased && \std{1.08283}{0.1981} && \std{0.02141}{0.0052} \\
Variance reduced (ours) && \best{\std{0.40455}{0.1755}} && \best{\std{0.01791}{0.0039}} \\ \midrule
Oracle (reference) && \std{0.06862}{0.0011} && \std{0.01584}{0.0043} \\ \bottomrule
"""


def frame(experiment="gvhd", **columns):
    return pd.DataFrame({"experiment": experiment, "setting": "guarded", "c": np.nan} | columns)


@pytest.fixture
def toy(rng):
    """30 seeds of three methods in two settings at c = 1, ..., 5, in no order."""
    keys = [("as-described", "guarded"), ("unbiased", "oracle", "variance_reduced"), range(1, 6)]
    index = pd.MultiIndex.from_product([*keys, range(30)], names=["setting", "method", "c", "seed"])
    runs = index.to_frame(index=False).assign(experiment="toy")
    runs["c"] = runs["c"].astype(float)
    slope = runs["method"].map({"unbiased": 0.2, "oracle": 0.0, "variance_reduced": 0.02})
    runs["score"] = 0.7 + slope * runs["c"] + rng.exponential(0.1, len(runs))
    return runs.sample(frac=1, random_state=0)


def of(runs, setting, method, c, value="score"):
    chosen = runs[(runs["setting"] == setting) & (runs["method"] == method) & (runs["c"] == c)]
    return chosen.sort_values("seed")[value].to_numpy()


def test_printed_values_are_those_of_the_paper():
    numbers = [
        [float(x) for x in re.findall(r"\{(\d\.\d+)\}", line)] for line in PAPER.split("\n")[1:-1]
    ]
    for method, (p, p_err, g, g_err) in zip(markdown.METHODS, numbers, strict=True):
        assert published.PRINTED["parkinson"][method] == (p, p_err)
        assert published.PRINTED["gvhd"][method] == (g, g_err)
    assert set(published.PRINTED) == {"parkinson", "gvhd"}


def test_values_of_the_released_code():
    assert published.RELEASED["parkinson"]["variance_reduced"] == (0.498, 0.37)
    assert published.RELEASED["gvhd"]["unbiased"] == (0.0143, None)
    assert published.RELEASED["toy"]["variance_reduced"] == (0.766, 0.764, 0.766, 0.845, 0.843)
    assert {len(row) for row in published.RELEASED["toy"].values()} == {5}


def test_summary_by_hand():
    runs = frame(
        setting=["guarded"] * 4 + ["as-published"],
        method=["unbiased", "unbiased", "unbiased", "li", "naive"],
        seed=[0, 1, 2, 0, 0],
        score=[1.0, 2.0, 6.0, 4.0, 5.0],
    )
    got = tables.summary(runs)
    assert got.index.tolist() == [
        ("as-published", "naive"),
        ("guarded", "li"),
        ("guarded", "unbiased"),
    ]
    assert got["n"].tolist() == [1, 1, 3]
    assert got["mean"].tolist() == [5, 4, 3]
    assert got["median"].tolist() == [5, 4, 2]
    # deviations -2, -1, 3: variance 14 / 2, over 3 runs
    np.testing.assert_allclose(got["stderr"], [np.nan, np.nan, np.sqrt(7 / 3)])


def test_summary_of_the_toy_problem(toy):
    before = toy.copy()
    got = tables.summary(toy)
    pd.testing.assert_frame_equal(toy, before)
    assert got.index.names == ["setting", "method", "c"]
    assert list(got.index.unique("setting")) == ["as-described", "guarded"]
    assert list(got.index.unique("method")) == ["unbiased", "variance_reduced", "oracle"]
    values = of(toy, "guarded", "oracle", 3)
    row = got.loc[("guarded", "oracle", 3.0)]
    assert row.tolist() == pytest.approx(
        [30, values.mean(), values.std(ddof=1) / np.sqrt(30), np.median(values)]
    )


def test_runs_without_a_score_count_nowhere():
    runs = frame(method="naive", seed=[0, 1, 2], score=[1.0, np.nan, 3.0])
    assert tables.summary(runs)[["n", "mean"]].iloc[0].tolist() == [2, 2]


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_paired_is_students_interval(toy, level):
    got = tables.paired(toy, "variance_reduced", "unbiased", level=level)
    assert len(got) == 10
    for (setting, c), row in got.iterrows():
        than = of(toy, setting, "unbiased", c)
        better = of(toy, setting, "variance_reduced", c)
        interval = ttest_rel(than, better).confidence_interval(level)
        assert row["n"] == 30
        assert row["mean"] == pytest.approx((than - better).mean())
        assert row["stderr"] == pytest.approx((than - better).std(ddof=1) / np.sqrt(30))
        assert [row["low"], row["high"]] == pytest.approx([interval.low, interval.high])
        assert row["wins"] == (better < than).mean()
        assert row["clear"] == (interval.low > 0)
    assert got.loc[("guarded", 5.0), "clear"]
    turned = tables.paired(toy, "unbiased", "variance_reduced", level=level)
    np.testing.assert_allclose(turned["low"], -got["high"])
    assert not turned.loc[("guarded", 5.0), "clear"]


def test_paired_uses_the_common_seeds_only():
    runs = frame(
        method=["naive"] * 4 + ["unbiased"] * 4,
        seed=[0, 1, 2, 3, 4, 3, 2, 1],
        score=[100.0, 2.0, 3.0, np.nan, 100.0, 0.0, 3.0, 1.0],
    )
    row = tables.paired(runs, "unbiased", "naive").loc["guarded"]
    # seeds 1 and 2: 2 - 1 and 3 - 3; a tie is no win
    assert row[["n", "mean", "wins"]].tolist() == [2, 0.5, 0.5]


@pytest.mark.parametrize(("seeds", "n"), [([0, 1], 1), ([2, 3], 0)])
def test_no_interval_from_fewer_than_two_seeds(seeds, n):
    runs = frame(method=["naive"] * 2 + ["unbiased"] * 2, seed=[0, 5, *seeds], score=[2, 2, 1, 1.0])
    row = tables.paired(runs, "unbiased", "naive").loc["guarded"]
    assert row["n"] == n
    assert row[["stderr", "low", "high"]].isna().all()
    assert not row["clear"]


def test_paired_says_which_methods_there_are():
    runs = frame(method=["naive", "oracle"], seed=0, score=1.0)
    with pytest.raises(ProblemError, match=r"no run has method 'li'; there are .*naive"):
        tables.paired(runs, "li", "naive")


def test_paired_settings(toy):
    got = tables.paired_settings(toy, "unbiased", "guarded", "as-described")
    assert got.index.tolist() == [("unbiased", float(c)) for c in range(1, 6)]
    for (_, c), row in got.iterrows():
        interval = ttest_rel(
            of(toy, "as-described", "unbiased", c), of(toy, "guarded", "unbiased", c)
        ).confidence_interval()
        assert [row["low"], row["high"]] == pytest.approx([interval.low, interval.high])


def test_trend_is_the_mean_of_the_seeds_slopes(toy):
    toy = toy[~((toy["seed"] == 7) & (toy["c"] == 2) & (toy["method"] == "unbiased"))]
    got = tables.trend(toy, "variance_reduced", "unbiased")
    for setting, row in got.iterrows():
        kept = toy[(toy["setting"] == setting) & (toy["seed"] != 7)]
        d = [
            of(kept, setting, "unbiased", c) - of(kept, setting, "variance_reduced", c)
            for c in range(1, 6)
        ]
        slopes = np.polyfit(range(1, 6), d, 1)[0]
        interval = ttest_rel(slopes, np.zeros(29)).confidence_interval()
        assert row["n"] == 29
        assert row["slope"] == pytest.approx(slopes.mean())
        assert row["stderr"] == pytest.approx(slopes.std(ddof=1) / np.sqrt(29))
        assert [row["low"], row["high"]] == pytest.approx([interval.low, interval.high])
    assert got["clear"].all()
    assert not tables.trend(toy, "unbiased", "variance_reduced")["clear"].any()


def test_trend_needs_several_c(toy):
    row = tables.trend(toy[toy["c"] == 1], "variance_reduced", "unbiased").loc["guarded"]
    assert row["n"] == 0
    assert not row["clear"]
    with pytest.raises(ProblemError, match="toy problem"):
        tables.trend(frame(method=["naive", "li"], seed=0, score=1.0), "li", "naive")


def test_ratio_of_means_against_the_bootstrap(toy, rng):
    row = tables.ratio_of_means(toy, "unbiased", "variance_reduced").loc[("guarded", 4.0)]
    a, b = of(toy, "guarded", "unbiased", 4), of(toy, "guarded", "variance_reduced", 4)
    assert row["ratio"] == pytest.approx(a.mean() / b.mean())
    drawn = rng.integers(0, 30, (4000, 30))
    bootstrap = (a[drawn].mean(1) / b[drawn].mean(1)).std() * np.sqrt(30 / 29)
    assert row["stderr"] == pytest.approx(bootstrap, rel=0.06)  # Monte Carlo error 1 %, curvature


def test_ratio_of_means_pairs_the_seeds():
    runs = frame(
        method=["naive"] * 3 + ["li"] * 3, seed=[0, 1, 2, 0, 1, 9], score=[2, 4, 99, 1, 2, 99.0]
    )
    assert tables.ratio_of_means(runs, "naive", "li").loc["guarded"].tolist() == [2, 2, 0]


def test_collapse():
    runs = frame(
        setting=["guarded"] * 3 + ["as-published"] * 4,
        method=["variance_reduced"] * 6 + ["unbiased"],
        seed=[0, 1, 2, 0, 1, 2, 0],
        score=2.0,
        estimate=[2.0, 3.0, 1.0, 2e-8, 4e-8, 1.0, 7.0],
        top_share=[0.5, 0.6, 0.995, 1.0, 1.0, 0.7, np.nan],
        top_mean_weight=[1.0, 0.9, 1.1, 1e-20, 1e-7, 1.0, np.nan],
    )
    got = tables.collapse(runs)
    assert list(got.index) == ["as-published", "guarded"]
    assert got.loc["guarded"].tolist() == pytest.approx([3, 0.6, 1, 1 / 3, 0, 1])
    assert got.loc["as-published"].tolist() == pytest.approx([3, 1, 1e-7, 2 / 3, 2 / 3, 2e-8])


def test_markdown_of_a_table():
    runs = frame(
        setting=["guarded"] * 6 + ["as-published"],
        method=[*np.repeat(["naive", "variance_reduced", "oracle"], 2), "naive"],
        seed=[0, 1, 0, 1, 0, 1, 0],
        score=[0.03, 0.01, 0.015, 0.017, 0.001, 0.001, 1234.0],
    )
    assert markdown.markdown(runs).split("\n") == [
        "| method           | as-published (1 run) | guarded (2 runs)       "
        "| paper (printed)      | released code, run by us (10 runs) |",
        "| ---------------- | -------------------- | ---------------------- "
        "| -------------------- | ---------------------------------- |",
        "| LI               |                      |                        "
        "| 0.19695 ± 0.0468     |                                    |",
        "| DistBO           |                      |                        "
        "| 0.33015 ± 0.06       |                                    |",
        "| naive            | **1234**             | 0.02000 ± 0.01000      "
        "| 0.02121 ± 0.0052     | **0.0143 ± 0.0033**                |",
        "| unbiased         |                      |                        "
        "| 0.02141 ± 0.0052     | **0.0143**                         |",
        "| variance reduced |                      | **0.01600 ± 0.001000** "
        "| **0.01791 ± 0.0039** | 0.0208 ± 0.0062                    |",
        "| oracle           |                      | 0.001000 ± 0.000       "
        "| 0.01584 ± 0.0043     | 0.0137                             |",
    ]


def test_markdown_of_the_toy_problem(toy):
    parts = markdown.markdown(toy).split("\n\n")
    assert parts[::2] == [
        "**as-described** (30 runs)",
        "**guarded** (30 runs)",
        "**released code, run by us** (30 runs)",
    ]
    guarded = parts[3].split("\n")
    header = [name.strip() for name in guarded[0].strip("|").split("|")]
    assert header == ["method", "c = 1", "c = 2", "c = 3", "c = 4", "c = 5"]
    assert [line.split(" | ")[0] for line in guarded[2:]] == [
        "| unbiased        ",
        "| variance reduced",
        "| oracle          ",
    ]
    mean = of(toy, "guarded", "variance_reduced", 5).mean()
    assert f"**{mean:#.4g} ± " in guarded[3]
    assert "**" not in guarded[4]
    assert parts[5].split("\n")[3].split(" | ")[1].strip() == "**0.762**"
    assert "released" not in markdown.markdown(toy.assign(true_risk=1.0), "true_risk")


def test_pipe_table_writes_any_frame(toy):
    lines = markdown.pipe_table(tables.paired(toy, "oracle", "unbiased")).split("\n")
    assert lines[0].startswith("| setting      | c | n  | mean")
    assert lines[2].startswith("| as-described | 1 | 30 | 0.")
    assert lines[2].endswith(" yes   |")
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize(
    "table",
    [tables.summary, tables.collapse, markdown.markdown, lambda r: tables.paired(r, "a", "b")],
)
def test_one_experiment_and_every_run_once(table):
    runs = frame(method="variance_reduced", seed=[0, 1], score=1.0, experiment=["toy", "gvhd"])
    with pytest.raises(ProblemError, match=r"one experiment, got \['toy', 'gvhd'\]"):
        table(runs)
    with pytest.raises(ProblemError, match=r"1 runs of gvhd .*'seed': 3"):
        table(frame(method="variance_reduced", seed=[3, 3], score=1.0))
    with pytest.raises(ProblemError, match=r"got \[\]"):
        table(runs.iloc[:0])
