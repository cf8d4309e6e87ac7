"""Files as they are: what is expected of each, in one table."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest

from shiftune import ShiftProblem
from shiftune.cli._options import shell_option
from shiftune.columns import Column, Columns
from shiftune.columns._column import TableRows, learn, typed
from shiftune.columns._columns import NewRows
from shiftune.errors import ProblemError
from shiftune.problem._table import TableSettings
from shiftune.tables import read_as_written, read_file

N = 60


def site_table(df, notes=(), **settings):
    """Read a table as the command line does."""
    return ShiftProblem.of_table(
        df.rename(columns=str), TableSettings(option=shell_option, **settings), notes, warn=False
    )


def wards(**columns):
    """Three wards of 20 rows."""
    rng = np.random.default_rng(0)
    found = {
        "ward": np.repeat(["A", "B", "C"], 20),
        "age": rng.normal(50, 8, N).round(1),
        "ill": np.resize(["yes", "no", "no"], N),
    }
    return pd.DataFrame(found | columns)


def cycled(*values):
    """A column of these values in turn."""
    return pd.Series([values[i % len(values)] for i in range(N)], dtype=object, name="x")


def csv(sep=",", **columns):
    return wards(**columns).to_csv(index=False, sep=sep)


@dataclass
class Case:
    """A file, and what is expected of it.

    `x` is a column beside ward, age and ill; `file` is the whole file instead. Expected are kind,
    first values and remark of x, classes, notes, or an error.
    """

    what: str
    x: list = field(default_factory=list)
    file: str | bytes = ""
    name: str = "t.csv"
    options: dict = field(default_factory=dict)
    kind: str = ""
    first: list = field(default_factory=list)
    remark: str = ""
    classes: list = field(default_factory=list)
    task: str = "classification"
    note: str = ""
    error: str = ""


def number(what, x, first, remark="", **options):
    return Case(what, x, kind="number", first=first, remark=remark, options=options)


def date(what, x, remark, **options):
    """The first date is 4 March 2024, the last, if it is one, 31 December."""
    days = [pd.Timestamp("2024-03-04"), *[pd.Timestamp("2024-12-31")] * ("31" in x[1])]
    return Case(what, x, kind="date", first=days, remark=remark, options=options)


def category(what, x, remark="", **options):
    return Case(what, x, kind="category", remark=remark, options=options)


def label(what, ill, classes=("no", "yes"), note="", **options):
    file = csv(ill=[ill[i % len(ill)] for i in range(N)])
    options = {"missing_labels": "drop"} | options
    return Case(what, file=file, classes=list(classes), note=note, options=options)


def quantity(what, ill, note):
    return Case(what, file=csv(ill=np.resize(ill, N)), task="regression", note=note)


def file(what, content, name="t.csv", note="", **options):
    return Case(what, file=content, name=name, note=note, options=options)


def refused(what, content, error, name="t.csv", **options):
    return Case(what, file=content, name=name, error=error, options=options)


# Day and month: the order is seen where a day is above 12.
DAY_FIRST = [f"{i % 28 + 1:02}/{i % 12 + 1:02}/2024" for i in range(N)]
MONTH_FIRST = [f"{i % 12 + 1:02}/{i % 28 + 1:02}/2024" for i in range(N)]
UNCLEAR = [f"{i % 12 + 1:02}/{i % 11 + 1:02}/2024" for i in range(N)]
WHOLE = csv()
UMLAUTS = csv(ill=np.resize(["ja", "größer"], N))
COMMAS = wards().to_csv(index=False, sep=";", decimal=",")

CASES = [
    # ------------------------------------------------------------ numbers
    number("plain", ["1", "2.5"], [1, 2.5]),
    number("spaces around", [" 1", "2.5 "], [1, 2.5]),
    number("signs", ["-1.5", "+2"], [-1.5, 2]),
    number("exponents", ["1e3", "2E-1"], [1000, 0.2]),
    number("decimal comma", ["3,5", "4"], [3.5, 4], "a decimal comma ('3,5')"),
    number("comma and points", ["1.234,5", "2,25"], [1234.5, 2.25], "comma and separators of"),
    number("thousands", ["1,234.5", "7"], [1234.5, 7], "separators of thousands ('1,234.5')"),
    number("spaces of thousands", ["1 234", "5"], [1234, 5], "separators of thousands"),
    number("narrow spaces", ["1\u202f234", "5"], [1234, 5], "separators of thousands"),
    number("apostrophes", ["1'234", "5"], [1234, 5], "separators of thousands"),
    number("dollars", ["$5", "$1,200.50"], [5, 1200.5], "'$'"),
    number("euros behind", ["5 €", "7,50 €"], [5, 7.5], "a decimal comma and '€'"),
    number("EUR", ["EUR 5", "EUR 6"], [5, 6], "'EUR'"),
    number("per cent", ["12%", "3.5 %"], [12, 3.5], "'%'"),
    number("a unit", ["70 kg", "80.5 kg"], [70, 80.5], "'kg'"),
    number("a unit with a slash", ["5 mg/dl", "6 mg/dl"], [5, 6], "'mg/dl'"),
    number("years", ["1999", "2004"], [1999, 2004]),
    number(
        "below detection",
        ["<5", *map(str, np.arange(19) * 7 % 19)],
        [np.nan, 0],
        "'<5') and count as",
    ),
    number("unknown", [*map(str, range(20)), "unknown"], [0, 1], "'unknown') and count as missing"),
    number(
        "a decimal comma at one ward",
        [f"{i},5" if i < 20 else f"{i}.5" for i in range(N)],
        [0.5, 1.5],
        "a decimal comma at 'A' ('0,5')",
    ),
    # ------------------------------------------------------------ codes for missing
    number("a point", ["1", "."], [1, np.nan], "'.' in 30 rows counts as missing"),
    number("a question mark", ["1", "?"], [1, np.nan], "'?' in 30 rows counts as missing"),
    number("a dash", ["1", "-"], [1, np.nan], "'-' in 30 rows counts as missing"),
    number("NA", ["1", "NA", "2"], [1, np.nan]),
    number("an error of Excel", ["1", "#DIV/0!"], [1, np.nan], "'#DIV/0!' in 30 rows counts as"),
    number("999", ["1", "2", "3", "999"], [1, 2, 3, 999], "code for missing? --missing x=999"),
    number("-9", ["1,5", "2", "-9"], [1.5, 2, -9], "code for missing? --missing x=-9"),
    number("two codes", ["1", "3", "777", "999"], [1], "? --missing x=777 --missing x=999"),
    number("an age of 99", ["18", "55", "90", "99"], [18]),
    number("999 as requested", ["1", "2", "999"], [1, 2, np.nan], missing={"x": 999}),
    category("text as requested", ["a", "b", "unknown"], missing={"x": "unknown"}),
    Case(
        "no such code",
        ["1"],
        error="has no value 9, which is to be missing",
        options={"missing": {"x": "9"}},
    ),
    Case("no such column", ["1"], error="did you mean 'age'", options={"missing": {"agee": "9"}}),
    # ------------------------------------------------------------ dates
    date("year first", ["2024-03-04", "2024-12-31"], "dates (year-month-day)"),
    date("with a time", ["2024-03-04T10:30", "2024-12-31T08:00"], "dates (year-month-day)"),
    date("with a time zone", ["2024-03-04T10:00Z", "2024-12-31T10:00+02:00"], "(year-month-day)"),
    date("points", ["04.03.2024", "31.12.2024"], "dates (day.month.year)"),
    date("points, time", ["04.03.2024 10:30", "31.12.2024 8:00"], "dates (day.month.year time)"),
    date("points, short", ["04.03.24", "31.12.24"], "dates (day.month.year in two digits)"),
    date("day/month", ["04/03/2024", "31/12/2024"], "dates (day/month/year)"),
    date("month/day", ["03/04/2024", "12/31/2024"], "dates (month/day/year)"),
    date("month/day, short", ["3/4/24", "12/31/24"], "dates (month/day/year in two digits)"),
    date("seconds", ["04/03/2024 10:30:00", "31/12/2024 8:00:01"], "dates (day/month/year time)"),
    date("day-month", ["04-03-2024", "31-12-2024"], "dates (day-month-year)"),
    date("names of months", ["04-Mar-2024", "31-Dec-2024"], "dates (day-name of the month-year)"),
    date(
        "a code among dates", ["2024-03-04", "?", "2024-12-31"], "'?' in 20 rows counts as missing"
    ),
    date("two formats", ["2024-03-04", "31.12.2024"], "year-month-day, also day.month.year"),
    date("unclear", ["03/04/2024", "05/06/2024"], "would fit as well: --date-format %d/%m/%Y"),
    date("decided", ["04/03/2024", "05/06/2024"], "dates (day/month/year)", dates="%d/%m/%Y"),
    Case(
        "day or month first, by ward",
        [*DAY_FIRST[:20], *MONTH_FIRST[20:]],
        kind="date",
        first=[pd.Timestamp("2024-01-01"), pd.Timestamp("2024-02-02")],
        remark="dates (day/month/year at 'A', month/day/year at 'B' and 'C')",
    ),
    Case(
        "a ward that fits both",
        [*DAY_FIRST[:20], *MONTH_FIRST[20:40], *UNCLEAR[40:]],
        kind="date",
        remark="at 'A'",
    ),
    # ------------------------------------------------------------ categories
    category("words", ["yes", "no"]),
    category("codes of diseases", ["250", "V45", "E909", "401", "I10", "J45", "K21"]),
    category("postcodes", ["01067", "80331"], "codes with leading zeros"),
    category("house numbers", ["12A", "13B"]),
    category("two units", ["70 kg", "150 lb"]),
    category("plus and minus", ["+", "-"]),
    category("codes only", ["?", "-"]),
    category("point and comma in one ward", ["3.5", "3,5"]),
    category("ranges", ["1-2", "3-4"]),
    category("times", ["10:30", "11:45"]),
    category("versions", ["1.2.3", "1.2.4"]),
    category("addresses", ["a@b.de", "c@d.de"]),
    category("blood pressure", ["120/80", "135/90"]),
    category("many texts among numbers", ["1", "2", "(5)"], "66 % numeric; the rest is '(5)'"),
    category("a line break", ["a\nb", "c"]),
    category("quotes", ['say "a"', "b"]),
    # ------------------------------------------------------------ labels
    label("spellings", ["yes", "YES", "no", "no ", "No"], note="has several spellings: "),
    label("blank", ["yes", "no", " "], note="without label are left out"),
    label("a question mark", ["yes", "no", "?"], note="is '?' in 14 rows, which counts as missing"),
    label("a point", ["1", "0", "."], [0, 1], "is '.' in 14 rows, which counts as missing"),
    label("a dash among numbers", ["1", "0", "-"], [0, 1], "is '-' in 14 rows"),
    label("plus and minus", ["+", "-", "+"], ["+", "-"]),
    label("leading zeros", ["01", "02", "02"], ["01", "02"], "has leading zeros"),
    label("floats", ["1.0", "0.0", "0.0"], [0, 1]),
    label("true and false", ["True", "False", "False"], [False, True]),
    quantity("decimal commas", [f"{i},5" for i in range(60)], "numbers with a decimal comma"),
    quantity("dollars", [f"${i}.50" for i in range(60)], "numbers with '$'"),
    quantity("999", [*np.arange(20) / 2, 999], "code for missing? --missing ill=999"),
    refused("unlabelled rows", csv(ill=np.resize(["a", "b", " "], N)), "is missing in"),
    refused("a few words", csv(ill=[*np.arange(59) / 2, "x"]), "is numeric, but text in 1 row"),
    # ------------------------------------------------------------ sites
    Case(
        "spaces in names of wards",
        file=csv(ward=np.resize(["A", "B", "B ", " C", "C"], N)),
        note="has spaces in 12 rows: 'B ' is read as 'B'",
    ),
    file("wards as floats", csv(ward=np.repeat([1.0, 2.0, 3.0], 20)), target="1"),
    file("wards with zeros", csv(ward=np.repeat(["01", "02", "03"], 20)), target="1"),
    refused("rows without a ward", csv(ward=["A", "B", None] * 20), "is empty in 20 row"),
    file(
        "a sum below",
        WHOLE + "Total,,\n",
        note="1 row without label is left out: 1 of 'Total'",
        missing_labels="drop",
    ),
    # ------------------------------------------------------------ forms of files
    file("semicolons", COMMAS),
    file("semicolons, points", csv(sep=";")),
    file("tabs", csv(sep="\t"), "t.tsv"),
    file("bars", csv(sep="|"), "t.txt"),
    file("spaces after commas", WHOLE.replace(",", ", ")),
    file("spaces in names", WHOLE.replace("age", " age ", 1).replace("ill", "ill ", 1)),
    file("lines of Windows", WHOLE.replace("\n", "\r\n")),
    file("lines of old Macs", WHOLE.replace("\n", "\r")),
    file("a long text", WHOLE.replace(",", f",{'x' * 140_000}", 1).replace("\n", ",\n")),
    file("blank lines", WHOLE.replace("\n", "\n\n")),
    file("commas at the ends", WHOLE.replace("\n", ",\n")),
    file("quotes around all", wards().to_csv(index=False, quoting=1)),
    file("an index", wards().to_csv()),
    file("a name that is a number", WHOLE.replace("age", "2019", 1)),
    file("short rows", WHOLE + "B,1\n", missing_labels="drop", note="without label is left out"),
    *(
        Case(f"in {code}", file=UMLAUTS.encode(code), classes=["größer", "ja"])
        for code in ("utf-8", "utf-8-sig", "utf-16", "cp1252")
    ),
    file("gzip", gzip.compress(WHOLE.encode()), "t.csv.gz"),
    file("bzip2", bz2.compress(WHOLE.encode()), "t.csv.bz2"),
    file("JSON lines", wards().to_json(orient="records", lines=True), "t.jsonl"),
    refused("a title", "Export of 2024-05-01\n" + WHOLE, "line 2 looks like the names"),
    refused("a title with commas", "Ward data,,\n" + WHOLE, "line 2 looks like the names"),
    refused("lines above", "Hospital X\n\nall wards\n" + WHOLE, "line 4 looks like the names"),
    refused("a comment", "# exported\n" + WHOLE, "line 2 looks like the names"),
    refused("long rows", WHOLE + "A,1,yes,more\n", "Expected 3 fields in line 62, saw 4"),
    refused("no rows", "ward,age,ill\n", "has column names but no rows"),
    refused("nothing", "", "is empty; is it the right file?"),
    refused("one column", "ward\nA\nB\n", "has only one column, 'ward'"),
    refused("blanks between fields", csv(sep=" "), "has only one column"),
    refused(
        "no text", b"\x00\x01\x02\x03", "is not a table|only one column|is empty"
    ),  # by pandas 2
    refused("half a gzip", gzip.compress(WHOLE.encode())[:80], "cannot be read", "t.csv.gz"),
    refused("no Parquet", WHOLE, "cannot be read as parquet", "t.parquet"),
    refused("infinite", csv(age=["inf", *["1", "2"] * 29, "3"]), "has 1 infinite value"),
    refused("another name", WHOLE.replace("ward", "Ward", 1), "did you mean 'Ward'"),
]


def test_the_corpus_is_large_enough():
    assert len({(case.what, case.name, str(case.file)) for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_files(case, tmp_path):
    path = tmp_path / case.name
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
    content = case.file or (csv(x=cycled(*case.x)) if case.x else "")
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    options = {"target": "A"} | case.options
    if case.error:
        with pytest.raises(ProblemError, match=case.error.replace("?", r"\?")):
            site_table(read_file(path), site="ward", label="ill", **options)
        return
    table = site_table(read_file(path), site="ward", label="ill", **options)
    assert table.task == case.task
    assert sum(map(len, table.sources)) >= 20
    if case.x:
        assert table.columns["x"].kind == case.kind
        assert case.remark in table.columns.overview().loc["x", "remark"]
        assert bool(case.remark) or not table.columns.overview().loc["x", "remark"]
        found = table.target.X["x" if case.kind != "date" else "x_month"][: len(case.first)]
        expected = pd.Series(case.first, found.index)
        if case.kind == "date" and case.first:
            expected = expected.dt.month
        pd.testing.assert_series_equal(found, expected, check_dtype=False, check_names=False)
    if case.classes:
        assert table.classes.tolist() == case.classes
    assert any(case.note in note for note in table.notes) or not case.note


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, "a"], "category"),
        ([True, False], "category"),
        ([dt.date(2024, 3, 4), dt.date(2024, 12, 31)], "date"),
    ],
)
def test_cells_of_a_spreadsheet(values, kind):
    assert typed(cycled(*values))[0].kind == kind


def test_every_site_may_write_dates_in_its_own_way():
    days = pd.Series(pd.date_range("2024-01-01", periods=30, freq="5D"))
    styles = {"A": "%d/%m/%Y", "B": "%m/%d/%Y", "C": "%d.%m.%Y", "D": "%Y-%m-%d", "E": "%d/%m/%Y"}
    column = pd.concat([days.dt.strftime(each) for each in styles.values()], ignore_index=True)
    found, values = typed(column, TableRows(pd.Series(np.repeat([*styles], 30)), "A"))
    assert found.kind == "date"
    assert values.to_list() == [*days] * 5
    assert found.remark == (
        "dates (day/month/year at 'A' and 'E', month/day/year at 'B', day.month.year at 'C', "
        "year-month-day at 'D')"
    )


def test_a_date_format_decides():
    column = cycled("03/04/2024", "05/06/2024")
    assert typed(column)[1].dt.month.to_list()[:2] == [3, 5]
    decided, values = typed(column, date_format="%d/%m/%Y")
    assert values.dt.month.to_list()[:2] == [4, 6]
    assert decided.date_format == "%d/%m/%Y"
    assert typed(cycled("24Mar04", "24Apr05"), date_format="%y%b%d")[0].kind == "date"
    assert typed(cycled("a", "b"), date_format="%d/%m/%Y")[0].kind == "category"


def test_all_rows_decide():
    """Not the first twenty, nor the first thousand."""
    column = pd.Series(["2024-03-04"] * 30 + ["see above"] * 30, dtype=object)
    assert typed(column)[0].kind == "category"
    assert typed(pd.Series(["n/s"] * 3 + ["2024-03-04"] * 57))[0].kind == "date"


# ---------------------------------------------------------------- files


def test_several_files(tmp_path):
    df = wards(code=[f"{i % 7:03}" for i in range(N)])
    df[:20].to_csv(tmp_path / "a.csv", index=False)
    df[20:][["age", "ill", "ward", "code"]].to_csv(tmp_path / "b.csv", index=False, sep=";")
    found = read_file(tmp_path / "*.csv")
    pd.testing.assert_frame_equal(found.astype({"age": float}), df, check_dtype=False)
    written = read_as_written(tmp_path / "*.csv", ["code"])
    assert written["code"].to_list() == df["code"].to_list()
    df.drop(columns="age").to_csv(tmp_path / "c.csv", index=False)
    with pytest.raises(
        ProblemError, match=r"c.csv has other columns than .*a.csv: it lacks \['age"
    ):
        read_file(tmp_path / "*.csv")
    with pytest.raises(ProblemError, match="no file matches"):
        read_file(tmp_path / "*.parquet")


def test_an_index_that_says_nothing(tmp_path):
    """Parquet keeps the index of a frame of pandas, in which rows may have the same number."""
    pytest.importorskip("pyarrow")
    df = wards(age=["1", "x", "2"] * (N // 3)).set_axis(np.ones(N, dtype=int))
    df.to_parquet(tmp_path / "t.parquet")
    found = read_file(tmp_path / "t.parquet")
    assert found.index.to_list() == list(range(N))
    numbered = df.reset_index(drop=True)
    one, other = (site_table(each, site="ward", target="A", label="ill") for each in (df, numbered))
    assert one.columns == other.columns


def test_json_lines_and_excel(tmp_path):
    df = wards(code=[f"{i % 7:03}" for i in range(N)])
    df.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    pd.testing.assert_frame_equal(read_file(tmp_path / "t.jsonl"), df, check_dtype=False)
    pytest.importorskip("openpyxl")
    df.to_excel(tmp_path / "t.xlsx", index=False)
    pd.testing.assert_frame_equal(read_file(tmp_path / "t.xlsx"), df, check_dtype=False)
    assert read_as_written(tmp_path / "t.xlsx", ["code"])["code"][1] == "001"
    df.to_excel(tmp_path / "t.xlsx", index=False, startrow=3)
    with pytest.raises(ProblemError, match="begins with an empty line, and line 4 looks like"):
        read_file(tmp_path / "t.xlsx")
    above = [["Wards of 2024", None, None, None], [None] * 4]
    titled = pd.DataFrame([*above, list(df), *df.to_numpy().tolist()])
    titled.to_excel(tmp_path / "t.xlsx", index=False, header=False)
    with pytest.raises(ProblemError, match="begins with 'Wards of 2024', and line 3 looks like"):
        read_file(tmp_path / "t.xlsx")


# ---------------------------------------------------------------- new rows


def notes_on(trained, new):
    """What is noted about a column of new rows, by a profile of training rows."""
    values = cycled(*trained).rename("x")
    sites = pd.Series(np.resize(["A", "B", "B"], len(values)))
    column, _ = learn(values, TableRows(sites, "A"), keep=True)
    rows = NewRows(Columns({"x": column}))
    rows.add(pd.DataFrame({"x": cycled(*new)}))
    return " ".join(str(each) for each in rows.findings())


@pytest.mark.parametrize(
    ("trained", "new", "note"),
    [
        (["3,5", "4"], ["3,5", "4"], ""),
        (["70 kg", "80 kg"], ["70 kg", "80 kg"], ""),
        (["70 kg", "80 kg"], ["70 lb", "80 lb"], "are not numbers ('70 lb'"),
        (["$5", "$6"], ["5", "6"], ""),
        (["1", "?"], ["1", "?"], ""),
        ([*"12345678901234567890", "unk."], [*"12345678901234567890", "unk."], ""),
        (
            [*"12345678901234567890", "unk."],
            [*"12345678901234567890", "x"],
            "are not numbers ('x')",
        ),
        (["31.12.2024", "01.02.2024"], ["31.12.2024", "01.02.2024"], ""),
        (["31/12/2024", "01/02/2024"], ["12/31/2024", "02/01/2024"], "written month/day/year"),
        (["f", "m"], ["F", "m "], "is read as"),
        (["f", "m"], ["f", "NA"], "50 % of the values are missing"),
        (["NA", "m"], ["NA", "m"], ""),
        (["1.234", "2.5"], ["1,234", "2,5"], "a decimal comma"),
        (["1234", "5"], ["1,234", "5"], "separators of thousands"),
        (["1.234", "5"], ["1,234", "5"], "a decimal comma"),  # by the range of training
    ],
)
def test_new_rows(trained, new, note):
    found = notes_on(trained, new)
    assert note in found
    assert bool(note) == bool(found)


@pytest.mark.parametrize(
    ("kind", "code", "new"),
    [
        ("number", "999", cycled("1", "999", "999.0")),
        ("number", "999", pd.Series([1.0, 999, 999] * 20)),
        ("category", "unknown", cycled("a", "unknown", "unknown")),
    ],
)
def test_codes_that_training_took_for_missing(kind, code, new):
    column = Column(
        name="x",
        kind=kind,
        missing_texts=(code,),
        missing_at_sites=(2 / 3, 2 / 3),
        low=1.0,
        high=1.0,
        levels=("a",),
    )
    rows = NewRows(Columns({"x": column}))
    table = pd.DataFrame({"x": new})
    rows.add(table)
    assert rows.findings() == []
    assert rows.read(table)["x"].isna().sum() == 40
