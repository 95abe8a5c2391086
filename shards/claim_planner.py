"""Which scans of the timers table a claim turn makes: pure decisions, taken from a few numbers."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from shardclock_server.shards.ramp import Ramp
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.sql.claims.claim import RAMP_AFTER_S, Scan, ScanResult
from shardclock_server.sql.claims.scan_window import RotatingScan

# A shard begins to fire directly at 2,000 plain timers a second, and stops below 1,000: see
# docs/decisions/0019-direct-firing.md.
DIRECT_FROM_PER_S, DIRECT_UNTIL_PER_S = 2_000, 1_000
DIRECT_S = 0.002  # between two claims while it fires directly
RATED_S = 0.5  # the rate of firings is measured over at least this long
# Full-scan period: own slots 0.5 s, all slots 10 s; longer when scans are slower than the pause between them.
OWN_FULL_SCAN_S, SWEEP_FULL_SCAN_S = 0.5, 10.0
RECENT_S = 2.0  # what fell due longer ago was seen by a scan before, or is found by a full scan of its slot
LATE_MAX = 2.0  # a scan that begins late makes up for it, with this many times the slots that are planned at most
SLOW_S = 0.5  # a claim takes longer only if it reads past a million dead rows of fired timers, or if Postgres hangs


@dataclass(slots=True)
class ClaimPlanner:
    """Choose the scans of the next turn from the results of the last ones.

    `has_backlog` means that the last scan left overdue timers in the table. Then overdue and upcoming timers are taken
    in separate scans, so that a backlog of millions does not delay the timers of the next seconds. A scan for upcoming
    timers ("ahead") also takes those that fell due since the scan ahead before it began: otherwise such a timer would
    wait at the end of the backlog. A third scan takes what an outage left, at the ramp's rate.

    `direct` means that many plain timers fall due each second. Leasing each of them beforehand would then cost more
    than scanning every few milliseconds for due timers and firing those at once.
    """

    settings: ShardSettings
    ramp: Ramp = field(default_factory=Ramp)
    has_backlog: bool = False
    last_ahead_at_s: float = 0.0  # when the last scan ahead began
    swept_at_s: float = 0.0
    direct: bool = False
    _fired: int = 0
    _rated_at_s: float = 0.0
    _this_ahead_at_s: float = 0.0
    _own: RotatingScan = field(init=False)
    _sweep: RotatingScan = field(init=False)
    _outage: RotatingScan = field(init=False)
    _orphans: RotatingScan = field(init=False)
    _under_way: RotatingScan | None = None  # the rotation of the last scan chosen
    _ended_at_s: float = 0.0  # when the last scan ended, with or without an answer

    def __post_init__(self) -> None:
        """Begin before the first scan."""
        self._own = RotatingScan(OWN_FULL_SCAN_S, RECENT_S, SLOW_S)
        self._sweep = RotatingScan(SWEEP_FULL_SCAN_S, RECENT_S + self.settings.lease_s, SLOW_S)
        self._outage, self._orphans = (RotatingScan(SWEEP_FULL_SCAN_S, RECENT_S, SLOW_S) for _ in range(2))

    @property
    def pause_s(self) -> float:
        """Return the pause between two turns when the first left no timers to take."""
        return DIRECT_S if self.direct else self.settings.poll_s

    def rate(self, fired: int, *, now_s: float) -> None:
        """Count plain timers fired, from the table or from memory, and decide whether to fire directly."""
        self._fired += fired
        elapsed_s = now_s - self._rated_at_s
        if elapsed_s >= RATED_S:
            self.direct = self._fired >= (DIRECT_UNTIL_PER_S if self.direct else DIRECT_FROM_PER_S) * elapsed_s
            self._fired, self._rated_at_s = 0, now_s

    def scans(self, *, held: int, now_s: float) -> Iterator[Scan]:
        """Choose the scans of one turn; none while the queue holds a whole batch more than `queue_max`.

        units:   now_s in seconds of the monotonic clock
        """
        for scan, rotation, every_s in self._choose(held, now_s):
            self._under_way = rotation
            # A scan begins when the one before it in the same turn has ended; the time before that is not its own.
            began_s = max(now_s, self._ended_at_s)
            yield replace(scan, window=rotation.begin(now_s=began_s, every_s=every_s)) if rotation else scan

    def learn(self, scan: Scan, taken: ScanResult, *, now_s: float) -> bool:
        """Learn from a scan's result whether it left overdue timers; say whether to scan again at once."""
        self.ramp.learn(scan, taken)
        self._ended_at_s = now_s
        if self._under_way is not None:
            self._under_way.learn(now_s=now_s)
        if scan.scope == "ahead" or (scan.scope == "own" and not self.has_backlog):
            self.last_ahead_at_s = self._this_ahead_at_s
        if scan.scope == "own":
            self.has_backlog = taken.saturated and (taken.fired > 0 or scan.horizon_s <= 0)
        return taken.saturated

    def fail(self, *, now_s: float) -> None:
        """Learn that the last scan got no answer."""
        self._ended_at_s = now_s
        if self._under_way is not None:
            self._under_way.fail(now_s=now_s)

    def _between_s(self, since_s: float) -> float:
        """Return the time since the last scan by which this one advances its rotation, two polls at most.

        A scan that comes late makes up for it, so that the rotation does not take longer on a busy machine. While the
        shard fires directly it may: each further slot would delay every timer there, and a longer rotation delays only
        those that are written overdue.
        """
        if self.direct and since_s < self.settings.poll_s:
            return DIRECT_S
        return min(max(self.settings.poll_s, since_s), LATE_MAX * self.settings.poll_s)

    def _choose(self, held: int, now_s: float) -> Iterator[tuple[Scan, RotatingScan | None, float | None]]:
        """Choose scans, each with its rotation and the seconds between two; None: the next begins when one ends."""
        settings = self.settings
        batch = settings.claim_batch
        room = settings.queue_max - held
        if room <= -batch:
            return
        # Without room in the queue only overdue timers are taken: plain ones are fired at once and need no room.
        horizon_s = settings.horizon_s if room >= batch and not self.direct else 0.0
        floor_s = RAMP_AFTER_S if self.ramp.holds_back(batch, now_s=now_s) else None
        since_s = now_s - self.last_ahead_at_s
        if not self.has_backlog:
            self._this_ahead_at_s = now_s
            yield Scan("own", horizon_s, batch, floor_s), self._own, self._between_s(since_s)
        else:
            # Many timers due at the same moment may have filled the queue. Half a batch of room is kept for the timers
            # due after them: otherwise these would be leased only when the whole backlog is fired.
            ahead = min(batch, room + batch // 2)
            if ahead > 0 and since_s >= settings.poll_s:
                self._this_ahead_at_s = now_s
                yield Scan("ahead", settings.horizon_s, ahead, min(since_s, RAMP_AFTER_S)), None, None
            yield Scan("own", 0.0, batch, floor_s), self._own, None
        sweeps = now_s >= self.swept_at_s + settings.sweep_s
        if sweeps:
            self.swept_at_s = now_s
            yield Scan("sweep", -settings.sweep_grace_s, batch, floor_s), self._sweep, settings.sweep_s
        if floor_s is None:
            return
        if share := self.ramp.room(batch):
            yield Scan("outage", -RAMP_AFTER_S, share, floor_s, self.ramp.after_tenant), self._outage, None
        if sweeps and (share := self.ramp.room(batch)):
            yield Scan("sweep", -RAMP_AFTER_S, share), self._orphans, None
