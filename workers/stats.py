"""Counts of what became of deliveries since a worker's start, and the report of them to this node's exporter."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from metrics.report import Histogram, Report, Sample
from sql.deliveries.settle import Settlement
from workers.families import DURATION_EDGES_S, KIND, LOOPS, OUTCOME


def kind_of(target: str) -> str:
    """Return the value of a metric's label: a user may have as many targets as he likes, a metric not."""
    return "webhook" if target.startswith("webhook:") else "handler"


@dataclass(slots=True)
class WorkerStats:
    """Count what became of deliveries, since the start."""

    claimed: int = 0
    lost: int = 0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    durations: dict[str, list[int]] = field(
        default_factory=lambda: {kind: [0] * (len(DURATION_EDGES_S) + 1) for kind in sorted(KIND.values)}
    )
    duration_sums_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def count_settled(self, sent: Sequence[Settlement], settled: Collection[int]) -> None:
        """Add how attempts ended; those that were not settled are another worker's now."""
        for it in sent:
            if it.delivery.timer_key not in settled:
                self.lost += 1
                continue
            kind = kind_of(it.delivery.target)
            self.outcomes[kind, _outcome_of(it)] += 1
            if it.ending is not None or it.fails:
                self.durations[kind][bisect_left(DURATION_EDGES_S, it.duration_s)] += 1
                self.duration_sums_s[kind] += it.duration_s

    def counts(self) -> dict[str, int]:
        """Return the counts by name."""
        totals = Counter[str]()
        for (_, outcome), count in self.outcomes.items():
            totals[outcome] += count
        return {"claimed": self.claimed, "lost": self.lost, **{name: totals[name] for name in sorted(OUTCOME.values)}}


@dataclass(frozen=True, slots=True)
class WorkerGauges:
    """The present state of a worker."""

    in_hand: int
    breakers_open: int


def report_of(source: str, stats: WorkerStats, present: WorkerGauges, *, leaving: bool = False) -> Report:
    """Build the report that a worker sends to the exporter."""
    samples = [
        *(
            Sample("deliveries_settled", (kind, outcome), stats.outcomes[kind, outcome])
            for kind in sorted(KIND.values)
            for outcome in sorted(OUTCOME.values)
        ),
        Sample("deliveries_claimed", (), stats.claimed),
        Sample("deliveries_lost", (), stats.lost),
        Sample("deliveries_in_hand", (), present.in_hand),
        Sample("endpoint_breakers_open", (), present.breakers_open),
        *(Sample("worker_turn_failures", (loop,), stats.failures[loop]) for loop in LOOPS),
    ]
    histograms = [
        Histogram("delivery_attempt_seconds", (kind,), tuple(counts), stats.duration_sums_s[kind])
        for kind, counts in stats.durations.items()
    ]
    return Report(source, samples=samples, histograms=histograms, leaving=leaving)


def _outcome_of(it: Settlement) -> str:
    if it.ending is not None:
        return it.ending.value.lower()
    return "retried" if it.fails else "given_back"
