"""Read the times of timers and due dates, as written in a model or returned by FEEL."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

from shardclock_server.bpmn.model.definition import TimerKind
from shardclock_server.bpmn.model.expressions import InvalidValue
from shardclock_server.timers.duration import parse_duration
from shardclock_server.timers.moment import parse_due_date
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.schedule import first_of, parse_schedule

# Matches a time of day, an @ and a zone. The zone ends at a period, at another date-time or at the end of the text.
AFTER_AT = re.compile(r"(T[0-9][0-9:.,Zz+-]*)@([^/\[\]]+?(?:/[^/\[\]]+?)*?)(?=/[+-]?[Pp]\+?[0-9Tt]|/[0-9]{4}-|\Z)")
NEGATIVE = re.compile(r"-P[^-]*|P(?:T?-[0-9.,]+[YMWDHS])+", re.IGNORECASE)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
READ_BY: dict[TimerKind, Callable[[str], object]] = {
    TimerKind.DATE: parse_due_date,
    TimerKind.DURATION: parse_duration,
    TimerKind.CYCLE: parse_schedule,
}


def time_text(kind: TimerKind, text: str) -> str:
    """Convert a time to the notation that the package `timers` reads.

    errors:  InvalidValue  the text is not a time of this kind
    """
    spelled = text if kind == TimerKind.DURATION else in_brackets(text)
    try:
        READ_BY[kind](spelled)
    except InvalidTimer as error:
        raise InvalidValue(str(error)) from None
    return spelled


def is_negative(duration: str) -> bool:
    """Return whether a text is a negative duration, with a minus before the P or before each number."""
    if not NEGATIVE.fullmatch(duration):
        return False
    try:
        parse_duration(duration.replace("-", ""))
    except InvalidTimer:
        return False
    return True


def check_occurs(cycle: str) -> None:
    """Refuse a cycle without any occurrence; accept a cycle that has ended, which starts no more instances.

    errors:  InvalidValue  the cycle never occurs, or can't be read
    """
    try:
        first_of(parse_schedule(cycle), LONG_AGO)
    except InvalidTimer as error:
        raise InvalidValue(str(error)) from None


def moment_of(text: str) -> datetime:
    """Parse a due date into a moment.

    errors:  InvalidTimer  the text is not a moment
    """
    return parse_due_date(in_brackets(text))


def in_brackets(text: str) -> str:
    """Convert FEEL's notation of a zone, as in 2031-02-01T09:00:00@Europe/Berlin, to the brackets that `timers` reads.

    shape:   zones inside a cycle are converted, too; a zone's name may contain a slash
    """
    return AFTER_AT.sub(r"\1[\2]", text)
