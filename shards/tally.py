"""What became of timers since a shard's start, and how it is told to this node's exporter."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from metrics.families import LAG_EDGES_S, NO_SHARD
from metrics.report import Report, Sample, Spread
from sql.claims import Fired, Firing, Lags, Scope, Taken, Walk
from timers.model import SLOTS

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
# Of the walks that each leave a backlog behind, one in so many is measured: it costs them a twentieth of their time.
MEASURED_OF_BACKLOG = 5

Kind = tuple[Scope, float | None]


@dataclass(slots=True)
class Lateness:
    """How late the fired timers were, by target and type.

    While a shard works off a backlog, whose timers are all about equally late, a walk that was not measured is taken
    to be like the last one of its kind that was: what an outage left is much later than what is just overdue.
    """

    counts: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    sums_s: dict[tuple[str, str], float] = field(default_factory=dict)
    _like: dict[Kind, Sequence[Lags]] = field(default_factory=dict)
    _unmeasured: Counter[Kind] = field(default_factory=Counter)

    def measures(self, walk: Walk, *, behind: bool) -> bool:
        """Say whether to measure a walk."""
        kind = _kind(walk)
        if not behind or kind not in self._like:
            self._unmeasured.pop(kind, None)
            return True
        self._unmeasured[kind] = (self._unmeasured[kind] + 1) % MEASURED_OF_BACKLOG
        return self._unmeasured[kind] == 0

    def learn(self, lags: Sequence[Lags], walk: Walk | None = None) -> None:
        """Take in what was measured, of a walk or of leased timers."""
        for lag in lags:
            self._add(lag, lag.timers)
        # A sweep or a look ahead is rare, and fires little: the last one may have been another world.
        if lags and walk is not None and walk.scope in ("own", "backlog"):
            self._like[_kind(walk)] = lags

    def estimate(self, timers: int, walk: Walk) -> None:
        """Take in so many that were not measured, as like the last of such a walk that were."""
        like = sorted(self._like[_kind(walk)], key=lambda lag: lag.timers)
        total, left = sum(lag.timers for lag in like), timers
        for lag in like:
            share = timers * lag.timers // total
            self._add(lag, share)
            left -= share
        self._add(like[-1], left)

    def _add(self, lag: Lags, timers: int) -> None:
        key = lag.target, lag.timer_type
        counts = self.counts.setdefault(key, [0] * (len(LAG_EDGES_S) + 1))
        counts[len(LAG_EDGES_S) - lag.edges_within] += timers
        self.sums_s[key] = self.sums_s.get(key, 0.0) + lag.sum_s * timers / lag.timers


def _kind(walk: Walk) -> Kind:
    return walk.scope, walk.floor_s


@dataclass(slots=True)
class Tally:
    """Count what became of timers, since the start."""

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
    lateness: Lateness = field(default_factory=Lateness)

    def take(self, walk: Walk, taken: Taken, *, measured: bool) -> None:
        """Take in what a walk leased and fired."""
        self.claimed += len(taken.claimed)
        self.fired += taken.fired
        if walk.scope == "all":
            self.swept += len(taken.claimed) + taken.fired
        if measured:
            self.lateness.learn(taken.lags, walk)
        else:
            self.lateness.estimate(taken.fired, walk)

    def fire(self, firings: Sequence[Firing], fired: Fired) -> None:
        """Take in what became of leased timers whose turn had come."""
        gone = [firing for firing in firings if firing.timer.timer_key in fired.timer_keys]
        self.fired += sum(firing.fires for firing in gone)
        self.skipped += sum(firing.skipped for firing in gone)
        self.lateness.learn(fired.lags)

    def counts(self) -> dict[str, int]:
        """Give the counts by name."""
        return {attribute: getattr(self, attribute) for attribute in COUNTERS.values()}


@dataclass(frozen=True, slots=True)
class Present:
    """How a shard is now."""

    shard: int | None
    shard_count: int | None
    held: int
    clock_offset_s: float
    round_trip_s: float

    @property
    def slots_owned(self) -> int:
        """Count the slots it keeps."""
        if self.shard is None or self.shard_count is None:
            return 0
        return len(range(self.shard, SLOTS, self.shard_count))


def report_of(source: str, tally: Tally, present: Present, *, leaving: bool = False) -> Report:
    """Put together what a shard says of itself."""
    samples = [Sample(name, (), getattr(tally, attribute)) for name, attribute in COUNTERS.items()]
    samples += [Sample("turn_failures", (loop,), tally.failures[loop]) for loop in ("beats", "claims", "fires")]
    samples += [
        Sample("timers_released", ("drained",), tally.released),
        Sample("timers_held", (), present.held),
        Sample("slots_owned", (), present.slots_owned),
        Sample("clock_offset_seconds", (), present.clock_offset_s),
        Sample("clock_round_trip_seconds", (), present.round_trip_s),
    ]
    lateness = tally.lateness
    spreads = [
        Spread("fire_lag_seconds", key, tuple(counts), lateness.sums_s[key]) for key, counts in lateness.counts.items()
    ]
    shard = NO_SHARD if present.shard is None else str(present.shard)
    return Report(source, shard, samples, spreads, leaving)
