"""The rows about processes on the dashboard of the shards."""

from k8s.monitoring.dashboards.quantiles import quantile
from k8s.monitoring.dashboards.spec import Query, Row, TimeSeries

SIGNAL_LAG = 'shardclock_instance_signal_lag_seconds_bucket{job="$job"}[$__rate_interval]'

INSTANCES = Row(
    title="Processes",
    panels=[
        TimeSeries(
            "Instances begun and ended",
            "How many instances of processes begin and end in a second; ended instances by outcome.",
            unit="cps",
            queries=[
                Query('sum(rate(shardclock_instances_begun_total{job="$job"}[$__rate_interval]))', "begun"),
                Query(
                    (
                        "sum by (instance_outcome)"
                        ' (rate(shardclock_instances_ended_total{job="$job"}[$__rate_interval]))'
                    ),
                    "{{instance_outcome}}",
                ),
            ],
        ),
        TimeSeries(
            "Engines",
            "Wanted and living engines: no engine is wanted before the first deployment.",
            unit="short",
            queries=[
                Query('max(shardclock_engines_wanted{job="$job"})', "wanted"),
                Query('max(shardclock_engines_alive{job="$job"})', "alive"),
            ],
            runbooks=["ShardclockNoEngineAlive", "ShardclockEnginesMissing"],
        ),
        TimeSeries(
            "Oldest signal that waits",
            "The time since the oldest signal that no engine has taken became due.",
            unit="s",
            queries=[Query('max(shardclock_oldest_waiting_signal_seconds{job="$job"})', "oldest")],
            runbooks=["ShardclockNothingAdvances", "ShardclockSignalsWait"],
        ),
        TimeSeries(
            "Signals and incidents",
            "Due signals that no engine has taken, and tokens that have stopped with an open incident.",
            unit="short",
            queries=[
                Query('max(shardclock_instance_signals_waiting{job="$job"})', "signals"),
                Query('max(shardclock_incidents_open{job="$job"})', "incidents"),
            ],
            runbooks=["ShardclockIncidentsOpen"],
        ),
    ],
)

SIGNALS = Row(
    panels=[
        TimeSeries(
            "A signal waits, p99",
            "99 % of the signals to instances were taken within this time after they were due.",
            unit="s",
            log=True,
            from_zero=False,
            queries=[Query(quantile(0.99, SIGNAL_LAG, by="le"), "p99")],
        ),
        TimeSeries(
            "Signals",
            (
                "Signals to instances in a second: taken, stale (no token waited for the signal any more), or given"
                " up as dead letters."
            ),
            unit="cps",
            queries=[
                Query(
                    'sum by (signal_fate) (rate(shardclock_instance_signals_total{job="$job"}[$__rate_interval]))',
                    "{{signal_fate}}",
                )
            ],
            runbooks=["ShardclockNothingAdvances", "ShardclockSignalsGivenUp"],
        ),
        TimeSeries(
            "Incidents and trouble",
            (
                "Tokens that stopped with an incident, steps that were not written because another engine had"
                " advanced the instance, and failed turns of engines."
            ),
            unit="cps",
            queries=[
                Query('sum(rate(shardclock_incidents_raised_total{job="$job"}[$__rate_interval]))', "incidents"),
                Query('sum(rate(shardclock_instance_conflicts_total{job="$job"}[$__rate_interval]))', "conflicts"),
                Query(
                    'sum by (loop) (rate(shardclock_engine_turn_failures_total{job="$job"}[$__rate_interval]))',
                    "failed turns: {{loop}}",
                ),
            ],
            runbooks=["ShardclockIncidents"],
        ),
        TimeSeries(
            "Engines taken over",
            "Lost engines, by reason; their instances do not advance until other engines take them over.",
            unit="none",
            style="bars",
            queries=[
                Query(
                    (
                        "sum by (reason)"
                        ' (increase(shardclock_takeovers_total{job="$job", role="engine"}[$__rate_interval]))'
                    ),
                    "{{reason}}",
                ),
            ],
            runbooks=["ShardclockEnginesFlapping"],
        ),
    ],
)

PROCESSES = (INSTANCES, SIGNALS)
