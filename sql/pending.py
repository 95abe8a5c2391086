"""Scheduling, cancelling and moving timers: what a client does.

A connection lost in mid-commit is neither success nor failure. So keys are drawn before the timers are written, and
`schedule_timers` may be sent again with the same keys as often as needed: it adds what is missing and reports all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sql.session import Session, StatementRefused
from sql.statements import statement
from timers.duration import Duration
from timers.model import NewTimer
from timers.refusal import InvalidTimer, shortened
from timers.schedule import parse_schedule

# What the table refuses although the model let it through, told as the model tells it.
_RULES = {
    "due_date_is_in_years_1_to_9999": "its due date is out of range; a timer is due in the years 1 to 9999",
    "payload_is_at_most_64_kib": "its payload is too large; the limit is 65,536 bytes (64 KiB)",
    "schedule_is_a_repeat_of_fixed_length": "its schedule's period is too long; it must be shorter than 10,000 years",
}
_OUT_OF_RANGE = "22008"


@dataclass(frozen=True, slots=True)
class Scheduled:
    """One timer that is now remembered."""

    timer_key: int
    due_date: datetime


@dataclass(frozen=True, slots=True)
class Refused:
    """One timer that was not taken, and the sentence that says why."""

    why: str


async def draw_keys(session: Session, count: int) -> list[int]:
    """Draw keys for timers that are still to be written.

    errors:  StoreUnavailable  call again; keys are never used up
    source:  sql/queries/draw_keys.sql
    """
    return [row["timer_key"] for row in await session.rows("draw_keys", count)]


async def schedule_timers(
    session: Session, keys: Sequence[int], timers: Sequence[NewTimer]
) -> list[Scheduled | Refused]:
    """Write timers under keys drawn before, all that can be written; one at fault is refused alone.

    shape:   one outcome for each timer, in their order
    errors:  StoreUnavailable  the outcome is unknown: send the same keys and timers again
    source:  sql/queries/schedule_timers.sql
    """
    try:
        return await _schedule_whole(session, keys, timers)
    except StatementRefused as error:
        if len(timers) == 1:
            return [Refused(_sentence(error, timers[0]))]
        middle = len(timers) // 2
        first = await schedule_timers(session, keys[:middle], timers[:middle])
        return first + await schedule_timers(session, keys[middle:], timers[middle:])


async def cancel_timer(
    session: Session,
    *,
    timer_key: int | None = None,
    name: str | None = None,
    tenant_id: str = "default",
    reason: str | None = None,
) -> str:
    """Cancel a pending timer, by key or by name, and say how it ended: CANCELED, TRIGGERED or UNKNOWN.

    errors:  StoreUnavailable  the outcome is unknown: call again, the answer stays true
             InvalidTimer      neither key nor name, or both
    source:  sql/queries/cancel_timer.sql
    """
    return await _state(session, "cancel_timer", timer_key, name, tenant_id, reason)


async def reschedule_timer(
    session: Session,
    when: datetime | Duration,
    *,
    timer_key: int | None = None,
    name: str | None = None,
    tenant_id: str = "default",
) -> str:
    """Move a pending timer, and say what became of it: RESCHEDULED, TRIGGERED, CANCELED or UNKNOWN.

    errors:  StoreUnavailable  the outcome is unknown: call again
             InvalidTimer      neither key nor name, or a moment beyond year 9999
    source:  sql/queries/reschedule_timer.sql
    """
    due_date, delay = (None, str(when)) if isinstance(when, Duration) else (when, None)
    return await _state(session, "reschedule_timer", timer_key, name, tenant_id, due_date, delay)


async def _state(session: Session, name: str, *args: Any) -> str:
    try:
        row = await session.row(name, *args)
    except StatementRefused as error:
        raise InvalidTimer(str(error)) from error
    assert row is not None, "a function call gives one row"
    return str(row["state"])


async def _schedule_whole(
    session: Session, keys: Sequence[int], timers: Sequence[NewTimer]
) -> list[Scheduled | Refused]:
    if not timers:
        return []
    async with session.transaction() as connection:
        # Each statement sees what was committed before it began. The first waits for an earlier attempt that is
        # still under way, the second holds on to its timers: so the third finds each of them, either still
        # pending or with the record of its end. One that ended under its eyes, it would make a second time.
        await connection.execute(statement("lock_keys"), keys[0])
        await connection.execute(statement("hold_pending"), keys)
        added = await connection.fetch(statement("schedule_timers"), keys, *_columns(timers))
        outcomes = {row["timer_key"]: Scheduled(*row) for row in added}
        missing = [key for key in keys if key not in outcomes]
        if missing:
            rows = await connection.fetch(statement("known_keys"), missing)
            outcomes |= {row["timer_key"]: Scheduled(*row) for row in rows}
    return [outcomes.get(key) or Refused(_taken(timer)) for key, timer in zip(keys, timers, strict=True)]


def _columns(timers: Sequence[NewTimer]) -> list[list[Any]]:
    rules = [parse_schedule(timer.schedule) if timer.schedule else None for timer in timers]
    return [
        [timer.due_date for timer in timers],
        [_wait(timer) for timer in timers],
        [timer.schedule for timer in timers],
        [rule.repetitions if rule else 1 for rule in rules],
        [timer.name for timer in timers],
        [timer.tenant_id for timer in timers],
        [timer.payload for timer in timers],
        [timer.target for timer in timers],
        [timer.timer_type for timer in timers],
        [timer.target_element_id for timer in timers],
        [timer.process_instance_key for timer in timers],
        [timer.element_instance_key for timer in timers],
        [timer.zone for timer in timers],
    ]


def _wait(timer: NewTimer) -> str | None:
    if timer.schedule:
        return str(Duration(months=0, days=0, elapsed=parse_schedule(timer.schedule).period))
    return str(timer.delay) if timer.delay is not None else None


def _taken(timer: NewTimer) -> str:
    return (
        f"name {shortened(timer.name)} is taken by a pending timer of tenant {shortened(timer.tenant_id)}; "
        "cancel or reschedule that one, or choose another name"
    )


def _sentence(error: StatementRefused, timer: NewTimer) -> str:
    when = timer.due_date or timer.delay or timer.schedule
    rule = _RULES["due_date_is_in_years_1_to_9999"] if error.sqlstate == _OUT_OF_RANGE else _RULES.get(error.constraint)
    return f"a timer for {shortened(str(when))} is refused: {rule or error}"
