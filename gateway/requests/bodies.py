"""Read the body of a request: JSON in UTF-8, with limits of size and time."""

import asyncio
from codecs import BOM_UTF8

from starlette.requests import ClientDisconnect, Request

from shardclock.api.codes import REFUSED, TOO_LARGE, TOO_SLOW, UNREADABLE, WRONG_MEDIA_TYPE
from shardclock.jsonb import faults_of
from shardclock_server.gateway.requests.headers import header_of
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.timers.model import LINE_BYTES_MAX
from shardclock_server.timers.payload import read_json
from shardclock_server.timers.refusal import InvalidTimer, shortened

JSON = "application/json"
TIMER = '{"delay":"PT15M"}'
NDJSON = "application/x-ndjson"
IDENTITY = "identity"


async def read_object(
    request: Request, *, within_s: float, may_be_empty: bool = False, such_as: str = ""
) -> dict[str, object]:
    """Read one JSON object of at most 131,072 bytes, by the strict rules of `read_line`, as for a line of a file.

    shape:   `such_as` is an example object for the message of a refusal
    errors:  Problem  wrong media type, too large, too slow, not a JSON object, or a text that can't be stored
    """
    body = await read_body(request, JSON, bytes_max=LINE_BYTES_MAX, within_s=within_s)
    if not body and may_be_empty:
        return {}
    try:
        found = read_json(body, bytes_max=LINE_BYTES_MAX, around=1)
    except InvalidTimer as refusal:
        raise Problem(UNREADABLE, f"the body {refusal}") from None
    if not isinstance(found, dict):
        way_out = f"send an object such as {such_as}" if such_as else "send an object with names and values"
        raise Problem(REFUSED, f"the body {shortened(body.decode(errors='replace'))} is not a JSON object; {way_out}")
    if b"\\u" in body and (fault := next(faults_of(found, ""), None)) is not None:
        raise Problem(REFUSED, fault)
    return found


def size_of_body(request: Request, *, bytes_max: int) -> int:
    """Return the largest possible size of a body: its `Content-Length`, at most `bytes_max`."""
    return min(int(request.headers.get("content-length", bytes_max)), bytes_max)


async def read_body(request: Request, media_type: str, *, bytes_max: int, within_s: float) -> bytes:
    """Read a body to its end; `Content-Type` may be missing, and is ignored for an empty body.

    A byte order mark at the start is ignored, as RFC 8259 8.1 allows, because some editors write this mark.

    errors:  Problem  wrong media type or coding, more than `bytes_max` bytes, or incomplete after `within_s`
    """
    headers = request.headers
    coding = (header_of(headers, "Content-Encoding") or IDENTITY).strip().lower()
    if coding != IDENTITY:
        sentence = f"Content-Encoding {shortened(coding)[1:-1]} is not supported; send the body without encoding"
        raise Problem(WRONG_MEDIA_TYPE, sentence, headers={"Accept-Encoding": IDENTITY})
    given = (header_of(headers, "Content-Type") or media_type).partition(";")[0].strip().lower()
    is_empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    if given != media_type and not is_empty:
        raise Problem(WRONG_MEDIA_TYPE, f"Content-Type {shortened(given)} is not supported here; send {media_type}")
    too_large = Problem(TOO_LARGE, f"the body is longer than {bytes_max:,} bytes; send a smaller body")
    if (length := headers.get("content-length")) is not None and int(length) > bytes_max:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(within_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > bytes_max:
                    raise too_large
    except TimeoutError:
        raise Problem(TOO_SLOW, f"the body did not arrive within {within_s:g} s; send the request again") from None
    except ClientDisconnect:
        raise Problem(UNREADABLE, "the body ended too early; send the request again") from None
    return bytes(body).removeprefix(BOM_UTF8)
