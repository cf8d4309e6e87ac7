"""When items move from the driver's process to workers."""

from __future__ import annotations

import joblib
import pytest

from shiftune.workers._processes import share_of_cores
from shiftune.workers._workers import START_SECONDS, TO_BE_SURE, Here, number_of_workers


@pytest.fixture
def clocks(monkeypatch):
    """CPU seconds and seconds of the clock, which go on when an item says so."""
    now = {"cpu": 0.0, "clock": 0.0}
    monkeypatch.setattr("shiftune.workers._workers.time.process_time", lambda: now["cpu"])
    monkeypatch.setattr("shiftune.workers._workers.time.monotonic", lambda: now["clock"])
    return now


def run(place, clocks, *, cpu, clock=None):
    def task(context, item):
        clocks["cpu"] += cpu
        clocks["clock"] += cpu if clock is None else clock

    place.run(task, None, None)


def test_first_items_are_no_measure(clocks):
    place = Here(2, 401, warm_up=1)
    run(place, clocks, cpu=0.05)  # 10 s would be saved, if all were like it
    assert not place.is_slower()
    run(place, clocks, cpu=0.005)
    assert not place.is_slower()


def test_unless_very_much_would_be_saved(clocks):
    place = Here(2, 401, warm_up=5)
    run(place, clocks, cpu=2.1 * TO_BE_SURE * START_SECONDS / 400)
    assert place.is_slower()


def test_usual_items_decide(clocks):
    place = Here(2, 101, warm_up=1)
    run(place, clocks, cpu=0.0)
    run(place, clocks, cpu=1.9 * START_SECONDS / 99)
    assert not place.is_slower()
    run(place, clocks, cpu=2.5 * START_SECONDS / 99)
    assert place.is_slower()


def test_items_that_wait_are_shared_too(clocks):
    place = Here(8, 400)
    run(place, clocks, cpu=0.0, clock=1.0)
    assert place.is_slower()


def test_a_busy_machine_is_no_reason(clocks):
    place = Here(2, 240)
    for _ in range(3):
        run(place, clocks, cpu=0.02, clock=0.2)
        assert not place.is_slower()


def test_numbers_of_workers_are_read_as_joblib_reads_them():
    assert number_of_workers(3) == 3
    assert number_of_workers(-1) == joblib.cpu_count()
    assert number_of_workers(-10_000) == 1


def test_a_worker_has_at_least_one_core():
    assert set(share_of_cores(10_000).values()) == {"1"}


def test_nothing_is_known_before_the_first_item():
    assert not Here(n_workers=2, n_items=100).is_slower()
