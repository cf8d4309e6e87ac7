"""Budget of a search of several families: whose turn it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

# Trials that every family has before its weight counts, its defaults among them.
FIRST_TRIALS = 8
# Added to every weight, so that a family of little weight is not left with its first trials.
FLOOR = 0.1


def first_trials(
    seconds: Mapping[str, Sequence[float]], time: float | None = None
) -> dict[str, int]:
    """Return how many trials each family has before its weight counts.

    These are `FIRST_TRIALS`. Where the time is limited, the first trial of every family comes
    first, and the rest of the time is divided equally: a family has as many more as its mean trial
    fits into its share.

    Parameters
    ----------
    seconds : mapping from names to the times of the finished trials, in their order
        A family without any is expected to cost nothing.
    time : float, optional
        Seconds of the search, times the number of workers.

    Examples
    --------
    >>> first_trials({"linear": [1.0], "trees": [30.0, 50.0]}, 131.0)  # 100 s are left
    {'linear': 8, 'trees': 2}
    """
    if time is None:
        return dict.fromkeys(seconds, FIRST_TRIALS)
    share = max(time - sum(times[0] for times in seconds.values() if times), 0) / len(seconds)
    means = {name: sum(times) / max(len(times), 1) for name, times in seconds.items()}
    more = FIRST_TRIALS - 1
    return {
        name: 1 + (more if more * mean <= share else int(share / mean))
        for name, mean in means.items()
    }


def next_family(
    proposed: Mapping[str, int],
    weights: Callable[[], Mapping[str, float]],
    first: Mapping[str, int] | None = None,
) -> str:
    """Return the family of the next trial.

    Every family's first trial comes first, then every family in turn until each has its first
    trials. From then on it is the family with the largest
    ``(weight + FLOOR) / (proposed + 1)``, so that the numbers of trials tend to the weights. A
    family of weight 0 gets no more.

    Parameters
    ----------
    proposed : mapping from names to numbers of trials, in the order of the families
    weights : function
        Returns a mapping from names to weights >= 0, such as the shares of the families in the
        ensemble so far; all 0 counts as all equal. Not called before they count.
    first : mapping from names to numbers of trials, optional
        First trials of every family; default: `FIRST_TRIALS`.

    Examples
    --------
    >>> next_family({"linear": 1, "trees": 0}, dict)
    'trees'
    >>> next_family({"linear": 8, "trees": 9}, lambda: {"linear": 0.2, "trees": 0.8})
    'trees'
    >>> next_family({"linear": 8, "trees": 50}, lambda: {"linear": 0.0, "trees": 1.0})
    'trees'
    """
    first = dict.fromkeys(proposed, FIRST_TRIALS) if first is None else first
    if due := [name for name in proposed if proposed[name] < first[name]]:
        return min(due, key=proposed.__getitem__)
    known = weights()
    wanted = {name: known.get(name, 0.0) for name in proposed}
    if not any(wanted.values()):
        wanted = dict.fromkeys(proposed, 1.0)
    alive = [name for name, weight in wanted.items() if weight > 0]
    return max(alive, key=lambda name: (wanted[name] + FLOOR) / (proposed[name] + 1))
