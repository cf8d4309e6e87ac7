"""Files that are written in an odd way, or that unpack to far more than they seem to hold."""

from __future__ import annotations

import gzip
import zipfile

import numpy as np
import pandas as pd
import pytest

from shiftune.columns._column import TableRows, typed
from shiftune.errors import ProblemError
from shiftune.tables import _files, read_file

N = 60


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    df = pd.DataFrame(
        {"ward": rng.choice(["A", "B", "C"], N), "age": rng.normal(50, 9, N).round(2)}
    )
    return df.assign(city=rng.choice(["München", "Köln", "Bonn"], N), ill=rng.integers(0, 2, N))


@pytest.mark.parametrize("above", ["\n", "\n\n\n", "\r\n  \r\n", "\n" * 40])
def test_blank_lines_above_the_names_are_skipped(table, tmp_path, above):
    path = tmp_path / "a.csv"
    path.write_text(above + table.to_csv(index=False), encoding="utf-8", newline="")
    pd.testing.assert_frame_equal(read_file(path), table, check_dtype=False)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_json_lines_may_have_a_byte_order_mark(table, tmp_path, mark):
    path = tmp_path / "a.jsonl"
    path.write_bytes(mark + table.to_json(orient="records", lines=True).encode())
    assert list(read_file(path)) == list(table)


def test_a_file_of_two_encodings_is_refused(table, tmp_path):
    lines = table.to_csv(index=False).splitlines(keepends=True)
    halves = zip(["utf-8"] * 30 + ["cp1252"] * len(lines), lines, strict=False)
    path = tmp_path / "a.csv"
    path.write_bytes(b"".join(line.encode(encoding) for encoding, line in halves))
    first = next(i for i, line in enumerate(lines, 1) if not line.isascii())
    other = next(i for i, line in enumerate(lines, 1) if i > 30 and not line.isascii())
    with pytest.raises(ProblemError, match=f"line {first} is UTF-8, but line {other} is not"):
        read_file(path)


def test_a_file_of_windows_is_read(table, tmp_path):
    table.to_csv(tmp_path / "a.csv", index=False, encoding="cp1252")
    assert set(read_file(tmp_path / "a.csv")["city"]) == {"München", "Köln", "Bonn"}


def test_a_file_of_windows_may_end_in_a_letter_beyond_ascii(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"site,name\nA,x\nB,caf\xe9")
    assert list(read_file(path)["name"]) == ["x", "café"]


def gz(path, text):
    with gzip.open(path, "wb") as file:
        file.write(text)


def zipped(path, text):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.csv", text)


@pytest.mark.parametrize(("name", "write"), [("a.csv.gz", gz), ("a.csv.zip", zipped)])
def test_what_a_compressed_file_unpacks_to_is_bounded(table, tmp_path, monkeypatch, name, write):
    monkeypatch.setattr(_files, "_UNPACKED", 2**20)
    path = tmp_path / name
    text = table.to_csv(index=False).encode()
    write(path, text)
    assert len(read_file(path)) == N
    write(path, text + b"A,50," + b"x" * 2**22 + b",1\n")
    with pytest.raises(ProblemError, match="unpacks to more than 100 times its size"):
        read_file(path)
    monkeypatch.setenv("SHIFTUNE_MAX_UNPACKED_GIB", "1")
    assert len(read_file(path)) == N + 1


def test_an_archive_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    """pandas would unpack it whole before the first byte is seen."""
    monkeypatch.setattr(_files, "_UNPACKED", 2**20)
    zipped(tmp_path / "a.csv.zip", b"x" * 2**22)
    monkeypatch.setattr(_files, "get_handle", None)
    with pytest.raises(ProblemError, match="unpacks to more than 100 times its size"):
        read_file(tmp_path / "a.csv.zip")


@pytest.mark.parametrize("name", ["a.xlsx", "a.parquet", "a.feather"])
def test_other_compressed_files_are_bounded(tmp_path, monkeypatch, name):
    pytest.importorskip("openpyxl" if name == "a.xlsx" else "pyarrow")
    monkeypatch.setattr(_files, "_UNPACKED", 2**20)
    table = pd.DataFrame({"ward": ["A", "B"] * 1000, "remark": ["x" * 2**12] * 2000})
    path = tmp_path / name
    if name == "a.xlsx":
        table.to_excel(path, index=False)
        # Excel keeps equal texts once; so this one is written as a file of its own
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file:
            file.writestr("xl/media/a.txt", b"x" * 2**22)
    elif name == "a.parquet":
        table.to_parquet(path)
    else:
        table.to_feather(path, compression="zstd")
    with pytest.raises(ProblemError, match="unpacks to more than 100 times its size"):
        read_file(path)
    monkeypatch.setenv("SHIFTUNE_MAX_UNPACKED_GIB", ".5")
    assert len(read_file(path)) == 2000


@pytest.mark.parametrize("most", ["much", "0", "-1", "nan"])
def test_the_bound_must_be_a_number(table, tmp_path, monkeypatch, most):
    monkeypatch.setattr(_files, "_UNPACKED", 100)
    table.to_csv(tmp_path / "a.csv.gz", index=False)
    monkeypatch.setenv("SHIFTUNE_MAX_UNPACKED_GIB", most)
    with pytest.raises(ProblemError, match="SHIFTUNE_MAX_UNPACKED_GIB must be a number above 0"):
        read_file(tmp_path / "a.csv.gz")


def test_shares_beside_per_cents_are_not_numbers():
    column, _ = typed(pd.Series(np.resize(["12%", "0.13", "14 %"], N), name="share"))
    assert column.kind == "category"
    assert column.remark.startswith("per cents beside shares ('12%'): write all in one way")


@pytest.mark.parametrize("shares", [["0.13", "0.2"], ["0,13", "0,2"]])
def test_shares_at_one_site_beside_per_cents_at_another_are_not_numbers(shares):
    texts = np.concatenate([np.resize(["12%", "14 %", "9.5%"], N), np.resize(shares, N)])
    rows = TableRows(pd.Series(np.repeat(["A", "B"], N)), "A")
    column, _ = typed(pd.Series(texts, name="share"), rows)
    assert column.kind == "category"
    about = "per cents beside shares ('12%'): write all in one way"
    assert column.remark.startswith(about) == ("." in shares[0])  # with commas all is text


def test_whole_per_cents_at_one_site_may_lack_their_sign():
    texts = np.concatenate([np.resize(["12%", "14 %"], N), np.resize(["13", "20,5"], N)])
    rows = TableRows(pd.Series(np.repeat(["A", "B"], N)), "A")
    column, values = typed(pd.Series(texts, name="share"), rows)
    assert (column.kind, values.max()) == ("number", 20.5)


def test_per_cents_may_lack_their_sign():
    column, values = typed(pd.Series(np.resize(["12%", "13", "14 %"], N), name="share"))
    assert (column.kind, values.max()) == ("number", 14)
