"""Run `shiftune`, and send Ctrl-C to its process group at a chosen moment.

usage: python interrupted_command.py MOMENT HOW ARGUMENT...

MOMENT is the first call of a function ("loop.py:Loop.run"), a later one ("loop.py:Loop.run:3"), or
the number of a call of any Python function, counted from the first line of the command. "count"
prints how many there are. HOW is "once"; "stuck", if the process then stays in a call that no
signal ends, as compiled code can; or "twice", if a second Ctrl-C comes there.
"""

from __future__ import annotations

import os
import signal
import sys
import time

FOREVER = 3600.0


def at(moment, act):
    """Call `act` when the moment comes."""
    calls = 0
    where, name, nth = "", "", moment
    if not moment.isdecimal():
        where, name, nth = (*moment.split(":"), "1")[:3]

    def watch(frame, event, _):
        nonlocal calls
        if event != "call":
            return
        code = frame.f_code
        if not name or (code.co_qualname == name and code.co_filename.endswith(where)):
            calls += 1
            if calls == int(nth):
                sys.setprofile(None)
                act()

    sys.setprofile(watch)
    return lambda: calls


def interrupt():
    if mark := os.environ.get("SHIFTUNE_SIGNAL_FILE"):  # for sweep_interrupts.py
        with open(mark, "w") as file:
            file.write(repr(time.time()))
    os.killpg(0, signal.SIGINT)
    if HOW == "twice":
        from shiftune import entry

        entry.GRACE = FOREVER
        os.killpg(0, signal.SIGINT)
    if HOW in ("stuck", "twice"):
        time.sleep(FOREVER)  # goes on after a handler that raises nothing


if __name__ == "__main__":
    MOMENT, HOW, *arguments = sys.argv[1:]
    sys.argv = ["shiftune", *arguments]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of shells
    from shiftune.__main__ import main

    if MOMENT == "count":
        counted = at(str(10**12), interrupt)
        try:
            main()
        finally:
            sys.setprofile(None)
            print("calls", counted(), file=sys.stderr)
    else:
        at(MOMENT, interrupt)
        main()
