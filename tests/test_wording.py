"""Numbers, names and lists in words; errors that suggest a spelling; versions and formats."""

from __future__ import annotations

import pytest

from shiftune import _wording as wording
from shiftune._names import complete
from shiftune._provenance import check_format, check_same, made_with, versions_in_words
from shiftune.errors import SettingsError, StorageError


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.0123456, 3, "0.0123"),
        (12345.6, 3, "12,346"),
        (50, 3, "50"),
        (True, 3, "True"),
        ("auto", 3, "auto"),
        (3e-7, 3, "3e-07"),
        (4771514749.0, 3, "4.77 billion"),
        (686576730.0, 2, "687 million"),
        (999.96, 3, "1000"),  # not 1e+03
    ],
)
def test_numbers(value, digits, text):
    assert wording.number(value, digits) == text


def test_units():
    assert wording.scaled(4.77e9) == (1e9, "billion")
    assert wording.scaled(1200.0) == (1.0, "")


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ((0.24671, 0.20742, 0.28600), ["0.247", "0.207", "0.286"]),
        ((12345.6, 11002.2, 14009.9), ["12,346", "11,002", "14,010"]),
        ((4771514749, 4.1e9, 5.4e9), ["4.8 billion", "4.1 billion", "5.4 billion"]),
        ((4.536e17, 2.894e17, 6.524e17), ["4.54e+17", "2.89e+17", "6.52e+17"]),
    ],
)
def test_an_estimate_has_as_many_decimals_as_its_interval_deserves(values, texts):
    assert wording.figures(*values) == texts


def test_figures_beside_an_interval():
    assert wording.written_like(0.44, (0.20742, 0.28600)) == "0.440"
    assert wording.written_like(-0.0004, (-0.0004, 0.026)) == "0.000"
    assert wording.with_interval(0.24671, (0.20742, 0.28600)) == "0.247 (0.207 to 0.286)"
    assert wording.with_interval(0.21, (0.0, 30.0)) == "0.2 (0 to 30)"
    assert wording.with_interval(4771514749, (4.1e9, 5.4e9)) == "4.8 billion (4.1 to 5.4)"


def test_sites_beside_what_cannot_be_estimated_have_their_own_decimals():
    figure = {"value": 0.2, "low": 0.0, "high": 30.0, "estimable": False, "note": ""}
    figure |= {"constant": 0.166, "constant_is": "constant", "lowest": 0.04, "highest": 0.62}
    figure |= {"lowest_site": "C", "highest_site": "D"}
    value, interval, beside = wording.figure_in_words(figure)
    assert (value, interval) == ("?", wording.NOT_ESTIMABLE)
    assert beside == "constant 0.17; sites 0.04 (C) to 0.62 (D)"


def test_columns_that_matter_most():
    columns = [
        {"column": "age", "importance": 0.051, "low": 0.001, "high": 0.1},
        {"column": "ward", "importance": 0.02, "low": None, "high": None},  # one source
        {"column": "sex", "importance": None, "low": None, "high": None},  # not done in time
    ]
    assert wording.most_important(columns) == "age 0.051 (0.001 to 0.100), ward 0.02 (? to ?)"


def test_names_of_losses_and_metrics():
    losses = ["squared", "log_loss", "zero_one"]
    expected = ["squared error", "log loss", "error rate"]
    assert [wording.loss_in_words(name) for name in losses] == expected
    metrics = ["auc", "o_e", "sensitivity@0.2"]
    expected = ["AUC", "O:E", "sensitivity at 0.2"]
    assert [wording.metric_in_words(name) for name in metrics] == expected


def test_shares_and_counts():
    assert [wording.percent(x) for x in (0.217, 0.004, 0)] == ["22 %", "less than 1 %", "0 %"]
    assert [wording.count(n, "row") for n in (1, 12345)] == ["1 row", "12,345 rows"]


def test_lists_of_names():
    assert wording.listed(["B", "C"]) == "'B' and 'C'"
    assert wording.listed("BCDEFG", 3) == "'B', 'C', 'D' and 3 more"
    assert wording.listed(["B (80)"], quoted=False) == "B (80)"


def test_long_names_are_cut_in_the_middle():
    assert wording.shortened("creatinine_at_admission_first_value") == "creatinine_at_…rst_value"


def test_characters_that_control_a_terminal_are_shown_as_codes():
    assert wording.printable("ward \x1b[31mred\u202e") == r"ward \x1b[31mred\u202e"


def test_parameters_without_the_steps_of_the_pipeline():
    short = {"svc__C": "C", "pca__tol": "pca__tol", "svc__tol": "svc__tol"}
    assert wording.short_names(["svc__C", "pca__tol", "svc__tol"]) == short


def test_the_nearest_spelling():
    assert wording.alike("gama", ["alpha", "gamma"]) == ["gamma"]
    assert wording.alike("WARD", ["ward", "age"]) == ["ward"]
    assert wording.alike("x", ["age"]) == []
    losses = ["squared", "absolute"]
    assert wording.hint("squred", losses) == "did you mean 'squared'?"
    assert wording.hint("x", losses) == "choose from 'squared' and 'absolute'"


def test_a_choice():
    assert wording.check_choice("ridge", ["ridge", "svm"], "model") == "ridge"
    message = r"^there is no model 'rigde'; did you mean 'ridge'\?$"
    with pytest.raises(SettingsError, match=message):
        wording.check_choice("rigde", ["ridge", "svm"], "model")
    with pytest.raises(SettingsError, match=r"did you mean 7 \(int, not text\)\?$"):
        wording.check_choice("7", [7, 8], "site")


def test_names_that_are_given_twice():
    wording.check_different(["ridge", "svm"], "model")
    message = "^the model 'ridge' is given twice; name each model once$"
    with pytest.raises(SettingsError, match=message):
        wording.check_different(["ridge", "svm", "ridge"], "model")


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ("squared", "squared"),
        ("neg_mean_absolute_error", "absolute"),
        ("rmse", "squared"),
    ],
)
def test_losses_by_the_names_of_other_libraries(given, ours):
    assert wording.loss_name(given) == ours


@pytest.mark.parametrize(
    ("metric", "instead"),
    [("r2", "squared"), ("auc", "log_loss"), ("roc_auc", "log_loss"), ("f1", "log_loss")],
)
def test_metrics_that_cannot_be_tuned(metric, instead):
    message = rf"^{metric} cannot be tuned.* use loss='{instead}'.* \(--metric {metric}\)$"
    with pytest.raises(SettingsError, match=message):
        wording.loss_name(metric)


def test_how_to_install():
    command = "pip install '.[parquet]' in a clone of shiftune"
    assert wording.how_to_install("parquet") == command


def test_tables_of_names_are_complete():
    assert list(complete(("a", "b"), {"b": 2, "a": 1}).items()) == [("a", 1), ("b", 2)]
    with pytest.raises(ValueError, match=r"names \['a', 'b'\] are in the list or in the table"):
        complete(("a",), {"b": 2})


def test_what_made_a_result():
    made = made_with()
    assert sorted(made) == ["code", "versions"]
    assert versions_in_words() == versions_in_words(made["versions"])
    versions = {"python": "3.11.9", "numpy": "1.26.4"}
    assert versions_in_words(versions) == "python 3.11.9, numpy 1.26.4"


def test_formats_of_other_versions():
    check_format(1, 1, "run")
    newer = (
        r"^run was written by a newer shiftune \(format 2; this version reads 1\): "
        "upgrade shiftune, or choose another place$"
    )
    with pytest.raises(StorageError, match=newer):
        check_format(2, 1, "run")
    with pytest.raises(StorageError, match=r"damaged or was written by an older .*\(format None;"):
        check_format(None, 1, "run")


def test_settings_that_differ():
    earlier, now = {"seed": 0, "drop": []}, {"seed": 1, "drop": ["age"]}
    check_same(earlier, dict(earlier), "run", "change --out")
    message = (
        r"^run holds results of other settings \(seed: 0, now 1; drop: none, now 'age'\); "
        "change --out$"
    )
    with pytest.raises(StorageError, match=message):
        check_same(earlier, now, "run", "change --out")
    with pytest.raises(StorageError, match=r"\(other seed\); change"):
        check_same({"seed": 0}, {"seed": 1}, "run", "change --out", hidden=["seed"])
