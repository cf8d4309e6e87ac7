from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from scipy import sparse

from shiftune import ShiftProblem
from shiftune.errors import DataError, DataWarning, ProblemError
from shiftune.problem import pooled
from shiftune.problem._site import as_labels


def read(df: pd.DataFrame, **options) -> ShiftProblem:
    settings = {"site": "hospital", "label": "readmitted", "target": "A"} | options
    return ShiftProblem.from_frame(df, **settings)


class TestWaysIn:
    def test_from_frame(self, hospitals):
        problem = read(hospitals)
        assert problem.names == ["B", "C", "D"]
        assert problem.task == "classification"
        assert problem.classes.tolist() == ["no", "yes"]
        assert list(problem.columns) == ["age", "ward", "drug", "smoker", "admitted", "visits"]
        assert problem.target.y is None
        assert len(problem.target) == 60
        # Every row can be traced back to the user's table.
        for site in problem.sources:
            assert (hospitals["hospital"].iloc[site.rows] == site.name).all()
            own = hospitals.iloc[site.rows].reset_index(drop=True)
            plain = ["age", "ward", "drug", "smoker", "visits"]
            assert_frame_equal(site.X[plain].reset_index(drop=True), own[plain], check_dtype=False)
            assert (site.X["admitted_month"].to_numpy() == own["admitted"].dt.month).all()

    def test_all_ways_give_the_same(self, rng):
        X, y = rng.normal(size=(90, 2)), rng.normal(size=90)
        group = np.repeat(["u", "v", "w"], 30)
        X_target = rng.normal(size=(20, 2))
        by_group = ShiftProblem.from_arrays(X, y, group, X_target)
        by_site = ShiftProblem.from_sites(
            {g: (X[group == g], y[group == g]) for g in "uvw"}, X_target
        )
        domain = np.concatenate([np.repeat([0, 1, 2], 30), np.full(20, -5)])
        by_domain = ShiftProblem.from_sample_domain(
            np.vstack([X, X_target]), np.concatenate([y, np.full(20, np.nan)]), domain
        )
        for other in (by_site, by_domain):
            for a, b in zip(by_group.sources, other.sources, strict=True):
                np.testing.assert_array_equal(a.X, b.X)
                np.testing.assert_array_equal(a.y, b.y)
            np.testing.assert_array_equal(by_group.target.X, other.target.X)
        assert by_domain.names == ["0", "1", "2"]
        assert by_domain.target.name == "-5"

    def test_skada_masks_are_not_read_as_labels(self, rng):
        y = np.concatenate([rng.integers(0, 2, 40), np.full(10, -1)])
        problem = ShiftProblem.from_sample_domain(
            rng.normal(size=(50, 1)), y, np.repeat([1, 2, -3], [20, 20, 10])
        )
        assert problem.classes.tolist() == [0, 1]
        assert problem.oracle is None

    def test_target_as_a_table_of_its_own(self, hospitals):
        inside = hospitals.hospital == "A"
        apart = read(hospitals[~inside], target=hospitals[inside].drop(columns="readmitted"))
        together = read(hospitals)
        assert_frame_equal(apart.target.X, together.target.X)

    def test_numeric_site_names(self, rng):
        df = pd.DataFrame({"s": np.repeat([1, 2, 3], 20), "x": rng.normal(size=60), "y": 1.5})
        df["y"] = rng.normal(size=60)
        with pytest.warns(DataWarning, match="20 labels of the target"):
            assert ShiftProblem.from_frame(df, site="s", label="y", target=3).names == ["1", "2"]


class TestTargetLabels:
    @pytest.fixture
    def labelled(self, hospitals):
        df = hospitals.copy()
        rows = df.index[df.hospital == "A"]
        df.loc[rows, "readmitted"] = "no"
        df.loc[rows[:12], "readmitted"] = "yes"
        return df

    def test_hidden_by_default_with_a_warning(self, labelled):
        with pytest.warns(DataWarning, match="60 labels of the target set aside"):
            problem = read(labelled)
        assert problem.target.y is None
        assert problem.labelled_target is None
        assert problem.oracle is None
        assert any("set aside" in note for note in problem.notes)

    def test_labels_as_given_are_hidden_too(self, labelled):
        with pytest.warns(DataWarning, match="60 labels .* set aside; to use them: target_labels="):
            problem = read(labelled, columns="as given")
        assert (problem.oracle, problem.labelled_target) == (None, None)

    def test_few_are_one_more_source(self, labelled):
        labelled.loc[labelled.index[labelled.hospital == "A"][20:], "readmitted"] = None
        problem = read(labelled, target_labels="use")
        assert len(problem.labelled_target) == 20
        assert len(problem.target) == 60  # labelled rows are rows of the target as well
        split = problem.split()
        assert [s.name for s in split.density] == ["B", "C", "D"]
        assert [s.name for s in split.train] == ["B", "C", "D", "A"]
        assert len(split.train[-1]) + len(split.validation[-1]) == 20

    def test_oracle(self, labelled):
        problem = read(labelled, target_labels="oracle")
        assert (problem.oracle.y == "yes").sum() == 12
        assert problem.target.y is None


class TestImmutable:
    def test_nothing_can_be_changed(self, hospitals):
        problem = read(hospitals)
        site = problem.sources[0]
        with pytest.raises(AttributeError):
            problem.task = "regression"
        with pytest.raises(AttributeError):
            site.name = "Z"
        with pytest.raises(ValueError, match="read-only"):
            site.y[0] = "maybe"
        before = site.X.iloc[0, 0]
        table = site.X
        table.iloc[0, 0] = 1234.0
        table["new"] = 1
        assert site.X.iloc[0, 0] == before or np.isnan(before)
        assert "new" not in site.X

    def test_the_users_data_is_left_alone_and_later_changes_do_not_reach_us(self, hospitals, rng):
        kept = copy.deepcopy(hospitals)
        problem = read(hospitals)
        problem.split()
        problem.diagnose("logistic")
        assert_frame_equal(hospitals, kept)
        hospitals.loc[:, "age"] = -1.0
        assert (problem.sources[0].X["age"] != -1.0).all()
        X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
        arrays = ShiftProblem.from_sites([(X, y), (X, y)], X)
        first = X[0, 0]
        X[:], y[:] = 0, 0
        assert arrays.sources[0].X[0, 0] == first
        with pytest.raises(ValueError, match="read-only"):
            arrays.sources[0].X[0, 0] = 5

    def test_pickles(self, hospitals):
        problem = read(hospitals)
        loaded = pickle.loads(pickle.dumps(problem))
        assert_frame_equal(loaded.sources[1].X, problem.sources[1].X)
        assert loaded.names == problem.names


class TestColumns:
    def test_categories_are_made_the_same_in_all_sites(self):
        a = pd.DataFrame({"c": pd.Categorical(["u", "v"] * 5)})
        b = pd.DataFrame({"c": pd.Categorical(["w"] * 10)})
        problem = ShiftProblem.from_sites([(a, np.arange(10.0)), (b, np.arange(10.0))], b)
        assert problem.sources[0].X["c"].dtype == problem.sources[1].X["c"].dtype
        X, _ = pooled(problem.sources)
        assert isinstance(X["c"].dtype, pd.CategoricalDtype)

    def test_order_of_columns_is_free(self):
        a = pd.DataFrame({"p": np.arange(9.0), "q": 1.0})
        problem = ShiftProblem.from_sites([(a, np.arange(9.0))] * 2, a[["q", "p"]])
        assert list(problem.columns) == ["q", "p"]
        assert list(problem.sources[0].X) == ["q", "p"]

    def test_constant_columns_are_noted(self):
        a = pd.DataFrame({"p": np.arange(12.0), "q": 1.0})
        problem = ShiftProblem.from_sites([(a, np.arange(12.0))] * 2, a)
        assert "constant column(s), of no use to a model: 'q'" in problem.notes
        array = ShiftProblem.from_sites([(a.to_numpy(), np.arange(12.0))] * 2, a.to_numpy())
        assert "constant column(s), of no use to a model: '1'" in array.notes

    def test_object_arrays_and_text_arrays_work(self):
        X = np.array([[1, "m"], [2, "f"], [3, "m"]] * 4, dtype=object)
        problem = ShiftProblem.from_sites([(X, np.arange(12.0))] * 2, X)
        assert problem.sources[0].X.dtypes.iloc[0].kind == "i"
        assert len(problem.diagnose("logistic")) == 2

    def test_a_column_missing_everywhere_in_one_site_is_no_clash(self):
        a = pd.DataFrame({"p": np.arange(12.0)})
        b = pd.DataFrame({"p": pd.Series([None] * 12, dtype=object)})
        problem = ShiftProblem.from_sites({"a": (a, np.arange(12.0)), "b": (b, np.arange(12.0))}, a)
        assert problem.sources[1].X["p"].dtype == float


class TestLabels:
    @pytest.mark.parametrize(
        ("y", "task"),
        [
            (["a", "b"], "classification"),
            ([True, False], "classification"),
            ([0, 1], "classification"),
            ([-1.0, 1.0], "classification"),
            ([0.5, 1.0], "regression"),
            (list(range(40)), "regression"),
        ],
    )
    def test_task(self, y, task):
        site = np.zeros((40, 1)), (list(y) * 40)[:40]
        problem = ShiftProblem.from_sites([site, site], np.zeros((9, 1)))
        assert problem.task == task

    def test_categorical_labels_become_text(self):
        site = np.zeros((40, 1)), pd.Series(["no", "yes"] * 20, dtype="category")
        problem = ShiftProblem.from_sites([site, site], np.zeros((9, 1)))
        assert problem.classes.tolist() == ["no", "yes"]
        assert problem.sources[0].labels.dtype == object

    def test_task_can_be_given(self):
        site = np.zeros((40, 1)), np.arange(40) % 5
        assert ShiftProblem.from_sites([site] * 2, site[0], task="regression").classes.size == 0

    def test_missing_labels_can_be_dropped(self, hospitals):
        hospitals.loc[[60, 70], "readmitted"] = None
        with pytest.warns(DataWarning, match="2 row.*'B'"):
            problem = read(hospitals, missing_labels="drop")
        assert len(problem.sources[0]) == 58
        assert 60 not in problem.sources[0].rows

    def test_a_site_without_labels_is_left_out_with_them(self, hospitals):
        hospitals.loc[hospitals.hospital == "B", "readmitted"] = None
        with pytest.warns(DataWarning, match="60 row.*'B'"):
            assert read(hospitals, missing_labels="drop").names == ["C", "D"]

    def test_a_site_may_lack_a_class(self, hospitals):
        hospitals.loc[hospitals.hospital == "B", "readmitted"] = "no"
        assert read(hospitals).classes.tolist() == ["no", "yes"]


def test_one_source_is_allowed_with_a_note():
    with pytest.warns(DataWarning, match="only one source, 'B'") as found:
        problem = ShiftProblem.from_sites(
            {"B": (np.zeros((9, 1)), np.arange(9.0))}, np.ones((4, 1))
        )
    assert found[0].filename == __file__
    assert any("only one source" in note for note in problem.notes)


BAD = {
    "no sources": (lambda df: df[df.hospital == "A"], {}, "no sources"),
    "unknown target": (lambda df: df, {"target": "AA"}, "no site 'AA'; did you mean 'A'"),
    "unknown label": (lambda df: df, {"label": "readmited"}, "did you mean 'readmitted'"),
    "unknown site column": (lambda df: df, {"site": "clinic"}, "no column 'clinic'"),
    "unknown feature": (lambda df: df, {"features": ["agee"]}, "did you mean 'age'"),
    "site as feature": (
        lambda df: df,
        {"features": ["hospital"]},
        "'hospital' is the site; leave it out of features",
    ),
    "label missing in a source": (
        lambda df: df.assign(readmitted=df.readmitted.mask(df.index == 200)),
        {},
        "site 'D': the label 'readmitted' is missing in 1 of 60 rows",
    ),
    "infinite": (
        lambda df: df.assign(age=df.age.mask(df.index == 100, np.inf)),
        {},
        "site 'B': column 'age' has 1 infinite",
    ),
    "site missing": (
        lambda df: df.assign(hospital=df.hospital.mask(df.index < 3)),
        {},
        "site column 'hospital' is empty in 3",
    ),
    "one class": (
        lambda df: df.assign(readmitted=df.readmitted.where(df.hospital == "A", "no")),
        {},
        "all labels of all sources are 'no'",
    ),
    "mixed labels": (
        lambda df: df.assign(readmitted=df.readmitted.mask(df.index == 70, 1)),
        {},
        "mixes int and str",
    ),
    "text as regression": (lambda df: df, {"task": "regression"}, "is not numeric"),
    "two sites of one name": (
        lambda df: df.assign(hospital=df.hospital.replace({"B": 1, "C": "1"}).astype(object)),
        {},
        "as text and as number",
    ),
    "no features": (
        lambda df: df[["hospital", "readmitted"]],
        {},
        "no column is left to learn from",
    ),
    "no frame": (lambda df: df.to_numpy(), {}, "needs a pandas DataFrame"),
    "bad option": (lambda df: df, {"target_labels": "peek"}, "no target_labels 'peek'"),
}


def test_labels_that_end_early():
    with pytest.raises(DataError, match="site 'B': the label 'y' has values with a NUL character"):
        as_labels(np.array(["no", "no\0"], dtype=object), "B")


@pytest.mark.parametrize("case", BAD)
def test_bad_frames_get_a_clear_error(hospitals, case):
    change, options, message = BAD[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        with pytest.raises(ProblemError, match=message.replace("(", r"\(")):
            read(change(hospitals), **options)


GOOD = np.arange(20.0).reshape(10, 2), np.arange(10.0)
BAD_SITES = {
    "empty site": ({"B": GOOD, "C": (np.empty((0, 2)), [])}, GOOD[0], "'C' has no rows"),
    "no target rows": ({"B": GOOD}, np.empty((0, 2)), "site 'target' has no rows"),
    "other width": ({"B": GOOD}, np.zeros((4, 3)), "'B' has 2 columns.*'target' has 3"),
    "labels too short": ({"B": (GOOD[0], [1.0])}, GOOD[0], "'B' has 10 rows but 1 labels"),
    "name of the target": ({"target": GOOD}, GOOD[0], "'target' is the target and cannot"),
    "sparse": (
        {"B": (sparse.csr_matrix((len(GOOD[0]), 10**8)), GOOD[1])},
        GOOD[0],
        "'B': a sparse matrix of shape.*TruncatedSVD",
    ),
    "one column flat": ({"B": (GOOD[0][:, 0], GOOD[1])}, GOOD[0], r"'B'.*shape \(n, d\)"),
    "complex": ({"B": (GOOD[0] * 1j, GOOD[1])}, GOOD[0], "'B': complex"),
    "infinite": ({"B": (np.where(GOOD[0] == 5, np.inf, GOOD[0]), GOOD[1])}, GOOD[0], "column 1"),
    "infinite label": ({"B": (GOOD[0], np.full(10, np.inf))}, GOOD[0], "infinite values"),
    "frame and array": ({"B": (pd.DataFrame(GOOD[0]), GOOD[1])}, GOOD[0], "same form"),
    "labels of two kinds": ({"B": GOOD, "C": (GOOD[0], ["a"] * 10)}, GOOD[0], "text in site 'C'"),
    "two columns of labels": ({"B": (GOOD[0], np.zeros((10, 2)))}, GOOD[0], "several labels"),
}


@pytest.mark.parametrize("case", BAD_SITES)
def test_bad_sites_get_a_clear_error(case):
    sites, X_target, message = BAD_SITES[case]
    with pytest.raises(ProblemError, match=message):
        ShiftProblem.from_sites(sites, X_target)


def classes_of(y):
    n = len(y) // 2
    sites = {"B": (np.zeros((n, 1)), y[:n]), "C": (np.zeros((n, 1)), y[n:])}
    return ShiftProblem.from_sites(sites, np.zeros((4, 1)), task="classification")


@pytest.mark.parametrize(
    ("y", "found"),
    [
        (np.arange(600) // 2, "300 different numbers"),
        (np.arange(600) * 1.5, "600 different numbers"),
        (np.arange(600) % 250 / 10, "250 different numbers"),
        (np.arange(600) % 3 / 2, "3 different numbers"),  # scikit-learn refuses them
    ],
)
def test_quantities_are_no_classes(y, found):
    with pytest.raises(DataError, match=f"{found}.*use task='regression'") as error:
        classes_of(y)
    assert "--task regression" in str(error.value)


@pytest.mark.parametrize(
    "y",
    [
        np.arange(600) % 30,
        np.arange(600) % 30 * 1.0,
        np.arange(600) % 150,  # 4 rows each
        np.arange(20),  # small, as examples are
        np.minimum(np.arange(600), 560) % 97,
        (np.arange(600) // 2).astype(str),  # the remedy, if they are classes
    ],
)
def test_many_classes(y):
    assert len(classes_of(y).classes) == len(np.unique(y))


def test_other_columns_in_the_target_are_named():
    a = pd.DataFrame({"p": np.arange(9.0), "q": 1.0})
    with pytest.raises(ProblemError, match=r"'B' lacks \['r'\] and has \['q'\] in addition"):
        ShiftProblem.from_sites({"B": (a, np.arange(9.0))}, a.rename(columns={"q": "r"}))


def test_a_column_of_two_kinds_is_named():
    a, b = pd.DataFrame({"p": np.arange(9.0)}), pd.DataFrame({"p": list("abcdefghi")})
    with pytest.raises(
        ProblemError,
        match="column 'p' holds numbers in site 'target' but categories or text in site 'C'",
    ):
        ShiftProblem.from_sites({"B": (a, np.arange(9.0)), "C": (b, np.arange(9.0))}, a)


def test_doubled_columns_are_named():
    a = pd.DataFrame(np.zeros((9, 2)), columns=["p", "p"])
    with pytest.raises(ProblemError, match=r"\['p'\] occur more than once"):
        ShiftProblem.from_sites({"B": (a, np.arange(9.0))}, a)


def test_a_class_of_the_few_labels_that_no_source_has(rng):
    X = rng.normal(size=(20, 1))
    sites = {"B": (X, ["u", "v"] * 10), "C": (X, ["u", "v"] * 10)}
    with pytest.raises(ProblemError, match=r"class\(es\) \['w'\], which no source has"):
        ShiftProblem.from_sites(sites, X, labelled_target=(X[:2], ["u", "w"]))


class TestKindsOfColumns:
    """The kind of a column is decided once, from all sites, not from the rows at hand."""

    @pytest.mark.parametrize(
        "values",
        [
            ["u", "v"] * 30,
            [True, False] * 30,
            list(pd.date_range("2020-01-01", periods=60)),
            list(np.arange(60.0)),
        ],
        ids=["text", "bool", "date", "number"],
    )
    @pytest.mark.parametrize("empty", ["A", "C"])
    def test_missing_in_a_whole_site(self, values, empty):
        df = pd.DataFrame({"s": np.repeat(["A", "B", "C"], 60), "y": np.tile([0.0, 1.0], 90)})
        column = pd.Series(values * 3, dtype=object)
        df["x"] = column.where(df["s"] != empty, None)
        df.loc[df["s"] == "A", "y"] = np.nan
        roles = {"site": "s", "label": "y", "target": "A"}
        problem = ShiftProblem.from_frame(df, **roles, columns="as given")
        for seed in range(3):
            found = problem.diagnose("logistic", random_state=seed)["mean_weight"]
            if empty == "C":
                assert found["B"] == pytest.approx(1, abs=0.05)  # the same rows as those of A
                found = found.drop("B")
            assert found.between(0, 0.5).all()  # 0 but for the penalty

    def test_text_among_numbers(self):
        mixed = pd.Series(["n/a" if i % 20 == 9 else i % 7 for i in range(180)], dtype=object)
        df = pd.DataFrame({"s": np.repeat(["A", "B", "C"], 60), "x": mixed, "y": [0.0, 1.0] * 90})
        df.loc[df["s"] == "A", "y"] = np.nan
        roles = {"site": "s", "label": "y", "target": "A"}
        with pytest.warns(DataWarning, match="'n/a' in 9 rows counts as missing"):
            assert ShiftProblem.from_frame(df, **roles).columns["x"].kind == "number"
        problem = ShiftProblem.from_frame(df, **roles, columns="as given")
        for seed in range(10):
            assert len(problem.diagnose("logistic", random_state=seed)) == 2

    def test_an_identifier_is_pointed_out(self, hospitals):
        df = hospitals.assign(patient=[f"p{i}" for i in range(len(hospitals))])
        with pytest.warns(DataWarning, match="'patient': left out: a different value in almost"):
            problem = read(df)
        assert problem.columns.identifiers == ["patient"]
        assert any("'patient': left out" in note for note in problem.notes)
        assert "patient" not in problem.target.X
        with pytest.warns(DataWarning, match="'patient': .*have categories that no source"):
            kept = read(df, keep=["patient"])
        assert "patient" in kept.target.X
        assert "patient" in read(df, columns="as given").target.X

    def test_lists_in_cells(self, hospitals):
        with pytest.raises(ProblemError, match=r"column 'codes' holds values of type list"):
            read(hospitals.assign(codes=[[1]] * len(hospitals)))

    def test_masked_arrays_are_missing_values(self):
        X = np.ma.array(np.arange(20.0).reshape(10, 2), mask=np.eye(10, 2, dtype=bool))
        problem = ShiftProblem.from_sites([(X, np.arange(10.0))] * 2, X)
        assert np.isnan(problem.sources[0].X).sum() == 2


class TestMoreMistakes:
    def test_classes_or_quantity_is_noted(self):
        site = np.arange(40.0)[:, None], np.arange(40) % 5
        problem = ShiftProblem.from_sites([site, site], site[0])
        assert any("read as 5 classes" in note for note in problem.notes)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"features": "age"}, r"did you mean \['age'\]"),
            ({"site": "readmitted"}, "both 'readmitted'"),
            ({"missing_labels": "ignore"}, "there is no missing_labels 'ignore'"),
        ],
    )
    def test_options(self, hospitals, options, message):
        with pytest.raises(ProblemError, match=message):
            read(hospitals, **options)

    def test_numbers_as_names(self, rng):
        df = pd.DataFrame({0: np.repeat([1.0, 2.0, 3.0], 20), "x": rng.normal(size=60)})
        df["y"] = np.where(df[0] == 1, np.nan, rng.normal(size=60))
        assert ShiftProblem.from_frame(df, site=0, label="y", target=1).target.name == "1.0"
        with pytest.raises(ProblemError, match=r"did you mean 0 \(int, not text\)"):
            ShiftProblem.from_frame(df, site="0", label="y", target=1)

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda X, y: ShiftProblem.from_sites([X, X], X), "must be a pair"),
            (lambda X, y: ShiftProblem.from_sites([(X, y)], None), "must form a table"),
            (lambda X, y: ShiftProblem.from_sites({1: (X, y), "1": (X, y)}, X), "'1' occur twice"),
            (lambda X, y: ShiftProblem.from_arrays(X, None, y, X), "y and groups are needed"),
            (lambda X, y: ShiftProblem.from_arrays(X, y, X, X), r"groups must have shape \(n,\)"),
            (lambda X, y: ShiftProblem.from_sample_domain(X, y, y + 0.5), "whole numbers"),
        ],
    )
    def test_arguments(self, call, message):
        with pytest.raises(ProblemError, match=message):
            call(np.arange(9.0)[:, None], np.arange(9.0))

    def test_random_state(self, hospitals):
        with pytest.raises(ProblemError, match="random_state"):
            read(hospitals).split(random_state=-1)


class Mine(ShiftProblem):
    """A problem of somebody's own."""


def test_constructors_of_a_subclass_make_the_subclass():
    X, y = np.arange(8.0)[:, None], np.arange(8.0)
    sites = np.repeat(["B", "C"], 4)
    assert type(Mine.from_arrays(X, y, sites, X)) is Mine
    df = pd.DataFrame({"x": X[:, 0], "y": y, "site": sites})
    df.loc[df["site"] == "C", "y"] = np.nan
    df = pd.concat([df, df[:3].assign(site="A")])
    assert type(Mine.from_frame(df, site="site", label="y", target="C")) is Mine
    assert type(Mine.from_sites({"A": (X, y), "B": (X, y)}, X)) is Mine
