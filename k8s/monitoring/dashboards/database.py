"""The dashboard of the database: the content and cost of the tables, and the transactions that delay vacuum."""

from k8s.monitoring.dashboards.spec import Dashboard, Query, Row, Stat, TimeSeries

HEADLINE = Row(
    height=4,
    panels=[
        Stat(
            "Postgres",
            "Whether Postgres answers the exporter that reads the tables.",
            unit="none",
            color="red",
            color_from={1: "green"},
            names={0: ("down", "red"), 1: ("up", "green")},
            queries=[Query('max(shardclock_store_up{job="$job"})')],
            runbooks=["ShardclockStoreDown"],
        ),
        Stat(
            "Coordinator",
            "Whether a coordinator has the leader's lease.",
            unit="none",
            color="red",
            color_from={1: "green"},
            names={0: ("none", "red"), 1: ("leads", "green")},
            queries=[Query('max(shardclock_leader_alive{job="$job"})')],
            runbooks=["ShardclockNoLeader"],
        ),
        Stat(
            "Days of the log ahead",
            "The number of days, from today, for which the log has a partition: normally 8.",
            unit="none",
            color="red",
            color_from={3: "green"},
            queries=[Query('max(shardclock_log_partitions_ahead{job="$job"})')],
            runbooks=["ShardclockLogPartitionMissing"],
        ),
        Stat(
            "Ramp",
            "How many timers a second may fire of a backlog that an outage left.",
            unit="cps",
            queries=[Query('max(shardclock_ramp_timers_per_second{job="$job"})')],
            runbooks=["ShardclockOverdueWhileShardsLive"],
        ),
        Stat(
            "Readings missing",
            "How many groups of tables the exporter could not read; the metrics of these tables are absent.",
            unit="none",
            color="green",
            color_from={1: "red"},
            queries=[Query('max(shardclock_store_readings_missing{job="$job"})')],
            runbooks=["ShardclockReadingsMissing"],
        ),
        Stat(
            "Schema",
            "The number of the schema's last migration.",
            unit="none",
            queries=[Query('max(shardclock_schema_version{job="$job"})')],
        ),
    ],
)

TABLES = Row(
    title="Tables",
    panels=[
        TimeSeries(
            "Rows",
            "Live rows, by Postgres's statistics.",
            unit="short",
            queries=[Query('max by (table) (shardclock_table_rows{job="$job"})', "{{table}}")],
        ),
        TimeSeries(
            "Dead rows",
            "Fired or changed rows that wait for vacuum. Each scan of the table also reads the dead rows.",
            unit="short",
            queries=[Query('max by (table) (shardclock_table_dead_rows{job="$job"})', "{{table}}")],
            runbooks=["ShardclockBloat", "ShardclockOldSnapshot"],
        ),
        TimeSeries(
            "Bytes",
            "Size on disk with the indexes; the log includes all its partitions.",
            unit="bytes",
            queries=[Query('max by (table) (shardclock_table_bytes{job="$job"})', "{{table}}")],
        ),
        TimeSeries(
            "Dead share of the timers",
            "Dead rows as a share of all rows of the timers table.",
            unit="percentunit",
            queries=[
                Query(
                    (
                        'max(shardclock_table_dead_rows{job="$job", table="timers"}) /'
                        ' (max(shardclock_table_dead_rows{job="$job", table="timers"}) +'
                        ' max(shardclock_table_rows{job="$job", table="timers"}) > 0)'
                    ),
                    "dead share",
                )
            ],
            runbooks=["ShardclockBloat"],
        ),
    ],
)

WRITING = Row(
    title="Writing",
    panels=[
        TimeSeries(
            "WAL",
            "Bytes of write-ahead log that the whole server writes in a second.",
            unit="Bps",
            queries=[Query('max(rate(shardclock_wal_bytes_total{job="$job"}[$__rate_interval]))', "WAL")],
        ),
        TimeSeries(
            "WAL for each record",
            "Bytes of write-ahead log for each record of the command log; about 555 for a plain timer that fires.",
            unit="bytes",
            queries=[
                Query(
                    (
                        'max(rate(shardclock_wal_bytes_total{job="$job"}[$__rate_interval])) /'
                        ' (max(rate(shardclock_log_records_total{job="$job"}[$__rate_interval])) > 0)'
                    ),
                    "WAL for each record",
                )
            ],
        ),
        TimeSeries(
            "Log records and scheduled timers",
            "How many records are appended to the log, and how many timers are inserted, in a second.",
            unit="cps",
            queries=[
                Query('max(rate(shardclock_log_records_total{job="$job"}[$__rate_interval]))', "records"),
                Query('max(rate(shardclock_timers_scheduled_total{job="$job"}[$__rate_interval]))', "scheduled"),
            ],
        ),
    ],
)

HOLDUPS = Row(
    title="Transactions and readings",
    panels=[
        TimeSeries(
            "Oldest log writer",
            "Readers of the log wait until this transaction ends.",
            unit="s",
            queries=[Query('max(shardclock_oldest_log_writer_seconds{job="$job"})', "oldest write transaction")],
            runbooks=["ShardclockOldLogWriter"],
        ),
        TimeSeries(
            "Oldest snapshot",
            "Vacuum can't remove rows that died after this snapshot.",
            unit="s",
            queries=[Query('max(shardclock_oldest_snapshot_seconds{job="$job"})', "oldest snapshot")],
            runbooks=["ShardclockOldSnapshot"],
        ),
        TimeSeries(
            "Days of the log ahead",
            "The number of days, from today, for which the log has a partition.",
            unit="none",
            queries=[Query('max(shardclock_log_partitions_ahead{job="$job"})', "days")],
            runbooks=["ShardclockLogPartitionMissing"],
        ),
        TimeSeries(
            "Reading the tables",
            "How long each reading of the exporter took.",
            unit="s",
            queries=[Query('max(shardclock_store_read_seconds{job="$job"})', "read")],
        ),
    ],
)

LIMITS = Row(
    title="Limits",
    panels=[
        TimeSeries(
            "Connections",
            (
                "Connections of clients, and their limit: if the limit is reached, Postgres refuses new connections,"
                " for example of a new shard."
            ),
            unit="short",
            queries=[
                Query('max(shardclock_connections{job="$job"})', "connections"),
                Query('max(shardclock_connections_max{job="$job"})', "limit"),
            ],
            runbooks=["ShardclockConnectionsNearLimit"],
        ),
        TimeSeries(
            "Write-ahead log on disk",
            (
                "The size of the write-ahead log, and the largest size that the settings allow. If the log is larger,"
                " it waits for an archive or a replica."
            ),
            unit="bytes",
            queries=[
                Query('max(shardclock_wal_kept_bytes{job="$job"})', "kept"),
                Query('max(shardclock_wal_expected_bytes{job="$job"})', "expected at most"),
            ],
            runbooks=["ShardclockWalFilling"],
        ),
        TimeSeries(
            "Furthest behind",
            "The largest delay of all replicas and replication slots; 0 without a replica or slot.",
            unit="bytes",
            queries=[
                Query(
                    'max(shardclock_replica_lag_bytes{job="$job"}) or 0 * max(shardclock_connections{job="$job"})',
                    "lag",
                )
            ],
            runbooks=["ShardclockReplicaBehind"],
        ),
        TimeSeries(
            "Slots without a reader",
            (
                "Replication slots without a connected replica or reader. Postgres keeps its write-ahead log for"
                " these slots."
            ),
            unit="short",
            queries=[Query('max(shardclock_replication_slots_inactive{job="$job"})', "slots")],
            runbooks=["ShardclockReplicaBehind"],
        ),
    ],
)

CONSUMERS = Row(
    title="Consumers",
    panels=[
        TimeSeries(
            "How far groups are behind",
            "The age of the oldest record that each group has not processed.",
            unit="s",
            queries=[Query('max by (group) (shardclock_consumer_lag_seconds{job="$job"})', "{{group}}")],
            runbooks=["ShardclockConsumerBehind"],
        ),
        TimeSeries(
            "Records to be done",
            "The records that each group has not processed; above 10,000 an estimate.",
            unit="short",
            queries=[Query('max by (group) (shardclock_consumer_lag_records{job="$job"})', "{{group}}")],
        ),
        TimeSeries(
            "Failures of consumers",
            "How often the work of each group fails in a minute; the log of the member has each failure.",
            unit="short",
            queries=[
                Query(
                    'max by (group) (rate(shardclock_consumer_failures_total{job="$job"}[$__rate_interval])) * 60',
                    "{{group}}",
                )
            ],
        ),
        TimeSeries(
            "Records set aside",
            "Records that groups have set aside; shardclock consumers aside lists them.",
            unit="short",
            queries=[Query('max by (group) (shardclock_consumer_records_aside{job="$job"})', "{{group}}")],
        ),
    ],
)

DATABASE = Dashboard(
    name="database",
    description="The sizes and costs of the tables, and the transactions that prevent vacuum from removing dead rows.",
    rows=[HEADLINE, TABLES, WRITING, HOLDUPS, LIMITS, CONSUMERS],
)
