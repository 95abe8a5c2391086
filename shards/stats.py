"""Counts of the timers' outcomes since a shard's start, and their report to this node's exporter."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from shardclock_server.metrics.family import NO_SHARD
from shardclock_server.metrics.report import Histogram, MetricsReport, Sample
from shardclock_server.shards.families import LAG_EDGES_S, LOOPS
from shardclock_server.sql.claims.claim import Scan, ScanResult, Scope
from shardclock_server.sql.claims.rows import Lags
from shardclock_server.sql.firing.fire import Fired, Firing
from shardclock_server.timers.model import SLOTS

COUNTERS = {
    "timers_claimed": "claimed",
    "timers_fired": "fired",
    "timers_fenced": "fenced",
    "timers_swept": "swept",
    "timers_early": "early",
    "timers_locked": "locked",
    "timers_planned": "planned",
    "timers_refused": "refused",
    "occurrences_skipped": "skipped",
}
# A measurement of the lags takes a twentieth of a scan's time. During a backlog, a shard therefore measures only one
# scan in this number of scans.
MEASURED_OF_BACKLOG = 5

Kind = tuple[Scope, float | None]


@dataclass(slots=True)
class LagHistograms:
    """Lag histograms of fired timers, by target and type.

    Timers that were already overdue when they were scheduled have separate histograms.

    During a backlog, most scans are not measured. The timers of a backlog are about equally late, so an unmeasured scan
    is counted with the lags of the last measured scan of the same kind. Scans for timers of an outage are a separate
    kind, because these timers are much later.
    """

    counts: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)
    sums_s: dict[tuple[str, str, str], float] = field(default_factory=dict)
    _like: dict[Kind, Sequence[Lags]] = field(default_factory=dict)
    _unmeasured: Counter[Kind] = field(default_factory=Counter)

    def measures(self, scan: Scan, *, has_backlog: bool) -> bool:
        """Return whether to measure the lags of the next scan."""
        kind = _kind(scan)
        if not has_backlog or kind not in self._like:
            self._unmeasured.pop(kind, None)
            return True
        self._unmeasured[kind] = (self._unmeasured[kind] + 1) % MEASURED_OF_BACKLOG
        return self._unmeasured[kind] == 0

    def learn(self, lags: Sequence[Lags], scan: Scan | None = None) -> None:
        """Add the measured lags of a scan or of leased timers."""
        for lag in lags:
            self._add(lag, lag.timers)
        # Sweeps and scans that skip the backlog are rare, and their lags don't predict the lags of the next scan.
        if lags and scan is not None and scan.scope in ("own", "outage"):
            self._like[_kind(scan)] = lags

    def estimate(self, timers: int, scan: Scan) -> None:
        """Add unmeasured firings to the buckets, in the proportions of the last measured scan of the same kind."""
        like = sorted(self._like[_kind(scan)], key=lambda lag: lag.timers)
        total, left = sum(lag.timers for lag in like), timers
        for lag in like:
            share = timers * lag.timers // total
            self._add(lag, share)
            left -= share
        self._add(like[-1], left)

    def _add(self, lag: Lags, timers: int) -> None:
        key = lag.target, lag.timer_type, lag.asked
        counts = self.counts.setdefault(key, [0] * (len(LAG_EDGES_S) + 1))
        counts[len(LAG_EDGES_S) - lag.edges_within] += timers
        self.sums_s[key] = self.sums_s.get(key, 0.0) + lag.sum_s * timers / lag.timers


def _kind(scan: Scan) -> Kind:
    return scan.scope, scan.floor_s


@dataclass(slots=True)
class ShardStats:
    """Count the timers' outcomes since the start."""

    claimed: int = 0
    fired: int = 0
    fenced: int = 0
    swept: int = 0
    early: int = 0
    locked: int = 0
    planned: int = 0
    refused: int = 0
    skipped: int = 0
    released: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    lag_histograms: LagHistograms = field(default_factory=LagHistograms)

    def count_scan(self, scan: Scan, taken: ScanResult, *, measured: bool) -> None:
        """Count the timers that a scan leased and fired."""
        self.claimed += len(taken.claimed)
        self.fired += taken.fired
        self.skipped += taken.skipped
        if scan.scope == "sweep":
            self.swept += len(taken.claimed) + taken.fired
        if measured:
            self.lag_histograms.learn(taken.lags, scan)
        else:
            self.lag_histograms.estimate(taken.fired, scan)

    def count_firing(self, firings: Sequence[Firing], fired: Fired) -> None:
        """Count the outcomes of leased timers that were due."""
        gone = [firing for firing in firings if firing.timer.timer_key in fired.timer_keys]
        self.fired += sum(firing.fires for firing in gone)
        self.skipped += sum(firing.skipped for firing in gone)
        self.lag_histograms.learn(fired.lags)

    def counts(self) -> dict[str, int]:
        """Return the counts by name."""
        return {attribute: getattr(self, attribute) for attribute in COUNTERS.values()}


@dataclass(frozen=True, slots=True)
class ShardGauges:
    """The current state of a shard."""

    shard: int | None
    shard_count: int | None
    held: int
    clock_offset_s: float
    round_trip_s: float

    @property
    def slots_owned(self) -> int:
        """Count the slots that are assigned to the shard."""
        if self.shard is None or self.shard_count is None:
            return 0
        return len(range(self.shard, SLOTS, self.shard_count))


def report_of(source: str, stats: ShardStats, present: ShardGauges, *, leaving: bool = False) -> MetricsReport:
    """Build the report that a shard sends to the exporter."""
    samples = [Sample(name, (), getattr(stats, attribute)) for name, attribute in COUNTERS.items()]
    samples += [Sample("turn_failures", (loop,), stats.failures[loop]) for loop in LOOPS]
    samples += [
        Sample("timers_released", ("drained",), stats.released),
        Sample("timers_held", (), present.held),
        Sample("slots_owned", (), present.slots_owned),
        Sample("clock_offset_seconds", (), present.clock_offset_s),
        Sample("clock_round_trip_seconds", (), present.round_trip_s),
    ]
    lag_histograms = stats.lag_histograms
    histograms = [
        Histogram("fire_lag_seconds", key, tuple(counts), lag_histograms.sums_s[key])
        for key, counts in lag_histograms.counts.items()
    ]
    shard = NO_SHARD if present.shard is None else str(present.shard)
    return MetricsReport(source, shard, samples, histograms, leaving)
