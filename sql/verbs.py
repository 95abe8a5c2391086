"""What may be done to a timer that is pending: one by its key or name, or many by their keys.

Each verb is a SQL function that anyone may call in their own transaction; this is the way to them from Python. All are
safe to repeat, and all tell the truth: who comes too late hears how the timer ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sql.session import Session, StatementRefused
from timers.duration import Duration
from timers.refusal import InvalidTimer

_NOT_YET = "55000"  # a schedule that has no date yet: nothing is wrong with what was asked


@dataclass(frozen=True, slots=True)
class Which:
    """Name one timer: by its key, or by its name and tenant."""

    timer_key: int | None = None
    name: str | None = None
    tenant_id: str = "default"

    def __str__(self) -> str:
        """Write it for people."""
        return str(self.timer_key) if self.name is None else f"{self.name!r} of tenant {self.tenant_id!r}"


@dataclass(frozen=True, slots=True)
class Shift:
    """A length to move a timer by, as ISO 8601 text with an optional sign: PT1H, -P1D."""

    text: str


@dataclass(frozen=True, slots=True)
class NewRule:
    """Another rule for a timer to go by; the zone and what is done about missed runs stay as they are if not given."""

    schedule: str
    zone: str | None = None
    missed: str | None = None


async def cancel_timer(session: Session, which: Which, *, reason: str | None = None) -> str:
    """Cancel a timer, and say how it ended: CANCELED, TRIGGERED, SKIPPED or UNKNOWN.

    errors:  StoreUnavailable  the outcome is unknown: call again, the answer stays true
             InvalidTimer      neither key nor name, or both
    source:  sql/queries/cancel_timer.sql
    """
    return await _state(session, "cancel_timer", which, reason)


async def pause_timer(session: Session, which: Which, *, reason: str | None = None) -> str:
    """Keep a timer from firing until it is resumed: PAUSED, or how it ended.

    errors:  as `cancel_timer`
    source:  sql/queries/pause_timer.sql
    """
    return await _state(session, "pause_timer", which, reason)


async def resume_timer(session: Session, which: Which) -> str:
    """Let a paused timer go on: PENDING, or how it ended.

    errors:  as `cancel_timer`
    source:  sql/queries/resume_timer.sql
    """
    return await _state(session, "resume_timer", which)


async def run_timer(session: Session, which: Which) -> str:
    """Make a timer due now: RESCHEDULED, PENDING (it was due already), PAUSED (it stays so), or how it ended.

    A schedule runs once more, and keeps its grid and its next date.

    errors:  as `cancel_timer`
    source:  sql/queries/run_timer.sql
    """
    return await _state(session, "run_timer", which)


async def reschedule_timer(session: Session, which: Which, to: datetime | Duration | Shift | NewRule) -> str:
    """Move a timer to a moment, by a delay from now, by a shift, or to another rule: RESCHEDULED, or how it ended.

    errors:  as `cancel_timer`, and InvalidTimer for a moment out of range, or what is no shift or no schedule
             StatementRefused  its schedule is about to be planned by a running cluster: try again then
    source:  sql/queries/reschedule_timer.sql
    """
    rule = to if isinstance(to, NewRule) else None
    return await _state(
        session,
        "reschedule_timer",
        which,
        to if isinstance(to, datetime) else None,
        str(to) if isinstance(to, Duration) else None,
        to.text if isinstance(to, Shift) else None,
        rule and rule.schedule,
        rule and rule.zone,
        rule and rule.missed,
    )


async def cancel_timers(session: Session, timer_keys: Sequence[int], *, reason: str | None = None) -> int:
    """Cancel those of many timers that are pending or paused, in one transaction; how many were is the answer.

    errors:  StoreUnavailable  the outcome is unknown: call again, none is cancelled twice
    source:  sql/queries/cancel_timers.sql
    """
    return await _changed(session, "cancel_timers", timer_keys, reason)


async def pause_timers(session: Session, timer_keys: Sequence[int], *, reason: str | None = None) -> int:
    """Pause those of many timers that are pending, in one transaction; how many were is the answer.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/queries/pause_timers.sql
    """
    return await _changed(session, "pause_timers", timer_keys, reason)


async def resume_timers(session: Session, timer_keys: Sequence[int]) -> int:
    """Resume those of many timers that are paused, in one transaction; how many were is the answer.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/queries/resume_timers.sql
    """
    return await _changed(session, "resume_timers", timer_keys)


async def shift_timers(session: Session, timer_keys: Sequence[int], by: Shift, *, operation: str) -> int:
    """Move those of many timers that are pending or paused, in one transaction; how many were is the answer.

    errors:  StoreUnavailable  the outcome is unknown: call again with the same operation, none moves twice
             InvalidTimer      no such length, or one that leads out of the years 1 to 9999
    source:  sql/queries/shift_timers.sql
    """
    return await _changed(session, "shift_timers", timer_keys, by.text, operation)


async def cancel_process_instance(session: Session, process_instance_key: int, *, reason: str | None = None) -> int:
    """Cancel all timers of a process instance; how many there were is the answer.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/queries/cancel_process_instance.sql
    """
    row = await session.row("cancel_process_instance", process_instance_key, reason)
    return int(row["canceled"]) if row else 0


async def _state(session: Session, verb: str, which: Which, *args: object) -> str:
    try:
        row = await session.row(verb, which.timer_key, which.name, which.tenant_id, *args)
    except StatementRefused as error:
        if error.sqlstate == _NOT_YET:
            raise
        raise InvalidTimer(str(error)) from error
    assert row is not None, "a function call gives one row"
    return str(row["state"])


async def _changed(session: Session, verb: str, timer_keys: Sequence[int], *args: object) -> int:
    try:
        return len(await session.rows(verb, timer_keys, *args))
    except StatementRefused as error:
        raise InvalidTimer(str(error)) from error
