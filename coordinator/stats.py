"""Count the coordinator's actions since its start, and report the counts to the exporter of its node."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shardclock_server.coordinator.families import TAKEOVER_EDGES_S
from shardclock_server.coordinator.lost_holders import DIED, NEVER_STARTED, SILENT, UNREACHABLE
from shardclock_server.metrics.buckets import Buckets
from shardclock_server.metrics.families import REASON
from shardclock_server.metrics.report import Histogram, MetricsReport, Sample
from shardclock_server.sql.cluster.holders import SHARD, EndedHolder

# The metric's label for each reason of a keeper's end; other reasons have the label "other".
REASONS = {DIED: "died", UNREACHABLE: "unreachable", SILENT: "silent", NEVER_STARTED: "never_started"}


@dataclass(slots=True)
class CrewStats:
    """Count the coordinator's actions on the keepers of one role since its start."""

    role: str
    started: int = 0
    released: int = 0
    suspended: int = 0
    takeovers: Counter[str] = field(default_factory=Counter)
    silences: Buckets = field(default_factory=lambda: Buckets(TAKEOVER_EDGES_S))

    def count_takeovers(self, ended: Iterable[EndedHolder], why_gone: Mapping[int, str]) -> None:
        """Count ended holders and their takeovers by other holders."""
        for holder in ended:
            self.takeovers[REASONS.get(why_gone.get(holder.holder, ""), "other")] += 1
            self.released += holder.held
            self.silences.add(holder.silent_s)

    def samples(self) -> list[Sample]:
        """List the counts."""
        reasons = sorted(REASON.values & {*REASONS.values(), "other"})
        return [
            Sample("keepers_started", (self.role,), self.started),
            Sample("keepers_suspended", (self.role,), self.suspended),
            *(Sample("takeovers", (self.role, reason), self.takeovers[reason]) for reason in reasons),
        ]

    def histogram(self) -> Histogram:
        """Return the durations of the takeovers."""
        return self.silences.histogram("takeover_seconds", (self.role,))


def report(
    source: str,
    *,
    fleet: str,
    leads: bool,
    crews: Sequence[CrewStats],
    ray_away_s: float | None = None,
    leaving: bool = False,
) -> MetricsReport:
    """Build the report that the coordinator sends to the exporter.

    `ray_away_s` is None if this cluster does not stand by for a Ray cluster.
    """
    released = sum(crew.released for crew in crews if crew.role == SHARD)  # only shards lease timers
    return MetricsReport(
        source,
        samples=[
            Sample("coordinator_leads", (fleet,), leads),
            *([Sample("ray_away_seconds", (), ray_away_s)] if ray_away_s is not None else []),
            Sample("timers_released", ("died",), released),
            *(sample for crew in crews for sample in crew.samples()),
        ],
        histograms=[crew.histogram() for crew in crews],
        leaving=leaving,
    )
