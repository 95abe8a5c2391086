"""How one tenant stands at one gateway: what it may have, what it had at the last look, and what was let in since."""

from dataclasses import dataclass, field
from math import ceil

from shardclock_server.sql.tenants.tenants import Limits, Pending

NOTHING = Pending()


@dataclass(slots=True, eq=False)
class Standing:
    """One tenant at one gateway.

    What it has is what the last look counted, what was written since that look began, and what is being written now.
    What was written while a look was under way may be in its count or not, and is added until the next one ends: so
    one gateway alone never lets in too much.
    """

    tenant_id: str
    limits: Limits = field(default_factory=Limits)
    waiting: int = 0
    looked_at_s: float | None = None
    wants_schedules: bool = False  # a request with a schedule has come since the last look began
    knows_schedules: bool = False  # the last look has counted them
    _next_s: float = 0.0
    _counted: Pending = field(default_factory=Pending)
    _since: Pending = field(default_factory=Pending)
    _meanwhile: Pending = field(default_factory=Pending)  # written since the look that is under way began
    _in_flight: Pending = field(default_factory=Pending)

    @property
    def is_in_use(self) -> bool:
        """Say whether something would be forgotten with it."""
        return self.waiting > 0 or self._in_flight != NOTHING

    @property
    def lacks_schedules(self) -> bool:
        """Say whether a request needs the number of schedules, and the last look has not counted them."""
        return self.wants_schedules and not self.knows_schedules

    def is_due(self, now_s: float) -> bool:
        """Say whether it is time for another look."""
        return now_s >= self._next_s

    def again_in_s(self, now_s: float) -> int:
        """Say in how many seconds, at least one, a look may find more room."""
        return max(1, ceil(self._next_s - now_s))

    def has(self, quota: str) -> int:
        """Say how much it has of a quota: `timers`, `payload_bytes` or `schedules`."""
        parts = (self._counted, self._since, self._in_flight)
        return sum(int(getattr(part, quota)) for part in parts)

    def exceeded_by(self, size: Pending) -> tuple[str, int] | None:
        """Find the quota in which it has no room for so much more, and its limit; None: there is room."""
        limits = self.limits
        for quota, limit in (
            ("timers", limits.timers_max),
            ("payload_bytes", limits.payload_bytes_max),
            ("schedules", limits.schedules_most),
        ):
            if limit is not None and self.has(quota) + getattr(size, quota) > limit and getattr(size, quota):
                return quota, limit
        return None

    def take(self, size: Pending) -> None:
        """Count what is being written from now on."""
        self._in_flight = _sum(self._in_flight, size)

    def settle(self, taken: Pending, written: Pending) -> None:
        """Count what is no longer being written: so much was taken for it, and so much more was written."""
        self._in_flight = _sum(self._in_flight, taken, sign=-1)
        self._since, self._meanwhile = _sum(self._since, written), _sum(self._meanwhile, written)

    def begin(self) -> bool:
        """Begin a count: it may lack writes from now on. Return whether it counts schedules."""
        self._meanwhile = Pending()
        counts_schedules, self.wants_schedules = self.wants_schedules, False
        return counts_schedules

    def end(
        self, limits: Limits, counted: Pending | None, now_s: float, *, next_s: float, counts_schedules: bool = False
    ) -> None:
        """Take what a look has found; without a count, the last one and what was written since go on."""
        if counted is not None:
            self._counted, self._since = counted, self._meanwhile
        self.knows_schedules = counts_schedules
        self.limits = limits
        self.looked_at_s, self._next_s = now_s, next_s

    def begin_again_at(self, next_s: float) -> None:
        """Put the next look off, because one has failed."""
        self._next_s = next_s


def _sum(one: Pending, other: Pending, *, sign: int = 1) -> Pending:
    return Pending(
        one.timers + sign * other.timers,
        one.payload_bytes + sign * other.payload_bytes,
        one.schedules + sign * other.schedules,
    )
