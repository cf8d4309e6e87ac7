"""Run `shiftune`, and send Ctrl-C to its process group at a chosen moment.

usage: python interrupted_command.py MOMENT HOW ARGUMENT...

MOMENT is the import of a module ("typer"), the first call of a function
("shiftune.search._loop:Loop.run"), a later one ("shiftune.search._loop:Loop.run:3"), or the
number of a call of any Python function, counted from the first line of the command; "count"
prints how many there are. HOW is "once"; "stuck", if the process then stays in a call that no
signal ends, as
compiled code can; or "twice", if a second Ctrl-C comes there.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
from importlib.machinery import PathFinder

FOREVER = 3600.0


class Moment:
    """Finder of modules that interrupts when a module is imported, or one of its functions runs."""

    def __init__(self, module, function="", nth="1"):
        self.module, self.function, self.nth = module, function, int(nth)

    def find_spec(self, name, path=None, target=None):
        if name != self.module:
            return None
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def then_watch(module):
            if not self.function:
                interrupt()
            execute(module)
            if self.function:
                self.watch(module)

        spec.loader.exec_module = then_watch
        return spec

    def watch(self, module):
        *owners, name = self.function.split(".")
        owner = functools.reduce(getattr, owners, module)
        function = getattr(owner, name)

        @functools.wraps(function)
        def watched(*args, **options):
            self.nth -= 1
            if not self.nth:
                interrupt()
            return function(*args, **options)

        setattr(owner, name, watched)


def count_calls(last):
    """Interrupt at a call of any Python function; return a function that counts them."""
    calls = 0

    def watch(frame, event, _):
        nonlocal calls
        calls += event == "call"
        if calls == last:
            sys.setprofile(None)
            interrupt()

    sys.setprofile(watch)
    return lambda: calls


def interrupt():
    if mark := os.environ.get("SHIFTUNE_SIGNAL_FILE"):  # for sweep_interrupts.py
        with open(mark, "w") as file:
            file.write(repr(time.time()))
    os.killpg(0, signal.SIGINT)
    if HOW == "twice":
        from shiftune import _interrupts

        _interrupts.GRACE = FOREVER
        os.killpg(0, signal.SIGINT)
    if HOW in ("stuck", "twice"):
        time.sleep(FOREVER)  # goes on after a handler that raises nothing


if __name__ == "__main__":
    MOMENT, HOW, *arguments = sys.argv[1:]
    sys.argv = ["shiftune", *arguments]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of shells
    from shiftune.__main__ import main

    if MOMENT == "count":
        counted = count_calls(-1)
        try:
            main()
        finally:
            sys.setprofile(None)
            print("calls", counted(), file=sys.stderr)
    elif MOMENT.isdecimal():
        count_calls(int(MOMENT))
        main()
    else:
        sys.meta_path.insert(0, Moment(*MOMENT.split(":")))
        main()
