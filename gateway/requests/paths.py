"""Keys and names in paths; a slash in a name is written %2F."""

from typing import Annotated
from urllib.parse import unquote

from fastapi import Path
from pydantic import AfterValidator
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from shardclock.api.codes import NOT_FOUND, REFUSED
from shardclock.jsonb import HALF_PAIR, NOT_UTF8, fault_of
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.timers.model import BIGINT_MAX, NAME_CHARS_MAX
from shardclock_server.timers.refusal import shortened

# Replaces a slash within a segment during the routing; no name contains this character.
SLASH = "\x1f"


class KeyConvertor(IntegerConvertor):
    """A key in a path; the length is limited, because Python refuses to parse a number with thousands of digits."""

    regex = "[0-9]{1,19}"


register_url_convertor("key", KeyConvertor())


class PreservedSlashes:
    """Treat `%2F` as a character of a path segment, although servers decode the path before the routing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Decode the path again, segment by segment."""
        raw: bytes | None = scope.get("raw_path")
        if raw is not None and b"%" in raw:
            segments = raw.partition(b"?")[0].decode("ascii", "replace").split("/")
            # Bytes that are not UTF-8 are kept, so that `refuse_unreadable_path` can name the parameter.
            decoded = (unquote(it, errors="surrogateescape") for it in segments)
            scope = {**scope, "path": "/".join(it.replace("/", SLASH) for it in decoded)}
        await self._app(scope, receive, send)


def with_slashes(segment: str) -> str:
    """Restore the slashes in a part of a path."""
    return segment.replace(SLASH, "/")


def refuse_unreadable_path(request: Request) -> None:
    """Refuse a path segment that can't be a name.

    errors:  Problem  a parameter, which the problem names, is not UTF-8 or has a NUL character, or no path matches
    """
    texts = [value for value in request.path_params.values() if isinstance(value, str)]
    if request.scope["path"].endswith("\n") and not any(text.endswith("\n") for text in texts):
        # The `$` of a route's pattern also matches before a final line feed.
        raise Problem(NOT_FOUND, "there is nothing at a path that ends with %0A; leave it out")
    for name, value in request.path_params.items():
        if isinstance(value, str) and (fault := fault_of(value)) is not None:
            given: object = with_slashes(value)
            if fault == HALF_PAIR:
                given, fault = value.encode(errors="surrogateescape"), NOT_UTF8
            raise Problem(REFUSED, f"{name} {shortened(given)} {fault}")


Key = Annotated[int, Path(ge=1, le=BIGINT_MAX)]
Name = Annotated[str, Path(max_length=NAME_CHARS_MAX), AfterValidator(with_slashes)]
