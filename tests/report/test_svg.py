"""Figures drawn as SVG: marks where the axes say, ticks that are read, text that is text."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("plotly")
from shiftune.report import figures
from shiftune.report._svg import _Axis, _element, _plain_text, _round_ticks, picture
from shiftune.report.figures import canvas, name_rows
from shiftune.risk import estimate

SVG = "{http://www.w3.org/2000/svg}"


def drawn(figure, width: int = 600) -> ET.Element:
    text = picture(figure, width, 'a "chart"')
    return ET.fromstring(text.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1))


def words(root: ET.Element) -> list[str]:
    return [each.text for each in root.iter(f"{SVG}text")]


def tips(root: ET.Element) -> list[str]:
    return [each.get("data-tip") for each in root.iter() if each.get("data-tip")]


def test_elements_and_texts_are_escaped():
    circle = '<circle r="2.5" fill="red" data-tip="a &quot;b&quot;"/>'
    assert _element("circle", r=2.50001, fill="red", data_tip='a "b"') == circle
    assert _plain_text("<b>&lt;i&gt;</b><br>2 rows") == "<i>\n2 rows"


def test_places_on_an_axis():
    assert _Axis(0.0, 2.0, 100.0, 300.0, False, ()).at([0, 1, 2]).tolist() == [100, 200, 300]


def test_ticks_are_round():
    tenths = [(0.1, "0.1"), (0.2, "0.2"), (0.3, "0.3"), (0.4, "0.4")]
    assert _round_ticks(0.07, 0.43, 5, None) == tenths
    billions = [(0.0, "0"), (2e9, "2 billion"), (4e9, "4 billion")]
    assert _round_ticks(0, 5.2e9, 3, None) == billions


def test_points_lie_where_the_ticks_say():
    figure = canvas(200)
    figure.add_scatter(
        x=[0, 5, 10], y=[1, 2, 3], mode="markers", marker={"size": 6, "color": "red"}
    )
    root = drawn(figure)
    places = [float(each.get("cx")) for each in root.iter(f"{SVG}circle")]
    ticks = {each.text: float(each.get("x")) for each in root.iter(f"{SVG}text")}
    np.testing.assert_allclose(places, [ticks["0"], (ticks["0"] + ticks["10"]) / 2, ticks["10"]])
    assert root.get("role") == "img"
    assert root.get("aria-label") == 'a "chart"'


@pytest.mark.parametrize("value", [12.0, 3e17, 0.0])
def test_points_that_are_all_the_same(value):
    figure = canvas(200)
    figure.add_scatter(x=[value, value], y=[1, 2], mode="markers", marker={"size": 6})
    (x, other) = [float(each.get("cx")) for each in drawn(figure).iter(f"{SVG}circle")]
    assert x == other
    assert len(words(drawn(figure))) >= 4


@pytest.mark.parametrize("width", [820, 350])
def test_names_are_cut_where_there_is_no_room(width):
    figure = canvas(120)
    figure.add_bar(x=[0.5], y=[0], orientation="h", marker={"color": "blue"})
    name_rows(figure, ["<i>a name that goes on"])
    (name,) = [word for word in words(drawn(figure, width)) if word.startswith("<i>")]
    assert ("…" in name) == (width == 350) or len(name) == 22


def test_every_kind_of_figure(rng):
    losses = [rng.exponential(size=300) for _ in range(3)]
    wild = np.where(np.arange(300) < 4, 250.0, 5.0)
    risk = estimate(losses, [np.ones(300), np.ones(300), wild], names=["B", "<C>", "wild"])
    forest = drawn(figures.forest(risk))
    assert {"used", "left out", "<C>", "all sources"} <= set(words(forest))
    assert any(tip.startswith("wild\n") for tip in tips(forest))
    trials = pd.DataFrame(
        {
            "risk": [0.3, 5.0, np.nan],
            "low": [0.2, 4.0, np.nan],
            "high": [0.4, 6.0, np.nan],
            "tied_with_best": [True, False, False],
            "state": ["COMPLETE", "COMPLETE", "FAIL"],
        }
    )
    history = drawn(figures.history(trials, chosen=0))
    assert {"estimated target risk", "trial", "failed", "0.5", "chosen"} <= set(words(history))
    assert "nan" not in picture(figures.history(trials, chosen=0), 600, "")
    shifts = pd.DataFrame({"B": [0.5, 0.1], "C": [0.2, 0.0]}, index=["age", "sex"])
    assert ".50" in words(drawn(figures.shifts(shifts)))
    curve = pd.DataFrame(
        {"observed": [0.1, 0.5], "low": [0.0, 0.3], "high": [0.2, 0.6]},
        index=pd.Index([0.1, 0.4], name="predicted"),
    )
    assert "ideal" in words(drawn(figures.calibration(curve, {"B": curve})))
    assert "age: 60 %" in tips(drawn(figures.importances({"age": 0.6, "sex": 0.4})))
