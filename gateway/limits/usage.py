"""One tenant's limits and usage at one gateway: the last count, and the timers that were written after this count."""

from dataclasses import dataclass, field
from math import ceil

from shardclock_server.sql.tenant_limits.tenant_limits import Limits, Pending

NOTHING = Pending()


@dataclass(slots=True, eq=False)
class TenantUsage:
    """One tenant's limits and usage at one gateway.

    Usage = the last count in Postgres + timers written since this count started + timers being written now. A count may
    miss timers that are written during the count, so the gateway adds them until the next count ends. Therefore a
    single gateway never admits more timers than a limit.
    """

    tenant_id: str
    limits: Limits = field(default_factory=Limits)
    waiting: int = 0
    counted_at_s: float | None = None
    wants_schedules: bool = False  # Whether a request with a schedule arrived after the start of the last count.
    knows_schedules: bool = False  # Whether the last count included schedules.
    _next_s: float = 0.0
    _counted: Pending = field(default_factory=Pending)
    _since: Pending = field(default_factory=Pending)
    _meanwhile: Pending = field(default_factory=Pending)  # the timers written since the count in progress started
    _in_flight: Pending = field(default_factory=Pending)

    @property
    def is_in_use(self) -> bool:
        """Whether this object has data that Postgres lacks: waiting callers, or timers being written."""
        return self.waiting > 0 or self._in_flight != NOTHING

    @property
    def lacks_schedules(self) -> bool:
        """Whether a request needs the number of schedules, but the last count did not count schedules."""
        return self.wants_schedules and not self.knows_schedules

    def is_due(self, now_s: float) -> bool:
        """Whether the next count is due."""
        return now_s >= self._next_s

    def retry_after_s(self, now_s: float) -> int:
        """Return the seconds (at least one) until the next count, which may find that quota has become free."""
        return max(1, ceil(self._next_s - now_s))

    def used(self, quota: str) -> int:
        """Return the usage of a quota: `timers`, `payload_bytes` or `schedules`."""
        parts = (self._counted, self._since, self._in_flight)
        return sum(int(getattr(part, quota)) for part in parts)

    def exceeded_by(self, size: Pending) -> tuple[str, int] | None:
        """Find the first quota that `size` would exceed, and its limit; None: no quota would be exceeded."""
        limits = self.limits
        for quota, limit in (
            ("timers", limits.timers_max),
            ("payload_bytes", limits.payload_bytes_max),
            ("schedules", limits.schedules_most),
        ):
            if limit is not None and self.used(quota) + getattr(size, quota) > limit and getattr(size, quota):
                return quota, limit
        return None

    def reserve(self, size: Pending) -> None:
        """Add the timers of a write that starts now."""
        self._in_flight = _sum(self._in_flight, size)

    def settle(self, taken: Pending, written: Pending) -> None:
        """Record the end of a write: `taken` was reserved for it, and `written` is the size of the added timers."""
        self._in_flight = _sum(self._in_flight, taken, sign=-1)
        self._since, self._meanwhile = _sum(self._since, written), _sum(self._meanwhile, written)

    def begin_count(self) -> bool:
        """Start a count; the count may not include writes that happen from now on.

        Return whether the count includes schedules.
        """
        self._meanwhile = Pending()
        counts_schedules, self.wants_schedules = self.wants_schedules, False
        return counts_schedules

    def end_count(
        self, limits: Limits, counted: Pending | None, now_s: float, *, next_s: float, counts_schedules: bool = False
    ) -> None:
        """Store the result of a count. Without a result, the last count and the later writes stay in use."""
        if counted is not None:
            self._counted, self._since = counted, self._meanwhile
        self.knows_schedules = counts_schedules
        self.limits = limits
        self.counted_at_s, self._next_s = now_s, next_s

    def postpone_count(self, next_s: float) -> None:
        """Postpone the next count, because a count has failed."""
        self._next_s = next_s


def _sum(one: Pending, other: Pending, *, sign: int = 1) -> Pending:
    return Pending(
        one.timers + sign * other.timers,
        one.payload_bytes + sign * other.payload_bytes,
        one.schedules + sign * other.schedules,
    )
