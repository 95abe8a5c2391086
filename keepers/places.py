"""Count, in the worker and in the shard, the places that the worker has granted over one connection (pure).

Both ends count from the begin of the connection, so their numbers agree without corrections.
"""

import math
from collections.abc import Mapping


class GrantedPlaces:
    """Count, in the worker, the places that it has granted to one shard, and the deliveries that it has received."""

    def __init__(self) -> None:
        self._limits: dict[str, int] = {}
        self._taken: dict[str, int] = {}
        self._lowering: set[str] = set()

    def open(self, target: str) -> int:
        """Return how many more deliveries of a target the shard may hand over."""
        return self._limits.get(target, 0) - self._taken.get(target, 0)

    def change(self, target: str, places: int) -> int | None:
        """Grant `places` places from now on; return the new limit, or None if the limit can't be changed now.

        A limit that was lowered is changed again only when the shard has answered.
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
        """Store the lowered limits in the shard's answer."""
        self._limits.update(limits)
        self._lowering.difference_update(limits)

    def take(self, target: str, deliveries: int) -> None:
        """Count deliveries that the worker has received."""
        self._taken[target] = self._taken.get(target, 0) + deliveries


class UsablePlaces:
    """Count, in a shard, the places of one worker that the shard may use, and the places that its statements use."""

    def __init__(self) -> None:
        self._limits: dict[str, int] = {}
        self._used: dict[str, int] = {}

    def learn(self, limits: Mapping[str, int]) -> dict[str, int]:
        """Store new limits; return the value of each lowered limit, which is never below the places in use."""
        kept: dict[str, int] = {}
        for target, limit in limits.items():
            before, used = self._limits.get(target, 0), self._used.get(target, 0)
            self._limits[target] = max(limit, used)
            if limit < before:
                kept[target] = self._limits[target]
        return kept

    def begin(self) -> dict[str, int]:
        """Let a statement use half of each target's free places, because another statement may begin before its end."""
        using = {
            target: math.ceil(free / 2)
            for target, limit in self._limits.items()
            if (free := limit - self._used.get(target, 0)) > 0
        }
        for target, places in using.items():
            self._used[target] = self._used.get(target, 0) + places
        return using

    def end(self, using: Mapping[str, int], handed_over: Mapping[str, int]) -> None:
        """Count the places that a statement has filled; its other places are free again."""
        for target, places in using.items():
            self._used[target] -= places - handed_over.get(target, 0)

    def fill(self, handed_over: Mapping[str, int]) -> None:
        """Count deliveries that are sent again over a new connection."""
        for target, deliveries in handed_over.items():
            self._used[target] = self._used.get(target, 0) + deliveries
