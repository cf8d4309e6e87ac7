"""The document of a result: its values, its sentences, and that four templates show all of it."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from fnmatch import fnmatch
from functools import cache
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
from optuna.distributions import FloatDistribution
from rich.console import Console
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor

from shiftune import ShiftProblem, ShiftSearch, _wording
from shiftune._names import Level
from shiftune._wording import NOT_ESTIMABLE
from shiftune.checks import Check, _of_result
from shiftune.checks._of_result import beside_metrics, is_informative
from shiftune.cli._screen import show_result
from shiftune.metrics._new_site import MetricTables
from shiftune.report import _summary
from shiftune.report._charts import expected
from shiftune.report._page import _in_markdown
from shiftune.report._summary import sentence, summary, template

FINE = Check("overlap", Level.OK, "Fine.", "Nothing to do.", {})
CAREFUL = Check("few", Level.CAUTION, "Few sites.", "Add sites, or try risk='unbiased'.", {})
BAD = Check("skill", Level.PROBLEM, "Bad.", "Stop.", {})


@pytest.fixture(scope="module")
def result(hostile_search):
    return hostile_search.result_


class TestValues:
    def test_figures_and_what_they_are_compared_with(self, hostile_search, result):
        document = hostile_search.summary()
        assert json.loads(json.dumps(document, allow_nan=False)) == document
        rmse, r2, loss = document["figures"]
        assert (rmse["title"], r2["title"], loss["title"]) == ("RMSE", "R2", "squared error")
        assert (loss["value"], loss["low"], loss["high"]) == (
            result.risk.value,
            *result.risk.interval(),
        )
        assert rmse["meaning"] == "typical error, in units of cost"
        assert rmse["constant"] == pytest.approx(loss["constant"] ** 0.5)
        (skill,) = (c for c in document["checks"] if c["name"] == "better than a constant")
        assert (
            loss["constant"] == document["comparisons"][1]["value"] == skill["figures"]["constant"]
        )
        names = [row["name"] for row in document["comparisons"]]
        assert names == ["this model", "constant learned at the sources", "default parameters"]
        assert document["title"] == f"cost at {result.target}"
        assert sum(site["share"] for site in document["sites"]) == pytest.approx(1)
        assert {column["name"] for column in document["columns"]} == set(result.problem.columns)

    def test_the_most_serious_step_is_first(self, result):
        document = summary(result, [FINE, CAREFUL, BAD])
        assert document["verdict"] == {"trust": "do not use", "level": "problem", "reason": "Bad."}
        assert [step["about"] for step in document["next_steps"]] == ["skill", "few", "labels"]
        assert [check["name"] for check in document["checks"]] == ["skill", "few", "overlap"]

    def test_advice_names_the_tool_of_the_reader(self, result):
        step = summary(result, [CAREFUL])["next_steps"][0]
        assert step["advice"] == "Add sites, or try risk='unbiased'."
        step = summary(result, [CAREFUL], settings={"command": "shiftune tune"})["next_steps"][0]
        assert step["advice"] == "Add sites, or try --risk unbiased."
        words = "Look. search.plot_sources() shows which; or give more time (trial_timeout)."
        look = Check("few", Level.CAUTION, "Few sites.", words, {})
        step = summary(result, [look], settings={"command": "shiftune tune"})["next_steps"][0]
        assert step["advice"] == (
            "Look. The report shows which; or give more time (--trial-timeout)."
        )

    def test_metrics_that_were_asked_for_and_are_unknown(self, result):
        row = {"estimate": np.nan, "low": np.nan, "high": np.nan, "note": "one site", "better": ""}
        end = {"estimate": 2.0, "low": 1.0, "high": np.inf, "better": "lower", "note": ""}
        end |= {"lowest": 1.0, "lowest_site": "B", "highest": 3.0, "highest_site": "C"}
        asked = with_settings(result, metrics=["mae", "rmse"])
        table = pd.DataFrame([row, end], index=pd.Index(["mae", "rmse"], name="metric"))
        vars(asked)["metrics"] = MetricTables(table, result.metrics.by_site)
        unknown, open_end, _ = summary(asked, [FINE])["figures"]
        assert (unknown["value"], unknown["note"]) == (None, "one site")
        assert (open_end["value"], open_end["high"], open_end["estimable"]) == (2.0, None, False)

    def test_an_absolute_error_is_what_people_know(self, result):
        asked = with_settings(result, loss=replace(result.loss, name="absolute"))
        figures = summary(asked, [FINE])["figures"]
        assert [figure["name"] for figure in figures] == ["absolute", "rmse", "r2"]
        assert figures[0]["meaning"] == "typical error, in units of cost"


class TestPicture:
    def test_one_axis_has_what_the_figures_and_the_sites_have(self, hostile_search, result):
        document = hostile_search.summary()
        picture, rmse = document["picture"], document["figures"][0]
        rows = {row["kind"]: row for row in picture["rows"]}
        assert list(rows) == ["expected", "sites", "constant", "plain_cv"]
        assert (picture["title"], picture["better"]) == ("RMSE", "lower is better")
        first = rows["expected"]
        assert (first["values"], first["low"], first["high"]) == (
            [rmse["value"]],
            rmse["low"],
            rmse["high"],
        )
        sites = [row["value"] for row in document["site_metrics"] if row["metric"] == "rmse"]
        assert rows["sites"]["values"] == sites
        assert [min(sites), max(sites)] == [rmse["lowest"], rmse["highest"]]
        assert rows["constant"]["values"] == [rmse["constant"]]
        assert rows["plain_cv"]["values"] == [result.plain_cv["rmse"]]
        assert result.plain_cv["rmse"] ** 2 == pytest.approx(result.plain_cv["squared"])
        words = _wording.figure_in_words(rmse)
        assert first["says"] == f"{words[0]} ({words[1]})"

    def test_it_shows_what_can_be_estimated(self, result):
        rmse, r2, loss = summary(result)["figures"]
        assert [each["constant"] is None for each in (rmse, r2, loss)] == [False, True, False]
        for figures, title in (
            ([rmse | {"estimable": False}, r2, loss], "squared error"),
            ([rmse | {"estimable": False}, r2], "RMSE"),
            ([rmse | {"value": None}, r2], "R2"),
        ):
            assert _summary._picture(result, figures)["title"] == title

    def test_plain_cross_validation_knows_the_sites(self):
        """A column gives the site away, and with it the site's level."""
        rng = np.random.default_rng(0)
        site, level = np.repeat(np.arange(7), 40), rng.normal(size=7)
        X = np.column_stack([10.0 * site, rng.normal(size=280)])
        y = level[site] + 0.1 * rng.normal(size=280)
        problem = ShiftProblem.from_arrays(X[40:], y[40:], site[40:], X[:40])
        model = KNeighborsRegressor()
        search = ShiftSearch(model, {"n_neighbors": [5]}, n_trials=1, progress=False).fit(problem)
        found = search.result_.plain_cv["rmse"]
        assert found < 0.2 * search.metrics_["estimate"]["rmse"]
        cv = KFold(4, shuffle=True, random_state=0)
        own = cross_val_predict(model, X[40:], y[40:], cv=cv)
        assert found == pytest.approx(np.sqrt(np.mean((own - y[40:]) ** 2)), rel=0.05)

    def test_a_search_on_rows_of_known_sites_is_plain_already(self, weighted_search):
        assert weighted_search.result_.plain_cv == {}
        kinds = [row["kind"] for row in weighted_search.summary()["picture"]["rows"]]
        assert "plain_cv" not in kinds

    def test_errors_far_apart_have_a_logarithmic_axis(self, result):
        auc = {"constant": 1e6, "constant_is": "chance"}
        figure = summary(result, [FINE])["figures"][1] | {"value": 0.5}  # R2, below 0 at a site
        assert _summary._picture(result, [figure | auc])["scale"] == "linear"
        figure = summary(result, [FINE])["figures"][0] | auc
        assert _summary._picture(result, [figure])["scale"] == "logarithmic"
        share = figure | {"better": "higher"}  # such as accuracy, from 0 to 1
        assert _summary._picture(result, [share])["scale"] == "linear"
        from_0 = figure | {"low": 0.0}  # which has no logarithm
        assert _summary._picture(result, [from_0])["scale"] == "linear"


def with_settings(result, **settings):
    asked = replace(result, settings=replace(result.settings, **settings))
    vars(asked)["default"] = result.default
    return asked


def test_an_adjusted_loss_of_a_constant_below_0_has_no_root():
    """It would be a complex number, which is neither above nor below an interval."""
    problem, loss = SimpleNamespace(task="regression"), SimpleNamespace(name="squared")
    result = SimpleNamespace(problem=problem, loss=loss)
    assert beside_metrics(result, 4.0)["rmse"][0] == 2
    assert "rmse" not in beside_metrics(result, -0.1)


class TestIntervalsThatSayNothing:
    @pytest.mark.parametrize(
        ("scale", "better", "ends", "constant", "squared", "says"),
        [
            ("logit", "higher", (0.0, 1.0), None, False, False),
            ("logit", "higher", (0.45, 0.9), None, False, True),
            ("log", 1.0, (0.0, 24_181.0), None, False, False),
            ("log", 1.0, (0.8, 4.0), None, False, True),
            ("log", "lower", (0.3, 2.5), 0.6, False, False),
            ("log", "lower", (0.3, 1.7), 0.6, False, True),
            ("log", "lower", (0.7, 2.5), 0.6, False, True),  # it is worse than a constant
            ("log", "lower", (0.3, 5.0), 0.6, True, True),
            ("log", "lower", (0.3, np.inf), None, False, False),
            ("log_of_rest", "higher", (-20.0, 0.9), None, True, False),
            ("log_of_rest", "higher", (-20.0, -3.0), None, True, True),
            ("identity", 1.0, (-0.5, 2.5), None, False, False),
            ("identity", 0.0, (-5.0, 2.5), None, False, True),
        ],
    )
    def test_the_rule(self, scale, better, ends, constant, squared, says):
        assert is_informative(scale, better, ends, constant, squared=squared) == says

    @pytest.mark.filterwarnings("ignore")
    def test_a_hopeless_table(self):
        """Three tiny sites that have nothing in common."""
        rng = np.random.default_rng(1)
        site = np.repeat(["A", "B", "C", "D"], [30, 7, 7, 7])
        df = pd.DataFrame(rng.normal(size=(51, 2)), columns=["x", "z"]).assign(site=site)
        effect = df["site"].map({"A": 0, "B": 3, "C": 0, "D": -3})
        df["ill"] = np.where(rng.random(51) < 1 / (1 + np.exp(-effect - df["x"])), "yes", "no")
        df.loc[df["site"] == "A", "ill"] = None
        problem = ShiftProblem.from_frame(df, site="site", label="ill", target="A")
        search = ShiftSearch(LogisticRegression(), {"C": [1.0]}, n_trials=1, progress=False)
        document = search.fit(problem).summary()
        assert document["verdict"]["trust"] == "do not use"
        unknown = [figure for figure in document["figures"] if not figure["estimable"]]
        assert unknown
        assert NOT_ESTIMABLE in document["verdict"]["reason"]
        for name, text in written(document).items():
            assert NOT_ESTIMABLE in text, name
        (brier,) = (metric for metric in document["metrics"] if metric["name"] == "brier")
        assert brier["constant"] < 0.25
        assert brier["estimable"] == (brier["high"] <= 3 * brier["constant"])
        picture = _summary._picture(search.result_, [unknown[0]])
        row = picture["rows"][0]
        assert (row["values"], row["low"], row["says"]) == ([], None, "cannot be estimated")
        (check,) = (c for c in document["checks"] if c["name"] == "interval width")
        assert check["advice"].startswith("Add sites")

    def test_a_loss_without_an_estimate(self, result, monkeypatch):
        """What labels would gain is as unknown; the constant is the same figure in all places."""
        monkeypatch.setattr(_summary, "loss_is_informative", lambda *_: False)
        document = summary(result)
        worth = document["next_steps"][-1]
        assert worth["about"] == "labels"
        assert worth["advice"].endswith(f"how much that lowers the loss {NOT_ESTIMABLE}.")
        loss, (own, constant, default) = document["figures"][-1], document["comparisons"]
        assert not any(each["estimable"] for each in (loss, own, default))
        assert constant["value"] == loss["constant"]
        assert constant["low"] <= constant["value"] <= constant["high"]
        assert _wording.NOT_ESTIMABLE not in _wording.estimate_in_words(constant)

    @pytest.mark.parametrize(
        ("of_loss", "of_metrics", "skill", "level"),
        [
            (True, [], Level.OK, Level.OK),
            (True, ["rmse", "r2"], Level.OK, Level.CAUTION),
            (True, ["rmse", "r2"], Level.CAUTION, Level.PROBLEM),
            (False, ["r2"], Level.OK, Level.CAUTION),
            (False, ["r2"], Level.CAUTION, Level.PROBLEM),
            (False, ["rmse", "r2"], Level.OK, Level.PROBLEM),  # nothing is left
        ],
    )
    def test_how_serious_it_is(self, result, monkeypatch, of_loss, of_metrics, skill, level):
        monkeypatch.setattr(_of_result, "loss_is_informative", lambda *_: of_loss)
        monkeypatch.setattr(_of_result, "uninformative_metrics", lambda *_: of_metrics)
        check = _of_result.width_check(result, Check("skill", skill, "", "", {"constant": 1.0}))
        assert check.level == level
        assert ("no better than a constant" in check.headline) == (
            level is Level.PROBLEM and skill is Level.CAUTION
        )
        if level is not Level.OK:
            assert check.finding.startswith("Uninformative 95 % intervals: ")

    @pytest.mark.filterwarnings("ignore")
    def test_sets_of_all_classes_are_noted(self):
        rng = np.random.default_rng(0)
        X, site = rng.normal(size=(440, 1)), np.repeat(list("ABCDEFGHIJK"), 40)
        y = np.where(rng.random(440) < 0.5, "yes", "no")  # nothing to learn
        problem = ShiftProblem.from_arrays(X[40:], y[40:], site[40:], X[:40])
        search = ShiftSearch(LogisticRegression(), {"C": [1.0]}, n_trials=1, progress=False)
        document = search.fit(problem).summary()
        words = r"Prediction sets .* have all classes in \d+ % of the rows"
        assert re.match(words, document["sets"])
        for name, text in written(document).items():
            assert document["sets"] in text.replace("\\", ""), name


class TestTrials:
    @pytest.mark.filterwarnings("ignore")
    def test_a_search_that_ended_early_is_used_with_care(self, result):
        short = replace(result, settings=replace(result.settings, n_trials=100))
        (check,) = (c for c in short.checks if c.name == "enough trials")
        assert (check.level, check.headline) == ("caution", "only 18 of 100 trials finished")
        assert summary(short)["verdict"]["trust"] == "with care"

    def test_families_without_a_trial(self):
        problem = ShiftProblem.from_arrays(
            np.arange(80.0)[:, None], np.arange(80.0), list("BCDE") * 20, np.arange(20.0)[:, None]
        )
        space = {"alpha": FloatDistribution(0.01, 10, log=True)}
        with pytest.warns(UserWarning, match="had no trial"):
            search = ShiftSearch(
                {"one": (Ridge(), space), "two": (Ridge(solver="svd"), space)},
                n_trials=1,
                progress=False,
            ).fit(problem)
        (check,) = (c for c in search.checks() if c.name == "enough trials")
        assert check.level == "caution"
        assert check.finding == "The model 'two' had no trial: 1 trial for 2 models."
        assert check.headline == "the model 'two' had no trial: 1 trial for 2 models"
        assert check.advice == "Allow more trials or more time, or name fewer models."

    def test_failed_families_are_named_with_their_remedy(self, result):
        trials = [
            optuna.trial.create_trial(
                state=optuna.trial.TrialState.FAIL,
                user_attrs={"model": "", "failure": "OutOfTime: it ran longer than trial_timeout"},
            )
        ]
        study = optuna.create_study()
        study.add_trials(trials * 2)
        check = _of_result.trials_check(replace(result, study=study))
        of = "all its 2 trials failed"
        assert check.headline.endswith(of)
        assert check.headline.startswith("only 2 of 18 trials finished; the model")
        assert check.advice == (
            "Run more trials: better parameters, or a better model, may not have been tried; give "
            "trials more time (trial_timeout), or leave it out."
        )


# ---------------------------------------------------------------- sentences


def test_worth_of_labels():
    worth = pd.DataFrame(
        {"risk": [0.5, 0.4, 0.38], "half_width": [0.2, 0.15, 0.1]}, index=[0, 10, 30]
    )
    assert _summary._worth_in_words(worth, "A") == (
        "Labels of 10 / 30 random rows of A are expected to lower the loss there by about "
        "20 / 24 %, and the width of its 95 % interval by about 25 / 50 %."
    )


def test_labels_that_would_change_nothing():
    worth = pd.DataFrame({"risk": [0.5, 0.49], "half_width": [0.2, 0.2]}, index=[0, 10])
    assert "Labels of up to 10 rows of A would hardly" in _summary._worth_in_words(worth, "A")


def test_effects_of_updates():
    shift = [{"class": None, "scale": "value", "mean": -1.25, "odds": None}]
    text = "predictions of A are lowered by 1.25 on average"
    update = {"labels": 10, "used": True, "shift": shift}
    assert sentence("effect", update, "A") == text
    kept = sentence("effect", update | {"used": False}, "A")
    assert kept == "not used: with 10 labels the estimated loss is higher"
    odds = [{"class": name, "mean": m, "odds": np.exp(m)} for name, m in [("b", 1.0), ("c", -0.5)]]
    assert sentence("effect", update | {"shift": odds[:1]}, "A") == (
        "the predicted odds of 'b' at A are 2.72 times (log odds +1.00) what they were"
    )
    assert sentence("effect", update | {"shift": odds}, "A") == (
        "the predicted odds at A are of 'b' 2.72 times (log odds +1.00) and of 'c' 0.607 times "
        "(log odds -0.50) what they were"
    )


def test_a_value_at_the_end_of_its_range():
    searched = _summary._searched(FloatDistribution(1e-4, 1e3, log=True), 990.0)
    assert searched == "0.0001 to 1000, log; chosen at its end"


# ---------------------------------------------------------------- the four templates


class NoChart:
    """Charts are of the result, not of the document."""

    wide = narrow = ""


@cache
def drawn(picture):
    """Return the picture of the first screen; drawing it for every field would take a minute."""
    return expected({"picture": json.loads(picture)}).wide


def written(document):
    """Return what the four templates make of a document."""
    charts: dict[str, Any] = dict.fromkeys(
        ("forest", "weights", "shifts", "history", "importance"), NoChart()
    )
    chart = drawn(json.dumps(document["picture"]))
    charts["expected"] = SimpleNamespace(wide=chart, narrow=chart)
    more = dict.fromkeys(("written", "style"), "")
    more |= {"updates": []} | {
        "charts": charts,
        "svg": str,
        "nothing_to_do": "Nothing to do.",
    }
    console = Console(width=4000, record=True, file=StringIO())
    show_result(console, document | {"model_file": "model.skops"}, Path("nowhere"))
    return {
        "page": template("report.html.j2").render(document, **more),
        "card": template("model-card.md.j2", finalize=_in_markdown).render(document),
        "notebook": template("notebook.html.j2").render(document, chart=chart),
        "screen": console.export_text(),
    }


# Fields that templates do not show, with the reason; everything else is in all four.
NOT_SHOWN = {
    "for programs: sentences, titles and intervals say the same to readers": [
        "format", "task", "label", "loss", "target_rows", "*.stderr", "*.level", "figures.name",
        "metrics.name", "parameters.name", "checks.figures.*", "checks.headline", "site_metrics.*",
        "labels.worth.*", "labels.updated.*", "labels.obstacle", "sample.*", "risk.*", "params.*",
        "model", "trials.finished", "provenance.fingerprint", "provenance.seed",
        "provenance.versions.*", "figures.better", "metrics.meaning", "classes",
    ],
}  # fmt: skip
DETAILS = {
    "details of sites, columns and trials are the page's": [
        "adjusted", "most_shifted", "metrics.*", "parameters.*", "ensemble_gain.*", "models",
        "trials.*", "columns.*", "provenance.parameters", "members.risk", "sites.evaluated",
        "sites.effective", "sites.mean_weight", "sites.uncovered", "sites.verdict",
    ],
}  # fmt: skip
BRIEF = DETAILS | {
    "what is looked up is in page and card": [
        "checks.*", "comparisons.*", "how_estimated", "assumptions", "provenance.settings.*",
        "members.*", "figures.meaning", "labels.used", "columns.*", "column_importance.shift",
        "column_importance.adjustment*", "column_importance.note",
    ],
}  # fmt: skip
LEFT_OUT = {
    "page": {"rows that judge the model, not all": ["sites.rows"]},
    "card": DETAILS
    | {
        "advice stands beside the checks": ["next_steps.*"],
        "a card has the picture in words": [
            "picture.scale",
            *(f"picture.rows.{each}" for each in ("kind", "values", "low", "high")),
        ],
    },
    "notebook": BRIEF,
    "screen": BRIEF
    | {
        "the screen showed the table before the search": [
            "question",
            "notes",
            "loss_title",
            "sites.*",
        ]
    },
}


def leaves(value, path=""):
    """Yield the path of every value, with its place in the document."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in pairs:
        name = path if isinstance(value, list) else f"{path}.{key}".lstrip(".")
        if isinstance(each, dict | list):
            yield from leaves(each, name)
        elif each is not None:
            yield name, value, key


LEVELS = {"ok": "caution", "caution": "problem", "problem": "ok"}


def other(value):
    if value in LEVELS:
        return LEVELS[value]
    if isinstance(value, bool):
        return not value
    return f"{value}MARK" if isinstance(value, str) else value * 3 + 7


def test_four_templates_show_every_field(hostile_search):
    """A field that is changed changes what a template makes, unless it is listed."""
    document = copy.deepcopy(hostile_search.summary())
    document["parameters"][0]["default"] = "1"
    document["checks"][0]["level"] = "caution"
    document["sites"][-1] |= {"left_out": "why", "verdict": "left out: why"}
    document["figures"].append(document["figures"][0] | {"value": None, "note": "one site"})
    document["metrics"].append(document["metrics"][0] | {"value": None, "note": "one site"})
    before = written(document)
    shown = {name: set() for name in before}
    paths = set()
    for path, place, key in list(leaves(document)):
        paths.add(path)
        if any(fnmatch(path, each) for some in NOT_SHOWN.values() for each in some):
            continue
        kept, place[key] = place[key], other(place[key])
        for name, text in written(document).items():
            if text != before[name]:
                shown[name].add(path)
        place[key] = kept
    for name, listed in LEFT_OUT.items():
        patterns = [each for some in (*NOT_SHOWN.values(), *listed.values()) for each in some]
        missing = {
            path
            for path in paths - shown[name]
            if not any(fnmatch(path, each) for each in patterns)
        }
        assert missing == set(), name


def test_the_documentation_has_every_field(hostile_search):
    """`docs/result.md` names all keys of the document, and no others."""
    text = (Path(__file__).parents[2] / "docs" / "result.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    named = {name for line in rows for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert named == set(hostile_search.summary())
