"""Several targets in one problem, and the problem of each."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from shiftune import ShiftProblem
from shiftune.errors import DataError, SettingsError

N = 40


def table(unlabelled: str = "AE", seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    site = np.repeat(list("ABCDE"), N)
    found = pd.DataFrame({"shop": site, "area": rng.normal(size=5 * N)})
    found["kind"] = rng.choice(["u", "v"], 5 * N)
    found["sales"] = np.where(found["shop"].isin([*unlabelled]), np.nan, rng.normal(size=5 * N))
    return found.sample(frac=1, random_state=seed).reset_index(drop=True)


def of(df: pd.DataFrame, target: object, **options: object) -> ShiftProblem:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        roles = {"site": "shop", "label": "sales", "target": target}
        return ShiftProblem.from_frame(df, **(roles | options))


@pytest.mark.parametrize("target", [["A", "E"], ("E", "A"), np.array(["A", "E"]), "unlabelled"])
def test_every_target_has_its_own_rows(target):
    df = table()
    problem = of(df, target)
    assert sorted(problem.names) == ["B", "C", "D"]
    assert {site.name for site in problem.targets} == {"A", "E"}
    assert len(problem.target) == 2 * N
    for name in "AE":
        own = problem.at(name)
        assert own.target.name == name
        assert not own.target_rows
        np.testing.assert_array_equal(own.target.rows, np.flatnonzero(df["shop"] == name))
        np.testing.assert_array_equal(own.target.X["area"], df["area"][df["shop"] == name])
        assert own.sources == problem.sources


def test_one_target_in_a_list_is_the_target():
    problem = of(table("A"), ["A"])
    assert problem.target.name == "A"
    assert problem.targets == (problem.target,)
    assert problem.at("A") is problem
    assert problem.fingerprint() == of(table("A"), "A").fingerprint()


def test_the_fingerprint_has_the_site_of_every_row():
    df = table()
    one, other = of(df, ["A", "E"]), of(df, ["E", "A"])
    assert one.fingerprint() == other.fingerprint()
    swapped = of(df.replace({"shop": {"A": "E", "E": "A"}}), ["A", "E"])
    assert swapped.fingerprint() != one.fingerprint()


def test_a_site_may_be_called_unlabelled():
    df = table("E").replace({"shop": {"A": "unlabelled"}})
    problem = of(df, "unlabelled", missing_labels="drop")
    assert problem.target.name == "unlabelled"


def test_sites_without_labels_may_have_codes_for_missing_ones():
    df = table()
    df["sales"] = df["sales"].round(2).astype(str).replace("nan", "?")
    assert {site.name for site in of(df, "unlabelled").targets} == {"A", "E"}


def test_several_targets_are_named_by_their_number():
    rows = pd.concat([table("").assign(shop=lambda d, k=k: d["shop"] + str(k)) for k in range(3)])
    rows["sales"] = rows["sales"].where(rows["shop"].str.endswith("0"))
    assert of(rows, "unlabelled").target.name == "10 sites"


def test_a_source_can_be_asked_as_if_it_were_new():
    df = table()
    problem = of(df, "unlabelled").at("B")
    assert problem.target.name == "B"
    assert problem.target.y is None
    assert "B" not in problem.names
    np.testing.assert_array_equal(problem.oracle.labels, df["sales"][df["shop"] == "B"])


def test_rows_of_a_new_site_are_read_as_those_of_the_problem():
    df = table().assign(area=lambda d: d["area"].round(2).astype(str).str.replace(".", ","))
    rows = df[:5].assign(kind="w").drop(columns=["sales", "shop"])
    new = of(df, ["A", "E"]).at(rows, name="F").target
    assert new.name == "F"
    np.testing.assert_allclose(
        new.X["area"], rows["area"].str.replace(",", ".").astype(float), rtol=1e-12
    )
    assert new.X["kind"].unique().tolist() == ["w"]


def test_columns_tell_what_is_beyond_the_sources_at_each_target():
    df = table()
    df.loc[df["shop"] == "E", "kind"] = "w"
    problem = of(df, ["A", "E"])
    assert problem.columns["kind"].unseen == pytest.approx(0.5)
    assert problem.at("E").columns["kind"].unseen == 1
    assert problem.at("A").columns["kind"].unseen == 0
    assert problem.at("A").columns["kind"].beyond == ""


def test_a_column_that_only_one_target_has_is_kept():
    df = table()
    df.loc[df["shop"] == "E", "area"] = np.nan
    assert "area" in of(df, ["A", "E"]).columns
    assert "area" in of(df, "E", missing_labels="drop").columns.left_out


def test_truth_is_kept_for_each_target():
    df = table("")
    problem = of(df, ["A", "E"], target_labels="oracle")
    np.testing.assert_array_equal(problem.at("E").oracle.labels, df["sales"][df["shop"] == "E"])


def test_arrays_have_targets_by_their_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    problem = ShiftProblem.from_arrays(X, X[:, 0], np.repeat(list("BCD"), 30), X[:20])
    np.testing.assert_array_equal(problem.at(X[:7], name="F").target.X, X[:7])
    with pytest.raises(DataError, match="3 columns"):
        problem.at(np.zeros((4, 3)))


def test_large_tables_draw_from_every_target():
    df = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = ShiftProblem.from_large(
            df, site="shop", label="sales", target="unlabelled", most_rows=100
        )
    assert [len(site) for site in problem.targets] == [20, 20]


@pytest.mark.parametrize(
    ("target", "error", "words"),
    [
        (["A", "a"], DataError, "did you mean 'A'"),
        (["A", "Z"], DataError, "no site 'Z'"),
        (list("ABCDE"), DataError, "no sources"),
        ([], SettingsError, "no target"),
        (["A", "unlabelled"], SettingsError, "give it alone"),
        ("A", DataError, r"label, too \(target='unlabelled', --target unlabelled\)"),
        (
            table()[:0].drop(columns=["shop", "sales"]),
            DataError,
            "the table of 'target' has no rows",
        ),
        (
            table()[["kind"]],
            DataError,
            "the table of 'target' lacks 'area', which the sources have",
        ),
    ],
)
def test_wrong_targets_are_refused(target, error, words):
    with pytest.raises(error, match=words):
        of(table(), target)


def test_labels_of_several_targets_are_for_updates():
    with pytest.raises(SettingsError, match=r"at\(site\)\.update"):
        of(table(""), ["A", "E"], target_labels="use")
    with pytest.raises(DataError, match="every site has a label"):
        of(table(""), "unlabelled")


def test_wrong_sites_are_refused():
    df = table()
    problem = of(df, ["A", "E"])
    with pytest.raises(DataError, match="no site 'b'; did you mean 'B'"):
        problem.at("b")
    with pytest.raises(DataError, match=r"lack 1 column.*'area'"):
        problem.at(df[["kind"]])
    with pytest.raises(DataError, match="has no rows"):
        problem.at(df[:0])
    with pytest.raises(DataError, match="'B' is the target and cannot also be a source"):
        problem.at(df[:5], name="B")
    with pytest.raises(DataError, match="one site at a time"):
        problem.at(["A", "E"])
    with pytest.raises(DataError, match="no sources"):
        of(df[df["shop"].isin(["A", "B"])], "A").at("B")
