"""The metrics that gateways report."""

from metrics.family import OTHER, Family, Label

SECONDS_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

# The names of operations are those of the API's reference, so they are as many as it has.
OPERATION = Label("operation", frozenset([OTHER]), is_open=True)
STATUS = Label("status", frozenset(["1xx", "2xx", "3xx", "4xx", "5xx"]))

FAMILIES = (
    Family("requests", "counter", "Requests that were answered, by operation and kind of status.", (OPERATION, STATUS)),
    Family(
        "request_seconds",
        "histogram",
        "How long a request took until its answer began, of those that wait for nothing but Postgres.",
        (OPERATION,),
        SECONDS_EDGES,
    ),
    Family("creates_combined", "counter", "Timers that were created one by one."),
    Family("create_batches", "counter", "Transactions in which they were written: fewer, as more come at once."),
    Family("requests_in_flight", "gauge", "Requests that are being answered.", summed=True),
    Family("waiters", "gauge", "Callers that wait for the end of a timer.", summed=True),
    Family("gateway_sessions_in_use", "gauge", "Connections to Postgres that are in use.", summed=True),
)
