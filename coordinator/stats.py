"""Counts of what the coordinator did since its start, and the report of them to its node's exporter."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coordinator.families import TAKEOVER_EDGES_S
from metrics.families import REASON
from metrics.report import Histogram, Report, Sample
from sql.cluster.holders import Ended

UNREACHABLE, SILENT, NEVER_STARTED = "ActorUnavailableError", "silent", "never started"
# Why an actor is gone, as the metric's label names it; any other reason is "other".
REASONS = {"ActorDiedError": "died", UNREACHABLE: "unreachable", SILENT: "silent", NEVER_STARTED: "never_started"}


@dataclass(slots=True)
class CoordinatorStats:
    """Count what the coordinator did since its start."""

    leads: bool | None = None
    started: int = 0
    released: int = 0
    suspended: int = 0
    takeovers: Counter[str] = field(default_factory=Counter)
    seconds: list[int] = field(default_factory=lambda: [0] * (len(TAKEOVER_EDGES_S) + 1))
    seconds_sum: float = 0.0

    def take_over(self, ended: Iterable[Ended], why_gone: Mapping[int, str]) -> None:
        """Count holders that were ended, so that others take over their timers."""
        for holder in ended:
            self.takeovers[REASONS.get(why_gone.get(holder.holder, ""), "other")] += 1
            self.released += holder.held
            self.seconds[bisect_left(TAKEOVER_EDGES_S, holder.silent_s)] += 1
            self.seconds_sum += holder.silent_s

    def report(self, source: str, *, leaving: bool = False) -> Report:
        """Build the report that the coordinator sends to the exporter."""
        reasons = sorted(REASON.values & {*REASONS.values(), "other"})
        return Report(
            source,
            samples=[
                Sample("coordinator_leads", (), bool(self.leads)),
                Sample("shards_started", (), self.started),
                Sample("shards_suspended", (), self.suspended),
                Sample("timers_released", ("died",), self.released),
                *(Sample("takeovers", (reason,), self.takeovers[reason]) for reason in reasons),
            ],
            histograms=[Histogram("takeover_seconds", (), tuple(self.seconds), self.seconds_sum)],
            leaving=leaving,
        )
