"""The metrics that the exporter reads in the tables, and one that several packages report."""

from metrics.family import Family, Label, by_name

GROUPS_MAX = 50  # consumer groups: users name them, so the values of this label must be limited

REASON = Label("reason", frozenset(["drained", "died", "silent", "unreachable", "never_started", "other"]))
AGE = Label("age", frozenset(["under_1s", "under_10s", "under_1m", "under_10m", "over_10m"]))
MINUTE = Label("minute", frozenset(f"{minute:02}" for minute in range(1, 16)))
# Operators name them: this one stands for all. The page has GROUPS_MAX of them at most.
GROUP = Label("group", frozenset(["billing"]))
TABLE = Label(
    "table",
    frozenset(["timers", "command_log", "holders", "beats", "consumers", "coordination", "leadership", "zones"]),
)

# Shards report it when they drain, and the coordinator when it ends one.
RELEASED = Family("timers_released", "counter", "Leased timers that were handed back, or freed by a death.", (REASON,))

# What is read in the tables.
READ = by_name(
    Family("store_up", "gauge", "1 if Postgres answered the last time the tables were read."),
    Family("store_read_seconds", "gauge", "How long the last reading of the tables took."),
    Family("pending_timers", "gauge", "Timers that are yet to fire, the paused among them."),
    Family("paused_timers", "gauge", "Timers that somebody has paused."),
    Family("overdue_timers", "gauge", "Timers that should have fired by now."),
    Family("overdue_timers_by_age", "gauge", "Timers that should have fired by now, by how late they are.", (AGE,)),
    Family(
        "oldest_overdue_seconds",
        "gauge",
        "How late the oldest overdue timer is, from when it was asked for if that was later; 0 if there is none.",
    ),
    Family("left_by_outage_timers", "gauge", "Timers overdue by more than 10 s, which are fired at the ramp's rate."),
    Family("ramp_timers_per_second", "gauge", "How fast what an outage left is fired; absent without a limit."),
    Family("shards_wanted", "gauge", "Shards wanted."),
    Family("shards_alive", "gauge", "Shards that keep slots and gave a sign of life within 5 s."),
    Family("holders_on_hold", "gauge", "Shard actors that live and fire nothing: a copy, or another's database."),
    Family("shards_min", "gauge", "The least that the policy allows; absent without a policy."),
    Family("shards_max", "gauge", "The most that the policy allows; absent without a policy."),
    Family("slots_assigned", "gauge", "Slots that a living shard keeps, of 840."),
    Family("leader_alive", "gauge", "1 while a coordinator leads."),
    Family("forecast_timers", "gauge", "Timers that fall due in a coming minute.", (MINUTE,)),
    Family("forecast_peak_timers_per_second", "gauge", "The busiest ten seconds of the coming 15 minutes."),
    Family("capacity_timers_per_second", "gauge", "What the living shards are reckoned to fire."),
    Family("timers_scheduled", "counter", "Keys drawn for new timers."),
    Family("log_records", "counter", "Positions drawn for records of the command log."),
    Family("timers_canceled", "counter", "Timers that clients cancelled."),
    Family("timers_rescheduled", "counter", "Timers that clients moved."),
    Family("timers_paused", "counter", "Timers that clients paused."),
    Family("timers_resumed", "counter", "Timers that clients resumed."),
    Family("consumer_lag_records", "gauge", "Records that a consumer group has yet to do.", (GROUP,)),
    Family(
        "consumer_lag_seconds",
        "gauge",
        "Age of the oldest record that a consumer group has yet to do; 0 if there is none.",
        (GROUP,),
    ),
    Family("consumer_failures", "counter", "Times that a consumer group's work has failed.", (GROUP,)),
    Family("consumer_records_aside", "gauge", "Records that a consumer group has given up.", (GROUP,)),
    Family(
        "oldest_log_writer_seconds", "gauge", "Age of the oldest open transaction that wrote to the log: readers wait."
    ),
    Family("oldest_snapshot_seconds", "gauge", "Age of the oldest snapshot held: vacuum waits."),
    Family("connections", "gauge", "Connections of clients, to all databases of the server."),
    Family("connections_max", "gauge", "Connections that clients may make; a superuser may make a few more."),
    Family(
        "replica_lag_bytes",
        "gauge",
        "How far the replica or replication slot that is furthest behind is behind; absent without any.",
    ),
    Family("replication_slots_inactive", "gauge", "Replication slots that nobody reads: what they keep is never used."),
    Family("wal_kept_bytes", "gauge", "Write-ahead log on disk; absent if the role is no member of pg_monitor."),
    Family("wal_expected_bytes", "gauge", "The most of it that checkpoints let stand: max_wal_size or wal_keep_size."),
    Family("wal_bytes", "counter", "Write-ahead log written by the whole server."),
    Family(
        "log_partitions_ahead", "gauge", "Days, from today on, that have a partition of the log: 8 when all is well."
    ),
    Family("schema_version", "gauge", "The number of the schema's last migration."),
    Family("table_rows", "gauge", "Live rows, by Postgres's statistics.", (TABLE,)),
    Family("table_dead_rows", "gauge", "Dead rows that vacuum has yet to remove.", (TABLE,)),
    Family("table_bytes", "gauge", "Bytes on disk, with indexes.", (TABLE,)),
)
