"""What travels between the driver and its workers."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from shiftune.workers._in_worker import pack_item, read_context, run, write_context


def test_a_context_is_read_as_it_was_written(tmp_path):
    write_context(str(tmp_path), {"age": np.arange(3.0)})
    np.testing.assert_array_equal(read_context(str(tmp_path))["age"], [0.0, 1.0, 2.0])


def test_outcomes_are_returned_or_raised():
    assert run(10, pack_item(operator.add, 5)).unpack() == 15
    failed = run(10, pack_item(operator.truediv, 0))
    assert not failed.succeeded
    with pytest.raises(ZeroDivisionError):
        failed.unpack()
