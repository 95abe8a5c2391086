"""The metrics that gateways report."""

import re

from shardclock_server.metrics.family import OTHER, Family, Label

SECONDS_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

# The operations are those of the API's reference, so the number of labels is limited.
OPERATION = Label("operation", frozenset([OTHER]), is_open=True)
# Statuses with their own label: the tenant causes a 429; a lack of Postgres or of slots causes a 503.
ALONE = frozenset([429, 503])
STATUS = Label("status", frozenset(["1xx", "2xx", "3xx", "4xx", "5xx", *map(str, ALONE)]))
# A tenant name that is longer or has control characters is reported as `other`.
TENANT = Label("tenant", frozenset([OTHER]), is_open=True, open_value=re.compile(r"[^\x00-\x1f\x7f]{1,64}"))
TENANTS_NAMED_MAX = 20  # the most tenants that one gateway names
# From 0.25 s on callers notice a blocked loop.
LOOP_EDGES = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

FAMILIES = (
    Family("requests", "counter", "Requests that were answered, by operation and kind of status.", (OPERATION, STATUS)),
    Family(
        "request_seconds",
        "histogram",
        "How long a request took until its answer began, of those that wait for nothing but Postgres.",
        (OPERATION,),
        SECONDS_EDGES,
    ),
    Family("requests_throttled", "counter", "Requests that were answered 429, by the tenant that asks.", (TENANT,)),
    Family("creates_combined", "counter", "Timers that were created one by one."),
    Family("create_batches", "counter", "Transactions in which they were written: fewer, as more come at once."),
    Family("requests_in_flight", "gauge", "Requests that are being answered.", summed=True),
    Family("gateways", "gauge", "Gateways that report.", summed=True),
    Family("waiters", "gauge", "Callers that wait for the end of a timer, or of an instance.", summed=True),
    Family("waiters_max", "gauge", "So many may wait.", summed=True),
    Family(
        "waiters_behind_seconds",
        "gauge",
        "The moment since which waiting callers have had no complete reading of the log; 0 if no caller waits.",
        summed=True,  # the sum also shows one stalled gateway among healthy ones on the node
    ),
    Family("log_streams", "gauge", "Callers that follow the log.", summed=True),
    Family("log_streams_max", "gauge", "So many may follow it.", summed=True),
    Family("task_waits", "gauge", "Callers that wait for a service task.", summed=True),
    Family("task_waits_max", "gauge", "So many may wait for one.", summed=True),
    Family("gateway_sessions_in_use", "gauge", "Connections to Postgres that are in use.", summed=True),
    Family("gateway_sessions_lent", "counter", "Times that a request got a connection to Postgres."),
    Family("gateway_session_wait_seconds", "counter", "How long those requests waited for it, in all."),
    Family("gateway_sessions_missed", "counter", "Requests that got none in time, and were answered 503."),
    Family("gateway_loop_lag_seconds", "histogram", "How late the event loop was, ten times a second.", (), LOOP_EDGES),
    Family("keys_expiring", "gauge", "API keys that expire within two weeks, and that no newer one replaces."),
)
