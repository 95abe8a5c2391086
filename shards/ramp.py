"""Limit the rate at which a shard claims timers that became overdue in an outage (pure)."""

from dataclasses import dataclass

from shardclock_server.sql.claims.claim import Scan, ScanResult
from shardclock_server.timers.bucket import Bucket

BURST_S = 1.0  # a burst is at most as large as the number of timers that the rate allows in this time


@dataclass(slots=True)
class Ramp:
    """Limit the firing rate of timers that became overdue during an outage.

    Postgres stores the rate, and every scan returns the rate; before the first scan the rate is 0. When a scan finds
    more timers of an outage than it may lease, the next scans lease equal numbers of timers for all tenants. These
    equal shares end when scans find no further timers of the outage.
    """

    per_s: float | None = 0
    catching_up: bool = False
    after_tenant: str = ""
    _bucket: Bucket | None = None  # None: no limit, or a rate of 0
    _found_more: bool = False

    def holds_back(self, batch: int, *, now_s: float) -> bool:
        """Return whether ordinary scans must skip timers of an outage, because `outage` scans claim these timers.

        This is the case if the rate allows less than a whole batch, or if tenants get equal shares.
        """
        return self.catching_up or self.room(batch, now_s=now_s) < batch

    def room(self, batch: int, *, now_s: float) -> int:
        """Return how many timers of an outage a scan may claim now, at most a batch."""
        if self._bucket is None:
            return batch if self.per_s is None else 0
        return max(0, int(min(self._bucket.available(now_s), batch)))

    def learn(self, scan: Scan, taken: ScanResult, *, now_s: float) -> None:
        """Count the timers that a scan claimed, and apply the rate that the scan returned.

        If a scan returns a changed rate, the scan was made with the previous rate, so its timers are not counted. If
        they were counted after a change to a low rate, one full scan would block the ramp for minutes.
        """
        if taken.ramp_per_s != self.per_s:
            self._change_rate(taken.ramp_per_s, now_s)
        elif self._bucket is not None:
            self._bucket.take(now_s, taken.left_by_outage)
        if scan.scope == "outage":
            self._found_more |= taken.saturated
            self.after_tenant = taken.next_tenant
            if not taken.next_tenant:
                self.catching_up, self._found_more = self._found_more, False
        elif taken.saturated and taken.left_by_outage:
            self.catching_up = True

    def _change_rate(self, per_s: float | None, now_s: float) -> None:
        self.per_s, self._bucket = per_s, None
        if per_s:
            # A rate below the number of shards gives each shard less than one timer a second.
            self._bucket = Bucket(per_s, burst=max(1.0, per_s * BURST_S))
            # The bucket starts empty, because an outage leaves more timers than a burst.
            self._bucket.take(now_s, self._bucket.burst)
