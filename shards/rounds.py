"""How far back each walk looks: pure decisions. Why: docs/decisions/0023-fired-rows-that-stay.md."""

import math
from dataclasses import dataclass

from sql.claims import Lately
from timers.model import SLOTS


@dataclass(slots=True)
class Round:
    """Look at what fell due lately in all slots each time, and at some from their oldest row: which, goes round.

    Lately is since the last walk that came through began, and `margin_s` more, for what could not be taken when it fell
    due. What became due longer ago, because it was scheduled so late or was leased, is found within `round_s`, later by
    what the walks themselves take.
    """

    round_s: float
    margin_s: float
    began_at: float | None = None  # the last walk that came through
    _beginning_at: float = 0.0
    _next_slot: int = 0

    def begin(self, *, now_s: float, every_s: float) -> Lately | None:
        """Say how far the walk that begins now must look, if there is one every so often; None is all the way."""
        self._beginning_at = now_s
        slots = math.ceil(SLOTS * every_s / self.round_s)
        if self.began_at is None or slots >= SLOTS:
            return None
        return Lately(now_s - self.began_at + self.margin_s, self._next_slot, slots)

    def learn(self, lately: Lately | None) -> None:
        """Take note that this walk came through."""
        self.began_at = self._beginning_at
        if lately is not None:
            self._next_slot = (lately.first_slot + lately.slots) % SLOTS
