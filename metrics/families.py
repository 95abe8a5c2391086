"""Declare the metrics that the exporter reads from the tables, and one metric that several packages report."""

from importlib.metadata import version

from shardclock_server.metrics.family import JOB_NAME, TARGET_NAME, Family, Label, by_name

GROUPS_MAX = 50  # the number of label values must be limited, because users choose the names of consumer groups

REASON = Label("reason", frozenset(["drained", "died", "silent", "unreachable", "never_started", "other"]))
AGE = Label("age", frozenset(["under_1s", "under_10s", "under_1m", "under_10m", "over_10m"]))
MINUTE = Label("minute", frozenset(f"{minute:02}" for minute in range(1, 16)))
JOB_STATE = Label("state", frozenset(["scheduled", "starting", "running", "terminating", "disabled", "withdrawn"]))
RUN_OUTCOME = Label("run_outcome", frozenset(["succeeded", "failed", "crashed", "canceled"]))
# `billing` is only an example, because users choose the names of groups. A page has at most GROUPS_MAX groups.
GROUP = Label("group", frozenset(["billing"]))
# Only tables that change often or grow; the other tables have few rows, which change rarely.
TABLE = Label(
    "table",
    frozenset(
        [
            "timers", "command_log", "deliveries", "dead_letters", "jobs", "job_runs", "holders", "beats", "consumers",
            "records_aside", "coordination", "leadership", "zones", "idempotent_requests", "audit", "endpoints",
            "endpoint_attempts", "definitions", "instances", "instance_steps", "subscriptions", "messages",
            "process_starts", "business_keys", "tasks", "task_acts", "incidents",
        ]
    ),
)  # fmt: skip

RELEASE = version("shardclock")
VERSION = Label("version", frozenset([RELEASE]))

# A draining shard reports this metric, and the coordinator reports it when it ends a shard.
RELEASED = Family(
    "timers_released", "counter", "Leased timers that a draining shard returned or a dead shard left.", (REASON,)
)

# The metrics that the exporter reads from the tables.
READ = by_name(
    Family("store_up", "gauge", "1 if Postgres answered the last time the tables were read."),
    Family("store_read_seconds", "gauge", "Duration of the last reading of the tables."),
    Family(
        "store_readings_missing",
        "gauge",
        "Groups of tables that the exporter could not read; their metrics are absent.",
    ),
    Family("pending_timers", "gauge", "Unfinished timers, including paused timers."),
    Family("paused_timers", "gauge", "Timers that are paused."),
    Family("overdue_timers", "gauge", "Overdue timers."),
    Family("overdue_timers_by_age", "gauge", "Overdue timers, by lateness.", (AGE,)),
    Family(
        "oldest_overdue_seconds",
        "gauge",
        "The largest lag of all overdue timers, from the due date, or from a later request; 0 if no timer is overdue.",
    ),
    Family("left_by_outage_timers", "gauge", "Timers that are overdue by more than 10 s, and fire at the ramp's rate."),
    Family(
        "ramp_timers_per_second",
        "gauge",
        "The largest firing rate a second for timers that an outage left overdue; absent without a limit.",
    ),
    Family("shards_wanted", "gauge", "Shards that should run."),
    Family("shards_alive", "gauge", "Shards with slots and a heartbeat within 5 s."),
    Family(
        "holders_on_hold",
        "gauge",
        "Living shards, workers and engines that may not work, because the database is on hold or belongs to another"
        " installation.",
    ),
    Family("operators_hold", "gauge", "1 while an operator has put the database on hold, else 0."),
    Family("shards_min", "gauge", "The smallest number of shards that the policy allows; absent without a policy."),
    Family("shards_max", "gauge", "The largest number of shards that the policy allows; absent without a policy."),
    Family("slots_assigned", "gauge", "Slots that living shards own, out of 840."),
    Family("workers_wanted", "gauge", "Workers that should run; 0 without handlers, endpoints and open deliveries."),
    Family("workers_alive", "gauge", "Workers with slots and a heartbeat within 5 s."),
    Family(
        "deliveries_waiting",
        "gauge",
        "Due deliveries that no worker has claimed; 10000 means 10000 or more.",
        (TARGET_NAME,),
    ),
    Family(
        "oldest_waiting_delivery_seconds",
        "gauge",
        "Time since the oldest waiting delivery became due; 0 if no delivery waits.",
        (TARGET_NAME,),
    ),
    Family(
        "dead_letters",
        "gauge",
        "Dead letters that are not redriven or discarded; 10000 means 10000 or more.",
        (TARGET_NAME,),
    ),
    Family("engines_wanted", "gauge", "Engines that should run; 0 if no process was ever deployed."),
    Family("engines_alive", "gauge", "Engines with slots and a heartbeat within 5 s."),
    Family(
        "instance_signals_waiting",
        "gauge",
        "Due signals to instances that no engine has taken; 10000 means 10000 or more.",
    ),
    Family(
        "oldest_waiting_signal_seconds",
        "gauge",
        "Time since the oldest waiting signal became due; 0 if no signal waits.",
    ),
    Family("incidents_open", "gauge", "Tokens that have stopped with an open incident; 10000 means 10000 or more."),
    Family("jobs", "gauge", "Jobs, by state.", (JOB_STATE,)),
    Family("job_runs", "counter", "Ended runs of a job, by outcome.", (JOB_NAME, RUN_OUTCOME)),
    Family(
        "job_waiting_seconds",
        "gauge",
        "Time since the oldest due start of a job whose function is not called yet; 0 if no start is due.",
        (JOB_NAME,),
    ),
    Family("job_start_lag_seconds", "gauge", "Delay of the last start of a job, from its due date.", (JOB_NAME,)),
    Family("job_last_run_seconds", "gauge", "Duration of the last run of a job.", (JOB_NAME,)),
    Family(
        "job_since_success_seconds",
        "gauge",
        "Time since the last success of a job, or since its declaration if no run has succeeded.",
        (JOB_NAME,),
    ),
    Family(
        "job_success_overdue_seconds",
        "gauge",
        "Time since the due date of a job's first start that should have succeeded by now; 0 if no success is overdue.",
        (JOB_NAME,),
    ),
    Family("job_max_runtime_seconds", "gauge", "The time limit of a job's run.", (JOB_NAME,)),
    Family(
        "job_consecutive_failures",
        "gauge",
        "Consecutive failed or crashed runs of a job, up to its latest run.",
        (JOB_NAME,),
    ),
    Family("job_consecutive_crashes", "gauge", "Consecutive crashed runs of a job, up to its latest run.", (JOB_NAME,)),
    Family(
        "jobs_last_tick_seconds",
        "gauge",
        "Time since both a shard and a worker, which start jobs together, were alive; absent if either never ran.",
    ),
    Family(
        "jobs_next_start_seconds",
        "gauge",
        "Time until the next start of a job, negative if the start is due; absent if no start is scheduled.",
    ),
    Family("leader_alive", "gauge", "1 while a coordinator leads."),
    Family("forecast_timers", "gauge", "Timers that become due in a coming minute.", (MINUTE,)),
    Family(
        "forecast_peak_timers_per_second",
        "gauge",
        "Timers a second in the busiest ten seconds of the coming 15 minutes.",
    ),
    Family("capacity_timers_per_second", "gauge", "Timers a second that the living shards are expected to fire."),
    Family("timers_scheduled", "counter", "Keys drawn for new timers."),
    Family("log_records", "counter", "Positions drawn for records of the command log."),
    Family("timers_canceled", "counter", "Timers that clients canceled."),
    Family("timers_rescheduled", "counter", "Timers that clients moved."),
    Family("timers_paused", "counter", "Timers that clients paused."),
    Family("timers_resumed", "counter", "Timers that clients resumed, and pauses that ended."),
    Family("consumer_lag_records", "gauge", "Records that a consumer group has not processed yet.", (GROUP,)),
    Family(
        "consumer_lag_seconds",
        "gauge",
        "Age of the oldest record that a consumer group has not processed yet; 0 if it has processed all records.",
        (GROUP,),
    ),
    Family("consumer_failures", "counter", "Failures of a consumer group's work.", (GROUP,)),
    Family("consumer_records_aside", "gauge", "Records that a consumer group has set aside.", (GROUP,)),
    Family(
        "oldest_log_writer_seconds",
        "gauge",
        "Age of the oldest open transaction that has written to the log; readers of the log wait for it.",
    ),
    Family(
        "oldest_snapshot_seconds", "gauge", ("Age of the oldest snapshot of a session; vacuum waits for this session.")
    ),
    Family("connections", "gauge", "Connections of clients, to all databases of the server."),
    Family("connections_max", "gauge", "Connections that clients may make; a superuser may make a few more."),
    Family(
        "replica_lag_bytes",
        "gauge",
        "Lag of the slowest replica or replication slot in bytes; absent without replicas and slots.",
    ),
    Family(
        "replication_slots_inactive",
        "gauge",
        "Replication slots without a reader, for which Postgres keeps write-ahead log.",
    ),
    Family(
        "wal_kept_bytes",
        "gauge",
        ("Size of the write-ahead log on disk; absent if the exporter's role is not a member of pg_monitor."),
    ),
    Family(
        "wal_expected_bytes",
        "gauge",
        "The largest size of the write-ahead log that the settings allow: max_wal_size or wal_keep_size.",
    ),
    Family("wal_bytes", "counter", "Write-ahead log written by the whole server."),
    Family(
        "log_partitions_ahead",
        "gauge",
        ("The number of days, counted from today, for which the log has a partition; normally 8."),
    ),
    Family("schema_version", "gauge", "The number of the schema's last migration."),
    Family("table_rows", "gauge", "Live rows, by Postgres's statistics.", (TABLE,)),
    Family("table_dead_rows", "gauge", "Dead rows that vacuum has not removed yet.", (TABLE,)),
    Family("table_bytes", "gauge", "Size of the table on disk in bytes, with indexes.", (TABLE,)),
)

# The exporter's metrics about itself.
OF_EXPORTER = by_name(
    Family("build_info", "gauge", "The release of Shardclock that serves these metrics.", (VERSION,)),
    Family("exporter_sources", "gauge", "Shards, workers, coordinators and gateways that report to this exporter."),
    Family("exporter_reports", "counter", "Reports that were accepted."),
    Family("exporter_reports_refused", "counter", "Datagrams that were not valid reports."),
)
