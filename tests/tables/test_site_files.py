"""Rows of the sites in one file, in several, or with the target apart."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from shiftune import ShiftProblem
from shiftune.cli._options import shell_option
from shiftune.errors import ProblemError
from shiftune.problem._table import TableSettings
from shiftune.tables import SiteFiles

N = 30


def site_table(df, notes=(), **settings):
    """Read a table as the command line does."""
    return ShiftProblem.of_table(
        df.rename(columns=str), TableSettings(option=shell_option, **settings), notes, warn=False
    )


@pytest.fixture
def wards(tmp_path, monkeypatch):
    """Rows of three wards, and a working folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"ward": np.repeat(["A", "B", "C"], N), "age": rng.normal(50, 8, 3 * N)})
    df["case"] = [f"{i:03}" for i in range(3 * N)]
    return df.assign(ill=np.resize(["yes", "no", "no"], 3 * N))


def table_of(files, **options):
    roles = {"site": files.site_column, "target": files.target_name, "label": "ill"}
    return site_table(files.read(), files.notes, **roles, **options)


@pytest.mark.parametrize("with_site", [True, False])
@pytest.mark.parametrize("with_label", [True, False])
def test_the_target_in_a_file_of_its_own(wards, tmp_path, with_site, with_label):
    own, others = wards[wards["ward"] == "A"], wards[wards["ward"] != "A"]
    lacking = [*["ward"] * (not with_site), *["ill"] * (not with_label)]
    others.to_csv("sources.csv", index=False)
    own.drop(columns=lacking).to_csv("mine.csv", index=False)
    files = SiteFiles(tmp_path / "sources.csv", tmp_path / "mine.csv", "ward", None)
    table = table_of(files, target_labels="use" if with_label else "hide")
    assert files.target_name == table.target.name == ("A" if with_site else "mine")
    assert table.names == ["B", "C"]
    assert list(files.read()) == list(wards)
    assert table.target.rows.tolist() == list(range(N))  # as in its own file
    assert (table.labelled_target is not None) == with_label
    written = files.as_written(["case", "ward"])
    assert written["case"].tolist() == wards["case"].tolist()
    assert set(written["ward"]) == {files.target_name, "B", "C"}


def test_a_column_that_the_target_lacks_is_left_out(wards, tmp_path):
    wards.assign(bmi=25.0 + wards.index % 7)[N:].to_csv("sources.csv", index=False)
    wards[:N].drop(columns="ward").to_csv("A.csv", index=False)
    table = table_of(SiteFiles(tmp_path / "sources.csv", tmp_path / "A.csv", "ward"))
    assert table.columns.overview().loc["bmi", "remark"].startswith("left out: empty at the target")
    assert table.columns.overview().loc["age", "used"]


@pytest.mark.parametrize(
    ("own", "target", "message"),
    [
        (["A", "B"], None, "has rows of 2 sites, 'A' and 'B', but is the file of the target"),
        (["A"], "D", "are of site 'A', and the target is 'D'; correct one of them"),
        (["B"], None, "has 30 rows of the target 'B' too; leave them out there"),
    ],
)
def test_a_target_file_that_contradicts(wards, tmp_path, own, target, message):
    wards[wards["ward"] != "A"].to_csv("sources.csv", index=False)
    wards[:N].assign(ward=np.resize(own, N)).to_csv("own.csv", index=False)
    files = SiteFiles(tmp_path / "sources.csv", tmp_path / "own.csv", "ward", target)
    with pytest.raises(ProblemError, match=message):
        table_of(files)


def test_a_file_per_site(wards, tmp_path):
    for name, rows in wards.groupby("ward"):
        rows.drop(columns="ward").to_csv(f"{name}.csv", index=False)
    files = SiteFiles(tmp_path / "*.csv", target="B")
    table = table_of(files)
    assert table.names == ["A", "C"]
    assert table.notes[0] == (
        "without --site, every file is a site and has its name: 'A', 'B' and 'C'"
    )
    assert files.as_written(["case", files.site_column]).iloc[N].tolist() == ["030", "B"]
    with pytest.raises(ProblemError, match="have no column 'ward'; if every file is a site, leave"):
        SiteFiles(tmp_path / "*.csv", site="ward", target="B").read()
    apart = SiteFiles(tmp_path / "[BC].csv", tmp_path / "A.csv")
    assert table_of(apart).names == ["B", "C"]
    assert apart.target_name == "A"


def test_names_of_files_without_their_endings(wards, tmp_path):
    for name, rows in wards.groupby("ward"):
        ending = "csv.gz" if name == "C" else "csv"
        rows.drop(columns="ward").to_csv(f"{name}.{ending}", index=False)
    assert table_of(SiteFiles(tmp_path / "*.csv*", target="A")).names == ["B", "C"]


def test_a_folder_per_site(wards, tmp_path):
    for name, rows in wards.groupby("ward"):
        (tmp_path / name).mkdir()
        rows.drop(columns="ward").to_csv(tmp_path / name / "visits.csv", index=False)
    files = SiteFiles(tmp_path / "*" / "visits.csv", target="A")
    assert table_of(files).names == ["B", "C"]


def test_names_that_are_missing(wards, tmp_path):
    wards.to_csv("all.csv", index=False)
    with pytest.raises(ProblemError, match=r"--site is missing: name the column of .*all\.csv"):
        SiteFiles(tmp_path / "all.csv", target="A").read()
    with pytest.raises(ProblemError, match="--target is missing: name the site to tune for"):
        SiteFiles(tmp_path / "all.csv", site="ward").target_name  # noqa: B018
