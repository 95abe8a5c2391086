"""Read the times of timers and due dates, as a model writes them and as FEEL does."""

from collections.abc import Callable
from datetime import UTC, datetime

from bpmn.model.definition import TimerKind
from bpmn.model.expressions import Unreadable
from timers.duration import parse_duration
from timers.moment import parse_due_date
from timers.refusal import InvalidTimer
from timers.schedule import first_of, parse_schedule

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
    spelled = _in_brackets(text) if kind == TimerKind.DATE else text
    try:
        READ_BY[kind](spelled)
    except InvalidTimer as error:
        raise Unreadable(str(error)) from None
    return spelled


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
    return parse_due_date(_in_brackets(text))


def _in_brackets(text: str) -> str:
    """Write the zone of FEEL's 2031-02-01T09:00:00@Europe/Berlin in brackets, as timers read it."""
    local, at, zone = text.partition("@")
    return f"{local}[{zone}]" if at and "T" in local else text
