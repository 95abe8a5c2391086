"""The destination of a move: a due date, a delay from now, a shift of the present date, or another rule."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias, TypeVar
from zoneinfo import ZoneInfo

from shardclock.api.changes import OPERATED
from shardclock.api.codes import invalid
from shardclock.api.refusals.timers import NEEDS_ONE_MOMENT
from shardclock_server.sql.clients.verbs import NewRule, Shift, TimerRef, reschedule_timer
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.timers.duration import Duration, parse_duration
from shardclock_server.timers.model import NO_OTHER_NAMES
from shardclock_server.timers.moment import parse_due_date
from shardclock_server.timers.refusal import InvalidTimer, shortened
from shardclock_server.timers.schedule import Missed, first_of, parse_schedule
from shardclock_server.timers.zone import zone_of

T = TypeVar("T")
Destination: TypeAlias = datetime | Duration | Shift | NewRule

CHOICES = ("delay", "due_date", "shift", "schedule")
FIELDS = (*CHOICES, "zone", "missed")
ON_A_CLOCK = ("due_date", "schedule")
MOMENTS = ("delay", "due_date", "shift")  # an operator's choices for a timer of a job or a process


def destination_of(
    given: Mapping[str, str | None],
    *,
    called: Mapping[str, str] = NO_OTHER_NAMES,
    choices: Sequence[str] = CHOICES,
) -> Destination:
    """Read a move's destination from texts; `FIELDS` has the keys. A text that is None is missing.

    A refusal uses a field's name in `called`, or the field's own name if `called` has no entry.

    errors:  InvalidTimer  not exactly one of the `choices` is given, or a text can't be read
    """
    names = {field: called.get(field, field) for field in FIELDS}
    text = {field: value for field in FIELDS if (value := given.get(field)) is not None}
    given_choices = [field for field in choices if field in text]
    if len(given_choices) != 1:
        *others, last = (names[field] for field in choices)
        fields = f"{', '.join(others)} and {last}"
        raise InvalidTimer.of(NEEDS_ONE_MOMENT, fields=fields, number=len(given_choices))
    (when,) = given_choices
    if "missed" in text and when != "schedule":
        raise InvalidTimer(f"{names['missed']} goes with {names['schedule']}; leave it out", code=invalid("missed"))
    if "zone" in text and when in ("delay", "shift"):
        raise InvalidTimer(
            f"{names['zone']} goes with {' and '.join(names[it] for it in choices if it in ON_A_CLOCK)};"
            " a length is counted on the timer's own clock",
            code=invalid("zone"),
        )
    zone = _named("zone", names, zone_of, text["zone"]) if "zone" in text else None
    if when == "delay":
        return _named(when, names, parse_duration, text[when])
    if when == "due_date":
        return _named(when, names, lambda it: parse_due_date(it, zone), text[when])
    if when == "shift":
        return _named(when, names, _shift, text[when])
    missed = text.get("missed")
    if missed is not None and missed not in set(Missed):
        raise InvalidTimer(
            f"{names['missed']} {shortened(missed)} is unknown: use {', '.join(Missed)}", code=invalid("missed")
        )
    return _named(when, names, lambda it: _rule(it, zone, missed), text[when])


def operator_destination(
    verb: str, given: Mapping[str, str | None], *, called: Mapping[str, str] = NO_OTHER_NAMES
) -> datetime | Duration | Shift | None:
    """Read an operator's destination for a timer of a job or a process; None: the verb is pause or resume.

    errors:  InvalidTimer  the verb is unknown, the verb does not take this destination, or a text can't be read
    """
    if verb not in OPERATED:
        raise InvalidTimer.of(invalid("verb"), why=f"{shortened(verb)} is unknown: use {', '.join(OPERATED)}")
    if verb == "reschedule":
        to = destination_of(given, called=called, choices=MOMENTS)
        assert not isinstance(to, NewRule), "a rule is not allowed"
        return to
    for field in (*MOMENTS, "zone"):
        if given.get(field) is not None:
            name = called.get(field, field)
            raise InvalidTimer(
                f"{name} {shortened(given[field])} goes with reschedule, not with {verb}; leave it out",
                code=invalid(field),
            )
    return None


async def move(session: Session, which: TimerRef, to: Destination) -> str:
    """Move a timer; return RESCHEDULED, or the state of a timer that has ended.

    errors:  as `reschedule_timer`, and InvalidTimer for a rule that never occurs
    """
    if isinstance(to, NewRule):
        # Refuse a rule that never occurs; otherwise only the planning shard would detect the fault.
        first_of(parse_schedule(to.schedule, to.zone or "UTC"), await read_clock(session))
    try:
        return await reschedule_timer(session, which, to)
    except StoreUnavailable as error:
        if isinstance(to, Shift):
            raise StoreUnavailable(
                f"{error}; check the timer before you repeat the request: the timer may have been moved"
            ) from error
        raise


def _shift(text: str) -> Shift:
    sign, length = ("-", text[1:]) if text.startswith("-") else ("", text.removeprefix("+"))
    return Shift(f"{sign}{parse_duration(length)}")


def _rule(text: str, zone: ZoneInfo | None, missed: str | None) -> NewRule:
    rule = parse_schedule(text, zone.key if zone else "UTC")
    # Without a named zone, the timer keeps its own zone.
    is_named = zone is not None or "[" in text
    return NewRule(text, rule.zone.key if is_named else None, missed)


def _named(field: str, names: Mapping[str, str], read: Callable[[str], T], text: str) -> T:
    """Read the text of a field; a refusal begins with the caller's name for the field."""
    try:
        return read(text)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"{names[field]} {refusal}", code=invalid(field)) from None
