"""Tables that are legal and odd: they work, or the error names what to do."""

from __future__ import annotations

import datetime as dt
import warnings
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from shiftune import ShiftProblem, ShiftSearch, spaces
from shiftune.checks._label_shift import label_shift
from shiftune.errors import DataError, ProblemError, SearchWarning


def sites(n: int = 20) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=4 * n)
    return pd.DataFrame(
        {
            "site": np.repeat(list("ABCD"), n),
            "x": x,
            "z": rng.normal(size=4 * n),
            "y": x + rng.normal(size=4 * n),
        }
    )


def problem_of(df: pd.DataFrame, **options) -> ShiftProblem:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ShiftProblem.from_frame(df, site="site", label="y", target="A", **options)


@pytest.mark.parametrize(
    "columns",
    [
        {"x": 1.0, "z": 2.0},
        {"x": 2**60 + np.arange(80), "z": 1.0},  # equal as floats
    ],
    ids=["constant", "beyond 2^53"],
)
@pytest.mark.parametrize("ratio", ["logistic", "ulsif"])
def test_columns_without_differences(columns, ratio):
    """Nothing distinguishes the rows, so every source covers the target."""
    problem = problem_of(sites().assign(**columns), columns="as given")
    found = problem.diagnose(ratio)
    assert (found["uncovered"] == 0).all()
    np.testing.assert_allclose(found["mean_weight"], 1, atol=0.01)


@pytest.mark.parametrize(
    "names", [{"x": True}, {"x": True, "z": False}, {"x": 1}, {"x": 7, "z": 3}]
)
def test_columns_with_names_that_are_no_text(names):
    df = sites()
    new = df.rename(columns=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, found = (
            ShiftSearch("linear", n_trials=1).fit(problem_of(each)) for each in (df, new)
        )
    assert found.risk_.value == pytest.approx(expected.risk_.value)
    rows = new.drop(columns=["site", "y"])
    np.testing.assert_allclose(found.predict(rows), expected.predict(df[["x", "z"]]))


def test_an_index_of_mixed_types():
    search = ShiftSearch(Ridge(), spaces.ridge(), n_trials=1).fit(problem_of(sites()))
    X, y = sites()[["x", "z"]][:3], sites()["y"][:3]
    X.index = pd.Index([None, "a", 1], dtype=object)
    with pytest.raises(ProblemError, match="same index in another order"):
        search.update(X, y.set_axis(pd.Index([1, None, "a"], dtype=object)))
    assert search.update(X, y.set_axis(X.index)).labels_ == 3


@pytest.mark.parametrize("rows", ["ABCDEBCDE", "AABBCCDDE", "AAAAABCDE", "ABBBCCDDE"])
@pytest.mark.parametrize("risk", ["adjusted", "naive", "variance_reduced"])
def test_nine_rows_in_five_sites(rows, risk):
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"site": list(rows), "x": rng.normal(size=9), "y": rng.normal(size=9)})
    search = ShiftSearch(Ridge(), spaces.ridge(), n_trials=1, risk=risk)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(ProblemError):
            assert search.fit(problem_of(df, target_labels="use")).checks()


def test_labels_of_one_unusable_kind():
    dates = [dt.date(2024, 1, 1)] * 80
    with pytest.raises(ProblemError, match="holds values of type date; labels are numbers"):
        problem_of(sites().assign(y=pd.Series(dates, dtype=object)))
    mixed = [1.5, "a"] * 40
    with pytest.raises(ProblemError, match="mixes float and str"):
        problem_of(sites().assign(y=pd.Series(mixed, dtype=object)))


@pytest.mark.parametrize(
    ("df", "options", "why"),
    [
        (sites(4).drop(columns="z"), {"risk": "naive"}, "no source has more than one row"),
        (
            sites().assign(x=np.sign(sites()["x"]), y=np.where(sites()["x"] > 0, "a", "b")),
            {"loss": "zero_one"},
            "are all 0",
        ),
    ],
)
def test_an_interval_without_width_is_explained(df, options, why):
    model = "logistic" if options.get("loss") else "ridge"
    with pytest.warns(SearchWarning, match=f"the interval has no width.*{why}"):
        ShiftSearch(model, n_trials=1, **options).fit(problem_of(df))


def test_no_rows_to_predict():
    df = sites()
    search = ShiftSearch("linear", n_trials=1).fit(problem_of(df))
    assert search.predict(df[["x", "z"]][:0]).shape == (0,)
    classes = ShiftSearch("logistic", n_trials=1).fit(
        problem_of(df.assign(y=np.where(df["y"] > 0, "a", "b")))
    )
    assert classes.predict(df[["x", "z"]][:0]).shape == (0,)
    assert classes.predict_proba(df[["x", "z"]][:0]).shape == (0, 2)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.Series([b"\xff", b"a"] * 40), "column 'x' holds values of type bytes"),
        (pd.Series([b"\xff", "a"] * 40), "column 'x' holds values of type bytes"),
        (pd.Series([b"\xff", b"a"] * 40, dtype="category"), "holds values of type bytes"),
        (pd.Series([1e200, 1.0] * 40), "values of up to 1e[+]200, too large to compute with"),
        (pd.Series([1e200, 1.0] * 40, dtype="Float64"), "values of up to 1e[+]200"),
    ],
)
def test_columns_that_no_model_can_read(column, message):
    with pytest.raises(DataError, match=f"site 'A': .*{message}"):
        problem_of(sites().assign(x=column))


def test_arrays_with_numbers_that_cannot_be_squared():
    X = np.array([[1.0, 2.0], [3.0, -1e200]] * 4)
    with pytest.raises(DataError, match=r"site 'target': column 1 has values of up to 1e[+]200"):
        ShiftProblem.from_arrays(X, np.arange(8.0), list("BBBBCCCC"), X)


def test_names_that_numpy_cuts():
    """An array of text has no null characters at the ends: two sites would become one."""
    df = sites().replace({"site": {"B": "C\0"}})
    with pytest.raises(DataError, match=r"the site name 'C\\x00' ends with a null character"):
        problem_of(df)


def test_a_report_of_metrics_without_an_estimate(tmp_path):
    """One row judges: no metric of the target can be estimated, and the report says why."""
    pytest.importorskip("matplotlib")
    df = sites(4).query("site in ['A', 'B']").assign(y=[0, 1] * 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = ShiftSearch("logistic", n_trials=1).fit(problem_of(df))
        assert search.metrics_["estimate"].isna().any()
        page = search.report(tmp_path / "report.html").read_text()
    assert '<td class="n"><b>?</b></td>' in page


def test_classes_of_rows_that_are_all_the_same():
    """Their frequencies at the target are those of the sources."""
    df = sites().assign(x=1.0, z=2.0, y=lambda df: (df["y"] > 0).astype(int))
    problem = problem_of(df, columns="as given")
    found = label_shift(problem.sources, problem.target.X)
    assert found.expected == pytest.approx(found.mixed, abs=0.01)


def test_booleans_as_quantities():
    """They are 0 and 1, since booleans cannot be subtracted."""
    problem = problem_of(sites().assign(y=lambda df: df["y"] > 0), task="regression")
    assert problem.sources[0].labels.dtype == float
    search = ShiftSearch("linear", n_trials=1).fit(problem)
    assert search.metrics_["estimate"].notna().all()
    assert len(search.update(problem.target.X[:3], [True, False, True]).predict(problem.target.X))


@pytest.mark.skipif(pd.__version__ < "3", reason="pandas 2 keeps such integers as text")
@pytest.mark.filterwarnings("ignore::shiftune.errors.DataWarning")
def test_integers_beyond_floats():
    large = np.array([2, 1, 1, 10**400, 3], dtype=object)
    rows = {"site": list("ABBBB"), "y": [None, 0.5, 1, 2, 3.5], "a": large}
    with pytest.raises(DataError, match="column 'a' has 1 infinite value"):
        ShiftProblem.from_frame(pd.DataFrame(rows), site="site", label="y", target="A")
