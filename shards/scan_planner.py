"""Choose the scans of the timers table that a claim turn makes (pure)."""

from dataclasses import dataclass, field, replace

from shardclock_server.shards.ramp import Ramp
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.sql.claims.claim import RAMP_AFTER_S, Scan, ScanResult
from shardclock_server.sql.claims.scan_window import RotatingScan

# A shard begins to fire directly (by the claim) at 2,000 timers a second that a claim can fire, and stops below 1,000:
# see docs/decisions/0019-direct-firing.md.
DIRECT_FROM_PER_S, DIRECT_UNTIL_PER_S = 2_000, 1_000
DIRECT_S = 0.002  # the time between two claims while the shard fires directly
RATED_S = 0.5  # the rate of firings is measured over at least this time
# Full-scan period: own slots 0.5 s, all slots 10 s; longer when scans are slower than the pause between them.
OWN_FULL_SCAN_S, SWEEP_FULL_SCAN_S = 0.5, 10.0
# A timer with a delay of zero is due before its transaction commits, and visible only after the commit. So a scan ahead
# also reads due dates that passed at most this time ago. A scan for the newest timers finds timers that commit later.
COMMIT_S = 0.125
RECENT_S = 2.0  # an earlier scan has seen older due dates, or a full scan of the slot finds them
LATE_MAX = 2.0  # a late scan catches up by reading more slots, at most this many times the planned number
SLOW_S = 0.5  # a claim takes longer only if it reads past a million dead rows of fired timers, or if Postgres hangs


@dataclass(frozen=True, slots=True)
class PlannedScan:
    """One scan of a turn: `scan` without its window of slots, and the rotation that gives the window.

    units:   `turn_at_s` is the monotonic time at which the turn began; `every_s` is the time between two scans; None:
             the next scan begins when this scan ends
    """

    scan: Scan
    turn_at_s: float
    rotation: RotatingScan | None = None
    every_s: float | None = None
    is_ramped: bool = False  # the ramp limits the batch when the scan begins


@dataclass(slots=True)
class ScanPlanner:
    """Choose the scans of the next turn from the results of the last turn.

    `scans` chooses the scans and changes no state. Each scan begins with `begin`, and ends with `learn` or `fail`.

    `has_backlog` means that the last scan left overdue timers in the table. Then overdue and upcoming timers are taken
    in separate scans, so that a backlog of millions does not delay the timers of the next seconds. A scan for upcoming
    timers ("ahead") also takes timers that became due since the previous scan ahead began, or at most `COMMIT_S` before
    it. Otherwise these timers would wait at the end of the backlog. A scan for the newest overdue timers ("newest")
    takes turns with it, and finds timers that commit even later after their due dates. A further scan takes the timers
    of an outage, at the ramp's rate.

    `direct` means that each second many timers become due that a claim can fire: plain timers, and schedules of a fixed
    period. Leasing each of these timers beforehand would then cost more than scanning every few milliseconds for due
    timers and firing the found timers at once.
    """

    settings: ShardSettings
    ramp: Ramp = field(default_factory=Ramp)
    has_backlog: bool = False
    last_ahead_at_s: float = 0.0  # when the last scan ahead began
    passed_at_s: float = 0.0  # when the last scan passed the backlog: a scan ahead or for the newest timers
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
        """Begin before the first scan."""
        self._own = RotatingScan(OWN_FULL_SCAN_S, RECENT_S, SLOW_S)
        self._sweep = RotatingScan(SWEEP_FULL_SCAN_S, RECENT_S + self.settings.lease_s, SLOW_S)
        self._outage, self._orphans = (RotatingScan(SWEEP_FULL_SCAN_S, RECENT_S, SLOW_S) for _ in range(2))

    @property
    def pause_s(self) -> float:
        """Return the pause before the next turn after a turn that left no timers to take."""
        return DIRECT_S if self.direct else self.settings.poll_s

    def rate(self, fired: int, *, now_s: float) -> None:
        """Count timers that a claim fired or could have fired, and decide whether to fire directly."""
        self._fired += fired
        elapsed_s = now_s - self._rated_at_s
        if elapsed_s >= RATED_S:
            self.direct = self._fired >= (DIRECT_UNTIL_PER_S if self.direct else DIRECT_FROM_PER_S) * elapsed_s
            self._fired, self._rated_at_s = 0, now_s

    def scans(self, *, held: int, now_s: float) -> list[PlannedScan]:
        """Choose the scans of one turn; none while the queue has a whole batch more than `queue_max` timers.

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
        """Return the scan to make now; None: the ramp allows no timers."""
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
        """Record that a scan got no answer."""
        if planned.rotation is not None:
            planned.rotation.fail(now_s=now_s)
        if planned.scan.scope == "newest":
            self._pass_backlog(planned)  # another scan without a pause would delay the other scans of the turn

    def _pass_backlog(self, planned: PlannedScan) -> None:
        self.passed_at_s, self._is_newest_next = planned.turn_at_s, planned.scan.scope == "ahead"

    def _between_s(self, since_s: float) -> float:
        """Return the time by which this scan advances its rotation: the time since the last scan, at most two polls.

        A late scan reads more slots, so that the rotation does not take longer on a busy machine. While the shard fires
        directly, the rotation may take longer: each further slot in a scan would delay every timer of that scan, but a
        longer rotation delays only timers that are written overdue.
        """
        if self.direct and since_s < self.settings.poll_s:
            return DIRECT_S
        return min(max(self.settings.poll_s, since_s), LATE_MAX * self.settings.poll_s)

    def _own_scans(self, room: int, floor_s: float | None, now_s: float) -> list[PlannedScan]:
        settings, since_s = self.settings, now_s - self.last_ahead_at_s
        batch = settings.claim_batch
        if not self.has_backlog:
            # While the queue is full, scans take only overdue timers: plain overdue timers fire in the scan and need no
            # place in the queue.
            horizon_s = settings.horizon_s if room >= batch and not self.direct else 0.0
            scan = Scan("own", horizon_s, batch, floor_s)
            return [PlannedScan(scan, now_s, self._own, self._between_s(since_s))]
        overdue = PlannedScan(Scan("own", 0.0, batch, floor_s), now_s, self._own)
        if now_s - self.passed_at_s < settings.poll_s:
            return [overdue]
        # Many timers due at the same moment may have filled the queue. Half a batch of places is kept for timers with
        # later due dates. Otherwise timers that become due later would be leased only after the firing of the whole
        # backlog. The newest overdue timers fire in the scan even without free places.
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
