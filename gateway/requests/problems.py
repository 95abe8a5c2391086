"""The response of a refused or failed request: a problem by RFC 9457, with the code of the refusal as its type.

`detail` is the sentence that the command line prints for the same refusal.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from shardclock.api.codes import REFUSED, UNAVAILABLE, RefusalCode

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1


class ProblemAnswer(BaseModel):
    """A problem by RFC 9457; some problems have further members."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=[REFUSED.type], description="the code of the refusal, for programs")
    title: str = Field(examples=[REFUSED.title], description="the title of the code, for people")
    status: int = Field(examples=[REFUSED.status])
    detail: str = Field(
        examples=["delay '15m' is not an ISO 8601 duration; write it like PT15M"],
        description="one sentence: the refused value, the rule, and how to correct the request",
    )


class Problem(Exception):
    """An exception that ends a request with a problem; `more` has the members beyond RFC 9457."""

    def __init__(
        self, code: RefusalCode, detail: str, *, headers: Mapping[str, str] | None = None, **more: str | int | None
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.headers = dict(headers or {})
        self.more = more

    def answer(self) -> JSONResponse:
        """Create the response."""
        body: dict[str, Any] = {
            "type": self.code.type,
            "title": self.code.title,
            "status": self.code.status,
            # A message of Postgres may quote a value with control characters.
            "detail": "".join(it if it.isprintable() else "?" for it in str(self)),
            **self.more,
        }
        return JSONResponse(body, self.code.status, self.headers, MEDIA_TYPE)


def unavailable(detail: str) -> Problem:
    """Create the problem for a request that can't be served now; the problem says when to retry."""
    return Problem(UNAVAILABLE, detail, headers={"Retry-After": str(RETRY_AFTER_S)})
