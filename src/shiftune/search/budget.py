"""Budget of a search of several families: whose turn it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

# Trials that every family has before its weight counts, its defaults among them.
FIRST_TRIALS = 8
# Added to every weight, so that a family of little weight is not left with its first trials.
FLOOR = 0.1


def next_family(proposed: Mapping[str, int], weights: Callable[[], Mapping[str, float]]) -> str:
    """Return the family of the next trial.

    Every family's first trial comes first, then every family in turn until each has
    `FIRST_TRIALS`. From then on it is the family with the largest
    ``(weight + FLOOR) / (proposed + 1)``, so that the numbers of trials tend to the weights. A
    family of weight 0 gets no more.

    Parameters
    ----------
    proposed : mapping from names to numbers of trials, in the order of the families
    weights : function
        Returns a mapping from names to weights >= 0, such as the shares of the families in the
        ensemble so far; all 0 counts as all equal. Not called before they count.

    Examples
    --------
    >>> next_family({"linear": 1, "trees": 0}, dict)
    'trees'
    >>> next_family({"linear": 8, "trees": 9}, lambda: {"linear": 0.2, "trees": 0.8})
    'trees'
    >>> next_family({"linear": 8, "trees": 50}, lambda: {"linear": 0.0, "trees": 1.0})
    'trees'
    """
    fewest = min(proposed, key=proposed.__getitem__)
    if proposed[fewest] < FIRST_TRIALS:
        return fewest
    known = weights()
    wanted = {name: known.get(name, 0.0) for name in proposed}
    if not any(wanted.values()):
        wanted = dict.fromkeys(proposed, 1.0)
    alive = [name for name, weight in wanted.items() if weight > 0]
    return max(alive, key=lambda name: (wanted[name] + FLOOR) / (proposed[name] + 1))
