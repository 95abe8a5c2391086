"""The metrics that shards report."""

from datetime import timedelta

from shardclock_server.metrics.family import LOOP, SHARD, Family, Label
from shardclock_server.timers.model import TimerType

LAG_EDGES_S = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
LAG_EDGES = tuple(timedelta(seconds=edge_s) for edge_s in LAG_EDGES_S)

TARGET = Label("target", frozenset(["log", "handler", "webhook", "process"]))
TIMER_TYPE = Label("timer_type", frozenset(kind.value for kind in TimerType))
# `late`: the timer was overdue by more than a second when it was scheduled, moved or resumed.
ASKED = Label("asked", frozenset(["ahead", "late"]))
LOOPS = ("beats", "claims", "fires", "notifications", "record_notifications", "delivery_notifications", "hand_overs")

FAMILIES = (
    Family(
        "fire_lag_seconds",
        "histogram",
        "How long after its due date, or after it was asked for if that was later, a timer was fired.",
        (SHARD, TARGET, TIMER_TYPE, ASKED),
        LAG_EDGES_S,
    ),
    Family("timers_fired", "counter", "Timers fired.", (SHARD,)),
    Family("timers_claimed", "counter", "Timers leased.", (SHARD,)),
    Family("timers_fenced", "counter", "Timers that were no longer the shard's when it came to fire them.", (SHARD,)),
    Family(
        "timers_swept",
        "counter",
        "Overdue timers that a sweep over all slots took, its shard's own among them.",
        (SHARD,),
    ),
    Family("timers_early", "counter", "Timers that Postgres found too early, and that were fired later.", (SHARD,)),
    Family("timers_locked", "counter", "Timers that waited for a transaction.", (SHARD,)),
    Family("timers_refused", "counter", "Timers that can't be fired as they are: see the log.", (SHARD,)),
    Family("timers_planned", "counter", "Schedules that got their first date.", (SHARD,)),
    Family("occurrences_skipped", "counter", "Occurrences that a schedule missed and will not fire.", (SHARD,)),
    Family("turn_failures", "counter", "Turns of a shard's loop that failed and were taken again.", (SHARD, LOOP)),
    Family("timers_held", "gauge", "Timers leased and waiting in the shard's memory.", (SHARD,)),
    Family("slots_owned", "gauge", "Slots that the shard keeps, of 840.", (SHARD,)),
    Family("clock_offset_seconds", "gauge", "This node's clock minus Postgres's, at most.", (SHARD,)),
    Family("clock_round_trip_seconds", "gauge", "How long a small statement takes there and back.", (SHARD,)),
)
