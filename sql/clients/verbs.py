"""Change pending timers: one by its key or name, or many by their keys.

Each operation is an SQL function that clients may also call in their own transactions. All operations are safe to
repeat. If the timer has ended, the result tells how it ended.
"""

from collections.abc import Awaitable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TypeVar

from shardclock.api.changes import named
from shardclock.api.codes import REFUSED
from shardclock_server.sql.session import NOT_ALLOWED, Session, StatementRefused
from shardclock_server.timers.duration import Duration
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.schedule import MissedChoice

T = TypeVar("T")

# SQLSTATEs of errors that the request's values did not cause: the schedule has no due date yet, or the role lacks a
# right.
_NOT_FOR_WHAT_WAS_ASKED = ("55000", NOT_ALLOWED)


@dataclass(frozen=True, slots=True)
class TimerRef:
    """Identify one timer by its key, or by its name and tenant."""

    timer_key: int | None = None
    name: str | None = None
    tenant_id: str = "default"

    def __str__(self) -> str:
        """Return the timer's key or name for a message."""
        return named(self.timer_key, self.name, self.tenant_id)


@dataclass(frozen=True, slots=True)
class Shift:
    """The duration by which a timer is moved, in ISO 8601 with an optional sign: PT1H, -P1D."""

    text: str


@dataclass(frozen=True, slots=True)
class NewRule:
    """A new schedule for a timer; if the zone or the policy for missed occurrences is None, it does not change."""

    schedule: str
    zone: str | None = None
    missed: str | None = None


async def cancel_timer(session: Session, which: TimerRef, *, reason: str | None = None) -> str:
    """Cancel a timer, and return its state: CANCELED, TRIGGERED, SKIPPED or UNKNOWN.

    errors:  StoreUnavailable  the outcome is unknown: call again
             InvalidTimer  neither key nor name is given, or both
    source:  sql/functions/timers/cancel_timer.sql
    """
    return await _state(session, "cancel_timer", which, reason=reason)


async def end_of_pause(
    session: Session, until: datetime | Duration | None, *, missed: str = MissedChoice.POLICY
) -> datetime | None:
    """Return the moment when a pause ends, by Postgres's clock; None: the pause has no end.

    errors:  InvalidTimer      the end is not in the future, or an unknown rule for missed occurrences
             StoreUnavailable  no answer in time: nothing was changed
    source:  sql/functions/timers/end_of_pause.sql
    """
    given = {"until": until} if not isinstance(until, Duration) else {"delay": str(until)}
    ends_at: datetime | None = await _called(session.call_one("end_of_pause", **given, missed=missed))
    return ends_at


async def pause_timer(
    session: Session,
    which: TimerRef,
    *,
    reason: str | None = None,
    until: datetime | None = None,
    missed: str = MissedChoice.POLICY,
) -> str:
    """Pause a timer until it is resumed, or until a moment; return PAUSED, or how the timer ended.

    `missed` is the policy for the occurrences that a schedule misses during the pause.

    errors:  the errors of `cancel_timer`, and InvalidTimer for an end that is not in the future, or an unknown rule
    source:  sql/functions/timers/pause_timer.sql
    """
    return await _state(session, "pause_timer", which, reason=reason, until=until, missed=missed)


async def resume_timer(session: Session, which: TimerRef, *, missed: str = MissedChoice.POLICY) -> str:
    """Resume a paused timer; return PENDING, or how the timer ended.

    `missed` is the policy for the occurrences that a schedule missed during the pause.

    errors:  the errors of `cancel_timer`, and InvalidTimer for an unknown rule
    source:  sql/functions/timers/resume_timer.sql
    """
    return await _state(session, "resume_timer", which, missed=missed)


async def run_timer(session: Session, which: TimerRef, *, operation: str | None = None) -> str:
    """Make a timer due now; return RESCHEDULED, PENDING (already due), PAUSED (without a change), or how it ended.

    A schedule fires one additional time, and its later due dates don't change. A call with the result PENDING writes no
    log record. If the caller repeats such a call with the same operation after the timer has fired, the schedule fires
    once more.

    errors:  StoreUnavailable  the outcome is unknown: call again with the same operation, and the timer runs once;
                               without an operation, a schedule that has fired meanwhile runs again
             InvalidTimer      neither key nor name, or both
    source:  sql/functions/timers/run_timer.sql
    """
    return await _state(session, "run_timer", which, operation=operation)


async def reschedule_timer(session: Session, which: TimerRef, to: datetime | Duration | Shift | NewRule) -> str:
    """Change a timer's due date or schedule; return RESCHEDULED, or the final state of a timer that has ended.

    `to` is the new due date, a delay from now, a shift of the current due date, or a new schedule.

    errors:  as `cancel_timer`, and InvalidTimer for a moment out of range, or for a wrong shift or schedule
             StatementRefused  the schedule has no due date yet: try again when a running cluster has computed the date
    source:  sql/functions/timers/reschedule_timer.sql
    """
    rule = to if isinstance(to, NewRule) else None
    return await _state(
        session,
        "reschedule_timer",
        which,
        **_moment(to),
        schedule=rule and rule.schedule,
        zone=rule and rule.zone,
        missed=rule and rule.missed,
    )


async def change_system_timer(
    session: Session,
    which: TimerRef,
    *,
    verb: str,
    to: datetime | Duration | Shift | None,
    reason: str | None = None,
    missed: str = MissedChoice.POLICY,
    until: datetime | None = None,
) -> str:
    """Change a timer of a job or a process; return PAUSED, PENDING or RESCHEDULED, or how the timer ended.

    errors:  the errors of `reschedule_timer`, and StatementRefused for a timer of a client
    source:  sql/functions/timers/change_system_timer.sql
    """
    given = {"verb": verb, **_moment(to), "reason": reason, "missed": missed, "until": until}
    return await _state(session, "change_system_timer", which, **given)


async def cancel_timers(session: Session, timer_keys: Sequence[int], *, reason: str | None = None) -> list[int]:
    """Cancel the pending and paused timers with the given keys in one transaction; return their keys.

    errors:  StoreUnavailable  the outcome is unknown: call again; no timer is cancelled twice
    source:  sql/functions/timers/cancel_timers.sql
    """
    return await _changed(session, "cancel_timers", timer_keys, reason=reason)


async def pause_timers(
    session: Session,
    timer_keys: Sequence[int],
    *,
    reason: str | None = None,
    until: datetime | None = None,
    missed: str = MissedChoice.POLICY,
) -> list[int]:
    """Pause the timers with the given keys, or change when their pauses end, in one transaction; return their keys.

    errors:  StoreUnavailable  the outcome is unknown: call again
             InvalidTimer      the end is not in the future, or an unknown rule for missed occurrences
    source:  sql/functions/timers/pause_timers.sql
    """
    return await _changed(session, "pause_timers", timer_keys, reason=reason, until=until, missed=missed)


async def resume_timers(session: Session, timer_keys: Sequence[int], *, missed: str = MissedChoice.POLICY) -> list[int]:
    """Resume the paused timers with the given keys, in one transaction; return the keys of the resumed timers.

    errors:  StoreUnavailable  the outcome is unknown: call again
             InvalidTimer      an unknown rule for missed occurrences
    source:  sql/functions/timers/resume_timers.sql
    """
    return await _changed(session, "resume_timers", timer_keys, missed=missed)


async def shift_timers(session: Session, timer_keys: Sequence[int], by: Shift, *, operation: str) -> list[int]:
    """Move the pending and paused timers with the given keys, in one transaction; return the keys of the moved timers.

    errors:  StoreUnavailable  the outcome is unknown: call again with the same operation; no timer moves twice
             InvalidTimer      the shift is not a duration, or moves a timer out of the years 1 to 9999
    source:  sql/functions/timers/shift_timers.sql
    """
    return await _changed(session, "shift_timers", timer_keys, shift=by.text, operation=operation)


async def cancel_process_instance(session: Session, process_instance_key: int, *, reason: str | None = None) -> int:
    """Cancel all timers of a process instance; return the number of cancelled timers.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/timers/cancel_process_instance.sql
    """
    given = {"process_instance_key": process_instance_key, "reason": reason}
    return int(await session.call_one("cancel_process_instance", **given))


def _moment(to: object) -> dict[str, object]:
    return {
        "due_date": to if isinstance(to, datetime) else None,
        "delay": str(to) if isinstance(to, Duration) else None,
        "shift": to.text if isinstance(to, Shift) else None,
    }


async def _state(session: Session, verb: str, which: TimerRef, /, **values: object) -> str:
    return str(await _called(session.call_one(verb, **asdict(which), **values)))


async def _changed(session: Session, verb: str, timer_keys: Sequence[int], **values: object) -> list[int]:
    return [row[0] for row in await _called(session.call(verb, timer_keys=timer_keys, **values))]


async def _called(call: Awaitable[T]) -> T:
    try:
        return await call
    except StatementRefused as error:
        if error.sqlstate in _NOT_FOR_WHAT_WAS_ASKED:
            raise
        raise InvalidTimer(str(error), code=error.code or REFUSED) from error
