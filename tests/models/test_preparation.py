"""The columns of the next file are read as those that the model has learned from."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from shiftune.columns import Columns
from shiftune.models._by_name import ColumnReader, NumberedClasses, preparation
from shiftune.rows._encoding import MISSING


@pytest.mark.parametrize(
    ("learned", "next_file"),
    [
        (["01067", "80331", None], [1067, 80331, None]),
        (["01067", "80331"], [1067, 80331]),
        (["a", "007", "0.5"], ["a", "007", "0.5"]),
        ([3, 5], [3.0, None]),
    ],
)
def test_codes_come_as_text_or_as_numbers(learned, next_file):
    reader = ColumnReader(Columns.of_kinds({"code": "category"}))
    first, later = (reader.fit_transform(pd.DataFrame({"code": c})) for c in (learned, next_file))
    known = set(first["code"]) | {MISSING}
    assert set(later["code"]) <= known
    assert first["code"].iloc[0] == later["code"].iloc[0]


SCHEMA = Columns.of_kinds({"age": "number", "sex": "category"})


def test_columns_are_read_in_the_order_of_the_schema():
    table = pd.DataFrame({"sex": ["f", None], "age": ["50", "unknown"]})
    wanted = pd.DataFrame({"age": [50.0, np.nan], "sex": ["f", MISSING]})
    pd.testing.assert_frame_equal(
        ColumnReader(SCHEMA).fit_transform(table), wanted, check_dtype=False
    )


def test_a_number_with_gaps_and_two_categories_are_four_columns():
    table = pd.DataFrame({"age": [40.0, 60.0, None], "sex": ["f", "m", "f"]})
    prepared = preparation(SCHEMA).fit_transform(table)
    assert prepared.shape == (3, 4)
    assert np.isfinite(prepared).all()


def test_classes_of_any_kind_around_a_model_that_needs_numbers():
    X, y = np.arange(4.0)[:, None], np.array(["no", "no", "yes", "yes"])
    model = NumberedClasses(LogisticRegression()).fit(X, y)
    assert model.predict(X).tolist() == y.tolist()
    assert model.classifier_.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(model.predict_proba(X).argmax(axis=1), [0, 0, 1, 1])
