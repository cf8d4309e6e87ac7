"""Tables of polars and pyarrow, as the rows, labels and sites of a problem."""

from __future__ import annotations

import pandas as pd
import pytest

from shiftune import ShiftProblem
from shiftune.errors import DataError

FRAME = pd.DataFrame(
    {
        "site": list("BBBCCCAA"),
        "age": [60.0, 71.0, None, 30.0, 41.0, 38.0, 45.0, 52.0],
        "sex": list("fmfmfmfm"),
        "y": ["no", "yes", "yes", "no", "no", "yes", None, None],
    }
)


@pytest.fixture(params=["polars", "pyarrow"])
def as_other(request):
    """Turn a frame of pandas into another library's."""
    pa = pytest.importorskip("pyarrow")
    if request.param == "pyarrow":
        return pa.Table.from_pandas
    return pytest.importorskip("polars").from_pandas


def test_one_table(as_other):
    expected = ShiftProblem.from_frame(FRAME, site="site", label="y", target="A")
    found = ShiftProblem.from_frame(as_other(FRAME), site="site", label="y", target="A")
    assert found.fingerprint() == expected.fingerprint()


def test_rows_and_columns(as_other):
    sources, target = FRAME[:6], FRAME[6:]
    features = ["age", "sex"]
    expected = ShiftProblem.from_arrays(
        sources[features], sources["y"], sources["site"], target[features]
    )
    other = as_other(sources)
    found = ShiftProblem.from_arrays(
        other.select(features), other["y"], other["site"], as_other(target[features])
    )
    assert found.fingerprint() == expected.fingerprint()


def test_sites(as_other):
    def given(convert):
        frame = FRAME[["age", "sex"]]
        parts = {name: (FRAME["site"] == name).to_numpy() for name in "ABC"}
        sources = {
            name: (convert(frame[parts[name]]), convert(FRAME[["y"]][parts[name]])["y"])
            for name in "BC"
        }
        return ShiftProblem.from_sites(sources, convert(frame[parts["A"]]))

    assert given(as_other).fingerprint() == given(lambda frame: frame).fingerprint()


def test_types_that_pandas_does_not_know():
    """A table of pyarrow that was made from pandas keeps the name of a type that has none there."""
    pa = pytest.importorskip("pyarrow")
    lists = pd.Series([[1], [2, 3]], dtype=pd.ArrowDtype(pa.list_(pa.int64())))
    table = pa.Table.from_pandas(pd.DataFrame({"site": ["A", "B"], "y": [1, 2], "x": lists}))
    with pytest.raises(DataError, match=r"(the pyarrow Table cannot be turned|type list|ndarray)"):
        ShiftProblem.from_frame(table, site="site", label="y", target="A")
