"""`python -m fuzz`: random problems through the API, files through commands, altered models.

Cases run in blocks. A block that fails prints the smallest case that Hypothesis finds for each bug,
and the command that repeats it; the others go on.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from fuzz import api, command_line, models
from fuzz.files import random_files
from fuzz.problems import random_problems

BLOCK = 100
Ends = Counter[tuple[str, str]]


def run_problems(count: int, first: int, ends: Ends, *, parts: list[str] | None = None) -> None:
    """Take so many random problems through the API."""

    @given(random_problems(), st.sampled_from(parts or api.SHARES_OF_PARTS), st.data())
    def case(problem: Any, part: str, data: st.DataObject) -> None:
        ends[part, api.passed(problem, part, data.draw)] += 1

    _run(case, count, first)


def run_files(count: int, first: int, ends: Ends) -> None:
    """Take so many random files through the command line."""

    @given(random_files(), st.data())
    def case(file: Any, data: st.DataObject) -> None:
        for command, end in command_line.passed(file, data.draw):
            ends[command, end] += 1

    _run(case, count, first)


def run_models(count: int, first: int, ends: Ends) -> None:
    """Load so many altered model files, and predict with them."""
    for number in range(count):
        name, end, what = models.passed(random.Random(f"{first} {number}"))
        ends["models", end] += 1
        assert end in models.ENDS.values(), f"number {number}: {name} ended by {end} ({what})"


def _run(case: Callable[..., None], count: int, first: int) -> None:
    """Run a test of Hypothesis with a seed, outside pytest."""
    limits = settings(
        max_examples=count,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    seed(first)(limits(case))()


KINDS = {"problems": run_problems, "files": run_files, "models": run_models}


def _blocks(kind: str, count: int, first: int) -> int:
    """Run so many cases and print how they ended; Ctrl-C ends that. Return the blocks with bugs."""
    ends: Ends = Counter()
    began, failed, done = time.monotonic(), 0, 0
    while done < count:
        block, size = first + done // BLOCK, min(BLOCK, count - done)
        try:
            KINDS[kind](size, block, ends)
        except KeyboardInterrupt:
            break
        except Exception:
            failed += 1
            others = " ".join(f"--{other} 0" for other in KINDS if other != kind)
            print(traceback.format_exc())
            print(f"repeat: python -m fuzz --{kind} {size} {others} --seed {block}")
        done += size
        if done % (10 * BLOCK) == 0:
            print(f"{done} of {count} {kind}, {time.monotonic() - began:.0f} s", flush=True)
    print(f"\n{done} {kind}, {time.monotonic() - began:.0f} s, {failed} blocks with bugs")
    for (part, end), times in sorted(ends.items()):
        print(f"  {part:<12} {end:<32} {times:>7}")
    return failed


def main(arguments: list[str] | None = None) -> int:
    """Run all blocks and print a table; return 1 if any case was neither a result nor an error."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--problems", type=int, default=20_000, help="cases through the API")
    parser.add_argument("--files", type=int, default=1_000, help="cases through the command line")
    parser.add_argument("--models", type=int, default=5_000, help="altered model files")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first block")
    wanted = parser.parse_args(arguments)
    print(f"--seed {wanted.seed}", flush=True)
    bad = sum(_blocks(kind, getattr(wanted, kind), wanted.seed) for kind in KINDS)
    print("bugs above" if bad else "every case ended in a result or an error in words")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
