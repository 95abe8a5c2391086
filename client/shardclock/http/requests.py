"""Write requests to a gateway: path, query and body. This module does not send the requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import index
from typing import SupportsIndex, TypedDict
from urllib.parse import quote
from uuid import uuid4

from pydantic_core import to_jsonable_python

from shardclock.api.fields import Length, Moment, json_of, require_one
from shardclock.durations import seconds_of
from shardclock.jsonb import HALF, HALF_PAIR
from shardclock.refusal import shown

TIMERS = "/v1/timers"
JSON = "application/json"
NDJSON = "application/x-ndjson"
XML = "application/xml"
PAGE = 500  # the page size for a list that is read completely
NAME_INSTEAD = "; if it is the timer's name, give it by name="
DOTS = {".": "%2E", "..": "%2E%2E"}  # path segments that would change the path unless they are escaped

Query = Mapping[str, str | int | Sequence[str]]


class TimerQuery(TypedDict, total=False):
    """A filter of timers; an unset field matches all timers."""

    name_prefix: str
    name_contains: str
    due_from: Moment
    due_before: Moment
    changed_from: Moment
    changed_before: Moment
    target: str
    process_instance_key: int
    only_schedules: bool


class BulkQuery(TimerQuery, total=False):
    """The filter of a bulk change of timers; it may list up to 1,000 keys."""

    timer_keys: Sequence[int]


class DeadLetterQuery(TypedDict, total=False):
    """A filter of dead letters: target, time of the last failure, first line of the reason; and the limit of rows."""

    target: str
    died_before: Moment
    reason_line: str
    limit: int


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    units:   `wait_s` is the longest time that the gateway may delay the response, in seconds
    """

    method: str
    path: str
    query: Query = field(default_factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = True  # a repeated request has no further effect
    wait_s: float = 0.0

    @property
    def changes(self) -> bool:
        """Whether the request may change anything."""
        return self.method != "GET"

    def with_wait(self, wait: Length | None) -> "Request":
        """Return the same request as a long poll: the gateway may delay the response by at most `wait`.

        errors:  ValueError  `wait` is not a duration
        """
        if wait is None:
            return self
        return replace(self, query={**self.query, **query_of(wait=wait)}, wait_s=seconds_of(wait))

    def with_query(self, **query: object) -> "Request":
        """Return the same request with additional query parameters."""
        return replace(self, query={**self.query, **query_of(**query)})

    def with_etag(self, etag: str | None) -> "Request":
        """Return the request with the condition that the timer's `etag` is unchanged."""
        return (
            self if etag is None else replace(self, headers={**self.headers, "If-Match": _sendable("if_match", etag)})
        )


def read(path: str, **query: object) -> Request:
    """Create a request that changes nothing; parameters of the query that are None are left out."""
    return Request("GET", path, query_of(**query))


def read_page(path: str, chosen: TimerQuery, **page: object) -> Request:
    """Create a request for one page of the timers or schedules that a filter chooses.

    errors:  TypeError  `chosen` has a key that is not a filter
    """
    for name in chosen:
        if name not in TimerQuery.__annotations__:
            raise TypeError(
                f"{name!r} is not a filter of timers; the filters are {', '.join(TimerQuery.__annotations__)}"
            )
    return read(path, **page, **chosen)


def once(method: str, path: str, fields: Mapping[str, object], idempotency_key: str | None) -> Request:
    """Create a request that takes effect once even if it is sent several times; the default key is random.

    errors:  ValueError  the key can't be sent, or a value has no form in JSON
    """
    return Request(method, path, {}, body_of(fields), {"Idempotency-Key": _key(idempotency_key), "Content-Type": JSON})


def file(path: str, body: bytes, media_type: str, idempotency_key: str | None, **query: object) -> Request:
    """Create a request with a file as its body; it takes effect once even if the client sends it several times.

    errors:  ValueError  the key can't be sent
    """
    headers = {"Idempotency-Key": _key(idempotency_key), "Content-Type": media_type}
    return Request("POST", path, query_of(**query), body, headers)


def act(path: str, fields: Mapping[str, object], *, is_repeatable: bool, **query: object) -> Request:
    """Create a request for a change without an idempotency key."""
    return Request("POST", path, query_of(**query), body_of(fields), {"Content-Type": JSON}, is_repeatable)


def change(method: str, path: str, fields: Mapping[str, object] | None = None) -> Request:
    """Create a request for an idempotent change."""
    return (
        Request(method, path) if fields is None else Request(method, path, {}, body_of(fields), {"Content-Type": JSON})
    )


def timer_path(timer_key: int | None, name: str | None, *verb: str) -> str:
    """Write the path of one timer.

    errors:  TypeError   both the key and the name are given, or neither.
             ValueError  the key is not a whole number.
    """
    require_one(timer_key, name)
    which = f"by-name/{segment(name)}" if name is not None else number("timer_key", timer_key, instead=NAME_INSTEAD)
    return "/".join((TIMERS, which, *verb))


def number(name: str, key: object, *, instead: str = "") -> str:
    """Write a key as one segment of a path; a refusal contains `name`, the argument's name, and ends with `instead`.

    errors:  ValueError  the key is not a whole number
    """
    if isinstance(key, SupportsIndex):
        return str(index(key))
    raise ValueError(f"{name} {shown(key)} is refused: it must be a whole number, as the gateway gave it{instead}")


def segment(name: str) -> str:
    """Write a name as one segment of a path.

    errors:  ValueError  UTF-8 can't encode the name
    """
    _refuse_half_pair("name", name)
    return DOTS.get(name) or quote(name, safe="")


def body_of(fields: Mapping[str, object]) -> bytes:
    """Write fields as the JSON of a body; a field that is None is left out.

    errors:  ValueError  a value has no form in JSON
    """
    return json_of(fields).encode()


def query_of(**query: object) -> dict[str, str | int | Sequence[str]]:
    """Write a query; a value that is None is left out, and a list repeats its parameter.

    errors:  ValueError  UTF-8 can't encode a value
    """
    for name, value in query.items():
        for text in value if isinstance(value, list | tuple) else (value,):
            _refuse_half_pair(name, text)
    return {name: to_jsonable_python(value) for name, value in query.items() if value is not None}


def _refuse_half_pair(name: str, text: object) -> None:
    if isinstance(text, str) and HALF.search(text):
        raise ValueError(f"{name} {shown(text)} is refused: it {HALF_PAIR}")


def _key(given: str | None) -> str:
    return str(uuid4()) if given is None else _sendable("idempotency_key", given)


def _sendable(name: str, text: str) -> str:
    if text.isascii() and text.isprintable() and text == text.strip():
        return text
    raise ValueError(
        f"{name} {shown(text)} is refused: it must be printable ASCII characters; a header allows no others"
    )
