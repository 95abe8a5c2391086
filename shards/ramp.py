"""How fast a shard takes what an outage left overdue: pure decisions, taken from a few numbers."""

from dataclasses import dataclass

from sql.claims import Taken, Walk

BURST_S = 1.0  # so much of a second's share may be taken at once


@dataclass(slots=True)
class Ramp:
    """Measure out the timers that an outage left.

    The rate stands in Postgres, and every walk brings it; until the first has, nothing may be taken. From the moment
    when a walk finds more than it can take, until a round over all tenants finds no more, they are taken fairly:
    a share for each tenant instead of the oldest of all.
    """

    per_s: int | None = 0
    catching_up: bool = False
    after_tenant: str = ""
    _room: float = 0.0
    _filled_at_s: float = 0.0
    _found_more: bool = False

    def holds_back(self, batch: int, *, now_s: float) -> bool:
        """Say whether a walk must leave alone what an outage left: it may not take a whole batch, or not unfairly."""
        self._fill(now_s)
        return self.catching_up or (self.per_s is not None and self._room < batch)

    def room(self, batch: int) -> int:
        """Say how many may be taken now, at most a batch."""
        return batch if self.per_s is None else max(0, int(min(self._room, batch)))

    def learn(self, walk: Walk, taken: Taken) -> None:
        """Take note of what a walk took, and of the rate it brought."""
        self.per_s = taken.ramp_per_s
        self._room -= taken.left_by_outage
        if walk.scope == "backlog":
            self._found_more |= taken.saturated
            self.after_tenant = taken.next_tenant
            if not taken.next_tenant:
                self.catching_up, self._found_more = self._found_more, False
        elif taken.saturated and taken.left_by_outage:
            self.catching_up = True

    def _fill(self, now_s: float) -> None:
        if self.per_s is not None:
            gained = self.per_s * (now_s - self._filled_at_s) if self._filled_at_s else 0.0
            self._room = min(self._room + gained, self.per_s * BURST_S)
        self._filled_at_s = now_s
