"""A TCP proxy between the cluster and Postgres, which can reset, hold and delay connections, and can drop one reply.

The proxy reads the frames of Postgres's protocol in both directions. A fault can therefore happen at an exact moment,
for example before a claim is sent, before its answer arrives, or during the transaction of a firing. Without the proxy,
a run could send a process a signal only at an inexact moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, Self
from urllib.parse import parse_qs, urlsplit

from chaos.frames import BIND, HEAD_BYTES, PARSE, QUERY, READY, SYNC, read_frames, read_hello
from shardclock_server.sql.statements import statement

Moment = Literal["before", "inside", "after"]
Select = Callable[["ProxiedConnection"], bool]

WATCHED = ("claim_due", "fire_due", "apply_steps")
COMMIT = "commit"


@dataclass(eq=False)
class ProxiedConnection:
    """The state of one connection through the proxy."""

    application: str
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    open: asyncio.Event = field(default_factory=asyncio.Event)
    delay_s: float = 0.0
    loses: str | None = None
    doing: str | None = None
    _prepared: dict[bytes, str | None] = field(default_factory=dict)

    def learn(self, kind: bytes, body: bytes) -> None:
        """Store the name of the watched statement that is being sent."""
        if kind == PARSE:
            name, text, _ = body.split(b"\0", 2)
            self._prepared[name] = next((it for it in WATCHED if text.startswith(_first_line(it))), None)
        elif kind == BIND:
            self.doing = self._prepared.get(body.split(b"\0", 2)[1])
        elif kind == QUERY:
            self.doing = COMMIT if body.upper().startswith(b"COMMIT") else None

    def close(self) -> None:
        """Reset the connection."""
        for writer in (self.client, self.server):
            writer.transport.abort()


@dataclass(eq=False)
class Trap:
    """Stops a connection (link) before, during or after a statement.

    At the statement, the trap calls `spring`, and holds the link until `release`.
    """

    select: Select
    statement: str
    moment: Moment
    caught: asyncio.Future[ProxiedConnection]
    released: asyncio.Event = field(default_factory=asyncio.Event)
    spring: Callable[[ProxiedConnection], None] = lambda _: None

    async def at(self, link: ProxiedConnection, doing: str | None, moment: Moment) -> None:
        """Hold a link if the trap waits for the given statement and moment; otherwise return immediately."""
        if self.caught.done() or (doing, moment) != (self.statement, self.moment) or not self.select(link):
            return
        self.spring(link)
        self.caught.set_result(link)
        await self.released.wait()


class Proxy:
    """Listens on loopback, and forwards all traffic to the socket of a Postgres, except during a fault."""

    @classmethod
    def before(cls, dsn: str) -> Self:
        """Create a proxy in front of a database; its DSN has the socket's directory and port."""
        (directory,), (port,) = (parse_qs(urlsplit(dsn).query)[name] for name in ("host", "port"))
        return cls(Path(directory) / f".s.PGSQL.{port}")

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._links: set[ProxiedConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused: list[Select] = []
        self._held: list[Select] = []
        self._slowed: list[tuple[Select, float]] = []
        self._traps: list[Trap] = []
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Return its port."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Listen on any free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def close(self) -> None:
        """Reset all connections, and stop listening."""
        assert self._server is not None
        self._server.close()
        for link in self._links:
            link.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def links(self, select: Select) -> list[ProxiedConnection]:
        """Return the connections for which the function `select` is true."""
        return [link for link in self._links if select(link)]

    async def cut(self, select: Select, *, for_s: float) -> None:
        """Reset the matching connections, and refuse new connections for a while."""
        self._refused.append(select)
        for link in self.links(select):
            link.close()
        try:
            await asyncio.sleep(for_s)
        finally:
            self._refused.remove(select)

    async def half_open(self, select: Select, *, for_s: float) -> None:
        """Hold the traffic of the matching connections in both directions for a while, without closing them."""
        self._held.append(select)
        held = self.links(select)
        for link in held:
            link.open.clear()
        try:
            await asyncio.sleep(for_s)
        finally:
            self._held.remove(select)
            for link in self._links:
                if not any(holds(link) for holds in self._held):
                    link.open.set()

    async def slow(self, select: Select, *, delay_s: float, for_s: float) -> None:
        """Delay each chunk of the matching connections in both directions for a while."""
        entry = (select, delay_s)
        self._slowed.append(entry)
        for link in self.links(select):
            link.delay_s = delay_s
        try:
            await asyncio.sleep(for_s)
        finally:
            self._slowed.remove(entry)
            for link in self.links(select):
                link.delay_s = 0.0

    def delay(self, select: Select, delay_s: float) -> None:
        """Delay each chunk of the matching connections permanently."""
        self._slowed.append((select, delay_s))

    def lose_reply(self, select: Select, name: str) -> None:
        """Let the next execution of a statement commit, drop the answer, and reset the connection."""
        _require_watched(name)
        for link in self.links(select):
            link.loses = name

    def trap(self, select: Select, name: str, moment: Moment, *, spring: Callable[[ProxiedConnection], None]) -> Trap:
        """Set a trap; the caller removes it with `lift`."""
        _require_watched(name)
        trap = Trap(select, name, moment, asyncio.get_running_loop().create_future(), spring=spring)
        self._traps.append(trap)
        return trap

    def lift(self, trap: Trap) -> None:
        """Remove a trap, and release the connection that the trap holds."""
        trap.released.set()
        self._traps.remove(trap)

    async def _accept(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._serve(reader, client)
        finally:
            self._tasks.discard(task)
            client.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        hello, application = await read_hello(reader, client)
        from_server, server = await asyncio.open_unix_connection(self._socket)
        link = ProxiedConnection(application, client, server)
        try:
            if any(refuses(link) for refuses in self._refused):
                return
            self._admit(link)
            await self._pass(link, server, hello)
            ways = [asyncio.create_task(way) for way in (self._up(link, reader), self._down(link, from_server))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                await link.open.wait()  # half-open: neither end notices that the other end has closed
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            self._links.discard(link)
            link.close()

    def _admit(self, link: ProxiedConnection) -> None:
        link.delay_s = max((delay_s for select, delay_s in self._slowed if select(link)), default=0.0)
        if not any(holds(link) for holds in self._held):
            link.open.set()
        self._links.add(link)

    async def _up(self, link: ProxiedConnection, reader: asyncio.StreamReader) -> None:
        """Forward the client's frames, unless a trap holds them."""
        async for said, frames in read_frames(reader):
            passed = 0
            for kind, begin, end in frames:
                if kind in (PARSE, BIND, QUERY):
                    link.learn(kind, said[begin + HEAD_BYTES : end])
                if self._traps and kind in (BIND, SYNC):
                    await self._pass(link, link.server, said[passed:begin])
                    passed = begin
                    await self._at(link, "before" if kind == BIND else "inside")
            await self._pass(link, link.server, said[passed:])

    async def _down(self, link: ProxiedConnection, reader: asyncio.StreamReader) -> None:
        """Forward the server's frames; an answer is complete at the frame "ready for query"."""
        async for said, frames in read_frames(reader):
            for kind, *_ in frames:
                if kind != READY:
                    continue
                if link.doing is not None and link.doing == link.loses:
                    return
                if self._traps and link.doing is not None:
                    await self._at(link, "after")
                link.doing = None
            if link.doing is None or link.doing != link.loses:
                await self._pass(link, link.client, said)

    async def _at(self, link: ProxiedConnection, moment: Moment) -> None:
        for trap in list(self._traps):
            await trap.at(link, link.doing, moment)

    async def _pass(self, link: ProxiedConnection, to: asyncio.StreamWriter, data: bytes) -> None:
        if not data:
            return
        if link.delay_s:
            await asyncio.sleep(link.delay_s)
        await link.open.wait()
        to.write(data)
        await to.drain()


def _require_watched(name: str) -> None:
    """Refuse a statement that the proxy does not recognize."""
    if name not in (*WATCHED, COMMIT):
        raise ValueError(f"statement {name} is not watched; add it to WATCHED")


@cache
def _first_line(name: str) -> bytes:
    """Return the line that identifies a statement; the line is the same in all broken builds."""
    return statement(name).text.partition("\n")[0].encode()
