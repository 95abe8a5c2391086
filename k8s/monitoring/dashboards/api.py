"""The rows about the HTTP API: how much is asked, how long it takes, and what fails."""

from k8s.monitoring.dashboards.quantiles import quantile
from k8s.monitoring.dashboards.spec import Query, Row, TimeSeries

TOOK = 'shardclock_request_seconds_bucket{job="$job"}[$__rate_interval]'

API = Row(
    title="The HTTP API",
    panels=[
        TimeSeries(
            "Requests",
            "Answered in a second, by kind of status. 5xx: Postgres does not answer, or the gateway has failed.",
            unit="cps",
            queries=[
                Query('sum by (status) (rate(shardclock_requests_total{job="$job"}[$__rate_interval]))', "{{status}}")
            ],
        ),
        TimeSeries(
            "How long they take",
            "Half and 99 % of the requests were answered within this time; those that wait for an end are left out.",
            unit="s",
            log=True,
            from_zero=False,
            queries=[Query(quantile(0.5, TOOK), "p50"), Query(quantile(0.99, TOOK), "p99")],
        ),
        TimeSeries(
            "Creates written together",
            "Timers that one transaction writes, of those that are created one by one: more come together under load.",
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
            "Under way",
            "Requests that are being answered, callers that wait for a timer's end, connections to Postgres in use.",
            unit="short",
            queries=[
                Query('sum(shardclock_requests_in_flight{job="$job"})', "requests"),
                Query('sum(shardclock_waiters{job="$job"})', "waiting"),
                Query('sum(shardclock_gateway_sessions_in_use{job="$job"})', "connections"),
            ],
        ),
    ],
)
