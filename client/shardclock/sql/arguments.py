"""Write the arguments of statements, each as one JSON object."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import index

from shardclock.api.changes import named
from shardclock.api.fields import Destination, Length, Moment, New, Put, json_of, require_one
from shardclock.jsonb import has_unstorable
from shardclock.refusal import shown
from shardclock.sql.refusals import invalid_field

DEFAULT_TENANT = "default"
NAMES_OF_TENANT = ("tenant", "tenant_id")
FINER = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")  # a fraction of a second that is finer than a microsecond


@dataclass(frozen=True, slots=True)
class TimerReference:
    """The reference to one timer of a tenant: its key, or its name.

    errors:  TypeError  both or neither are given, or the key is not a whole number
    """

    timer_key: int | None
    name: str | None
    tenant_id: str

    def __post_init__(self) -> None:
        """Check that either a key or a name is given."""
        require_one(self.timer_key, self.name)
        if self.timer_key is not None:
            index(self.timer_key)

    def __str__(self) -> str:
        """Format the reference for people."""
        return named(self.timer_key, self.name, self.tenant_id)

    @property
    def fields(self) -> Mapping[str, object]:
        """The fields of the statements' argument."""
        return {"timer_key": self.timer_key, "name": self.name, "tenant_id": self.tenant_id}


def schedule(timer: New, tenant_id: str) -> str:
    """Write the statement's argument for a new timer.

    errors:  Refused                the timer's due date is not a moment.
             TypeError, ValueError  the timer has an unknown field, or a value that JSON can't represent.
    """
    _require_known(timer, New)
    return written({**_with_moment(timer), "tenant_id": tenant_id})


def put(name: str, timer: Put, tenant_id: str) -> str:
    """Write the statement's argument for a timer that replaces a pending timer with its name.

    errors:  as in `schedule`
    """
    _require_known(timer, Put)
    return written({**_with_moment(timer), "name": name, "on_conflict": "replace", "tenant_id": tenant_id})


def find(which: TimerReference) -> str:
    """Write the argument for a query of one timer."""
    return written(which.fields)


def change(verb: str, which: TimerReference, **more: object) -> str:
    """Write the statement's argument for a verb that changes one timer."""
    return written({"verb": verb, **which.fields, **more})


def pause(which: TimerReference, until: Moment | Length | None, **more: object) -> str:
    """Write the statement's argument for a pause; its end is a moment, or a duration from now.

    errors:  Refused  the end is neither a moment nor a duration
    """
    if until is None:
        return change("pause", which, **more)
    if isinstance(until, timedelta) or (isinstance(until, str) and until.lstrip("+")[:1] in ("P", "p")):
        return change("pause", which, delay=until, **more)
    moment = _moment_of("until", until, others="a datetime, a timedelta, or an ISO 8601 duration such as PT2H")
    if moment.tzinfo is None:
        raise invalid_field("until", f"{shown(until)} has no offset from UTC; add one, such as Z or +01:00")
    return change("pause", which, until=moment.isoformat(), **more)


def move(which: TimerReference, to: Destination) -> str:
    """Write the statement's argument for a new due date or a new schedule of one timer.

    errors:  as in `schedule`
    """
    _require_known(to, Destination)
    fields = _with_moment(to)
    if to.get("due_date") is not None:
        fields.pop("zone", None)  # `zone` is the zone of the local date; the schedule's zone is not changed
    return change("move", which, **fields)


def _with_moment(fields: Mapping[str, object]) -> dict[str, object]:
    """Write the due date as text with its UTC offset, or as a local time with its time zone.

    The time zone of the database session therefore has no effect on the due date.
    """
    given = fields.get("due_date")
    if given is None:
        return dict(fields)
    rest = {name: value for name, value in fields.items() if name != "due_date"}
    moment = _moment_of("due_date", given)
    if moment.tzinfo is not None:
        return rest | {"due_date": moment.isoformat()}
    clock = fields.get("zone")
    if clock is None:
        raise invalid_field(
            "due_date",
            f"{shown(given)} has no offset from UTC; add one, such as Z or +01:00, or give its zone= beside it",
        )
    return rest | {"local_due_date": moment.isoformat(), "clock": clock}


def _moment_of(field: str, given: object, *, others: str = "a datetime") -> datetime:
    if isinstance(given, datetime):
        return given
    text = given if isinstance(given, str) else ""
    try:
        moment = datetime.fromisoformat(text)
        # Python truncates digits below a microsecond. This code rounds them up, because a timer must never fire early.
        return moment + timedelta(microseconds=1) if FINER.search(text) else moment
    except (ValueError, OverflowError):
        raise invalid_field(
            field,
            f"{shown(given)} is not an ISO 8601 date-time; write it like 2026-01-31T08:00:00Z, or give {others}",
        ) from None


def _require_known(fields: Mapping[str, object], kind: type) -> None:
    known = kind.__annotations__
    for name in fields:
        if name not in known and name in NAMES_OF_TENANT:
            raise TypeError(f"{name} is not a field here; name the tenant once: timers(connection, tenant='acme')")
        if name not in known:
            raise TypeError(f"{shown(name)} is not a field here; the fields are {', '.join(sorted(known))}")


def written(fields: Mapping[str, object]) -> str:
    """Write one JSON object; a field that is None is left out.

    errors:  Refused  Postgres can't store one of the texts
    """
    # ASCII only, so that the text arrives unchanged with any encoding of the user's connection.
    text = json_of(fields, ascii_only=True)
    if has_unstorable(text):
        faulty = next(it for it in fields if has_unstorable(json_of({it: fields[it]}, ascii_only=True)))
        raise invalid_field(
            faulty,
            "contains a NUL character or half of a surrogate pair, which Postgres can't store; remove this character",
        )
    return text
