"""The counters of a worker, and their report to this node's exporter."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from shardclock_server.metrics.buckets import Buckets
from shardclock_server.metrics.family import OTHER, TARGETS_MAX
from shardclock_server.metrics.report import MetricsReport, Sample
from shardclock_server.sql.deliveries.claim import Claim, ClaimedDelivery
from shardclock_server.sql.deliveries.settle import DeliveryEnding, Settlement
from shardclock_server.sql.endpoints.endpoints import WEBHOOK
from shardclock_server.workers.families import DURATION_EDGES_S, KIND, LOOPS, OUTCOME


def kind_of(target: str) -> str:
    """Return the label `kind` of a target. The target's name is no label, because the number of names is unlimited."""
    return "webhook" if target.startswith(WEBHOOK) else "handler"


def _buckets_by_kind() -> dict[str, Buckets]:
    return {kind: Buckets(DURATION_EDGES_S) for kind in sorted(KIND.values)}


class WorkerStats:
    """Count the worker's deliveries and their outcomes since its start."""

    def __init__(self, handlers: Iterable[str] = ()) -> None:
        self.claimed = 0
        self.handed_over = 0
        self.lost = 0
        self.failures: Counter[str] = Counter()
        self.failed_starts: Counter[str] = Counter()
        self.outcomes: Counter[tuple[str, str, str]] = Counter()
        self.lags = _buckets_by_kind()
        self.durations = _buckets_by_kind()
        # The first handlers in alphabetical order, so that all workers of an app choose the same handlers. Webhooks are
        # always OTHER.
        self.names = frozenset(sorted(handlers)[:TARGETS_MAX])

    def name_of(self, target: str) -> str:
        """Return the label `target_name`: the target for one of the handlers in `names`, else OTHER."""
        return target if target in self.names else OTHER

    def count_called(self, target: str, deliveries: Sequence[ClaimedDelivery], *, now: datetime) -> None:
        """Record the lags of deliveries whose first attempt starts now."""
        lags = self.lags[kind_of(target)]
        for it in deliveries:
            if not it.failed_attempts:
                # For a redriven dead letter, measure from the redrive instead of the firing.
                lag = now - max(it.fired_at, it.next_attempt_at)
                lags.add(max(0.0, lag.total_seconds()))

    def count_failed_start(self, target: str) -> None:
        """Count a failed start of a handler's process."""
        self.failed_starts[self.name_of(target)] += 1

    def count_settled(self, sent: Sequence[Settlement], lost: Collection[Claim]) -> None:
        """Count the outcomes of settled attempts; ignore `lost` claims, which belong to other workers."""
        ours = [it for it in sent if it.delivery.claim not in lost] if lost else sent
        self.lost += len(sent) - len(ours)
        alike = Counter((it.delivery.target, it.ending, it.fails, it.duration_s) for it in ours)
        for (target, ending, fails, duration_s), count in alike.items():
            kind = kind_of(target)
            self.outcomes[kind, self.name_of(target), _outcome_of(ending, fails=fails)] += count
            if ending is not None or fails:
                self.durations[kind].add(duration_s, count)

    def counts(self) -> dict[str, int]:
        """Return the counts by name."""
        totals = Counter[str]()
        for (*_, outcome), count in self.outcomes.items():
            totals[outcome] += count
        taken = {"claimed": self.claimed, "handed_over": self.handed_over, "lost": self.lost}
        return {**taken, **{name: totals[name] for name in sorted(OUTCOME.values)}}


@dataclass(frozen=True, slots=True)
class WorkerGauges:
    """The gauges of a worker."""

    leased: int
    breakers_open: int


def report_of(source: str, stats: WorkerStats, present: WorkerGauges, *, leaving: bool = False) -> MetricsReport:
    """Build a worker's report for the exporter."""
    samples = [
        *_outcomes_of(stats),
        Sample("deliveries_claimed", (), stats.claimed),
        Sample("deliveries_handed_over", (), stats.handed_over),
        Sample("deliveries_lost", (), stats.lost),
        Sample("deliveries_leased", (), present.leased),
        Sample("endpoint_breakers_open", (), present.breakers_open),
        *(
            Sample("handler_start_failures", (name,), stats.failed_starts[name])
            for name in sorted({*stats.names, OTHER})
        ),
        *(Sample("worker_turn_failures", (loop,), stats.failures[loop]) for loop in LOOPS),
    ]
    named = {"delivery_lag_seconds": stats.lags, "delivery_attempt_seconds": stats.durations}
    histograms = [
        buckets.histogram(name, (kind,)) for name, by_kind in named.items() for kind, buckets in by_kind.items()
    ]
    return MetricsReport(source, samples=samples, histograms=histograms, leaving=leaving)


def _outcomes_of(stats: WorkerStats) -> list[Sample]:
    """List the outcomes of each target, including outcomes with the count 0, because Prometheus needs a first value."""
    labels = {("handler", name) for name in stats.names} | {(kind, OTHER) for kind in KIND.values}
    return [
        Sample("deliveries_settled", (kind, name, outcome), stats.outcomes[kind, name, outcome])
        for kind, name in sorted(labels)
        for outcome in sorted(OUTCOME.values)
    ]


def _outcome_of(ending: DeliveryEnding | None, *, fails: bool | None) -> str:
    if ending is not None:
        return ending.value.lower()
    return "retried" if fails else "given_back"
