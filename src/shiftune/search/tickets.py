"""Tickets of the drivers of a study: of two that claim the same thing, the first has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import optuna

WHAT, VALUE = "what", "value"


class Ticket(NamedTuple):
    """A claim, with a number that is higher than those of all tickets before it."""

    number: int
    what: str
    value: Any


class Tickets:
    """Claims in an order that all drivers see alike, whichever storage they share.

    They are the trials of a study of their own: trials are what Optuna numbers atomically in every
    storage, and a ticket is never changed.

    Parameters
    ----------
    study : optuna.Study
        For tickets alone.

    Examples
    --------
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> tickets = Tickets(optuna.create_study())
    >>> tickets.claim("trial 3", "first driver").value, tickets.claim("trial 3", "second").value
    ('first driver', 'first driver')
    """

    def __init__(self, study: optuna.Study) -> None:
        self.study = study

    def __iter__(self) -> Iterator[Ticket]:
        for trial in self.study.get_trials(deepcopy=False):
            found = trial.user_attrs
            yield Ticket(trial.number, found[WHAT], found[VALUE])

    def add(self, what: str, value: Any) -> int:
        """Add a ticket; return its number."""
        ticket = optuna.create_trial(value=0.0, user_attrs={WHAT: what, VALUE: value})
        storage = self.study._storage
        number: int = storage.get_trial(
            storage.create_new_trial(self.study._study_id, ticket)
        ).number
        return number

    def claim(self, what: str, value: Any) -> Ticket:
        """Return the first ticket for something, which is ours if nobody was faster."""
        if (found := self._first(what)) is None:
            self.add(what, value)
            found = self._first(what)
        assert found is not None
        return found

    def _first(self, what: str) -> Ticket | None:
        return next((ticket for ticket in self if ticket.what == what), None)
