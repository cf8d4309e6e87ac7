"""A few faults at random moments; `make faults` has hundreds."""

from __future__ import annotations

import os
import random

import pytest
from faults.cases import Cases, Record, is_good
from faults.table import phases, table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("workers"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks"),
]


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    return Cases(tmp_path_factory.mktemp("faults"), cluster="")


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("driver_stopped", 6),
        ("workers_signalled", 2),
        ("faulty_model", 5),
        ("several_drivers", 2),
        ("damaged_journal", 12),
        ("storage_fault", 6),
        ("damaged_file", 4),
    ],
)
def test_faults_do_no_harm(cases, name, count):
    records = [getattr(cases, name)(random.Random(n), n) for n in range(count)]
    assert [record for record in records if not is_good(record)] == []


def test_the_table_counts_harm():
    good, bad = Record("a", "", "trials", same=True), Record("a", "", "trials", lost=2)
    records = [good, bad, Record("b", "")]
    lines = table(records).splitlines()
    assert lines[2].startswith("| a | 2 | 1 | 2 | 0 |")
    assert lines[3].startswith("| b | 1 | 0 | 0 |")
    assert phases(records) == "trials: 2"
