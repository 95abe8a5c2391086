"""The metrics that workers report."""

from shardclock_server.metrics.family import LOOP, TARGET_NAME, Family, Label

DURATION_EDGES_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600)

KIND = Label("kind", frozenset(["handler", "webhook"]))
OUTCOME = Label("outcome", frozenset(["delivered", "discarded", "dead", "retried", "given_back"]))
LOOPS = ("beats", "claims", "searches", "hints", "settles", "renewals", "endpoints", "runs", "watches", "tends")

FAMILIES = (
    Family(
        "deliveries_settled", "counter", "Attempts to call a target, by how they ended.", (KIND, TARGET_NAME, OUTCOME)
    ),
    Family("deliveries_claimed", "counter", "Deliveries that workers took in hand."),
    Family(
        "deliveries_lost",
        "counter",
        "Deliveries whose outcome changed nothing: another worker's, or settled before.",
    ),
    Family(
        "deliveries_in_hand", "gauge", "Deliveries that workers have in hand: waiting, or being called.", summed=True
    ),
    Family(
        "endpoint_breakers_open",
        "gauge",
        "Endpoints that fail and are only probed, counted by each worker.",
        summed=True,
    ),
    Family(
        "delivery_lag_seconds",
        "histogram",
        "How long after its firing, or after it was redriven, a delivery's first attempt began.",
        (KIND,),
        DURATION_EDGES_S,
    ),
    Family(
        "delivery_attempt_seconds",
        "histogram",
        "How long an attempt to call a target took.",
        (KIND,),
        DURATION_EDGES_S,
    ),
    Family("handler_start_failures", "counter", "Times that a handler's process did not start.", (TARGET_NAME,)),
    Family("worker_turn_failures", "counter", "Turns of a worker's loop that failed and were taken again.", (LOOP,)),
)
