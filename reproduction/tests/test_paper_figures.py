from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from reproduction import tables
from reproduction.markdown import METHODS
from reproduction.published import PRINTED
from reproduction.settings import SETTINGS as ALL_SETTINGS

from shiftune.errors import ProblemError

matplotlib = pytest.importorskip("matplotlib")

from reproduction import figures  # noqa: E402
from reproduction.drawing import GREY  # noqa: E402

SETTINGS = tuple(ALL_SETTINGS)


@pytest.fixture
def toy(rng):
    index = pd.MultiIndex.from_product(
        [SETTINGS, METHODS, [1.0, 2.0, 5.0], range(6)],
        names=["setting", "method", "c", "seed"],
    )
    runs = index.to_frame(index=False).assign(experiment="toy")
    runs["score"] = 0.7 + runs["c"] * rng.uniform(0, 0.2, len(runs))
    return runs


@pytest.fixture
def real(rng):
    index = pd.MultiIndex.from_product(
        [SETTINGS, METHODS, range(5)], names=["setting", "method", "seed"]
    )
    runs = index.to_frame(index=False).assign(experiment="gvhd", c=np.nan)
    runs["score"] = rng.lognormal(-3, 1, len(runs))
    return runs


def drawn(container):
    """x, y and half lengths of the bars of an errorbar."""
    line, _, (bars,) = container.lines
    x, y = np.array(line.get_xdata(), dtype=float), np.array(line.get_ydata(), dtype=float)
    ends = np.array([segment[1] - segment[0] for segment in bars.get_segments()], dtype=float)
    return x, y, ends.max(axis=1) / 2


def labelled(ax):
    return {container.get_label(): container for container in ax.containers}


def test_over_c_draws_means_and_standard_errors(toy):
    ax = figures.over_c(toy, "guarded").axes[0]
    means = tables.summary(toy).loc["guarded"]
    containers = labelled(ax)
    assert set(containers) == set(METHODS.values())
    for method, name in METHODS.items():
        x, y, bars = drawn(containers[name])
        np.testing.assert_allclose(x, [1, 2, 5], atol=0.13)
        np.testing.assert_allclose(y, means.loc[method, "mean"])
        np.testing.assert_allclose(bars, means.loc[method, "stderr"])
    oracle = containers["oracle"].lines[0]
    assert (oracle.get_linestyle(), oracle.get_color()) == ("--", GREY)
    assert ax.get_yscale() == "linear"
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "2", "5"]


def test_the_legend_follows_the_lines_and_covers_no_data(toy):
    from matplotlib.colors import to_hex

    figure = figures.over_c(toy, "as-published")
    ax = figure.axes[0]
    last = tables.summary(toy).loc["as-published"].xs(5.0, level="c")["mean"]
    names = [METHODS[m] for m in last.sort_values(ascending=False).index]
    legend = ax.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == names
    colours = {name: c.lines[0].get_color() for name, c in labelled(ax).items()}
    shown = [to_hex(handle.get_color()[0]) for handle in legend.legend_handles]
    assert shown == [colours[name] for name in names]
    figure.canvas.draw()
    assert legend.get_window_extent().x0 >= ax.get_window_extent().x1


def test_over_c_is_logarithmic_where_wide(toy):
    toy.loc[toy["method"] == "li", "score"] *= 20
    assert figures.over_c(toy, "guarded").axes[0].get_yscale() == "log"


def test_ratio_over_c(toy):
    ax = figures.ratio_over_c(toy).axes[0]
    ratios = tables.ratio_of_means(toy, "unbiased", "variance_reduced")
    containers = labelled(ax)
    assert tuple(containers) == SETTINGS
    for setting, container in containers.items():
        _, y, bars = drawn(container)
        np.testing.assert_allclose(y, ratios.loc[setting, "ratio"])
        np.testing.assert_allclose(bars, ratios.loc[setting, "stderr"])
    assert [1, 1] in [list(line.get_ydata()) for line in ax.lines]


def test_by_method(real):
    ax = figures.by_method(real).axes[0]
    means = tables.summary(real)
    containers = labelled(ax)
    assert list(containers) == [*SETTINGS, "paper (printed)"]
    for setting in SETTINGS:
        x, y, bars = drawn(containers[setting])
        np.testing.assert_allclose(x, means.loc[setting, "mean"])
        np.testing.assert_allclose(bars, means.loc[setting, "stderr"])
        np.testing.assert_array_equal(np.round(y), range(6))  # each in its method's place
    x, y, bars = drawn(containers["paper (printed)"])
    np.testing.assert_allclose(x, [mean for mean, _ in PRINTED["gvhd"].values()])
    np.testing.assert_allclose(bars, [stderr for _, stderr in PRINTED["gvhd"].values()])
    assert containers["paper (printed)"].lines[0].get_marker() == "D"
    assert [text.get_text() for text in ax.get_yticklabels()] == list(METHODS.values())
    assert ax.yaxis_inverted()  # so that the paper's first method is on top
    assert ax.get_xscale() == "log"


def test_by_method_draws_every_seed_in_its_row(real):
    ax = figures.by_method(real).axes[0]
    faint = [line for line in ax.lines if line.get_alpha() == 0.25]
    for setting, line in zip(SETTINGS, faint, strict=True):
        runs = real[real["setting"] == setting]
        np.testing.assert_allclose(line.get_xdata(), runs["score"])
        places = [list(METHODS)[i] for i in np.round(line.get_ydata()).astype(int)]
        assert places == runs["method"].tolist()


def test_by_method_with_some_methods_only(real):
    some = real[real["method"].isin(["oracle", "naive"]) & (real["setting"] == "guarded")]
    some = some.assign(score=0.02)
    some = pd.concat([some, some[some["method"] == "naive"].assign(method="balanced")])
    ax = figures.by_method(some).axes[0]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["naive", "oracle", "balanced"]
    assert drawn(labelled(ax)["paper (printed)"])[0].tolist() == [0.02121, 0.01584]
    assert ax.get_xscale() == "linear"


def test_one_run_has_no_bar(real):
    one = real[(real["seed"] == 0) & (real["setting"] == "guarded")]
    figure = figures.by_method(one)
    figure.canvas.draw()
    assert len(labelled(figure.axes[0])["guarded"].lines[0].get_xdata()) == 6


def test_runs_that_do_not_fit(toy, real):
    for draw in (figures.ratio_over_c, lambda runs: figures.over_c(runs, "guarded")):
        with pytest.raises(ProblemError, match="use by_method"):
            draw(real)
    with pytest.raises(ProblemError, match="use over_c"):
        figures.by_method(toy)
    with pytest.raises(ProblemError, match="'unguarded'; there are"):
        figures.over_c(toy, "unguarded")


def test_svg_is_the_same_byte_for_byte(toy, real, tmp_path):
    for i, draw in enumerate(
        [lambda: figures.over_c(toy, "guarded"), lambda: figures.by_method(real)]
    ):
        first, second = (figures.save(draw(), tmp_path / f"{i}" / name) for name in "ab")
        assert first == [tmp_path / f"{i}" / "a.png", tmp_path / f"{i}" / "a.svg"]
        for one, other in zip(first, second, strict=True):
            assert one.read_bytes() == other.read_bytes()
        assert b"dc:date" not in first[1].read_bytes()


def test_png_has_200_dots_per_inch(toy, tmp_path):
    from matplotlib.image import imread

    figure = figures.ratio_over_c(toy)
    width, height = figure.get_size_inches()
    png, _ = figures.save(figure, str(tmp_path / "b.c"))
    assert png.name == "b.c.png"
    assert imread(png).shape[:2] == (round(200 * height), round(200 * width))


def test_nothing_of_matplotlib_is_changed_and_no_figure_stays(toy, real, tmp_path):
    from matplotlib import pyplot as plt

    before, open_before = dict(matplotlib.rcParams), plt.get_fignums()
    figures.over_c(toy, "guarded")
    figures.save(figures.ratio_over_c(toy), tmp_path / "a")
    figures.save(figures.by_method(real), tmp_path / "b")
    assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == open_before
    theirs = plt.figure()
    figures.save(theirs, tmp_path / "c")
    assert plt.get_fignums() == open_before


@pytest.mark.slow
def test_headless_and_lazy(tmp_path):
    """Importing does not bring Matplotlib; drawing needs no screen."""
    code = (
        "import sys, pandas as pd\n"
        "from reproduction import figures\n"
        "assert 'matplotlib' not in sys.modules\n"
        "runs = pd.DataFrame({'experiment': 'toy', 'setting': 'guarded', 'method': 'naive',\n"
        "                     'c': [1.0, 2.0], 'seed': 0, 'score': [1.0, 2.0]})\n"
        f"print(*figures.save(figures.over_c(runs, 'guarded'), {str(tmp_path / 'a')!r}))\n"
    )
    screen = ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND")
    clean = {name: value for name, value in os.environ.items() if name not in screen}
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=clean)
    assert (tmp_path / "a.svg").stat().st_size > 1000
