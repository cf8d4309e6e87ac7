"""An interrupt inside a block is noted, and raised at the next safe point."""

from __future__ import annotations

import signal
import threading

import pytest

from shiftune import _interrupts
from shiftune._interrupts import deferred


@pytest.fixture(autouse=True)
def python_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not _interrupts.noted()
    signal.signal(signal.SIGINT, before)


def outcome(block) -> type[BaseException] | None:
    """What comes out of a block in which interrupts are noted."""
    try:
        with deferred():
            block()
    except BaseException as error:
        return type(error)
    return None


def interrupt():
    signal.raise_signal(signal.SIGINT)


class Dropping:
    """Python prints and drops what a destructor raises."""

    def __init__(self, act):
        self.act = act

    def __del__(self):
        self.act()


def test_it_waits_for_a_safe_point():
    done = []

    def block():
        interrupt()
        done.append("before")
        _interrupts.check()
        done.append("after")

    assert outcome(block) is KeyboardInterrupt
    assert done == ["before"]


def test_the_end_of_the_block_is_a_safe_point():
    assert outcome(interrupt) is KeyboardInterrupt


def test_blocks_in_blocks_share_the_note():
    done = []

    def block():
        with deferred():
            interrupt()
        done.append("outer")
        _interrupts.check()
        done.append("after")

    assert outcome(block) is KeyboardInterrupt
    assert done == ["outer"]


def test_a_destructor_cannot_drop_it():
    done = []

    def block():
        Dropping(interrupt)
        done.append("inside")
        _interrupts.check()

    assert outcome(block) is KeyboardInterrupt
    assert done == ["inside"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_nor_the_second():
    def block():
        interrupt()
        Dropping(interrupt)
        _interrupts.check()
        pytest.fail("the safe point let it pass")

    assert outcome(block) is KeyboardInterrupt


def test_an_error_does_not_hide_it():
    def block():
        interrupt()
        raise FileNotFoundError

    assert outcome(block) is KeyboardInterrupt


def test_whoever_catches_it_hears_of_it_again():
    def block():
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            _interrupts.check()
        _interrupts.check()
        pytest.fail("the safe point let it pass")

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
        _interrupts.check()
        raise FileNotFoundError

    assert outcome(block) is FileNotFoundError
    assert outcome(list) is None


def test_a_handler_of_the_user_comes_back():
    heard = []

    def handler(*_):
        heard.append(True)

    signal.signal(signal.SIGINT, handler)
    assert outcome(interrupt) is KeyboardInterrupt
    interrupt()
    assert heard == [True]
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is handler


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_handlers_that_are_not_pythons_stay(handler):
    signal.signal(signal.SIGINT, handler)
    with deferred():
        assert signal.getsignal(signal.SIGINT) is handler
        _interrupts.check()
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is handler


def test_another_thread_does_not_hear_of_it():
    """Python delivers signals to the main thread; the others work on."""
    done = []

    def work():
        with deferred():
            _interrupts.check()
            done.append(True)

    def block():
        interrupt()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    assert outcome(block) is KeyboardInterrupt
    assert done == [True]
