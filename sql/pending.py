"""Scheduling timers: what a client does first.

A connection lost in mid-commit is neither success nor failure. So keys are drawn before the timers are written, and
`schedule_timers` may be sent again with the same keys as often as needed: it adds what is missing and reports all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sql.session import Session, StatementRefused
from sql.statements import statement
from timers.model import NewTimer
from timers.occurrence import Occurrence
from timers.refusal import InvalidTimer, shortened
from timers.schedule import first_of, parse_schedule

# What the table refuses although the model let it through, told as the model tells it.
_RULES = {
    "due_date_is_in_years_1_to_9999": "its due date is out of range; a timer is due in the years 1 to 9999",
    "payload_is_at_most_64_kib": "its payload is too large; the limit is 65,536 bytes (64 KiB)",
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


class Drawn(NamedTuple):
    """Hold keys for timers still to be written, and the moment that their schedules are counted from."""

    keys: Sequence[int]
    at: datetime


@dataclass(frozen=True, slots=True)
class _Planned:
    """One timer with its key, and its schedule's first occurrence if it has a schedule."""

    key: int
    timer: NewTimer
    first: Occurrence | None
    repetitions: int


async def draw_keys(session: Session, count: int) -> Drawn:
    """Draw keys, one at least, for timers that are still to be written.

    errors:  StoreUnavailable  call again; keys are never used up
    source:  sql/queries/draw_keys.sql
    """
    rows = await session.rows("draw_keys", count)
    return Drawn([row["timer_key"] for row in rows], at=rows[0]["drawn_at"])


async def schedule_timers(session: Session, drawn: Drawn, timers: Sequence[NewTimer]) -> list[Scheduled | Refused]:
    """Write timers under keys drawn before, all that can be written; one at fault is refused alone.

    shape:   one outcome for each timer, in their order
    errors:  StoreUnavailable  the outcome is unknown: send the same keys and timers again
    source:  sql/queries/schedule_timers.sql
    """
    outcomes: dict[int, Scheduled | Refused] = {}
    planned: list[_Planned] = []
    for key, timer in zip(drawn.keys, timers, strict=True):
        try:
            planned.append(_plan(key, timer, drawn.at))
        except InvalidTimer as refusal:
            outcomes[key] = Refused(str(refusal))
    outcomes |= await _write(session, planned)
    return [outcomes[key] for key in drawn.keys]


def _plan(key: int, timer: NewTimer, drawn_at: datetime) -> _Planned:
    if timer.schedule is None:
        return _Planned(key, timer, first=None, repetitions=1)
    rule = parse_schedule(timer.schedule, timer.zone)
    return _Planned(key, timer, first_of(rule, drawn_at), rule.repetitions)


async def _write(session: Session, planned: Sequence[_Planned]) -> dict[int, Scheduled | Refused]:
    try:
        return await _write_whole(session, planned)
    except StatementRefused as error:
        if len(planned) == 1:
            return {planned[0].key: Refused(_sentence(error, planned[0].timer))}
        middle = len(planned) // 2
        return await _write(session, planned[:middle]) | await _write(session, planned[middle:])


async def _write_whole(session: Session, planned: Sequence[_Planned]) -> dict[int, Scheduled | Refused]:
    if not planned:
        return {}
    keys = [plan.key for plan in planned]
    async with session.transaction() as connection:
        # Each statement sees what was committed before it began. The first waits for an earlier attempt that is
        # still under way, the second holds on to its timers: so the third finds each of them, either still
        # pending or with the record of its end. One that ended under its eyes, it would make a second time.
        await connection.execute(statement("lock_keys"), keys[0])
        await connection.execute(statement("hold_pending"), keys)
        added = await connection.fetch(statement("schedule_timers"), keys, *_columns(planned))
        outcomes = {row["timer_key"]: Scheduled(*row) for row in added}
        missing = [key for key in keys if key not in outcomes]
        if missing:
            rows = await connection.fetch(statement("known_keys"), missing)
            outcomes |= {row["timer_key"]: Scheduled(*row) for row in rows}
    return {plan.key: outcomes.get(plan.key) or Refused(_taken(plan.timer)) for plan in planned}


def _columns(planned: Sequence[_Planned]) -> list[list[Any]]:
    timers = [plan.timer for plan in planned]
    firsts = [plan.first for plan in planned]
    return [
        [first.due_date if first else timer.due_date for first, timer in zip(firsts, timers, strict=True)],
        [None if timer.delay is None else str(timer.delay) for timer in timers],
        [timer.schedule for timer in timers],
        [first and first.anchor for first in firsts],
        [first.anchor_number if first else 0 for first in firsts],
        [plan.repetitions for plan in planned],
        [timer.missed for timer in timers],
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


def _taken(timer: NewTimer) -> str:
    return (
        f"name {shortened(timer.name)} is taken by a pending timer of tenant {shortened(timer.tenant_id)}; "
        "cancel or reschedule that one, or choose another name"
    )


def _sentence(error: StatementRefused, timer: NewTimer) -> str:
    when = timer.due_date or timer.delay or timer.schedule
    rule = _RULES["due_date_is_in_years_1_to_9999"] if error.sqlstate == _OUT_OF_RANGE else _RULES.get(error.constraint)
    return f"a timer for {shortened(str(when))} is refused: {rule or error}"
