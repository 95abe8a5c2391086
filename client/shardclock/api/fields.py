"""Name what may be asked of timers, and write it as JSON."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypedDict

from pydantic_core import to_jsonable_python

Length = str | timedelta
Moment = str | datetime


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

    Moments and lengths of time are written as ISO 8601 has them, also in a payload.

    errors:  ValueError, TypeError  a value has no form in JSON
    """
    given = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(
        given, default=to_jsonable_python, allow_nan=False, ensure_ascii=ascii_only, separators=(",", ":")
    )
