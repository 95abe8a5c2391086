"""Read the times of timers and due dates, as a model writes them and as FEEL does."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

from shardclock_server.bpmn.model.definition import TimerKind
from shardclock_server.bpmn.model.expressions import Unreadable
from shardclock_server.timers.duration import parse_duration
from shardclock_server.timers.moment import parse_due_date
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.schedule import first_of, parse_schedule

# A time of day, and the zone after an @: up to a period, another date-time or the end of the text.
AFTER_AT = re.compile(r"(T[0-9][0-9:.,Zz+-]*)@([^/\[\]]+?(?:/[^/\[\]]+?)*?)(?=/[+-]?[Pp]\+?[0-9Tt]|/[0-9]{4}-|\Z)")
NEGATIVE = re.compile(r"-P[^-]*|P(?:T?-[0-9.,]+[YMWDHS])+", re.IGNORECASE)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
READ_BY: dict[TimerKind, Callable[[str], object]] = {
    TimerKind.DATE: parse_due_date,
    TimerKind.DURATION: parse_duration,
    TimerKind.CYCLE: parse_schedule,
}


def time_text(kind: TimerKind, text: str) -> str:
    """Return a time in the spelling that timers read.

    errors:  Unreadable  it can't be read as its kind
    """
    spelled = text if kind == TimerKind.DURATION else in_brackets(text)
    try:
        READ_BY[kind](spelled)
    except InvalidTimer as error:
        raise Unreadable(str(error)) from None
    return spelled


def is_negative(duration: str) -> bool:
    """Say whether a text is a duration back: with a minus sign before the P, or before each of its numbers."""
    if not NEGATIVE.fullmatch(duration):
        return False
    try:
        parse_duration(duration.replace("-", ""))
    except InvalidTimer:
        return False
    return True


def check_occurs(cycle: str) -> None:
    """Refuse a cycle that never occurs. One that is over is none of these: nothing begins by it any more.

    errors:  Unreadable  it never occurs, or can't be read
    """
    try:
        first_of(parse_schedule(cycle), LONG_AGO)
    except InvalidTimer as error:
        raise Unreadable(str(error)) from None


def moment_of(text: str) -> datetime:
    """Read the moment of a due date.

    errors:  InvalidTimer  as of `parse_due_date`
    """
    return parse_due_date(in_brackets(text))


def in_brackets(text: str) -> str:
    """Write each zone of FEEL's 2031-02-01T09:00:00@Europe/Berlin in brackets, as timers read it.

    shape:   also within a cycle, where the next part begins after the zone, which has slashes of its own
    """
    return AFTER_AT.sub(r"\1[\2]", text)
