"""Pause timers, with or without an end."""

from dataclasses import dataclass
from datetime import datetime

from shardclock.api.codes import invalid
from shardclock_server.sql.clients.verbs import Shift, TimerRef, change_system_timer, end_of_pause, pause_timer
from shardclock_server.sql.session import Session
from shardclock_server.timers.duration import Duration, parse_duration
from shardclock_server.timers.moment import NotDateTime, parse_due_date
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.schedule import MissedChoice


@dataclass(frozen=True, slots=True)
class Pause:
    """A requested pause: its end, and the rule for a schedule's occurrences during the pause.

    units:   `until` is a moment or a length from now; None: the pause has no end
    """

    until: datetime | Duration | None = None
    missed: MissedChoice = MissedChoice.POLICY
    reason: str | None = None


def read_until(
    text: str | None, *, called: str = "until", length: str = "an ISO 8601 duration such as PT2H"
) -> datetime | Duration | None:
    """Read the end of a pause: a moment, or an ISO 8601 duration from now; None: the pause has no end.

    `called` is the caller's name for the field, and `length` describes the durations that the caller accepts.

    errors:  InvalidTimer  the text is neither a moment nor a duration
    """
    if text is None:
        return None
    try:
        return parse_duration(text) if text.lstrip("+")[:1] in ("P", "p") else parse_due_date(text)
    except NotDateTime as refusal:
        why = f"{refusal}, or write {length}"
    except InvalidTimer as refusal:
        why = str(refusal)
    raise InvalidTimer(f"{called} {why}", code=invalid("until"))


async def pause(session: Session, which: TimerRef, *, asked: Pause) -> str:
    """Pause a timer, or change the end of its pause; return PAUSED, or the state of a timer that has ended.

    errors:  as `pause_timer`
    """
    until = await _moment_of(session, asked)
    return await pause_timer(session, which, reason=asked.reason, until=until, missed=asked.missed)


async def operate(
    session: Session, which: TimerRef, *, verb: str, to: datetime | Duration | Shift | None, asked: Pause
) -> str:
    """Pause, resume or move a timer of a job or a process; for a resume, `asked` has the rule for missed occurrences.

    errors:  as `change_system_timer`
    """
    until = await _moment_of(session, asked)
    return await change_system_timer(
        session, which, verb=verb, to=to, reason=asked.reason, missed=asked.missed, until=until
    )


async def _moment_of(session: Session, asked: Pause) -> datetime | None:
    until = asked.until
    return await end_of_pause(session, until, missed=asked.missed) if isinstance(until, Duration) else until
