"""The rows about gateways: requests to the HTTP API, failures, durations, and used limits."""

from k8s.monitoring.dashboards.quantiles import quantile
from k8s.monitoring.dashboards.spec import Query, Row, Stat, TimeSeries

TOOK = 'shardclock_request_seconds_bucket{job="$job"}[$__rate_interval]'
LOOP_LAG = 'shardclock_gateway_loop_lag_seconds_bucket{job="$job"}[$__rate_interval]'
# Without failures the metric has no series, so each query adds the value zero for each operation with requests.
FAILED = (
    'sum by (operation) (rate(shardclock_requests_total{job="$job", status=~"5xx|503"}[$__rate_interval]))'
    ' or sum by (operation) (rate(shardclock_requests_total{job="$job"}[$__rate_interval])) * 0'
)
THROTTLED = (
    'sum by (tenant) (rate(shardclock_requests_throttled_total{job="$job"}[$__rate_interval]))'
    ' or sum(shardclock_gateways{job="$job"}) * 0'
)

REQUESTS = Row(
    title="Gateway",
    panels=[
        TimeSeries(
            "Requests",
            (
                "How many requests the gateways answer in a second, by class of status. 503: Postgres, a connection"
                " or a slot is missing. 429: a tenant is over its limit. 5xx: the gateway has failed."
            ),
            unit="cps",
            queries=[
                Query('sum by (status) (rate(shardclock_requests_total{job="$job"}[$__rate_interval]))', "{{status}}")
            ],
            runbooks=["ShardclockRequestsUnavailable"],
        ),
        TimeSeries(
            "Requests, by operation",
            "How many requests the gateways answer in a second, by operation; the API's reference has the names.",
            unit="cps",
            queries=[
                Query(
                    'sum by (operation) (rate(shardclock_requests_total{job="$job"}[$__rate_interval]))',
                    "{{operation}}",
                )
            ],
        ),
        TimeSeries(
            "Errors, by operation",
            "Share of the requests that were answered 500 or 503.",
            unit="percentunit",
            queries=[
                Query(
                    (
                        f"({FAILED}) /"
                        ' sum by (operation) (rate(shardclock_requests_total{job="$job"}[$__rate_interval]))'
                    ),
                    "{{operation}}",
                )
            ],
            runbooks=["ShardclockRequestsBroken", "ShardclockRequestsUnavailable"],
        ),
        TimeSeries(
            "Duration, by operation",
            "99 % of the requests were answered within this time, without requests that wait for an end.",
            unit="s",
            log=True,
            from_zero=False,
            queries=[Query(quantile(0.99, TOOK, by="le, operation"), "{{operation}}")],
            runbooks=["ShardclockRequestsSlow"],
        ),
    ],
)

WORK = Row(
    panels=[
        TimeSeries(
            "Duration",
            "The time until the response began, median and p99; requests with wait are left out.",
            unit="s",
            log=True,
            from_zero=False,
            queries=[Query(quantile(0.5, TOOK), "p50"), Query(quantile(0.99, TOOK), "p99")],
            runbooks=["ShardclockRequestsSlow"],
        ),
        TimeSeries(
            "Creates written together",
            (
                "The mean number of timers that one transaction writes for requests that each create one timer; it"
                " grows with the load."
            ),
            unit="short",
            queries=[
                Query(
                    (
                        'sum(rate(shardclock_creates_combined_total{job="$job"}[$__rate_interval])) /'
                        ' sum(rate(shardclock_create_batches_total{job="$job"}[$__rate_interval]))'
                    ),
                    "timers",
                )
            ],
        ),
        TimeSeries(
            "Waits for a connection",
            (
                "The mean time that a request waits for a connection to Postgres. If a request gets no connection in"
                " time, it is answered 503."
            ),
            unit="s",
            queries=[
                Query(
                    (
                        'sum(rate(shardclock_gateway_session_wait_seconds_total{job="$job"}[$__rate_interval])) /'
                        ' sum(rate(shardclock_gateway_sessions_lent_total{job="$job"}[$__rate_interval]))'
                    ),
                    "mean",
                )
            ],
            runbooks=["ShardclockRequestsUnavailable", "ShardclockRequestsSlow"],
        ),
        TimeSeries(
            "Under way",
            (
                "Requests that the gateways are executing, connections to Postgres in use, and requests a second that"
                " get no connection."
            ),
            unit="short",
            queries=[
                Query('sum(shardclock_requests_in_flight{job="$job"})', "requests"),
                Query('sum(shardclock_gateway_sessions_in_use{job="$job"})', "connections"),
                Query('sum(rate(shardclock_gateway_sessions_missed_total{job="$job"}[$__rate_interval]))', "get none"),
            ],
            runbooks=["ShardclockRequestsUnavailable"],
        ),
    ],
)

PLACES = Row(
    panels=[
        TimeSeries(
            "Waiting and following",
            (
                "The used share of three limits: requests that wait for an end, that wait for a service task, and"
                " that follow the log."
            ),
            unit="percentunit",
            width=5,
            queries=[
                Query('sum(shardclock_waiters{job="$job"}) / sum(shardclock_waiters_max{job="$job"})', "wait"),
                Query(
                    'sum(shardclock_log_streams{job="$job"}) / sum(shardclock_log_streams_max{job="$job"})', "follow"
                ),
                Query(
                    'sum(shardclock_task_waits{job="$job"}) / sum(shardclock_task_waits_max{job="$job"})',
                    "wait for a task",
                ),
            ],
            runbooks=["ShardclockGatewayNearlyFull"],
        ),
        TimeSeries(
            "Delay of waiting clients",
            "The time since a gateway with waiting requests last read the log to its end.",
            unit="s",
            width=5,
            queries=[Query('max by (instance) (shardclock_waiters_behind_seconds{job="$job"})', "{{instance}}")],
            runbooks=["ShardclockWaitersBehind"],
        ),
        TimeSeries(
            "The loop's lag",
            "The lag of a gateway's event loop, p99 and p99.9 of the measurements: requests wait for the loop.",
            unit="s",
            width=5,
            log=True,
            from_zero=False,
            queries=[Query(quantile(0.99, LOOP_LAG), "p99"), Query(quantile(0.999, LOOP_LAG), "p99.9")],
            runbooks=["ShardclockGatewayLoopBlocked"],
        ),
        TimeSeries(
            "Throttled",
            "Requests a second that were answered 429, by tenant; each gateway reports at most 20 tenants by name.",
            unit="cps",
            width=5,
            queries=[Query(THROTTLED, "{{tenant}}")],
            runbooks=["ShardclockTenantThrottled"],
        ),
        Stat(
            "Gateways, keys",
            "Gateways that report to the exporters, and API keys without a replacement that expire within two weeks.",
            unit="none",
            width=4,
            sparkline=False,
            shows="value_and_name",
            queries=[
                Query('sum(shardclock_gateways{job="$job"})', "gateways"),
                Query('max(shardclock_keys_expiring{job="$job"})', "keys that expire"),
            ],
            runbooks=["ShardclockNoGateway", "ShardclockKeysExpire"],
        ),
    ],
)

GATEWAY = (REQUESTS, WORK, PLACES)
