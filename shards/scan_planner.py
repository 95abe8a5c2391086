"""Choose the scans of the timers table that one iteration of the claim loop runs (pure)."""

from dataclasses import dataclass, field, replace

from shardclock_server.shards.ramp import Ramp
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.sql.claims.claim import RAMP_AFTER_S, Scan, ScanResult
from shardclock_server.sql.claims.scan_window import RotatingScan

# A shard starts direct firing (the claim fires the timers) when claims could fire 2,000 timers a second, and stops it
# below 1,000 a second: docs/decisions/0019-direct-firing.md.
DIRECT_FROM_PER_S, DIRECT_UNTIL_PER_S = 2_000, 1_000
DIRECT_S = 0.002  # The time between two claims while the shard fires directly.
RATED_S = 0.5  # The rate of firings is the average of a period of at least this length.
# A rotation reads each slot once from its oldest row: in 0.5 s for the shard's own slots, in 10 s for all slots. Slow
# scans need longer.
OWN_FULL_SCAN_S, SWEEP_FULL_SCAN_S = 0.5, 10.0
# A timer with a delay of zero is due before its transaction commits, so it is overdue when it becomes visible. An
# "ahead" scan therefore also reads due dates that passed within this time. If a timer commits later, a "newest"
# scan finds the timer.
COMMIT_S = 0.125
# A "newest" scan skips timers that became due before this period: another scan has read them or will read them.
RECENT_S = 2.0
LATE_MAX = 2.0  # A scan after a long pause reads more slots, at most this many times the planned number.
# After a scan that took longer than this time, scans read fewer slots in full. A scan takes this long only if it reads
# a million dead rows of fired timers, or if Postgres hangs.
SLOW_S = 0.5


@dataclass(frozen=True, slots=True)
class PlannedScan:
    """One scan of an iteration; `scan` has no window yet, because the rotation chooses the window at the scan's start.

    units:   `turn_at_s` is the monotonic time at which the iteration started; `every_s` is the time between two scans;
             None: the next scan starts when this scan ends
    """

    scan: Scan
    turn_at_s: float
    rotation: RotatingScan | None = None
    every_s: float | None = None
    is_ramped: bool = False  # the ramp limits the batch later, when the scan starts


@dataclass(slots=True)
class ScanPlanner:
    """Choose the scans of the next iteration from the results of the last iteration.

    `scans` chooses the scans without a change of the planner's state. The caller calls `begin` before each scan, and
    `learn` or `fail` after the scan.

    `has_backlog`: the last scan left overdue timers in the table. Separate scans then lease overdue and upcoming
    timers, so that a backlog of millions does not delay upcoming timers. A scan for upcoming timers is called "ahead".
    An "ahead" scan also leases timers that became due since the previous "ahead" scan began, but not longer ago than
    `COMMIT_S`. In other scans, these timers would wait behind the backlog. "Newest" scans alternate with "ahead" scans.
    A "newest" scan reads the latest overdue timers, and so finds timers that were committed more than `COMMIT_S` after
    their due dates. The "outage" scan leases the timers of an outage, at the ramp's rate.

    `direct`: many timers become due each second, so the claim fires them without a lease. A claim can fire plain
    timers, and schedules with a fixed period. A claim every few milliseconds then costs less than leases.
    """

    settings: ShardSettings
    ramp: Ramp = field(default_factory=Ramp)
    has_backlog: bool = False
    last_ahead_at_s: float = 0.0  # The start of the last scan for future timers.
    passed_at_s: float = 0.0  # The start of the last "ahead" or "newest" scan; these scans skip the backlog.
    swept_at_s: float = 0.0
    direct: bool = False
    _is_newest_next: bool = False
    _fired: int = 0
    _rated_at_s: float = 0.0
    _own: RotatingScan = field(init=False)
    _sweep: RotatingScan = field(init=False)
    _outage: RotatingScan = field(init=False)
    _orphans: RotatingScan = field(init=False)

    def __post_init__(self) -> None:
        """Start without a backlog, with rotations that have read no slot."""
        self._own = RotatingScan(OWN_FULL_SCAN_S, RECENT_S, SLOW_S)
        self._sweep = RotatingScan(SWEEP_FULL_SCAN_S, RECENT_S + self.settings.lease_s, SLOW_S)
        self._outage, self._orphans = (RotatingScan(SWEEP_FULL_SCAN_S, RECENT_S, SLOW_S) for _ in range(2))

    @property
    def pause_s(self) -> float:
        """Return the pause after an iteration that left no overdue timers in the table."""
        return DIRECT_S if self.direct else self.settings.poll_s

    def rate(self, fired: int, *, now_s: float) -> None:
        """Count the timers that a claim fired or could have fired, and choose direct firing at a high rate."""
        self._fired += fired
        elapsed_s = now_s - self._rated_at_s
        if elapsed_s >= RATED_S:
            self.direct = self._fired >= (DIRECT_UNTIL_PER_S if self.direct else DIRECT_FROM_PER_S) * elapsed_s
            self._fired, self._rated_at_s = 0, now_s

    def scans(self, *, held: int, now_s: float) -> list[PlannedScan]:
        """Choose the scans of one iteration; none if the shard holds more timers than `queue_max` plus a batch.

        units:   now_s in seconds of the monotonic clock
        """
        room = self.settings.queue_max - held
        if room <= -self.settings.claim_batch:
            return []
        is_ramped = self.ramp.holds_back(self.settings.claim_batch, now_s=now_s)
        floor_s = RAMP_AFTER_S if is_ramped else None
        sweeps = now_s >= self.swept_at_s + self.settings.sweep_s
        return [
            *self._own_scans(room, floor_s, now_s),
            *(self._sweeps(floor_s, now_s) if sweeps else ()),
            *(self._ramped_scans(now_s, sweeps=sweeps) if is_ramped else ()),
        ]

    def begin(self, planned: PlannedScan, *, now_s: float) -> Scan | None:
        """Return the scan with its window; None if the ramp allows no timer now."""
        scan = planned.scan
        if planned.is_ramped:
            scan = replace(scan, batch=self.ramp.room(scan.batch, now_s=now_s))
            if not scan.batch:
                return None
        if scan.scope == "sweep":
            self.swept_at_s = planned.turn_at_s
        if planned.rotation is None:
            return scan
        return replace(scan, window=planned.rotation.begin(now_s=now_s, every_s=planned.every_s))

    def learn(self, planned: PlannedScan, taken: ScanResult, *, now_s: float) -> bool:
        """Record whether a scan left overdue timers; return whether to scan again immediately."""
        scan = planned.scan
        self.ramp.learn(scan, taken, now_s=now_s)
        if planned.rotation is not None:
            planned.rotation.learn(now_s=now_s)
        is_ahead = scan.scope == "ahead" or (scan.scope == "own" and not self.has_backlog)
        if is_ahead:
            self.last_ahead_at_s = planned.turn_at_s
        if is_ahead or scan.scope == "newest":
            self._pass_backlog(planned)
        if scan.scope == "own":
            self.has_backlog = taken.saturated and (taken.fired > 0 or scan.horizon_s <= 0)
        return taken.saturated

    def fail(self, planned: PlannedScan, *, now_s: float) -> None:
        """Record that a scan failed or timed out."""
        if planned.rotation is not None:
            planned.rotation.fail(now_s=now_s)
        if planned.scan.scope == "newest":
            # don't scan the backlog again now, because this would delay the other scans of the iteration
            self._pass_backlog(planned)

    def _pass_backlog(self, planned: PlannedScan) -> None:
        self.passed_at_s, self._is_newest_next = planned.turn_at_s, planned.scan.scope == "ahead"

    def _between_s(self, since_s: float) -> float:
        """Return the time for which this scan reads slots: the time since the last scan, but at most two polls.

        A scan after a long pause reads more slots, so that a rotation takes the same time on a busy machine. The limit
        of two polls keeps direct firing fast, because each further slot delays every timer of the scan.
        """
        if self.direct and since_s < self.settings.poll_s:
            return DIRECT_S
        return min(max(self.settings.poll_s, since_s), LATE_MAX * self.settings.poll_s)

    def _own_scans(self, room: int, floor_s: float | None, now_s: float) -> list[PlannedScan]:
        settings, since_s = self.settings, now_s - self.last_ahead_at_s
        batch = settings.claim_batch
        if not self.has_backlog:
            # While the queue is full, scans read only overdue timers: a scan can fire overdue plain timers without the
            # queue.
            horizon_s = settings.horizon_s if room >= batch and not self.direct else 0.0
            scan = Scan("own", horizon_s, batch, floor_s)
            return [PlannedScan(scan, now_s, self._own, self._between_s(since_s))]
        overdue = PlannedScan(Scan("own", 0.0, batch, floor_s), now_s, self._own)
        if now_s - self.passed_at_s < settings.poll_s:
            return [overdue]
        # Timers that are due at the same moment may have filled the queue. Half a batch is reserved for later timers,
        # so that these don't wait for the whole backlog. A "newest" scan adds no timers to the queue.
        ahead = min(batch, room + batch // 2)
        if ahead <= 0 or self._is_newest_next:
            passing = Scan("newest", 0.0, max(1, batch // 2), RAMP_AFTER_S)
        else:
            passing = Scan("ahead", settings.horizon_s, ahead, min(since_s + COMMIT_S, RAMP_AFTER_S))
        return [PlannedScan(passing, now_s), overdue]

    def _sweeps(self, floor_s: float | None, now_s: float) -> list[PlannedScan]:
        settings = self.settings
        scan = Scan("sweep", -settings.sweep_grace_s, settings.claim_batch, floor_s)
        return [PlannedScan(scan, now_s, self._sweep, settings.sweep_s)]

    def _ramped_scans(self, now_s: float, *, sweeps: bool) -> list[PlannedScan]:
        batch = self.settings.claim_batch
        outage = Scan("outage", -RAMP_AFTER_S, batch, RAMP_AFTER_S, self.ramp.after_tenant)
        planned = [PlannedScan(outage, now_s, self._outage, is_ramped=True)]
        if sweeps:
            orphans = Scan("sweep", -RAMP_AFTER_S, batch)
            planned.append(PlannedScan(orphans, now_s, self._orphans, is_ramped=True))
        return planned
