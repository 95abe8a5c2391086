"""The metrics that shards report."""

from datetime import timedelta

from shardclock_server.metrics.family import LOOP, SHARD, Family, Label
from shardclock_server.timers.model import TimerType

LAG_EDGES_S = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
LAG_EDGES = tuple(timedelta(seconds=edge_s) for edge_s in LAG_EDGES_S)

TARGET = Label("target", frozenset(["log", "handler", "webhook", "process"]))
TIMER_TYPE = Label("timer_type", frozenset(kind.value for kind in TimerType))
# `late`: the timer was overdue by more than a second at the moment when it was scheduled, moved or resumed.
ASKED = Label("asked", frozenset(["ahead", "late"]))
LOOPS = ("beats", "claims", "fires", "notifications", "record_notifications", "delivery_notifications", "maintenance")

FAMILIES = (
    Family(
        "fire_lag_seconds",
        "histogram",
        "Time from a timer's due date (or from the request for the timer, if later) to its firing.",
        (SHARD, TARGET, TIMER_TYPE, ASKED),
        LAG_EDGES_S,
    ),
    Family("timers_fired", "counter", "Timers fired.", (SHARD,)),
    Family("timers_claimed", "counter", "Timers leased.", (SHARD,)),
    Family("timers_fenced", "counter", "Timers that another holder had leased before the shard fired them.", (SHARD,)),
    Family(
        "timers_swept",
        "counter",
        "Overdue timers that a sweep over all slots claimed, including timers in the shard's own slots.",
        (SHARD,),
    ),
    Family(
        "timers_early",
        "counter",
        "Timers that were not due yet by the clock of Postgres and were fired later.",
        (SHARD,),
    ),
    Family(
        "timers_locked",
        "counter",
        "Timers that a locked row delayed.",
        (SHARD,),
    ),
    Family("timers_refused", "counter", "Timers that can't be fired; the log has the reasons.", (SHARD,)),
    Family("timers_planned", "counter", "Schedules for which a shard computed the first date.", (SHARD,)),
    Family("occurrences_skipped", "counter", "Missed occurrences that shards skipped.", (SHARD,)),
    Family("turn_failures", "counter", "Failed iterations of a shard's loops; each is repeated.", (SHARD, LOOP)),
    Family("timers_held", "gauge", "Timers leased and waiting in the shard's memory.", (SHARD,)),
    Family("slots_owned", "gauge", "Slots that are assigned to the shard, of 840.", (SHARD,)),
    Family(
        "clock_offset_seconds",
        "gauge",
        "Upper bound of this node's clock minus Postgres's clock.",
        (SHARD,),
    ),
    Family("clock_round_trip_seconds", "gauge", "Round-trip time of a small statement.", (SHARD,)),
)
