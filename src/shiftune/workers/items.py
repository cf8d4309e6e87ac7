"""Items whose results have not been fetched: which may run now, which wait for others."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shiftune.workers import in_worker
from shiftune.workers.deaths import Deaths

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable


@dataclass(slots=True, eq=False)
class Item:
    """An item whose result has not been fetched."""

    key: Hashable
    payload: Any
    number: int
    """Of all items, in the order in which they were submitted."""

    after: Hashable = None
    """Key of an item without whose success this one is not needed; None once it has succeeded."""

    future: Future[bytes] | None = None
    """None until the item is handed to the pool."""

    outcome: bytes | BaseException | None = None
    dropped: bool = False
    attempts: int = 0
    deaths: Deaths = field(default_factory=Deaths)

    @property
    def name(self) -> str:
        """Name of an attempt, which no other one has."""
        return f"item-{self.number}-{self.attempts}"


class Items:
    """Items by key, in the order in which they were added."""

    def __init__(self) -> None:
        self._items: dict[Hashable, Item] = {}
        self._added = 0

    def __contains__(self, key: Hashable) -> bool:
        return key in self._items and not self._items[key].dropped

    def __getitem__(self, key: Hashable) -> Item:
        if key not in self:
            raise KeyError(f"there is no item {key}, or its result was fetched or dropped")
        return self._items[key]

    def add(self, key: Hashable, item: Any, after: Hashable) -> None:
        """Add an item, after one that is not settled yet."""
        if key in self._items:
            raise ValueError(f"key {key} is in use")
        if after is not None and self[after].outcome is not None:
            raise ValueError(f"item {after} is done")
        self._items[key] = Item(key, item, self._added, after)
        self._added += 1

    def pop(self, key: Hashable) -> Item:
        """Remove an item and return it."""
        return self._items.pop(key)

    def clear(self) -> None:
        """Remove all items."""
        self._items.clear()

    def drop(self, item: Item) -> None:
        """Remove an item, now or when a worker that has it is done."""
        item.dropped = True
        if item.future is None or item.outcome is not None:
            self._forget(item)

    def _forget(self, item: Item) -> None:
        del self._items[item.key]
        if isinstance(item.outcome, bytes):
            in_worker.discard(item.outcome)

    @property
    def unfinished(self) -> list[Item]:
        """The items without outcome."""
        return [item for item in self._items.values() if item.outcome is None]

    @property
    def flying(self) -> dict[Future[bytes], Item]:
        """The items that were handed over and have no outcome, by their future."""
        return {item.future: item for item in self.unfinished if item.future is not None}

    def startable(self, n_workers: int) -> list[Item]:
        """Return what is to be handed over: an item that has to run alone, or several.

        Up to two per worker, so that none waits for the driver; items after an unfinished one only
        where a worker is idle.
        """
        flying = len(self.flying)
        alone = [item for item in self.unfinished if item.deaths.alone][:1]
        if alone and flying:
            return []
        waiting = alone or sorted(self.unfinished, key=lambda item: item.after is not None)
        found: list[Item] = []
        for item in waiting:
            most = n_workers if item.after is not None else 2 * n_workers
            if item.future is None and flying + len(found) < most:
                found.append(item)
        return found

    def finish(self, item: Item, outcome: bytes | BaseException) -> None:
        """Keep an outcome, unless nobody wants it."""
        item.outcome = outcome
        if item.dropped:
            self._forget(item)
        self.settle(item, isinstance(outcome, bytes) and in_worker.succeeded(outcome))

    def settle(self, item: Item, succeeded: bool) -> None:
        """Release the items that wait for one that has succeeded; drop them if it has failed."""
        for other in [each for each in self._items.values() if each.after == item.key]:
            other.after = None
            if not succeeded:
                self.drop(other)

    def take_back(self, items: Iterable[Item]) -> list[Item]:
        """Keep the results there are; return the other items, as if not handed over."""
        lost = []
        for item in items:
            future, item.future = item.future, None
            assert future is not None
            if future.done() and not future.cancelled() and future.exception() is None:
                self.finish(item, future.result())
            elif item.dropped:
                self._forget(item)
            else:
                lost.append(item)
        return lost
