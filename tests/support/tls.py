"""Put TLS before a Postgres without TLS: a certificate authority, certificates, and a server that terminates TLS."""

from __future__ import annotations

import asyncio
import ssl
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

SSL_REQUEST = struct.pack("!ii", 8, 80877103)
COMMAND_S = 30


class Authority:
    """A certificate authority for one test."""

    def __init__(self, place: Path) -> None:
        place.mkdir()
        self._place = place
        self.ca = place / "ca.crt"
        self._openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.crt",
                      "-days", "1", "-subj", "/CN=authority")  # fmt: skip

    def certify(self, name: str) -> ssl.SSLContext:
        """Make a server's certificate for a name; return a context with this certificate."""
        self._openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key", "-out", "csr", "-subj", f"/CN={name}")
        (self._place / "ext").write_text(f"subjectAltName=DNS:{name}")
        self._openssl("x509", "-req", "-in", "csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                      "-extfile", "ext", "-days", "1", "-out", "crt")  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._place / "crt", self._place / "key")
        return context

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self._place, check=True, capture_output=True, timeout=COMMAND_S)


@contextmanager
def tls_before(dsn: str, context: ssl.SSLContext | None) -> Iterator[int]:
    """Serve on a localhost port the Postgres behind a Unix socket: with TLS, or with the answer that it has no TLS.

    The context manager yields the port.
    """
    directory = parse_qs(urlsplit(dsn).query)["host"][0]
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if await reader.readexactly(8) != SSL_REQUEST:
                return  # only clients that ask for TLS are served, as by CloudNativePG in the overlay `prod`
            writer.write(b"N" if context is None else b"S")
            await writer.drain()
            if context is not None:
                await writer.start_tls(context)
                await _join(reader, writer, f"{directory}/.s.PGSQL.5432")
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has closed the connection, as the test expects
        finally:
            writer.close()

    server = asyncio.run_coroutine_threadsafe(asyncio.start_server(serve, "127.0.0.1", 0), loop).result(COMMAND_S)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(COMMAND_S)


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
    there_reader, there_writer = await asyncio.open_unix_connection(path)

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()
        target.close()

    await asyncio.gather(carry(reader, there_writer), carry(there_reader, writer))
