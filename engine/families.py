"""The metrics that engines report."""

from shardclock_server.metrics.family import LOOP, Family, Label

LAG_EDGES_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

OUTCOMES = frozenset(["completed", "canceled", "error"])
LOOPS = ("beats", "hints", "delivery_hints", "steps", "tends")

FAMILIES = (
    Family("instances_begun", "counter", "Instances of processes that engines began."),
    Family(
        "instances_ended",
        "counter",
        "Instances of processes that ended, by how.",
        (Label("instance_outcome", OUTCOMES),),
    ),
    Family(
        "instance_signals",
        "counter",
        "Signals to instances: taken, stale (nobody waited for them any more), or given up.",
        (Label("signal_fate", frozenset(["taken", "stale", "given_up"])),),
    ),
    Family(
        "instance_conflicts",
        "counter",
        "Times that an instance was advanced by another engine first, so that nothing was written.",
    ),
    Family("incidents_raised", "counter", "Times that a token stopped until somebody resolves its incident."),
    Family(
        "instance_signal_lag_seconds",
        "histogram",
        "How long after it was due a signal was taken by an engine.",
        (),
        LAG_EDGES_S,
    ),
    Family("engine_turn_failures", "counter", "Turns of an engine's loop that failed and were taken again.", (LOOP,)),
)
