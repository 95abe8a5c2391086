"""What is answered when something is not done: a problem, as RFC 9457 has it, with a type that stays.

`detail` is the sentence that the command line prints in the same case.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of problem: its name in the type, its status, and its title."""

    name: str
    status: HTTPStatus
    title: str

    @property
    def type(self) -> str:
        """Return what programs compare."""
        return f"urn:shardclock:problem:{self.name}"


UNREADABLE = Kind("unreadable", HTTPStatus.BAD_REQUEST, "The request can't be read")
NO_KEY = Kind("no-key", HTTPStatus.UNAUTHORIZED, "An API key is needed")
NOT_ALLOWED = Kind("not-allowed", HTTPStatus.FORBIDDEN, "The API key may not do this")
NOT_FOUND = Kind("not-found", HTTPStatus.NOT_FOUND, "There is no such thing")
WRONG_METHOD = Kind("wrong-method", HTTPStatus.METHOD_NOT_ALLOWED, "This can't be done here")
TOO_SLOW = Kind("too-slow", HTTPStatus.REQUEST_TIMEOUT, "The body did not arrive in time")
TOO_LATE = Kind("too-late", HTTPStatus.CONFLICT, "The timer is in another state")
NAME_TAKEN = Kind("name-taken", HTTPStatus.CONFLICT, "Another timer has this name")
IN_FLIGHT = Kind("in-flight", HTTPStatus.CONFLICT, "The same request is being answered")
MORE_MATCH = Kind("more-match", HTTPStatus.CONFLICT, "More timers match than were counted")
CONFLICT = Kind("conflict", HTTPStatus.CONFLICT, "Its present state does not allow this")
STALE = Kind("stale", HTTPStatus.PRECONDITION_FAILED, "It was changed meanwhile")
TOO_LARGE = Kind("too-large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large")
WRONG_MEDIA_TYPE = Kind("wrong-media-type", HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body has another form")
REFUSED = Kind("refused", HTTPStatus.UNPROCESSABLE_ENTITY, "What is asked for is refused")
TOO_MANY = Kind("too-many", HTTPStatus.TOO_MANY_REQUESTS, "The tenant asks for too much")
OVER_QUOTA = Kind("over-quota", HTTPStatus.TOO_MANY_REQUESTS, "The tenant has as much as it may have")
OTHER_REQUEST = Kind("other-request", HTTPStatus.UNPROCESSABLE_ENTITY, "The idempotency key is another request's")
TRY_AGAIN = Kind("unavailable", HTTPStatus.SERVICE_UNAVAILABLE, "It can't be done now")
BROKEN = Kind("broken", HTTPStatus.INTERNAL_SERVER_ERROR, "The gateway has failed")

KINDS = (
    UNREADABLE, NO_KEY, NOT_ALLOWED, NOT_FOUND, WRONG_METHOD, TOO_SLOW, TOO_LATE, NAME_TAKEN, IN_FLIGHT, MORE_MATCH,
    CONFLICT, STALE, TOO_LARGE, WRONG_MEDIA_TYPE, REFUSED, OTHER_REQUEST, TOO_MANY, OVER_QUOTA,
    TRY_AGAIN, BROKEN,
)  # fmt: skip


class ProblemAnswer(BaseModel):
    """A problem, as RFC 9457 has it; some have more members."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=[REFUSED.type], description="what went wrong; it stays the same for ever")
    title: str = Field(examples=[REFUSED.title], description="the same for people")
    status: int = Field(examples=[int(REFUSED.status)])
    detail: str = Field(
        examples=["delay '15m' is not an ISO 8601 duration; write it like PT15M"],
        description="one sentence: the value, the rule and the way out",
    )


class Problem(Exception):
    """Ends a request with a problem; `more` are members beside those of every problem."""

    def __init__(
        self, kind: Kind, detail: str, *, headers: Mapping[str, str] | None = None, **more: str | int | None
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.headers = dict(headers or {})
        self.more = more

    def answer(self) -> JSONResponse:
        """Write it as a response."""
        body: dict[str, Any] = {
            "type": self.kind.type,
            "title": self.kind.title,
            "status": int(self.kind.status),
            # A sentence of Postgres may quote a value as it was given.
            "detail": "".join(it if it.isprintable() else "?" for it in str(self)),
            **self.more,
        }
        return JSONResponse(body, self.kind.status, self.headers, MEDIA_TYPE)


def unavailable(detail: str) -> Problem:
    """Say that Postgres gave no answer, and when to ask again."""
    return Problem(TRY_AGAIN, detail, headers={"Retry-After": str(RETRY_AFTER_S)})
