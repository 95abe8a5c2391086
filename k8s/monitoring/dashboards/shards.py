"""Which shard does what, and what fails?"""

from k8s.monitoring.dashboards.spec import Dashboard, Query, Row, Stat, TimeSeries

# Without the timers that were overdue already when they were asked for: the objective is about the others.
FIRE_LAG = 'shardclock_fire_lag_seconds_bucket{job="$job", asked="ahead"}[$__rate_interval]'

HEADLINE = Row(
    height=4,
    panels=[
        Stat(
            "Coordinators that lead",
            "One leads, of however many clusters share the database.",
            unit="short",
            color="red",
            color_from={1: "green", 2: "red"},
            queries=[Query('sum(shardclock_coordinator_leads{job="$job"})')],
            runbooks=["ShardclockNoLeader"],
        ),
        Stat(
            "Slots assigned",
            "Of 840. What has no shard fires about 3 s late, by another's sweep.",
            unit="none",
            color="red",
            color_from={840: "green"},
            queries=[Query('max(shardclock_slots_assigned{job="$job"})')],
            runbooks=["ShardclockSlotsUnassigned"],
        ),
        Stat(
            "Takeovers, last hour",
            "How often a shard's timers had to be taken over.",
            unit="short",
            color="green",
            color_from={4: "orange"},
            decimals=0,
            queries=[Query('sum(increase(shardclock_takeovers_total{job="$job", role="shard"}[1h]))')],
            runbooks=["ShardclockShardFlapping"],
        ),
        Stat(
            "Shard actors started",
            "Since the coordinator was; each is a new holder.",
            unit="none",
            queries=[Query('sum(shardclock_keepers_started_total{job="$job", role="shard"})')],
        ),
        Stat(
            "Sources",
            "Shards, workers and coordinators that report to the exporters.",
            unit="none",
            queries=[Query('sum(shardclock_exporter_sources{job="$job"})')],
        ),
        Stat(
            "Version",
            "What runs, by the exporters' word; two during an upgrade.",
            unit="none",
            sparkline=False,
            shows="name",
            queries=[Query('count by (version) (shardclock_build_info{job="$job"})', "{{version}}")],
        ),
    ],
)

OWNERSHIP = Row(
    title="Ownership and takeovers",
    height=9,
    panels=[
        TimeSeries(
            "Slots owned",
            (
                "The 840 slots, by the shard that keeps them. More than 840 for the ten seconds in which a dead shard"
                " is still shown beside its successor."
            ),
            unit="none",
            style="stacked",
            width=12,
            queries=[Query('sum by (shard) (shardclock_slots_owned{job="$job"})', "shard {{shard}}")],
            runbooks=["ShardclockSlotsUnassigned"],
        ),
        TimeSeries(
            "Takeovers",
            (
                "Shards whose timers were taken over, by why: the actor died, was silent, could not be reached, never"
                " started; or silent for a moment, and only suspended."
            ),
            unit="none",
            style="bars",
            width=6,
            queries=[
                Query(
                    (
                        "sum by (reason)"
                        ' (increase(shardclock_takeovers_total{job="$job", role="shard"}[$__rate_interval]))'
                    ),
                    "{{reason}}",
                ),
                Query(
                    'sum(increase(shardclock_keepers_suspended_total{job="$job", role="shard"}[$__rate_interval]))',
                    "suspended",
                ),
            ],
            runbooks=["ShardclockShardFlapping"],
        ),
        TimeSeries(
            "Seconds until taken over",
            "From a shard's last sign of life until its timers are free for others; over the last 15 minutes.",
            unit="s",
            width=6,
            queries=[
                Query(
                    (
                        "histogram_quantile(0.5, sum by (le)"
                        ' (rate(shardclock_takeover_seconds_bucket{job="$job", role="shard"}[15m])))'
                    ),
                    "p50",
                ),
                Query(
                    (
                        "histogram_quantile(0.99, sum by (le)"
                        ' (rate(shardclock_takeover_seconds_bucket{job="$job", role="shard"}[15m])))'
                    ),
                    "p99",
                ),
            ],
        ),
    ],
)

WORK = Row(
    title="Work",
    panels=[
        TimeSeries(
            "Claimed",
            "Timers leased in a second, by shard.",
            unit="cps",
            queries=[
                Query(
                    'sum by (shard) (rate(shardclock_timers_claimed_total{job="$job"}[$__rate_interval]))',
                    "shard {{shard}}",
                )
            ],
        ),
        TimeSeries(
            "Fired",
            "Timers fired in a second, by shard.",
            unit="cps",
            queries=[
                Query(
                    'sum by (shard) (rate(shardclock_timers_fired_total{job="$job"}[$__rate_interval]))',
                    "shard {{shard}}",
                )
            ],
        ),
        TimeSeries(
            "Held in memory",
            "Timers leased and waiting for their moment: those due within two seconds.",
            unit="short",
            queries=[Query('sum by (shard) (shardclock_timers_held{job="$job"})', "shard {{shard}}")],
        ),
        TimeSeries(
            "Lag p99",
            "99 % of a shard's timers fired within this time of their due date.",
            unit="s",
            log=True,
            from_zero=False,
            queries=[Query(f"histogram_quantile(0.99, sum by (le, shard) (rate({FIRE_LAG})))", "shard {{shard}}")],
            runbooks=["ShardclockLagBudgetBurnFast"],
        ),
    ],
)

EXCEPTIONS = Row(
    panels=[
        TimeSeries(
            "Not fired at the first try",
            (
                "Fenced: cancelled, moved, or another's by now. Early: sent a moment too soon. Locked: a client held"
                " the row. Refused: it could not be fired."
            ),
            unit="cps",
            queries=[
                Query('sum(rate(shardclock_timers_fenced_total{job="$job"}[$__rate_interval]))', "fenced"),
                Query('sum(rate(shardclock_timers_early_total{job="$job"}[$__rate_interval]))', "early"),
                Query('sum(rate(shardclock_timers_locked_total{job="$job"}[$__rate_interval]))', "locked"),
                Query('sum(rate(shardclock_timers_refused_total{job="$job"}[$__rate_interval]))', "refused"),
            ],
            runbooks=["ShardclockTimerRefused"],
        ),
        TimeSeries(
            "Swept and released",
            (
                "Swept: overdue by 3 s, and fired by another shard than its own. Released: leases handed back by a"
                " shard that drained or died."
            ),
            unit="cps",
            queries=[
                Query('sum(rate(shardclock_timers_swept_total{job="$job"}[$__rate_interval]))', "swept"),
                Query(
                    'sum by (reason) (rate(shardclock_timers_released_total{job="$job"}[$__rate_interval]))',
                    "released: {{reason}}",
                ),
            ],
        ),
        TimeSeries(
            "Schedules",
            "Schedules that got their first date, and occurrences that were missed and not made up for.",
            unit="cps",
            queries=[
                Query('sum(rate(shardclock_timers_planned_total{job="$job"}[$__rate_interval]))', "planned"),
                Query('sum(rate(shardclock_occurrences_skipped_total{job="$job"}[$__rate_interval]))', "skipped"),
            ],
        ),
    ]
)

DELIVERIES = Row(
    title="Deliveries",
    panels=[
        TimeSeries(
            "Attempts settled",
            "Attempts to call a target, in a second, by how they ended.",
            unit="cps",
            queries=[
                Query(
                    'sum by (outcome) (rate(shardclock_deliveries_settled_total{job="$job"}[$__rate_interval]))',
                    "{{outcome}}",
                )
            ],
        ),
        TimeSeries(
            "An attempt takes, p99",
            "99 % of the attempts to call a target took no longer.",
            unit="s",
            log=True,
            from_zero=False,
            queries=[
                Query(
                    "histogram_quantile(0.99, sum by (le, kind)"
                    ' (rate(shardclock_delivery_attempt_seconds_bucket{job="$job"}[$__rate_interval])))',
                    "{{kind}}",
                )
            ],
        ),
        TimeSeries(
            "In hand",
            "Deliveries that workers have in hand, waiting or being called; and endpoints that are only probed.",
            unit="short",
            queries=[
                Query('sum(shardclock_deliveries_in_hand{job="$job"})', "in hand"),
                Query('sum(shardclock_endpoint_breakers_open{job="$job"})', "endpoints that fail"),
            ],
            runbooks=["ShardclockEndpointFails"],
        ),
        TimeSeries(
            "Claimed and lost",
            "Deliveries that workers took, and those that another worker took while one had them in hand.",
            unit="cps",
            queries=[
                Query('sum(rate(shardclock_deliveries_claimed_total{job="$job"}[$__rate_interval]))', "claimed"),
                Query('sum(rate(shardclock_deliveries_lost_total{job="$job"}[$__rate_interval]))', "lost"),
                Query(
                    'sum by (loop) (rate(shardclock_worker_turn_failures_total{job="$job"}[$__rate_interval]))',
                    "failed turns: {{loop}}",
                ),
            ],
        ),
    ],
)

BACKLOG = Row(
    title="Deliveries that wait, and those given up",
    panels=[
        TimeSeries(
            "Waiting",
            "Deliveries that are due and that no worker has in hand, by target. 10,000 means 10,000 or more.",
            unit="short",
            queries=[
                Query('max by (target_name) (shardclock_deliveries_waiting{job="$job"})', "{{target_name}}"),
            ],
            runbooks=["ShardclockDeliveriesBehind"],
        ),
        TimeSeries(
            "Oldest that waits",
            "How long ago the oldest of them became due, by target; also known when no worker is alive.",
            unit="s",
            queries=[
                Query(
                    'max by (target_name) (shardclock_oldest_waiting_delivery_seconds{job="$job"})', "{{target_name}}"
                )
            ],
            runbooks=["ShardclockDeliveriesBehind"],
        ),
        TimeSeries(
            "Dead letters",
            (
                "Deliveries that were given up and are kept, by target. 10,000 means 10,000 or more. Somebody has to"
                " see to them: shardclock dead-letters."
            ),
            unit="short",
            queries=[Query('max by (target_name) (shardclock_dead_letters{job="$job"})', "{{target_name}}")],
            runbooks=["ShardclockDeadLetters"],
        ),
        TimeSeries(
            "Workers",
            "Workers that are alive against those wanted: none without a handler, an endpoint or a delivery.",
            unit="short",
            queries=[
                Query('max(shardclock_workers_alive{job="$job"})', "alive"),
                Query('max(shardclock_workers_wanted{job="$job"})', "wanted", color="orange", dashed=True),
            ],
            runbooks=["ShardclockNoWorkerAlive", "ShardclockWorkersMissing"],
        ),
    ],
)

CALLS = Row(
    panels=[
        TimeSeries(
            "Called after its firing",
            "Half and 99 % of the deliveries were called for the first time within this time of their firing.",
            unit="s",
            log=True,
            from_zero=False,
            queries=[
                Query(
                    (
                        "histogram_quantile(0.5, sum by (le)"
                        ' (rate(shardclock_delivery_lag_seconds_bucket{job="$job"}[$__rate_interval])))'
                    ),
                    "p50",
                ),
                Query(
                    (
                        "histogram_quantile(0.99, sum by (le)"
                        ' (rate(shardclock_delivery_lag_seconds_bucket{job="$job"}[$__rate_interval])))'
                    ),
                    "p99",
                ),
            ],
            runbooks=["ShardclockDeliveriesBehind"],
        ),
        TimeSeries(
            "Attempts that fail",
            "Share of the attempts to call a target that failed and are made again, or were the last.",
            unit="percentunit",
            queries=[
                Query(
                    (
                        "sum by (target_name) (rate(shardclock_deliveries_settled_total"
                        '{job="$job", outcome=~"retried|dead"}[$__rate_interval])) /'
                        " sum by (target_name) (rate(shardclock_deliveries_settled_total"
                        '{job="$job", outcome!="given_back"}[$__rate_interval]))'
                    ),
                    "{{target_name}}",
                )
            ],
            runbooks=["ShardclockDeliveriesFail"],
        ),
        TimeSeries(
            "Processes that do not start",
            "How often a process of a handler did not start in a minute: the worker's log has the reason.",
            unit="short",
            queries=[
                Query(
                    (
                        "sum by (target_name)"
                        ' (rate(shardclock_handler_start_failures_total{job="$job"}[$__rate_interval])) * 60'
                    ),
                    "{{target_name}}",
                )
            ],
            runbooks=["ShardclockHandlerDoesNotStart"],
        ),
        TimeSeries(
            "Workers taken over",
            "Workers whose deliveries were taken over, by why; the calls that they had under way are made again.",
            unit="none",
            style="bars",
            queries=[
                Query(
                    (
                        "sum by (reason)"
                        ' (increase(shardclock_takeovers_total{job="$job", role="worker"}[$__rate_interval]))'
                    ),
                    "{{reason}}",
                ),
            ],
            runbooks=["ShardclockWorkersFlapping"],
        ),
    ],
)

FAILURES = Row(
    title="Clocks and failures",
    panels=[
        TimeSeries(
            "Clock offset",
            (
                "A node's clock minus Postgres's. Timers fire by Postgres's clock alone; when all nodes differ, it is"
                " the one that is wrong."
            ),
            unit="s",
            from_zero=False,
            queries=[Query('max by (shard) (shardclock_clock_offset_seconds{job="$job"})', "shard {{shard}}")],
            runbooks=["ShardclockClockOffset"],
        ),
        TimeSeries(
            "Round trip",
            "Between a question to Postgres and its answer.",
            unit="s",
            queries=[Query('max by (shard) (shardclock_clock_round_trip_seconds{job="$job"})', "shard {{shard}}")],
        ),
        TimeSeries(
            "Failed turns",
            "Turns of the claim and fire loops that failed, in a second: mostly Postgres not answering in time.",
            unit="cps",
            queries=[
                Query('sum by (loop) (rate(shardclock_turn_failures_total{job="$job"}[$__rate_interval]))', "{{loop}}")
            ],
            runbooks=["ShardclockStoreDown"],
        ),
        TimeSeries(
            "Reports",
            "Reports taken, and refused as unreadable, by the exporters, in a second.",
            unit="cps",
            queries=[
                Query('sum(rate(shardclock_exporter_reports_total{job="$job"}[$__rate_interval]))', "taken"),
                Query('sum(rate(shardclock_exporter_reports_refused_total{job="$job"}[$__rate_interval]))', "refused"),
            ],
        ),
    ],
)

SHARDS = Dashboard(
    name="shards",
    description="Which shard does what: ownership, takeovers, claims, deliveries, clocks, failures.",
    rows=[HEADLINE, OWNERSHIP, WORK, EXCEPTIONS, DELIVERIES, BACKLOG, CALLS, FAILURES],
)
