"""The overview: timers on time, overdue timers, shards, and the forecast."""

from k8s.monitoring.dashboards.gateway import GATEWAY
from k8s.monitoring.dashboards.quantiles import FIRE_LAG, quantile
from k8s.monitoring.dashboards.spec import BarTable, Dashboard, Heatmap, Query, Row, Stat, TimeSeries

HEADLINE = Row(
    height=4,
    panels=[
        Stat(
            "On time, last hour",
            "The share of timers that fire within 0.1 s of their due date; the objective is 99 %.",
            unit="percentunit",
            color="red",
            color_from={0.99: "green"},
            decimals=2,
            queries=[Query('1 - job:shardclock_late_firings_per_firings:ratio_rate1h{job="$job"}')],
            runbooks=["ShardclockLagBudgetBurnFast", "ShardclockLagBudgetBurnSlow"],
        ),
        Stat(
            "Shards",
            "Shards that are alive, and how many are wanted.",
            unit="short",
            color="red",
            color_from={1: "green"},
            sparkline=False,
            shows="value_and_name",
            queries=[
                Query('max(shardclock_shards_alive{job="$job"})', "alive"),
                Query('max(shardclock_shards_wanted{job="$job"})', "wanted"),
            ],
            runbooks=["ShardclockNoShardAlive", "ShardclockShardsMissing"],
        ),
        Stat(
            "Oldest overdue",
            (
                "The lag of the oldest overdue timer. The lag is read from the table, so it is correct even if no"
                " shard is alive."
            ),
            unit="s",
            color="green",
            color_from={1: "orange", 10: "red"},
            queries=[Query('max(shardclock_oldest_overdue_seconds{job="$job"})')],
            runbooks=["ShardclockOverdueWhileShardsLive", "ShardclockNothingFires"],
        ),
        Stat(
            "Pending",
            "Pending timers, including paused timers.",
            unit="short",
            queries=[Query('max(shardclock_pending_timers{job="$job"})')],
        ),
        Stat(
            "Fired",
            "How many timers all shards together fire in a second.",
            unit="cps",
            queries=[Query('sum(rate(shardclock_timers_fired_total{job="$job"}[$__rate_interval]))')],
        ),
        Stat(
            "Coming peak",
            (
                "The rate of due timers in the busiest ten seconds of the next 15 minutes, divided by the capacity of"
                " the living shards."
            ),
            unit="percentunit",
            color="green",
            color_from={0.8: "orange", 1: "red"},
            decimals=1,
            queries=[
                Query(
                    'max(shardclock_forecast_peak_timers_per_second{job="$job"}) /'
                    ' max(shardclock_capacity_timers_per_second{job="$job"})'
                )
            ],
            runbooks=["ShardclockForecastOverCapacity"],
        ),
    ],
)

LAG = Row(
    title="Lag",
    height=10,
    panels=[
        Heatmap(
            "Fire lag",
            (
                "The number of fired timers by their lag, the time from the due date to the record of the firing."
                " Darker means more timers."
            ),
            unit="short",
            edge_unit="s",
            queries=[Query(f"sum by (le) (increase({FIRE_LAG}))", "{{le}}")],
            runbooks=["ShardclockLagBudgetBurnFast"],
        ),
        TimeSeries(
            "Lag quantiles against the objective",
            ("The median, p99 and p99.9 of the lag. The objective is a p99 below the dashed line."),
            unit="s",
            log=True,
            from_zero=False,
            queries=[
                Query(quantile(0.5, FIRE_LAG), "p50"),
                Query(quantile(0.99, FIRE_LAG), "p99"),
                Query(quantile(0.999, FIRE_LAG), "p99.9"),
                Query("vector(0.1)", "objective for p99", color="red", dashed=True),
            ],
            runbooks=["ShardclockLagBudgetBurnFast", "ShardclockLagBudgetBurnSlow"],
        ),
    ],
)

DUE = Row(
    title="Due timers",
    panels=[
        TimeSeries(
            "Overdue by age",
            (
                "Due timers that have not fired, by lag. A lag above a second needs attention; a lag above ten"
                " seconds is the backlog of an outage."
            ),
            unit="short",
            style="stacked",
            queries=[
                Query('max(shardclock_overdue_timers_by_age{job="$job", age="under_1s"})', "< 1 s", color="blue"),
                Query('max(shardclock_overdue_timers_by_age{job="$job", age="under_10s"})', "< 10 s", color="yellow"),
                Query('max(shardclock_overdue_timers_by_age{job="$job", age="under_1m"})', "< 1 min", color="orange"),
                Query('max(shardclock_overdue_timers_by_age{job="$job", age="under_10m"})', "< 10 min", color="red"),
                Query('max(shardclock_overdue_timers_by_age{job="$job", age="over_10m"})', "more", color="purple"),
            ],
            runbooks=["ShardclockOverdueWhileShardsLive"],
        ),
        TimeSeries(
            "Fired and scheduled",
            "How many timers are fired, and how many are scheduled, in a second.",
            unit="cps",
            queries=[
                Query('sum(rate(shardclock_timers_fired_total{job="$job"}[$__rate_interval]))', "fired"),
                Query('max(rate(shardclock_timers_scheduled_total{job="$job"}[$__rate_interval]))', "scheduled"),
            ],
            runbooks=["ShardclockNothingFires"],
        ),
        TimeSeries(
            "Pending and paused",
            "All pending timers, and the number of paused timers.",
            unit="short",
            queries=[
                Query('max(shardclock_pending_timers{job="$job"})', "pending"),
                Query('max(shardclock_paused_timers{job="$job"})', "paused"),
            ],
        ),
    ],
)

OUTAGE = Row(
    panels=[
        TimeSeries(
            "Oldest overdue",
            "The lag of the oldest overdue timer.",
            unit="s",
            queries=[Query('max(shardclock_oldest_overdue_seconds{job="$job"})', "oldest overdue")],
            runbooks=["ShardclockOverdueWhileShardsLive"],
        ),
        TimeSeries(
            "Left by an outage",
            (
                "Timers that are overdue by more than 10 s. These timers fire at the ramp's rate, the oldest first,"
                " with a fair share for each tenant."
            ),
            unit="short",
            queries=[
                Query('max(shardclock_left_by_outage_timers{job="$job"})', "left by an outage"),
                Query('max(shardclock_overdue_timers{job="$job"})', "all overdue"),
            ],
            runbooks=["ShardclockOverdueWhileShardsLive"],
        ),
        TimeSeries(
            "Changed by clients",
            "How many timers are canceled, rescheduled, paused and resumed in a second.",
            unit="cps",
            queries=[
                Query('max(rate(shardclock_timers_canceled_total{job="$job"}[$__rate_interval]))', "cancelled"),
                Query('max(rate(shardclock_timers_rescheduled_total{job="$job"}[$__rate_interval]))', "rescheduled"),
                Query('max(rate(shardclock_timers_paused_total{job="$job"}[$__rate_interval]))', "paused"),
                Query('max(rate(shardclock_timers_resumed_total{job="$job"}[$__rate_interval]))', "resumed"),
            ],
        ),
    ]
)

COMING = Row(
    title="Upcoming timers, and the capacity for them",
    height=9,
    panels=[
        BarTable(
            "Timers due in each coming minute",
            (
                "The number of timers by their due dates in the table, and the number that the living shards can fire"
                " in a minute."
            ),
            unit="short",
            label="minute",
            value_label="timers in a minute",
            width=12,
            queries=[
                Query('max by (minute) (shardclock_forecast_timers{job="$job"})', "timers due"),
                Query(
                    (
                        '0 * max by (minute) (shardclock_forecast_timers{job="$job"}) + 60 *'
                        ' scalar(max(shardclock_capacity_timers_per_second{job="$job"}))'
                    ),
                    "capacity",
                ),
            ],
            runbooks=["ShardclockForecastOverCapacity"],
        ),
        TimeSeries(
            "Coming peak against capacity",
            "Timers a second in the busiest ten seconds of the next 15 minutes, and the living shards' capacity.",
            unit="cps",
            width=6,
            queries=[
                Query('max(shardclock_forecast_peak_timers_per_second{job="$job"})', "coming peak"),
                Query('max(shardclock_capacity_timers_per_second{job="$job"})', "capacity", color="red", dashed=True),
            ],
            runbooks=["ShardclockForecastOverCapacity"],
        ),
        TimeSeries(
            "Shards",
            (
                "Living and wanted shards, and the minimum and maximum of a scaling policy. Shards and workers that"
                " are on hold are alive, but do no work."
            ),
            unit="short",
            width=6,
            queries=[
                Query('max(shardclock_shards_alive{job="$job"})', "alive"),
                Query('max(shardclock_shards_wanted{job="$job"})', "wanted", color="orange", dashed=True),
                Query('max(shardclock_shards_min{job="$job"})', "least"),
                Query('max(shardclock_shards_max{job="$job"})', "most"),
                Query('max(shardclock_holders_on_hold{job="$job"})', "on hold"),
                Query('max(shardclock_operators_hold{job="$job"})', "an operator's hold"),
            ],
            runbooks=["ShardclockNoShardAlive", "ShardclockShardsMissing", "ShardclockOnHold"],
        ),
    ],
)

BUDGET = Row(
    height=7,
    panels=[
        TimeSeries(
            "Rate at which the lag budget is spent",
            (
                "1 spends exactly the permitted 1 % of late timers. Pages: 14.4 (1 h and 5 min) and 6 (6 h and 30 min);"
                " tickets at 3 and 1 (a day, three days)."
            ),
            unit="short",
            queries=[
                Query('job:shardclock_late_firings_per_firings:ratio_rate5m{job="$job"} / 0.01', "5 min"),
                Query('job:shardclock_late_firings_per_firings:ratio_rate1h{job="$job"} / 0.01', "1 h"),
                Query('job:shardclock_late_firings_per_firings:ratio_rate6h{job="$job"} / 0.01', "6 h"),
                Query('job:shardclock_late_firings_per_firings:ratio_rate3d{job="$job"} / 0.01', "3 d"),
            ],
            runbooks=["ShardclockLagBudgetBurnFast", "ShardclockLagBudgetBurnSlow"],
        ),
    ],
)

OVERVIEW = Dashboard(
    name="overview",
    description="The lag of timers, overdue timers, living shards, and upcoming timers.",
    rows=[HEADLINE, LAG, DUE, OUTAGE, COMING, BUDGET, *GATEWAY],
)
