"""Timers that are not written yet. Each timer has its key; a schedule also has its first occurrence."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from shardclock_server.sql.idempotency.requests import IdempotentRequest
from shardclock_server.timers.model import NewTimer
from shardclock_server.timers.occurrence import ScheduledOccurrence
from shardclock_server.timers.schedule import first_of, parse_schedule


class PlannedTimer(NamedTuple):
    """One timer with its key, and for a schedule its first occurrence."""

    key: int
    timer: NewTimer
    first: ScheduledOccurrence | None
    repetitions: int
    request: IdempotentRequest | None = None


def plan_timer(key: int, timer: NewTimer, drawn_at: datetime, request: IdempotentRequest | None) -> PlannedTimer:
    """Assign a key to a timer; for a schedule, compute the first occurrence after `drawn_at`.

    errors:  InvalidTimer  the schedule can't be parsed
    """
    if timer.schedule is None:
        return PlannedTimer(key, timer, None, 1, request)
    rule = parse_schedule(timer.schedule, timer.zone)
    return PlannedTimer(key, timer, first_of(rule, drawn_at), rule.repetitions, request)


def columns_of(planned: Sequence[PlannedTimer], drawn_at: datetime) -> dict[str, object]:
    """Return the parameters for schedule_timers.sql and write_named.sql: an array for each column, and `drawn_at`."""
    timers = [plan.timer for plan in planned]
    firsts = [plan.first for plan in planned]
    columns: dict[str, list[Any]] = {
        "timer_keys": [plan.key for plan in planned],
        "due_dates": [first.due_date if first else timer.due_date for first, timer in zip(firsts, timers, strict=True)],
        "delays": [None if timer.delay is None else str(timer.delay) for timer in timers],
        "schedules": [timer.schedule for timer in timers],
        "anchors": [first and first.anchor for first in firsts],
        "anchor_occurrences": [first and first.anchor_number for first in firsts],
        "repetitions": [plan.repetitions if plan.first else None for plan in planned],
        "missed": [None if timer.schedule is None else timer.missed for timer in timers],
        "names": [timer.name for timer in timers],
        "tenant_ids": [timer.tenant_id for timer in timers],
        "payloads": [timer.payload for timer in timers],
        "targets": [timer.target for timer in timers],
        "timer_types": [timer.timer_type for timer in timers],
        "target_element_ids": [timer.target_element_id for timer in timers],
        "process_instance_keys": [timer.process_instance_key for timer in timers],
        "element_instance_keys": [timer.element_instance_key for timer in timers],
        "zones": [None if timer.zone == "UTC" and timer.schedule is None else timer.zone for timer in timers],
    }
    # Most columns have no value in most batches. A column without values is sent as an empty array, which costs
    # nothing.
    given: dict[str, object] = {
        name: [] if column.count(None) == len(column) else column for name, column in columns.items()
    }
    return given | {"drawn_at": drawn_at}
