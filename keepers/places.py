"""Track how many deliveries a worker accepts from a shard over one connection, in the worker and in the shard (pure).

A place is the permission to hand over one delivery. A limit is the number of all places since the connection was
opened, including used places. So a limit has the same meaning in the worker and in the shard, even while messages are
in flight.
"""

import math
from collections.abc import Mapping


class GrantedPlaces:
    """The worker's count of the places that it has granted to one shard, and of the deliveries that it has received."""

    def __init__(self) -> None:
        self._limits: dict[str, int] = {}
        self._taken: dict[str, int] = {}
        self._lowering: set[str] = set()

    def open(self, target: str) -> int:
        """Return how many more deliveries for a target the shard may hand over."""
        return self._limits.get(target, 0) - self._taken.get(target, 0)

    def change(self, target: str, places: int) -> int | None:
        """Set the number of free places to `places`; return the new limit, or None if the limit can't be changed now.

        After the worker has lowered a limit, it can change this limit again only when the shard has answered.
        """
        if target in self._lowering or places == self.open(target):
            return None
        limit = self._taken.get(target, 0) + places
        if limit < self._limits.get(target, 0):
            self._lowering.add(target)
        else:
            self._limits[target] = limit
        return limit

    def keep(self, limits: Mapping[str, int]) -> None:
        """Store the lowered limits that the shard has confirmed."""
        self._limits.update(limits)
        self._lowering.difference_update(limits)

    def take(self, target: str, deliveries: int) -> None:
        """Count deliveries that the worker has received."""
        self._taken[target] = self._taken.get(target, 0) + deliveries


class UsablePlaces:
    """The shard's count of the places that a worker has granted, and of the places that are used or reserved."""

    def __init__(self) -> None:
        self._limits: dict[str, int] = {}
        self._used: dict[str, int] = {}

    def learn(self, limits: Mapping[str, int]) -> dict[str, int]:
        """Store new limits, each at least the number of used places; return the new value of each lowered limit."""
        kept: dict[str, int] = {}
        for target, limit in limits.items():
            before, used = self._limits.get(target, 0), self._used.get(target, 0)
            self._limits[target] = max(limit, used)
            if limit < before:
                kept[target] = self._limits[target]
        return kept

    def begin(self) -> dict[str, int]:
        """Reserve half of each target's free places for a statement; the other half is for concurrent statements."""
        using = {
            target: math.ceil(free / 2)
            for target, limit in self._limits.items()
            if (free := limit - self._used.get(target, 0)) > 0
        }
        for target, places in using.items():
            self._used[target] = self._used.get(target, 0) + places
        return using

    def end(self, using: Mapping[str, int], handed_over: Mapping[str, int]) -> None:
        """Count the places that a statement has used; free the other places that were reserved for the statement."""
        for target, places in using.items():
            self._used[target] -= places - handed_over.get(target, 0)

    def fill(self, handed_over: Mapping[str, int]) -> None:
        """Count deliveries that the shard sends again over a new connection."""
        for target, deliveries in handed_over.items():
            self._used[target] = self._used.get(target, 0) + deliveries
