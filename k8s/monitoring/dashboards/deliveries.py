"""The rows about deliveries on the dashboard of the shards: attempts, outcomes, waiting deliveries."""

from k8s.monitoring.dashboards.quantiles import quantile
from k8s.monitoring.dashboards.spec import Query, Row, TimeSeries

ATTEMPT = 'shardclock_delivery_attempt_seconds_bucket{job="$job"}[$__rate_interval]'
CALL_LAG = 'shardclock_delivery_lag_seconds_bucket{job="$job"}[$__rate_interval]'

ATTEMPTS = Row(
    title="Deliveries",
    panels=[
        TimeSeries(
            "Attempts settled",
            "How many attempts to call a target end in a second, by their outcome.",
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
            queries=[Query(quantile(0.99, ATTEMPT, by="le, kind"), "{{kind}}")],
        ),
        TimeSeries(
            "Leased",
            (
                "Deliveries that workers have leased, before or during the call; and failing endpoints to which"
                " workers send only probes."
            ),
            unit="short",
            queries=[
                Query('sum(shardclock_deliveries_leased{job="$job"})', "leased"),
                Query('sum(shardclock_endpoint_breakers_open{job="$job"})', "endpoints that fail"),
            ],
            runbooks=["ShardclockEndpointFails"],
        ),
        TimeSeries(
            "Claimed and lost",
            (
                "How many deliveries workers claim in a second, and how many were claimed by another worker during"
                " the call."
            ),
            unit="cps",
            queries=[
                Query('sum(rate(shardclock_deliveries_claimed_total{job="$job"}[$__rate_interval]))', "claimed"),
                Query(
                    'sum(rate(shardclock_deliveries_handed_over_total{job="$job"}[$__rate_interval]))',
                    "of these, handed over",
                ),
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
    title="Waiting deliveries, and dead letters",
    panels=[
        TimeSeries(
            "Waiting",
            "Due deliveries that no worker has claimed, by target; 10,000 means 10,000 or more.",
            unit="short",
            queries=[
                Query('max by (target_name) (shardclock_deliveries_waiting{job="$job"})', "{{target_name}}"),
            ],
            runbooks=["ShardclockDeliveriesBehind"],
        ),
        TimeSeries(
            "Oldest that waits",
            (
                "The age of the oldest due delivery that no worker has claimed, by target. The value is correct even"
                " if no worker is alive."
            ),
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
                "Deliveries that were given up, by target. 10,000 means 10,000 or more. Redrive or discard them:"
                " shardclock dead-letters."
            ),
            unit="short",
            queries=[Query('max by (target_name) (shardclock_dead_letters{job="$job"})', "{{target_name}}")],
            runbooks=["ShardclockDeadLetters"],
        ),
        TimeSeries(
            "Workers",
            "Living and wanted workers: no worker is wanted without a handler, an endpoint or a delivery.",
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
            "The time from the firing to the first call of the target: median and p99 of the deliveries.",
            unit="s",
            log=True,
            from_zero=False,
            queries=[
                Query(quantile(0.5, CALL_LAG), "p50"),
                Query(quantile(0.99, CALL_LAG), "p99"),
            ],
            runbooks=["ShardclockDeliveriesBehind"],
        ),
        TimeSeries(
            "Attempts that fail",
            "The share of the attempts to call a target that failed, whether or not a worker retries the delivery.",
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
            "Failed starts of handlers",
            "How often a process of a handler fails to start in a minute; the worker's log has the reason.",
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
            "Lost workers, by reason; other workers take over their deliveries, and repeat their running calls.",
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

DELIVERIES = (ATTEMPTS, BACKLOG, CALLS)
