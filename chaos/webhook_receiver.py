"""Receive the webhooks of a chaos run: record each request, and then perform the action in the payload.

    python -m chaos.webhook_receiver PORT_FILE SECRET

The receiver writes lines into the run's directory, as `app` does for handlers. A webhook has no attempt number, so the
line has the number 0. The line of a request with a wrong signature gets a body that matches no firing.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from chaos.app import DIRECTORY, FILE, hash_of

NOT_OURS = "forged"
HANGS_UP_AT_ONCE = struct.pack("ii", 1, 0)
DRIP_S, FLOOD_BYTES = 0.2, 2**20
SILENT_S = 3_600.0  # the garbage collector would close the connection during an endless wait
ACCEPTED = "204 No Content"
# The answers to the first one or two requests for a timer; later requests are accepted.
ANSWERS = {
    "fail": ["500 Internal Server Error"] * 2,
    "refuse": ["404 Not Found"],
    "late": ["429 Too Many Requests\r\nRetry-After: 1"],
    "busy": ["503 Service Unavailable\r\nRetry-After: 1"],
    "redirect": ["302 Found\r\nLocation: http://169.254.169.254/latest/meta-data/"],
}


class Receiver:
    """Answer each request according to its payload and the number of earlier requests for the same timer."""

    def __init__(self, secret: str, file: int) -> None:
        self._verifier = Webhook(secret)
        self._file = file
        self._came: Counter[int] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until it is closed."""
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                headers, body = await _request(reader)
                data = json.loads(body)["data"]
                self._write_down(data, is_ours=self._is_signed(headers, body))
                self._came[data["timer_key"]] += 1
                if not await _answer(data["payload"]["act"], self._came[data["timer_key"]], writer):
                    break
        writer.close()

    def _is_signed(self, headers: dict[str, str], body: bytes) -> bool:
        try:
            self._verifier.verify(body, headers)
        except WebhookVerificationError:
            return False
        return True

    def _write_down(self, data: dict[str, Any], *, is_ours: bool) -> None:
        body = hash_of(data["payload"]) if is_ours else NOT_OURS
        line = [
            data["timer_key"], data["target"], data["tenant_id"], data["occurrence"], 0, body, time.time(), os.getpid(),
        ]  # fmt: skip
        os.write(self._file, f"{json.dumps(line)}\n".encode())


async def _request(reader: asyncio.StreamReader) -> tuple[dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head)}
    return headers, await reader.readexactly(int(headers["content-length"]))


async def _answer(act: str, nth: int, writer: asyncio.StreamWriter) -> bool:
    """Perform the action in the payload; return whether the connection stays open."""
    match act:
        case "silence" if nth == 1:
            await asyncio.sleep(SILENT_S)
        case "reset" if nth == 1:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, HANGS_UP_AT_ONCE)
            return False
        case "drip":
            await _send(writer, "200 OK", length=100_000)
            while True:
                writer.write(b".")
                await writer.drain()
                await asyncio.sleep(DRIP_S)
        case "flood":
            await _send(writer, "200 OK", length=10**10)
            while True:
                writer.write(bytes(FLOOD_BYTES))
                await writer.drain()
    answers = ANSWERS.get(act, [])
    await _send(writer, answers[nth - 1] if nth <= len(answers) else ACCEPTED)
    return True


async def _send(writer: asyncio.StreamWriter, status: str, *, length: int = 0) -> None:
    told = "" if status == ACCEPTED else f"Content-Length: {length}\r\n"
    writer.write(f"HTTP/1.1 {status}\r\n{told}\r\n".encode())
    await writer.drain()


async def main(port_file: Path, secret: str) -> None:
    """Receive until the process is killed."""
    file = os.open(Path(os.environ[DIRECTORY]) / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    server = await asyncio.start_server(Receiver(secret, file).serve, "127.0.0.1", 0)
    new = port_file.with_suffix(".new")
    new.write_text(str(server.sockets[0].getsockname()[1]))
    new.rename(port_file)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
