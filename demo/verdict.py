"""Check a run with its recorded rows, without I/O: fired, early, lost and double timers, and the lags.

If timers have targets, `delivery_verdict` checks the deliveries.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from shardclock.log import LogRecord
from shardclock_server.demo.delivery_verdict import DeliveryVerdict
from shardclock_server.sql.clients.outcomes import Scheduled
from shardclock_server.timers.model import NewTimer, slot_of
from shardclock_server.timers.occurrence import WITHOUT_END
from shardclock_server.timers.schedule import parse_schedule

Firing: TypeAlias = tuple[str, str, int]  # tenant, name or key, occurrence
# The time after a kill in which the takeover ends: a lease and a sweep. Later timers don't belong to the takeover.
TAKEOVER_MAX = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class Kill:
    """The killed shard, and the time of the kill on Postgres's clock."""

    at: datetime
    shard: int
    shard_count: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of every promised firing, and of each delivery if timers have targets.

    The lags don't include timers of the takeover. If a timer was overdue when it was scheduled, its lag counts from the
    time of its scheduling.
    """

    promised: int
    fired: int
    skipped: int
    early: int
    lost: int
    double: int
    lag_p50_ms: float
    lag_p99_ms: float
    lag_max_ms: float
    takeover_s: float | None
    deliveries: DeliveryVerdict | None = None

    @property
    def holds(self) -> bool:
        """Return whether every promise was kept; False if nothing has fired."""
        timers_hold = self.fired > 0 and not (self.early or self.lost or self.double)
        return timers_hold and (self.deliveries is None or self.deliveries.holds)

    def lines(self) -> list[tuple[str, object]]:
        """List the numbers with their labels, for the output."""
        takeover = "no shard was killed" if self.takeover_s is None else f"{self.takeover_s:.3f} s"
        lag = f"p50 {self.lag_p50_ms:.1f} ms, p99 {self.lag_p99_ms:.1f} ms, max {self.lag_max_ms:.1f} ms"
        return [
            ("fired", f"{self.fired:,} of {self.promised:,} promised"),
            ("skipped", f"{self.skipped:,} (repeats missed in the takeover, recorded as such)"),
            ("early", self.early),
            ("lost", self.lost),
            ("double", self.double),
            ("lag", f"{lag}, outside the takeover"),
            ("takeover", f"{takeover}: the longest that a timer of the killed shard waited"),
            *(self.deliveries.lines() if self.deliveries else ()),
            ("verdict", self._sentence() if self.holds else "BROKEN"),
        ]

    def _sentence(self) -> str:
        delivered = "; every delivery ended once, as it had to" if self.deliveries else ""
        return f"every timer fired exactly once, none early{delivered}"


def judge(scheduled: Sequence[tuple[Scheduled, NewTimer]], records: Sequence[LogRecord], kill: Kill | None) -> Verdict:
    """Compare the records with the promises.

    shape:   `scheduled` are the acknowledged timers; `records` is the complete log since the scheduling
    """
    triggered = [record for record in records if record.intent == "TRIGGERED"]
    times = Counter(_firing(record) for record in triggered)
    skipped = {firing for record in records if record.intent == "SKIPPED" for firing in _skips(record)}
    promised = {firing for timer in scheduled for firing in promises(*timer, skipped=skipped)}
    takeover_s, calm = _takeover(triggered, kill)
    lags_ms = sorted((record.recorded_at - record.late_since) / timedelta(milliseconds=1) for record in calm)
    return Verdict(
        promised=len(promised),
        fired=len(times),
        skipped=len(skipped),
        early=sum(record.recorded_at < record.due_date for record in triggered),
        lost=len(promised - times.keys()),
        double=sum(times.values()) - len(times),
        lag_p50_ms=_quantile(lags_ms, 0.5),
        lag_p99_ms=_quantile(lags_ms, 0.99),
        lag_max_ms=_quantile(lags_ms, 1.0),
        takeover_s=takeover_s,
    )


def promises(scheduled: Scheduled, timer: NewTimer, *, skipped: AbstractSet[Firing] = frozenset()) -> Iterator[Firing]:
    """List every firing that must happen for a scheduled timer; a skipped occurrence must not fire.

    errors:  ValueError  the schedule has no end, so the demo could not wait for its firings
    """
    if timer.schedule is None:
        yield timer.tenant_id, str(scheduled.timer_key), 1
        return
    repetitions = parse_schedule(timer.schedule, timer.zone).repetitions
    if repetitions == WITHOUT_END:
        raise ValueError(f"the schedule {timer.schedule} has no end: give it a count, such as R3/PT5S")
    name = timer.name or f"schedule-{scheduled.timer_key}"
    occurrences = ((timer.tenant_id, name, number) for number in itertools.count(1))
    yield from itertools.islice((it for it in occurrences if it not in skipped), repetitions)


def _firing(record: LogRecord) -> Firing:
    if record.schedule is None:
        return record.tenant_id, str(record.timer_key), record.occurrence
    return record.tenant_id, record.name or "", record.occurrence


def _skips(record: LogRecord) -> Iterator[Firing]:
    tenant, name, first = _firing(record)
    yield from ((tenant, name, occurrence) for occurrence in range(first, first + record.count))


def _takeover(triggered: Sequence[LogRecord], kill: Kill | None) -> tuple[float | None, list[LogRecord]]:
    """Return the longest lag of the killed shard's timers, and the records of all other timers."""
    if kill is None:
        return None, list(triggered)
    waits = [
        record.recorded_at - max(record.late_since, kill.at)
        for record in triggered
        if _was_its(record, kill) and record.recorded_at >= kill.at and record.late_since < kill.at + TAKEOVER_MAX
    ]
    takeover = max(waits, default=timedelta(0))
    begin, end = kill.at - timedelta(milliseconds=100), kill.at + takeover
    calm = [record for record in triggered if not (_was_its(record, kill) and begin <= record.late_since <= end)]
    return takeover.total_seconds(), calm


def _was_its(record: LogRecord, kill: Kill) -> bool:
    return slot_of(record.timer_key) % kill.shard_count == kill.shard


def _quantile(values: Sequence[float], q: float) -> float:
    return values[round(q * (len(values) - 1))] if values else 0.0
