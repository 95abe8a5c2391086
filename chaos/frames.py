"""Read the frames of Postgres's protocol, version 3: a type, a length, a body."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator

CHUNK_BYTES = 65_536
HEAD_BYTES = 5  # A frame begins with its type and its length; the length includes its own four bytes.
SSL_REQUEST = 80_877_103
SYNC, PARSE, BIND, QUERY, READY = b"S", b"P", b"B", b"Q", b"Z"


async def read_hello(reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> tuple[bytes, str]:
    """Read a client's first message and the application name in it; decline a request for encryption."""
    while True:
        size = await reader.readexactly(4)
        rest = await reader.readexactly(struct.unpack("!I", size)[0] - 4)
        if struct.unpack("!I", rest[:4])[0] != SSL_REQUEST:
            break
        client.write(b"N")
    words = rest[4:].split(b"\0")
    said = dict(zip(words[::2], words[1::2], strict=False))
    return size + rest, said.get(b"application_name", b"").decode()


async def read_frames(reader: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, list[tuple[bytes, int, int]]]]:
    """Yield the kind, start and end of each complete frame in the received data."""
    left = b""
    while chunk := await reader.read(CHUNK_BYTES):
        said, begin = left + chunk, 0
        frames: list[tuple[bytes, int, int]] = []
        while len(said) - begin >= HEAD_BYTES:
            end = begin + 1 + int.from_bytes(said[begin + 1 : begin + HEAD_BYTES], "big")
            if end > len(said):
                break
            frames.append((said[begin : begin + 1], begin, end))
            begin = end
        left = said[begin:]
        yield said[:begin], frames
