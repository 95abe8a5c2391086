"""Describe why an operation left some of its rows unchanged."""

from collections.abc import Mapping

from shardclock.api.refusals.deliveries import (
    DEAD_LETTER_AWAITED,
    DELIVERY_CLAIMED,
    DELIVERY_DEAD,
    DELIVERY_ENDED,
    NOT_REDRIVEN,
    UNKNOWN_DEAD_LETTER,
)
from shardclock.api.refusals.processes import UNKNOWN_INCIDENT
from shardclock.api.refusals.timers import TIMER_ENDED, TIMER_UNPLANNED

# The predicate of a sentence for each reason in `sql/operations/count_unchanged.sql`; its subject is a number of rows.
PREDICATES: Mapping[str, str] = {
    TIMER_ENDED.name: "had ended",
    TIMER_UNPLANNED.name: "had no date yet: a running cluster plans schedules, unless they are paused",
    UNKNOWN_DEAD_LETTER.name: "had been redriven or discarded by another command",
    NOT_REDRIVEN.name: "had a target that was disabled or removed: enable or add it, then redrive them again",
    DEAD_LETTER_AWAITED.name: "had a waiting instance: redrive the signal, or cancel the instance",
    UNKNOWN_INCIDENT.name: "had been resolved already, or the instance had ended",
    DELIVERY_CLAIMED.name: "had been claimed by a worker or a program",
    DELIVERY_DEAD.name: "had been given up: redrive or discard the dead letters",
    DELIVERY_ENDED.name: "had ended",
    "nothing_to_change": "had this change already",
}


def describe_unchanged(reasons: Mapping[str, int]) -> str:
    """Write the numbers of unchanged rows with their reasons, the most frequent reason first.

    shape:   `35 had ended; 2 had this change already`; empty without reasons
    """
    most_first = sorted(reasons.items(), key=lambda it: (-it[1], it[0]))
    return "; ".join(f"{rows:,} {PREDICATES[reason]}" for reason, rows in most_first)
