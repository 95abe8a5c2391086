"""The metrics that engines report."""

from shardclock_server.metrics.family import LOOP, Family, Label

LAG_EDGES_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

OUTCOMES = frozenset(["completed", "canceled", "error"])
LOOPS = ("beats", "notifications", "delivery_notifications", "steps", "maintenance")

FAMILIES = (
    Family("instances_begun", "counter", "Process instances that engines started."),
    Family(
        "instances_ended",
        "counter",
        "Process instances that ended, by outcome.",
        (Label("instance_outcome", OUTCOMES),),
    ),
    Family(
        "instance_signals",
        "counter",
        "Signals to instances: processed, stale (the token no longer waited), or given up.",
        (Label("signal_fate", frozenset(["taken", "stale", "given_up"])),),
    ),
    Family(
        "instance_conflicts",
        "counter",
        "Steps that were not written, because another engine had advanced the instance.",
    ),
    Family("incidents_raised", "counter", "Incidents: each stops a token until an operator resolves the incident."),
    Family(
        "instance_signal_lag_seconds",
        "histogram",
        "Time from the due date of a signal to its step.",
        (),
        LAG_EDGES_S,
    ),
    Family(
        "engine_turn_failures",
        "counter",
        "Failed turns of an engine's loops; the engine repeats each failed turn.",
        (LOOP,),
    ),
)
