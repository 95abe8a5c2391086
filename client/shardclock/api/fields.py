"""Name what may be asked of timers, and write it as JSON."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypedDict

from pydantic_core import to_jsonable_python

from shardclock.api.unchanged import NoForm, refuse_changed, refuse_half_pairs, why_changed
from shardclock.reason import one_line
from shardclock.refusal import shown

Length = str | timedelta
Moment = str | datetime
JSON_FORMS = "use dicts with texts as keys, lists, texts, finite numbers, booleans and None"


class Put(TypedDict, total=False):
    """Hold what a timer is: exactly one of the first three, and what travels with it; docs/schedule.md says all of it.

    A length is an ISO 8601 duration or a timedelta; a moment is a datetime, with an offset or beside a `zone`, or text.
    The payload is any JSON value, or a pydantic model.
    """

    delay: Length
    due_date: Moment
    schedule: str
    zone: str
    missed: str
    target: str
    payload: Any
    timer_type: str
    process_instance_key: int
    element_instance_key: int
    target_element_id: str


class New(Put, total=False):
    """Hold what a new timer is; `on_conflict` says what becomes of it if a pending timer has its name."""

    name: str
    on_conflict: str


class NewLine(New, total=False):
    """Hold one of many new timers; under its idempotency key, sent again within a day, it is not scheduled again."""

    idempotency_key: str


class Destination(TypedDict, total=False):
    """Hold where a timer is moved to: exactly one of the first four, with `zone` and `missed` beside a rule."""

    due_date: Moment
    delay: Length
    shift: Length
    schedule: str
    zone: str
    missed: str


def require_one(timer_key: int | None, name: str | None) -> None:
    """Refuse a timer that is named by nothing, or in two ways.

    errors:  TypeError  it is
    """
    if (timer_key is None) == (name is None):
        raise TypeError("a timer is named by timer_key= or by name=: give exactly one of them")


def json_of(fields: Mapping[str, object], *, ascii_only: bool = False) -> str:
    """Write fields as a JSON object; one that is None is left out.

    Moments and lengths of time are written as ISO 8601 has them, also in a payload: one without an offset stays so.

    errors:  ValueError  a value has no form in JSON, or would come back as another; it names the field, the place, the
                         rule and the way out
    """
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        for name, value in given.items():
            refuse_changed(name, value)
        text = json.dumps(given, default=_jsonable, allow_nan=False, ensure_ascii=ascii_only, separators=(",", ":"))
    except NoForm:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        whys = (_why_not(name, value) for name, value in given.items())
        raise ValueError(next(filter(None, whys), _no_form(given, error))) from error
    refuse_half_pairs(text)
    return text


def _jsonable(value: object) -> object:
    """Convert a model, a date or a time for JSON.

    errors:  NoForm  JSON would change a part of it
    """
    if why := why_changed(value):
        raise NoForm(why)
    return to_jsonable_python(value)


def _why_not(name: str, value: object) -> str | None:
    """Say in a sentence why a field can't be written; None: it can be."""
    constants: list[str] = []
    try:
        json.loads(json.dumps(value, default=_jsonable), parse_constant=constants.append)
    except NoForm as refusal:
        return f"{name} {refusal}"
    except (TypeError, ValueError, RecursionError) as error:
        return f"{name} {_no_form(value, error)}"
    return f"{name} holds {constants[0]}, which is no JSON number; write None or a text" if constants else None


def _no_form(value: object, error: Exception) -> str:
    return f"{shown(value)} has no form in JSON: {one_line(str(error))}; {JSON_FORMS}"
