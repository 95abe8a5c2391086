"""Every metric there is: its name, kind, labels, and the values that its labels can take."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from timers.model import SLOTS, TimerType

PREFIX = "shardclock_"
Kind = Literal["counter", "gauge", "histogram"]

LAG_EDGES_S = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
LAG_EDGES = tuple(timedelta(seconds=edge_s) for edge_s in LAG_EDGES_S)
TAKEOVER_EDGES_S = (0.1, 0.25, 0.5, 1, 2, 5, 10, 15, 30, 60)

# The shard of a holder that has none: it may still sweep, and fire what it leases.
NO_SHARD = "none"
LABELS: Mapping[str, frozenset[str]] = {
    "shard": frozenset([*map(str, range(SLOTS)), NO_SHARD]),
    "target": frozenset(["log"]),
    "timer_type": frozenset(kind.value for kind in TimerType),
    "loop": frozenset(["beats", "claims", "fires"]),
    "reason": frozenset(["drained", "died", "silent", "unreachable", "never_started", "other"]),
    "age": frozenset(["under_1s", "under_10s", "under_1m", "under_10m", "over_10m"]),
    "minute": frozenset(f"{minute:02}" for minute in range(1, 16)),
    "table": frozenset(["timers", "command_log", "holders", "consumers", "coordination", "zones"]),
}


@dataclass(frozen=True, slots=True)
class Family:
    """One metric, as its users know it."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    edges: tuple[float, ...] = field(default=())

    @property
    def full_name(self) -> str:
        """Name it as Prometheus does."""
        return f"{PREFIX}{self.name}{'_total' if self.kind == 'counter' else ''}"

    def accepts(self, labels: Iterable[str]) -> bool:
        """Say whether these can be the values of its labels."""
        values = tuple(labels)
        return len(values) == len(self.labels) and all(
            value in LABELS[label] for label, value in zip(self.labels, values, strict=True)
        )


def _by_name(*families: Family) -> Mapping[str, Family]:
    return {family.name: family for family in families}


# What shards and coordinators report.
REPORTED = _by_name(
    Family(
        "fire_lag_seconds",
        "histogram",
        "How long after its due date a timer was fired, by Postgres's clock.",
        ("shard", "target", "timer_type"),
        LAG_EDGES_S,
    ),
    Family("timers_fired", "counter", "Timers fired.", ("shard",)),
    Family("timers_claimed", "counter", "Timers leased.", ("shard",)),
    Family("timers_fenced", "counter", "Timers that were no longer the shard's when it came to fire them.", ("shard",)),
    Family(
        "timers_swept",
        "counter",
        "Overdue timers that a sweep over everybody's slots took, its shard's own among them.",
        ("shard",),
    ),
    Family("timers_early", "counter", "Timers that Postgres found too early, and that were fired later.", ("shard",)),
    Family("timers_locked", "counter", "Timers that waited for somebody's transaction.", ("shard",)),
    Family("timers_refused", "counter", "Timers that can't be fired as they are: see the log.", ("shard",)),
    Family("timers_planned", "counter", "Schedules that got their first date.", ("shard",)),
    Family("occurrences_skipped", "counter", "Occurrences that a schedule missed and will not fire.", ("shard",)),
    Family("turn_failures", "counter", "Turns of a shard's loop that failed and were taken again.", ("shard", "loop")),
    Family("timers_held", "gauge", "Timers leased and waiting in the shard's memory.", ("shard",)),
    Family("slots_owned", "gauge", "Slots that the shard keeps, of 840.", ("shard",)),
    Family("clock_offset_seconds", "gauge", "This node's clock minus Postgres's, at most.", ("shard",)),
    Family("clock_round_trip_seconds", "gauge", "How long a small statement takes there and back.", ("shard",)),
    Family("timers_released", "counter", "Leased timers that were handed back, or freed by a death.", ("reason",)),
    Family("takeovers", "counter", "Shard actors that were lost, and whose timers others took over.", ("reason",)),
    Family(
        "takeover_seconds",
        "histogram",
        "From a lost shard's last sign of life until its timers were free for others.",
        edges=TAKEOVER_EDGES_S,
    ),
    Family("coordinator_leads", "gauge", "1 for a coordinator that leads, 0 for one that stands by."),
    Family("shards_started", "counter", "Shard actors that the coordinator has started."),
    Family("shards_suspended", "counter", "Times that a silent shard's timers were given to others, and it lived on."),
)

# What is read in the tables.
READ = _by_name(
    Family("store_up", "gauge", "1 if Postgres answered the last time the tables were read."),
    Family("store_read_seconds", "gauge", "How long the last reading of the tables took."),
    Family("pending_timers", "gauge", "Timers that are yet to fire, the paused among them."),
    Family("paused_timers", "gauge", "Timers that somebody has paused."),
    Family("overdue_timers", "gauge", "Timers that should have fired by now."),
    Family("overdue_timers_by_age", "gauge", "Timers that should have fired by now, by how late they are.", ("age",)),
    Family("oldest_overdue_seconds", "gauge", "How late the oldest overdue timer is; 0 if there is none."),
    Family("left_by_outage_timers", "gauge", "Timers overdue by more than 10 s, which are fired at the ramp's rate."),
    Family("ramp_timers_per_second", "gauge", "How fast what an outage left is fired; absent without a limit."),
    Family("shards_wanted", "gauge", "Shards wanted."),
    Family("shards_alive", "gauge", "Shards that keep slots and gave a sign of life within 5 s."),
    Family("holders_on_hold", "gauge", "Shard actors that live and fire nothing: a copy, or another's database."),
    Family("shards_min", "gauge", "The least that the policy allows; absent without a policy."),
    Family("shards_max", "gauge", "The most that the policy allows; absent without a policy."),
    Family("slots_assigned", "gauge", "Slots that a living shard keeps, of 840."),
    Family("leader_alive", "gauge", "1 while a coordinator leads."),
    Family("forecast_timers", "gauge", "Timers that fall due in a coming minute.", ("minute",)),
    Family("forecast_peak_timers_per_second", "gauge", "The busiest ten seconds of the coming 15 minutes."),
    Family("capacity_timers_per_second", "gauge", "What the living shards are reckoned to fire."),
    Family("timers_scheduled", "counter", "Keys drawn for new timers."),
    Family("log_records", "counter", "Positions drawn for records of the command log."),
    Family("timers_canceled", "counter", "Timers that clients cancelled."),
    Family("timers_rescheduled", "counter", "Timers that clients moved."),
    Family("timers_paused", "counter", "Timers that clients paused."),
    Family("timers_resumed", "counter", "Timers that clients resumed."),
    Family("oldest_transaction_seconds", "gauge", "Age of the oldest open transaction that writes: log readers wait."),
    Family("oldest_snapshot_seconds", "gauge", "Age of the oldest snapshot held: vacuum waits."),
    Family("wal_bytes", "counter", "Write-ahead log written by the whole server."),
    Family(
        "log_partitions_ahead", "gauge", "Days, from today on, that have a partition of the log: 8 when all is well."
    ),
    Family("schema_version", "gauge", "The number of the schema's last migration."),
    Family("table_rows", "gauge", "Live rows, by Postgres's statistics.", ("table",)),
    Family("table_dead_rows", "gauge", "Dead rows that vacuum has yet to remove.", ("table",)),
    Family("table_bytes", "gauge", "Bytes on disk, with indexes.", ("table",)),
)
