"""Write long responses item by item, so that other requests run in between."""

import json
from collections.abc import Iterable, Sequence
from itertools import chain, repeat

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shardclock.api.answers import Answer
from shardclock_server.gateway.requests.bodies import JSON
from shardclock_server.sql.yielding import Yielder

PIECE_BYTES = 65_536


class PiecewiseResponse(Response):
    """A response with a body in pieces, because a body in one piece would be in memory several times."""

    def __init__(self, pieces: Sequence[bytes | bytearray], media_type: str) -> None:
        super().__init__(media_type=media_type, headers={"Content-Length": str(sum(map(len, pieces)))})
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        """Send the response."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        yielder = Yielder()
        for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await yielder.yield_if_due()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def listing(model: type[Answer], field: str, items: Iterable[Answer], **rest: object) -> Response:
    """Create a response with a list of many items; other requests run while the items are formatted."""
    assert model.model_fields.keys() == {field, *rest}, f"{model.__name__} has other fields"
    ending = "".join(f',"{name}":{json.dumps(value)}' for name, value in rest.items())
    separators = chain((b"",), repeat(b","))
    written = (separator + item.model_dump_json().encode() for separator, item in zip(separators, items, strict=False))
    return await in_pieces(chain((f'{{"{field}":['.encode(),), written, (f"]{ending}}}".encode(),)))


async def in_pieces(texts: Iterable[bytes], media_type: str = JSON) -> Response:
    """Create a response from many small texts, joined into pieces of about 64 KiB before the sending."""
    pieces, yielder = [bytearray()], Yielder()
    for text in texts:
        if len(pieces[-1]) >= PIECE_BYTES:
            pieces.append(bytearray())
        pieces[-1] += text
        await yielder.yield_if_due()
    return PiecewiseResponse(pieces, media_type)
