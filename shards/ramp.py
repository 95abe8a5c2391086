"""How fast a shard takes the timers that an outage left overdue: pure decisions, taken from a few numbers."""

from dataclasses import dataclass

from shardclock_server.sql.claims.claim import Scan, ScanResult

BURST_S = 1.0  # a scan may take at once what the rate allows in this time


@dataclass(slots=True)
class Ramp:
    """Limit the rate of the timers that an outage left (a token bucket).

    The rate is stored in Postgres, and every scan returns it; before the first scan nothing may be taken. When a scan
    finds more such timers than it can take, they are taken fairly from then on: a share for each tenant instead of
    the oldest of all. That ends when a round over all tenants leaves none.
    """

    per_s: int | None = 0
    catching_up: bool = False
    after_tenant: str = ""
    _room: float = 0.0
    _filled_at_s: float = 0.0
    _found_more: bool = False

    def holds_back(self, batch: int, *, now_s: float) -> bool:
        """Say whether ordinary scans must skip what an outage left, because the `outage` scan takes it.

        They must while the rate allows less than a whole batch, and while tenants get fair shares.
        """
        self._fill(now_s)
        return self.catching_up or (self.per_s is not None and self._room < batch)

    def room(self, batch: int) -> int:
        """Say how many may be taken now, at most a batch."""
        return batch if self.per_s is None else max(0, int(min(self._room, batch)))

    def learn(self, scan: Scan, taken: ScanResult) -> None:
        """Learn what a scan took, and the rate it returned."""
        self.per_s = taken.ramp_per_s
        self._room -= taken.left_by_outage
        if scan.scope == "outage":
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
