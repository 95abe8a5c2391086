"""The metrics that workers report."""

from shardclock_server.metrics.family import LOOP, TARGET_NAME, Family, Label

DURATION_EDGES_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600)

KIND = Label("kind", frozenset(["handler", "webhook"]))
OUTCOME = Label("outcome", frozenset(["delivered", "discarded", "dead", "retried", "given_back"]))
LOOPS = (
    "beats",
    "claims",
    "searches",
    "notifications",
    "settles",
    "renewals",
    "hand_overs",
    "endpoints",
    "runs",
    "watches",
    "maintenance",
)

FAMILIES = (
    Family("deliveries_settled", "counter", "Attempts to call a target, by outcome.", (KIND, TARGET_NAME, OUTCOME)),
    Family("deliveries_claimed", "counter", "Deliveries that workers have claimed."),
    Family(
        "deliveries_handed_over",
        "counter",
        "Claimed deliveries that a shard of the same machine handed over.",
    ),
    Family(
        "deliveries_lost",
        "counter",
        "Outcomes without effect: another worker has claimed the delivery, or the delivery was settled before.",
    ),
    Family("deliveries_leased", "gauge", "Deliveries that workers have leased: waiting, or being called.", summed=True),
    Family(
        "endpoint_breakers_open",
        "gauge",
        "Endpoints that fail and get only probes, counted by each worker.",
        summed=True,
    ),
    Family(
        "delivery_lag_seconds",
        "histogram",
        "Time from the firing or the redrive of a delivery to its first attempt.",
        (KIND,),
        DURATION_EDGES_S,
    ),
    Family(
        "delivery_attempt_seconds",
        "histogram",
        "Duration of an attempt to call a target.",
        (KIND,),
        DURATION_EDGES_S,
    ),
    Family("handler_start_failures", "counter", "Failed starts of handlers' processes.", (TARGET_NAME,)),
    Family("worker_turn_failures", "counter", "Failed turns of a worker's loops; each turn is repeated.", (LOOP,)),
)
