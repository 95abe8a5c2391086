"""The counters of an engine, and their report to this node's exporter."""

from collections import Counter
from collections.abc import Sequence

from shardclock_server.engine.advance import Advanced
from shardclock_server.engine.families import LAG_EDGES_S, LOOPS, OUTCOMES
from shardclock_server.metrics.buckets import Buckets
from shardclock_server.metrics.report import MetricsReport, Sample


class EngineStats:
    """Count signals and instances since the engine's start."""

    def __init__(self) -> None:
        self.begun = 0
        self.signals = 0
        self.stale = 0
        self.spent = 0
        self.conflicts = 0
        self.given_up = 0
        self.incidents = 0
        self.service_tasks = 0
        self.ended: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.lags = Buckets(LAG_EDGES_S)

    def count(self, advanced: Sequence[Advanced]) -> None:
        """Count written instances and their signals."""
        for done in advanced:
            # An instance that was cancelled before its start does not count as started.
            self.begun += done.was == 0 and done.signals[0].is_first
            self.stale += done.stale
            self.incidents += len(done.outbox.incidents)
            self.service_tasks += done.outbox.service_tasks
            if done.outbox.ended:
                self.ended[done.outbox.ended.outcome.value] += 1
            self.signals += len(done.signals)
            for signal in done.signals:
                self.lags.add(max(0.0, (signal.server_time - signal.due_at).total_seconds()))

    def counts(self) -> dict[str, int]:
        """Return the counts by name."""
        return {
            "begun": self.begun, "ended": self.ended.total(), "signals": self.signals, "stale": self.stale + self.spent,
            "given_up": self.given_up, "incidents": self.incidents, "service_tasks": self.service_tasks,
        }  # fmt: skip


def report_of(source: str, stats: EngineStats, *, leaving: bool = False) -> MetricsReport:
    """Build an engine's report for the exporter."""
    samples = [
        Sample("instances_begun", (), stats.begun),
        *(Sample("instances_ended", (outcome,), stats.ended[outcome]) for outcome in sorted(OUTCOMES)),
        Sample("instance_signals", ("taken",), stats.signals - stats.stale),
        Sample("instance_signals", ("stale",), stats.stale + stats.spent),
        Sample("instance_signals", ("given_up",), stats.given_up),
        Sample("instance_conflicts", (), stats.conflicts),
        Sample("incidents_raised", (), stats.incidents),
        *(Sample("engine_turn_failures", (loop,), stats.failures[loop]) for loop in LOOPS),
    ]
    return MetricsReport(
        source, samples=samples, histograms=[stats.lags.histogram("instance_signal_lag_seconds", ())], leaving=leaving
    )
