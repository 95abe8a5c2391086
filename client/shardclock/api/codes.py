"""The general codes of refusals. Each general code has an HTTP status and an exit code of the command line.

`shardclock.api.refusals` has the specific codes. A specific code has its own text. The status, the exit code and the
client's reaction come from its general code.
"""

from dataclasses import dataclass, replace
from string import Formatter
from typing import Any, Self

from shardclock.refusal import shown

PREFIX = "urn:shardclock:problem:"
INVALID, QUOTA = "invalid_", "quota_"  # The prefix of a code; the name of the field or of the quota follows.
# Exit codes of the command line.
NOT_DONE, BAD_INPUT, NO_ANSWER, SCHEMA = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class RefusalCode:
    """One reason for a refusal; the name is stable, and programs compare it.

    shape:   general  the name of the general code
             status   0 for a code that no gateway sends
             text     the message; `{name!r}` shows the value of a field, and `{why}` inserts text without quotes
    """

    name: str
    status: int
    exit_code: int
    title: str
    reaction: str
    general: str
    text: str

    @property
    def type(self) -> str:
        """The URN of this code, as the `type` of a problem (RFC 9457)."""
        return PREFIX + self.name

    def specific(self, name: str, text: str) -> Self:
        """Create a specific code that belongs to this general code."""
        return replace(self, name=name, text=text)

    def sentence(self, **fields: object) -> str:
        """Write the message with the given fields."""
        return _SENTENCES.vformat(self.text, (), fields)


class _Sentences(Formatter):
    def convert_field(self, value: Any, conversion: Any) -> Any:
        return shown(value) if conversion == "r" else super().convert_field(value, conversion)


_SENTENCES = _Sentences()
VARIES = "{sentence}"  # the code that raises the refusal writes the whole message


def _general(name: str, status: int, exit_code: int, title: str, reaction: str, *, text: str = VARIES) -> RefusalCode:
    return RefusalCode(name, status, exit_code, title, reaction, general=name, text=text)


UNREADABLE = _general(
    "unreadable", 400, BAD_INPUT, "The gateway can't parse the request", "correct the syntax of the request"
)
NO_KEY = _general("no_key", 401, BAD_INPUT, "The request has no valid API key", "send a valid API key")
NOT_ALLOWED = _general(
    "not_allowed",
    403,
    NOT_DONE,
    "The caller does not have the right for this operation",
    "use an API key or a Postgres role with this right; a browser must send the request from the console",
)
NOT_FOUND = _general(
    "not_found", 404, NOT_DONE, "The requested resource does not exist", "check the name or the path of the resource"
)
WRONG_METHOD = _general(
    "wrong_method", 405, BAD_INPUT, "The path does not support this HTTP method", "check the method and the path"
)
TOO_SLOW = _general("too_slow", 408, BAD_INPUT, "The request's body arrived too slowly", "send the request again")
TOO_LATE = _general(
    "too_late",
    409,
    NOT_DONE,
    "The operation came too late: the timer, the delivery or the bulk operation has already changed its state",
    "read the current state, and decide whether to send another request",
)
NAME_TAKEN = _general(
    "name_taken", 409, NOT_DONE, "Another pending timer of the tenant has this name",
    "choose another name, or set `on_conflict`",
    text="name {name!r} is taken by a pending timer of tenant {tenant_id!r}: choose another name, or set on_conflict to"
    " ignore or replace",
)  # fmt: skip
IN_FLIGHT = _general(
    "in_flight", 409, NOT_DONE, "An earlier request with this idempotency key is still in progress",
    "send the request again after a moment",
    text="a request with the idempotency key {key!r} is in progress; send it again in a moment",
)  # fmt: skip
MORE_MATCH = _general(
    "more_match", 409, NOT_DONE, "The filter now matches more timers than were counted before",
    "count the timers again, and confirm the new number",
)  # fmt: skip
CONFLICT = _general(
    "conflict",
    409,
    NOT_DONE,
    "The current state of the resource does not allow the operation",
    "read the current state, and decide whether to send another request",
)
STALE = _general(
    "stale", 412, NOT_DONE, "Another request has changed the timer since the caller read it",
    "read the timer again, and send the request with the new ETag",
)  # fmt: skip
TOO_LARGE = _general("too_large", 413, BAD_INPUT, "The request's body is too large", "send a smaller body")
WRONG_MEDIA_TYPE = _general(
    "wrong_media_type",
    415,
    BAD_INPUT,
    "The gateway does not support the request's media type",
    "set the header `Content-Type` to a supported media type",
)
OTHER_REQUEST = _general(
    "other_request", 422, BAD_INPUT, "A different request has already used this idempotency key",
    "use a new idempotency key",
    text="the idempotency key {key!r} came with another request within a day; use a new key",
)  # fmt: skip
REFUSED = _general("refused", 422, BAD_INPUT, "The request has an invalid value", "correct the request")
TOO_MANY = _general(
    "too_many", 429, NOT_DONE, "The tenant has sent too many requests in a short time",
    "send the request again after the time in `Retry-After`",
)  # fmt: skip
OVER_QUOTA = _general(
    "over_quota",
    429,
    NOT_DONE,
    "The request would exceed a quota of the tenant",
    "reduce the usage, or send the request again after the time in `Retry-After`",
)
BROKEN = _general(
    "broken",
    500,
    NOT_DONE,
    "An internal error has occurred in the gateway",
    "report the error; the gateway's log has the reason",
)
UNAVAILABLE = _general(
    "unavailable", 503, NO_ANSWER, "The gateway or the database is temporarily unavailable",
    "send the request again after the time in `Retry-After`; without a name or an idempotency key, the request may be"
    " executed twice",
)  # fmt: skip
NO_RESPONSE = _general(
    "no_answer", 0, NO_ANSWER, "The client has received no response from a gateway", "check the client's URL"
)
WRONG_SCHEMA = _general(
    "wrong_schema", 0, SCHEMA, "The database schema does not have the version that this program needs",
    "run `shardclock migrate`",
)  # fmt: skip
# The codes that a gateway sends. Among the codes with the same status, the most general code comes last.
GENERAL = (
    UNREADABLE, NO_KEY, NOT_ALLOWED, NOT_FOUND, WRONG_METHOD, TOO_SLOW, TOO_LATE, NAME_TAKEN, IN_FLIGHT, MORE_MATCH,
    CONFLICT, STALE, TOO_LARGE, WRONG_MEDIA_TYPE, OTHER_REQUEST, REFUSED, TOO_MANY, OVER_QUOTA, UNAVAILABLE, BROKEN,
)  # fmt: skip


def invalid(field: str) -> RefusalCode:
    """Return the code of an invalid field: invalid_schedule, invalid_payload, and so on."""
    return REFUSED.specific(f"{INVALID}{field}", f"{field} {{why}}")


def quota(name: str) -> RefusalCode:
    """Return the code of a quota that a tenant has reached: quota_timers, quota_endpoints, and so on."""
    return OVER_QUOTA.specific(
        f"{QUOTA}{name}",
        "tenant {tenant_id!r} has a quota of {limit} {things}, and {more} more would exceed it: {way_out}, or ask the"
        " operator of the cluster for a higher quota (shardclock tenants set)",
    )
