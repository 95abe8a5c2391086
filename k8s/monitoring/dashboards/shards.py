"""The dashboard of the shards: the work and the failures of each shard."""

from k8s.monitoring.dashboards.deliveries import DELIVERIES
from k8s.monitoring.dashboards.processes import PROCESSES
from k8s.monitoring.dashboards.quantiles import FIRE_LAG, quantile
from k8s.monitoring.dashboards.spec import Dashboard, Query, Row, Stat, TimeSeries

TAKEOVER = 'shardclock_takeover_seconds_bucket{job="$job", role="shard"}[15m]'

HEADLINE = Row(
    height=4,
    panels=[
        Stat(
            "Coordinators that lead",
            "The number of coordinators that lead: 1, regardless of the number of clusters on the database.",
            unit="short",
            color="red",
            color_from={1: "green", 2: "red"},
            queries=[Query('sum(shardclock_coordinator_leads{job="$job"})')],
            runbooks=["ShardclockNoLeader"],
        ),
        Stat(
            "Slots assigned",
            "Of 840. If a slot has no shard, the sweep of another shard fires its timers about 3 s late.",
            unit="none",
            color="red",
            color_from={840: "green"},
            queries=[Query('max(shardclock_slots_assigned{job="$job"})')],
            runbooks=["ShardclockSlotsUnassigned"],
        ),
        Stat(
            "Takeovers, last hour",
            "How many shards were lost, so that other shards took over their timers.",
            unit="short",
            color="green",
            color_from={4: "orange"},
            decimals=0,
            queries=[Query('sum(increase(shardclock_takeovers_total{job="$job", role="shard"}[1h]))')],
            runbooks=["ShardclockShardFlapping"],
        ),
        Stat(
            "Shard actors started",
            "How many keepers the coordinator has started since its own start.",
            unit="none",
            queries=[Query('sum(shardclock_keepers_started_total{job="$job", role="shard"})')],
        ),
        Stat(
            "Sources",
            "Shards, workers, coordinators and gateways that report to the exporters.",
            unit="none",
            queries=[Query('sum(shardclock_exporter_sources{job="$job"})')],
        ),
        Stat(
            "Version",
            "The release of the exporters; during an upgrade there may be two releases.",
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
                "The number of slots that each shard owns, 840 in total. A dead shard is shown for ten more seconds,"
                " so the sum may exceed 840."
            ),
            unit="none",
            style="stacked",
            width=9,
            queries=[Query('sum by (shard) (shardclock_slots_owned{job="$job"})', "shard {{shard}}")],
            runbooks=["ShardclockSlotsUnassigned"],
        ),
        TimeSeries(
            "Takeovers",
            (
                "Lost shards, by reason: the actor died, was silent, could not be reached, or never started; a shard"
                " that was silent for a moment is only suspended. Other shards took over the timers of the lost shards."
            ),
            unit="none",
            style="bars",
            width=5,
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
            (
                "The time from the last heartbeat of a lost shard until other shards may claim its timers, over the"
                " last 15 minutes."
            ),
            unit="s",
            width=5,
            queries=[
                Query(quantile(0.5, TAKEOVER), "p50"),
                Query(quantile(0.99, TAKEOVER), "p99"),
            ],
        ),
        TimeSeries(
            "Ray away",
            (
                "The time since local processes replaced Ray's actors: usually only seconds, at a start and after a"
                " loss of Ray."
            ),
            unit="s",
            width=5,
            queries=[Query('max(shardclock_ray_away_seconds{job="$job"})', "away")],
            runbooks=["ShardclockRayAway"],
        ),
    ],
)

WORK = Row(
    title="Work",
    panels=[
        TimeSeries(
            "Claimed",
            "How many timers each shard leases in a second.",
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
            "How many timers each shard fires in a second.",
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
            "Leased timers: they are due within two seconds.",
            unit="short",
            queries=[Query('sum by (shard) (shardclock_timers_held{job="$job"})', "shard {{shard}}")],
        ),
        TimeSeries(
            "Lag p99",
            "99 % of a shard's timers fired within this time of their due date.",
            unit="s",
            log=True,
            from_zero=False,
            queries=[Query(quantile(0.99, FIRE_LAG, by="le, shard"), "shard {{shard}}")],
            runbooks=["ShardclockLagBudgetBurnFast"],
        ),
    ],
)

EXCEPTIONS = Row(
    panels=[
        TimeSeries(
            "Not fired at the first attempt",
            (
                "Fenced: the timer was canceled, moved, or leased by another shard after the claim. Early: the shard"
                " tried to fire a moment before the due date. Locked: a client's transaction had locked the row."
                " Refused: the timer can't be fired."
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
                "Swept: timers, overdue by 3 s, that a shard fired in slots of other shards. Released: leases that"
                " were freed because a shard drained or died."
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
            "Schedules for which a shard computed the first date, and skipped occurrences.",
            unit="cps",
            queries=[
                Query('sum(rate(shardclock_timers_planned_total{job="$job"}[$__rate_interval]))', "planned"),
                Query('sum(rate(shardclock_occurrences_skipped_total{job="$job"}[$__rate_interval]))', "skipped"),
            ],
        ),
    ]
)

FAILURES = Row(
    title="Clocks and failures",
    panels=[
        TimeSeries(
            "Clock offset",
            (
                "The time of each node's clock minus the time of Postgres's clock. Timers fire by Postgres's clock;"
                " if it differs from the clocks of all nodes, Postgres's clock is wrong."
            ),
            unit="s",
            from_zero=False,
            queries=[Query('max by (shard) (shardclock_clock_offset_seconds{job="$job"})', "shard {{shard}}")],
            runbooks=["ShardclockClockOffset"],
        ),
        TimeSeries(
            "Round trip",
            "The time from the sending of a small statement to its answer.",
            unit="s",
            queries=[Query('max by (shard) (shardclock_clock_round_trip_seconds{job="$job"})', "shard {{shard}}")],
        ),
        TimeSeries(
            "Failed turns",
            (
                "How many turns of the claim and fire loops fail in a second, usually because Postgres did not answer"
                " in time."
            ),
            unit="cps",
            queries=[
                Query('sum by (loop) (rate(shardclock_turn_failures_total{job="$job"}[$__rate_interval]))', "{{loop}}")
            ],
            runbooks=["ShardclockStoreDown"],
        ),
        TimeSeries(
            "Reports",
            "How many reports the exporters accept in a second, and how many they refuse as unreadable.",
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
    description="For each shard: slots, takeovers, claims, deliveries, clock, failures.",
    rows=[HEADLINE, OWNERSHIP, WORK, EXCEPTIONS, *DELIVERIES, *PROCESSES, FAILURES],
)
