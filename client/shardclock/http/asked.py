"""Write what is asked of a gateway: path, query and body. Nothing here sends it."""

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
PAGE = 500  # of a list that is read to its end
NAME_INSTEAD = "; if it is the timer's name, give it by name="
DOTS = {".": "%2E", "..": "%2E%2E"}  # else they would lead elsewhere

Query = Mapping[str, str | int | Sequence[str]]


class Chosen(TypedDict, total=False):
    """Hold which timers are meant; what is not given leaves none out."""

    name_prefix: str
    due_from: Moment
    due_before: Moment
    target: str
    process_instance_key: int


class Letters(TypedDict, total=False):
    """Hold which dead letters are meant: of one target, given up before a moment, at most so many."""

    target: str
    died_before: Moment
    limit: int


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold one request.

    units:   `wait_s` is for how long the gateway may hold the answer back, in seconds
    """

    method: str
    path: str
    query: Query = field(default_factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = True  # however often it is sent, it has its effect once
    wait_s: float = 0.0

    @property
    def changes(self) -> bool:
        """Say whether it may change something."""
        return self.method != "GET"

    def waiting(self, wait: Length | None) -> "Asked":
        """Ask for the same, and wait for what it is about.

        errors:  ValueError  not a length of time
        """
        if wait is None:
            return self
        return replace(self, query={**self.query, **query_of(wait=wait)}, wait_s=seconds_of(wait))

    def asking(self, **query: object) -> "Asked":
        """Ask for the same, with more in the query."""
        return replace(self, query={**self.query, **query_of(**query)})

    def matching(self, etag: str | None) -> "Asked":
        """Ask for the same, if the timer is as it was when this `etag` was read."""
        return (
            self if etag is None else replace(self, headers={**self.headers, "If-Match": _sendable("if_match", etag)})
        )


def read(path: str, **query: object) -> Asked:
    """Ask for what changes nothing; a query's value that is None is left out."""
    return Asked("GET", path, query_of(**query))


def once(method: str, path: str, fields: Mapping[str, object], idempotency_key: str | None) -> Asked:
    """Ask for a change that is done once, however often it is sent; without a key one is drawn.

    errors:  ValueError  the key can't be sent, or a value has no form in JSON
    """
    return Asked(method, path, {}, body_of(fields), {"Idempotency-Key": _key(idempotency_key), "Content-Type": JSON})


def file(path: str, body: bytes, media_type: str, idempotency_key: str | None, **query: object) -> Asked:
    """Ask for a change by the text of a file, which is done once, however often it is sent.

    errors:  ValueError  the key can't be sent
    """
    headers = {"Idempotency-Key": _key(idempotency_key), "Content-Type": media_type}
    return Asked("POST", path, query_of(**query), body, headers)


def act(path: str, fields: Mapping[str, object], *, is_repeatable: bool, **query: object) -> Asked:
    """Ask for a change that has no idempotency key."""
    return Asked("POST", path, query_of(**query), body_of(fields), {"Content-Type": JSON}, is_repeatable)


def timer_path(timer_key: int | None, name: str | None, *verb: str) -> str:
    """Write where one timer is.

    errors:  TypeError   it is named by nothing, or in two ways
             ValueError  the key is no whole number
    """
    require_one(timer_key, name)
    which = f"by-name/{segment(name)}" if name is not None else number("timer_key", timer_key, instead=NAME_INSTEAD)
    return "/".join((TIMERS, which, *verb))


def number(name: str, key: object, *, instead: str = "") -> str:
    """Write a key as one part of a path; `name` is its argument's, and `instead` goes on after the refusal.

    errors:  ValueError  it is no whole number
    """
    if isinstance(key, SupportsIndex):
        return str(index(key))
    raise ValueError(f"{name} {shown(key)} is refused: it must be a whole number, as the gateway gave it{instead}")


def segment(name: str) -> str:
    """Write a name as one part of a path.

    errors:  ValueError  UTF-8 can't say it
    """
    _refuse_half_pair("name", name)
    return DOTS.get(name) or quote(name, safe="")


def body_of(fields: Mapping[str, object]) -> bytes:
    """Write fields as the JSON of a body; one that is None is left out.

    errors:  ValueError  a value has no form in JSON
    """
    return json_of(fields).encode()


def query_of(**query: object) -> dict[str, str | int | Sequence[str]]:
    """Write a query; a value that is None is left out, and each of several is given.

    errors:  ValueError  UTF-8 can't say a value
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
    raise ValueError(f"{name} {shown(text)} is refused: it must be printable ASCII characters; a header has no more")
