"""Files with more rows than are read: a sample of every site, typed as the whole would be."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from shiftune.errors import ProblemError
from shiftune.problem._large import read_sampled
from shiftune.problem._table import TableSettings
from shiftune.tables import SiteFiles, TableFile, _files

N = 600


def sample(files, most_rows, random_state=0):
    """Read a table as the command line does."""
    settings = TableSettings(site=files.site_column, target="7", label="ill")
    return read_sampled(files, settings, most_rows, random_state)


@pytest.fixture
def wards(monkeypatch) -> pd.DataFrame:
    """Rows of wards 007 to 010, the first without labels, and parts of 70 rows."""
    monkeypatch.setattr(_files, "ROWS_AT_ONCE", 70)
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"ward": rng.choice(["007", "008", "009", "010"], N)})
    df["age"] = rng.normal(50, 8, N).round(3)
    df["case"] = [f"{i:04}" for i in range(N)]
    df["remark"] = rng.choice(["a, b", 'c "d"', "e\nf", "g;h", None], N)
    df["visits"] = np.where(rng.random(N) < 0.1, np.nan, rng.integers(0, 9, N))
    ill = np.where(df["age"] + rng.normal(0, 8, N) > 50, "yes", "no")
    return df.assign(ill=np.where(df["ward"] == "007", None, ill))


def one_csv(df, folder):
    df.to_csv(folder / "wards.csv", index=False)
    return SiteFiles(folder / "wards.csv", None, "ward", "7")


def semicolons(df, folder):
    df.to_csv(folder / "wards.csv.gz", index=False, sep=";", decimal=",")
    return SiteFiles(folder / "wards.csv.gz", None, "ward", "7")


def csv_per_ward(df, folder):
    for ward, own in df.groupby("ward"):
        own.drop(columns="ward").to_csv(folder / f"{ward}.csv", index=False)
    return SiteFiles(folder / "*.csv", None, None, "007")


def target_apart(df, folder):
    own = df["ward"] == "007"
    df[own].drop(columns=["ward", "ill"]).to_csv(folder / "mine.csv", index=False)
    df[~own].to_csv(folder / "others.csv", index=False)
    return SiteFiles(folder / "others.csv", folder / "mine.csv", "ward", "7")


def parquet(df, folder):
    pytest.importorskip("pyarrow")
    df.set_index("case").to_parquet(folder / "wards.parquet")
    return SiteFiles(folder / "wards.parquet", None, "ward", "7")


def parquet_folder(df, folder):
    pytest.importorskip("pyarrow")
    df.to_parquet(folder, partition_cols=["ward"])
    return SiteFiles(folder, None, "ward", "7")


KINDS = [one_csv, semicolons, csv_per_ward, target_apart, parquet, parquet_folder]


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_is_a_part_of_the_whole_table(wards, kind, tmp_path):
    files = kind(wards, tmp_path)
    drawn = sample(files, 200)
    table, rows = drawn.table, drawn.rows
    assert table[files.site_column].astype(str).value_counts().tolist() == [50] * 4
    assert len(rows) == len(set(rows)) == 200
    assert drawn.notes[0].startswith("200 of 600 rows are read")
    whole = files.read().iloc[rows].reset_index(drop=True)
    pd.testing.assert_frame_equal(table, whole[list(table)], check_dtype=False)
    assert table["case"].tolist() == files.as_written(["case"], rows)["case"].tolist()
    again = sample(files, 200)
    assert again.rows.tolist() == rows.tolist()
    other = sample(files, 200, random_state=1)
    assert other.rows.tolist() != rows.tolist()


def test_a_table_of_the_limit_is_read_whole(wards, tmp_path, monkeypatch):
    files = one_csv(wards, tmp_path)
    lines = TableFile(files.data).row_bound
    assert lines > N  # cells have line breaks
    assert sample(files, N).sample is None
    monkeypatch.setattr(TableFile, "parts", None)
    whole = sample(files, int(lines))  # without reading it twice
    pd.testing.assert_frame_equal(whole.table, files.read())
    assert whole.sample is None


def test_an_empty_file_among_others(wards, tmp_path):
    pytest.importorskip("pyarrow")
    for name, own in {"a": wards, "b": wards.head(0)}.items():
        own.to_parquet(tmp_path / f"{name}.parquet")
    files = SiteFiles(tmp_path / "*.parquet", None, "ward", "7")
    assert len(sample(files, 200).table) <= 200


def test_a_folder_of_empty_files(wards, tmp_path):
    pytest.importorskip("pyarrow")
    wards.head(0).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ProblemError, match="has column names but no rows"):
        SiteFiles(tmp_path, None, "ward", "7").read()


@pytest.mark.parametrize("damage", ["other", "middle"])
def test_a_damaged_file_in_a_folder(wards, tmp_path, damage):
    pytest.importorskip("pyarrow")
    for name in "ab":
        wards.to_parquet(tmp_path / f"{name}.parquet", compression="snappy")
    path = tmp_path / "b.parquet"
    if damage == "other":
        path.write_text("junk")
    else:
        content = bytearray(path.read_bytes())
        content[200:4000] = bytes(3800)
        path.write_bytes(content)
    with pytest.raises(ProblemError, match="has a Parquet file that cannot be read"):
        sample(SiteFiles(tmp_path, None, "ward", "7"), 200)


def test_missing_labels_are_seen_in_rows_that_are_not_drawn(wards, tmp_path):
    wards.loc[wards.index[wards["ward"] == "009"][0], "ill"] = None
    files = one_csv(wards, tmp_path)
    with pytest.raises(ProblemError, match="site '009': the label 'ill' is missing in 1 of"):
        sample(files, 100)
