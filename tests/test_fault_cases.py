"""A few faults at random moments; `make faults` has hundreds."""

from __future__ import annotations

import os
import random
import signal
from types import SimpleNamespace

import pytest
from faults import driver
from faults.cases import SIGNALS, Cases, Record, is_good
from faults.driver import Driver
from faults.table import phases, table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("workers"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks"),
]


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    return Cases(tmp_path_factory.mktemp("faults"), cluster="")


COUNTS = {
    "driver_stopped": 6,
    "stopped_in_hang": 3,
    "workers_signalled": 2,
    "faulty_model": 5,
    "several_drivers": 2,
    "damaged_journal": 12,
    "storage_fault": 6,
    "damaged_file": 4,
    "odd_surroundings": 4,
    "joining_without_locks": 1,
}


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name in COUNTS for number in range(COUNTS[name])]
)
def test_faults_do_no_harm(cases, name, number):
    record = getattr(cases, name)(random.Random(number), number)
    assert is_good(record), record


def test_a_kernel_that_is_interrupted_does_no_harm(cases):
    """It begins in a folder of its own, and finds the model of the notebook nevertheless."""
    pytest.importorskip("jupyter_client")
    pytest.importorskip("ipykernel")
    record = cases.notebook(random.Random(0), 0)
    assert is_good(record), record


def test_a_driver_that_fails_when_it_is_stopped_did_harm(cases, monkeypatch):
    """The process of the driver is forked from this one."""

    def hear(hear_signals=driver.hear_signals):
        signal.signal(signal.SIGTERM, lambda *_: os._exit(1))
        hear_signals()

    monkeypatch.setattr(driver, "hear_signals", hear)
    monkeypatch.setattr(cases, "_any_driver", lambda rng: Driver())
    at_once = SimpleNamespace(random=lambda: 0.0)  # it hears the signal when it can hear any
    record = cases.driver_stopped(at_once, list(SIGNALS).index("SIGTERM"))
    assert (record.tracebacks, record.same) == (1, True)
    assert not is_good(record)


def test_the_table_counts_harm():
    good, bad = Record("a", "", "trials", same=True), Record("a", "", "trials", lost=2)
    records = [good, bad, Record("b", "")]
    lines = table(records).splitlines()
    assert lines[2].startswith("| a | 2 | 1 | 2 | 0 |")
    assert lines[3].startswith("| b | 1 | 0 | 0 |")
    assert phases(records) == "trials: 2"
