"""Which items a pool gets, and what becomes of those that wait for others."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from shiftune.workers._deaths import Death
from shiftune.workers._in_worker import Outcome, pack_item, run
from shiftune.workers._workers import Items


def divide(context, item):
    return context / item


def outcome(*, succeeds: bool) -> Outcome:
    return run(1, pack_item(divide, 1 if succeeds else 0))


def items(*keys, **after) -> Items:
    found = Items()
    for key in keys:
        found.add(key, None, after.get(key))
    return found


def started(found: Items, n_workers: int) -> list:
    starting = found.startable(n_workers)
    for item in starting:
        item.future = Future()
    return [item.key for item in starting]


def test_two_per_worker():
    found = items(*"abcde")
    assert started(found, 2) == list("abcd")
    assert started(found, 2) == []
    found.finish(found["b"], outcome(succeeds=True))
    assert started(found, 2) == ["e"]


def test_items_after_another_run_early_only_on_idle_workers():
    found = items("a", "a1", "a2", "b", a1="a", a2="a")
    assert started(found, 3) == ["a", "b", "a1"]
    assert started(found, 3) == []
    found.finish(found["a"], outcome(succeeds=True))
    assert started(found, 3) == ["a2"]  # no more after another: up to two per worker


@pytest.mark.parametrize("failure", [outcome(succeeds=False), RuntimeError("died")])
def test_items_after_a_failed_one_are_dropped(failure):
    found = items("a", "a1", "a2", "b", a1="a", a2="a")
    assert started(found, 3) == ["a", "b", "a1"]
    running = found["a1"]
    found.finish(found["a"], failure)
    assert running.dropped
    for key in ("a1", "a2"):
        with pytest.raises(KeyError, match="dropped"):
            found[key]
    assert [item.key for item in found.unfinished] == ["a1", "b"]  # a worker has a1
    found.finish(running, outcome(succeeds=True))
    with pytest.raises(KeyError):
        found["a1"]


def test_dropped_items_are_not_run_again():
    found = items("a", "b")
    started(found, 1)
    found.drop(found["a"])
    dropped, other = found.flying.values()
    found.finish(dropped, Death("outside", "by signal SIGKILL"))
    other.future = None
    assert started(found, 1) == ["b"]


def test_an_item_that_has_to_run_alone_waits_for_those_that_run():
    found = items(*"abcd")
    assert started(found, 1) == ["a", "b"]
    found["c"].deaths.alone = True
    found.finish(found["a"], outcome(succeeds=True))
    assert started(found, 1) == []
    found.finish(found["b"], outcome(succeeds=True))
    assert started(found, 1) == ["c"]
    assert started(found, 1) == []
    found.finish(found["c"], outcome(succeeds=True))
    assert started(found, 1) == ["d"]


def test_no_item_after_one_that_is_done():
    found = items("a")
    found.finish(found["a"], outcome(succeeds=True))
    with pytest.raises(ValueError, match="done"):
        found.add("b", None, "a")
    with pytest.raises(ValueError, match="in use"):
        found.add("a", None, None)
