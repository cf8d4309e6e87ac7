"""An interrupt inside the block is delivered at its end."""

from __future__ import annotations

import signal
import threading

import pytest

from shiftune.search.defer_sigint import defer_sigint


@pytest.fixture(autouse=True)
def python_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def outcome(block) -> type[BaseException] | None:
    """What comes out of a block that cannot be interrupted."""
    try:
        with defer_sigint():
            block()
    except BaseException as error:
        return type(error)
    return None


def interrupt():
    signal.raise_signal(signal.SIGINT)


def test_it_waits_for_the_end():
    done = []

    def block():
        interrupt()
        done.append("inside")

    assert outcome(block) is KeyboardInterrupt
    assert done == ["inside"]


def test_blocks_in_blocks():
    done = []

    def block():
        with defer_sigint():
            interrupt()
        done.append("outer")

    assert outcome(block) is KeyboardInterrupt
    assert done == ["outer"]


def test_an_error_does_not_hide_it():
    def block():
        interrupt()
        raise FileNotFoundError

    assert outcome(block) is KeyboardInterrupt


def test_the_second_does_not_wait():
    done = []

    def block():
        interrupt()
        interrupt()
        done.append("inside")

    assert outcome(block) is KeyboardInterrupt
    assert done == []


def test_without_an_interrupt_nothing_changes():
    def block():
        raise FileNotFoundError

    assert outcome(block) is FileNotFoundError
    assert outcome(list) is None


def test_an_ignored_interrupt_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with defer_sigint():
        interrupt()
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is signal.SIG_IGN


def test_in_another_thread_it_does_nothing():
    done = []

    def work():
        with defer_sigint():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
