"""The metrics that gateways report."""

import re

from shardclock_server.metrics.family import OTHER, Family, Label

SECONDS_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

# The labels are the operations of the API's reference, so the number of labels is limited.
OPERATION = Label("operation", frozenset([OTHER]), is_open=True)
# These statuses have their own label value. A 429 means that a tenant exceeds a limit; a 503 means that Postgres is
# unreachable or the gateway is full.
ALONE = frozenset([429, 503])
STATUS = Label("status", frozenset(["1xx", "2xx", "3xx", "4xx", "5xx", *map(str, ALONE)]))
# A tenant name that is longer or has control characters is reported as `other`.
TENANT = Label("tenant", frozenset([OTHER]), is_open=True, open_value=re.compile(r"[^\x00-\x1f\x7f]{1,64}"))
TENANTS_NAMED_MAX = 20  # The metrics of one gateway name at most this many tenants.
# The bounds of the buckets for the event loop's lag, in seconds.
LOOP_EDGES = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

FAMILIES = (
    Family("requests", "counter", "Answered requests, by operation and kind of status.", (OPERATION, STATUS)),
    Family(
        "request_seconds",
        "histogram",
        "Time from a request to the start of its response, without long polls and streams.",
        (OPERATION,),
        SECONDS_EDGES,
    ),
    Family("requests_throttled", "counter", "Requests with the answer 429, by the caller's tenant.", (TENANT,)),
    Family("creates_combined", "counter", "Timers that single requests created."),
    Family(
        "create_batches",
        "counter",
        "Transactions that wrote the timers of single requests; concurrent requests share a transaction.",
    ),
    Family("requests_in_flight", "gauge", "Requests in progress.", summed=True),
    Family("gateways", "gauge", "Gateways that report.", summed=True),
    Family("waiters", "gauge", "Callers that wait for the end of a timer or an instance.", summed=True),
    Family(
        "waiters_max", "gauge", "The limit of callers that wait for the end of a timer or an instance.", summed=True
    ),
    Family(
        "waiters_behind_seconds",
        "gauge",
        "Time since the log was last read to its end for waiting callers; 0 if no caller waits.",
        summed=True,  # the sum over a node's gateways, so that one stalled gateway remains visible
    ),
    Family("log_streams", "gauge", "Callers that follow the log.", summed=True),
    Family("log_streams_max", "gauge", "The limit of callers that follow the log.", summed=True),
    Family("task_waits", "gauge", "Callers that wait for a service task.", summed=True),
    Family("task_waits_max", "gauge", "The limit of callers that wait for a service task.", summed=True),
    Family("gateway_sessions_in_use", "gauge", "Connections to Postgres that are in use.", summed=True),
    Family("gateway_sessions_lent", "counter", "Connections to Postgres that requests got from the pool."),
    Family("gateway_session_wait_seconds", "counter", "Total time that requests waited for connections of the pool."),
    Family(
        "gateway_sessions_missed",
        "counter",
        "Requests that got no connection within the time limit and were answered 503.",
    ),
    Family(
        "gateway_loop_lag_seconds", "histogram", "Delay of the event loop, measured ten times a second.", (), LOOP_EDGES
    ),
    Family("keys_expiring", "gauge", "API keys that expire within two weeks and have no newer replacement."),
)
