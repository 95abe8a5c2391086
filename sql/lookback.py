"""How far back a statement looks past rows that have fired: pure decisions.

Why: docs/decisions/0023-fired-rows-that-stay.md.
"""

import math
from dataclasses import dataclass
from datetime import timedelta

from timers.model import SLOTS

FEWER = 8  # times fewer slots after one that didn't come back


@dataclass(frozen=True, slots=True)
class Lately:
    """Look at most slots only for what fell due so lately; at so many, from the first on, from their oldest row."""

    within_s: float
    first_slot: int
    slots: int


def arguments(lately: Lately | None) -> tuple[timedelta | None, int | None, int | None]:
    """Give the arguments that a statement takes for it; none of them is all the way in each slot."""
    if lately is None:
        return None, None, None
    return timedelta(seconds=lately.within_s), lately.first_slot, lately.slots


@dataclass(slots=True)
class Round:
    """Look at what fell due lately in all slots each time, and at some from their oldest row: which, goes round.

    Lately is since the last look that came back began, or since the oldest that it left overdue; and `margin_s` more,
    for what could not be seen when it fell due. What became due longer ago, because it was scheduled so late or was
    leased, is found within `round_s`, later by what the looks themselves take. A look that took longer than `long_s`,
    or had not come back by then, because so much has fired and must stay, is followed by one that takes fewer slots.

    units:   now_s in seconds of the monotonic clock
    """

    round_s: float
    margin_s: float
    long_s: float
    _since: float | None = None  # what fell due before then is left to the round; None before the first look
    _began_at: float = 0.0
    _slots: int = 0  # those that the look under way takes from their oldest row
    _slots_max: int = SLOTS
    _next_slot: int = 0

    def begin(self, *, now_s: float, every_s: float | None = None) -> Lately | None:
        """Say how far the look that begins now must go; None is all the way.

        units:   every_s between two looks; without it this one alone shall be a whole round, if it can
        """
        slots = SLOTS if every_s is None or self._since is None else math.ceil(SLOTS * every_s / self.round_s)
        self._began_at, self._slots = now_s, min(slots, self._slots_max)
        if self._slots >= SLOTS:
            return None
        since = now_s if self._since is None else self._since
        return Lately(now_s - since + self.margin_s, self._next_slot, self._slots)

    def learn(self, *, now_s: float, left_s: float = 0.0) -> None:
        """Take note that this look came back, and that the oldest it left is overdue by so much."""
        self._since = self._began_at - left_s
        self._next_slot = (self._next_slot + self._slots) % SLOTS
        if now_s > self._began_at + self.long_s:
            self._slots_max = max(1, self._slots // 2)
        elif self._slots == self._slots_max:
            self._slots_max = min(SLOTS, 2 * self._slots)

    def fail(self, *, now_s: float) -> None:
        """Take note that this look did not come back; one that failed at once says nothing."""
        if now_s <= self._began_at + self.long_s:
            return
        if self._since is None or self._slots == 1:
            self._since = self._began_at
        self._slots_max = max(1, self._slots // FEWER)
