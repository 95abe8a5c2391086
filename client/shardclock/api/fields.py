"""The fields of requests about timers, and their JSON."""

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
    """The fields of a timer: exactly one of the first three fields is required; see docs/schedule.md.

    A duration is an ISO 8601 text or a timedelta; a moment is a text, a datetime with an offset, or a datetime with a
    separate `zone`. The payload is any JSON value, or a pydantic model.
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
    """The fields of a new timer; `on_conflict` is the rule if a pending timer has the same name."""

    name: str
    on_conflict: str


class NewLine(New, total=False):
    """The fields of one timer among many; a line with an idempotency key is executed once within a day."""

    idempotency_key: str


class Destination(TypedDict, total=False):
    """The new date or rule of a timer: give exactly one of the first four fields; `zone` and `missed` need a rule."""

    due_date: Moment
    delay: Length
    shift: Length
    schedule: str
    zone: str
    missed: str


def require_one(timer_key: int | None, name: str | None) -> None:
    """Check that either a key or a name is given.

    errors:  TypeError  a key and a name are given, or neither is given
    """
    if (timer_key is None) == (name is None):
        raise TypeError("a timer is named by timer_key= or by name=: give exactly one of them")


def json_of(fields: Mapping[str, object], *, ascii_only: bool = False) -> str:
    """Write fields as a JSON object; a field that is None is left out.

    Moments and durations are written in ISO 8601, also in a payload; a moment without an offset stays without one.

    errors:  ValueError  a value has no form in JSON, or JSON would change it; the message names the field, the place,
                         the rule and the remedy
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

    errors:  NoForm  JSON would change a part of the value
    """
    if why := why_changed(value):
        raise NoForm(why)
    return to_jsonable_python(value)


def _why_not(name: str, value: object) -> str | None:
    """Return a sentence with the reason why a field can't be written; None: there is no reason."""
    constants: list[str] = []
    try:
        json.loads(json.dumps(value, default=_jsonable), parse_constant=constants.append)
    except NoForm as refusal:
        return f"{name} {refusal}"
    except (TypeError, ValueError, RecursionError) as error:
        return f"{name} {_no_form(value, error)}"
    return f"{name} contains {constants[0]}, which is no JSON number; write None or a text" if constants else None


def _no_form(value: object, error: Exception) -> str:
    return f"{shown(value)} has no form in JSON: {one_line(str(error))}; {JSON_FORMS}"
