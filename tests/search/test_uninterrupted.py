"""An interrupt inside the block is delivered at its end."""

from __future__ import annotations

import signal
import threading

import pytest

from shiftune.search.uninterrupted import uninterrupted


@pytest.fixture(autouse=True)
def python_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_it_waits_for_the_end():
    done = []
    with pytest.raises(KeyboardInterrupt):
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done.append("inside")
        done.append("after")
    assert done == ["inside"]


def test_blocks_in_blocks():
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
        done.append("outer")
    assert done == ["outer"]


def test_an_error_does_not_hide_it():
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        raise FileNotFoundError


def test_the_second_does_not_wait():
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        done.append("inside")
    assert done == []


def test_without_an_interrupt_errors_pass():
    with pytest.raises(FileNotFoundError), uninterrupted():
        raise FileNotFoundError


def test_an_ignored_interrupt_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is signal.SIG_IGN


def test_in_another_thread_it_does_nothing():
    done = []

    def work():
        with uninterrupted():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
