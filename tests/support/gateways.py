"""A gateway in the test's own process, on loopback, and a client for it."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import aiohttp
import uvicorn
from fastapi import FastAPI
from yarl import URL

from shardclock.api.codes import PREFIX
from shardclock.api.refusals import code_of
from shardclock_server.cluster.testing.api import QuickServer
from shardclock_server.gateway.app import make_app
from shardclock_server.gateway.connections import Connections
from shardclock_server.gateway.gateway import Gateway
from shardclock_server.gateway.protocol import BoundedProtocol
from shardclock_server.gateway.requests.problems import MEDIA_TYPE
from shardclock_server.gateway.settings import GatewaySettings
from tests.support.factories import BOUND_S, value
from tests.support.roles import as_role

REFERENCE = Path(__file__).parents[2] / "docs" / "openapi.json"
NDJSON = {"Content-Type": "application/x-ndjson"}


@cache
def _operations() -> list[tuple[str, re.Pattern[str], frozenset[str]]]:
    paths = json.loads(REFERENCE.read_text())["paths"]
    return [
        (method.upper(), re.compile(re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(path))), frozenset(said["x-problems"]))
        # A path without parameters comes before a path with a parameter at its end.
        for path in sorted(paths, key=lambda path: path.count("{"))
        for method, said in paths[path].items()
    ]


def problems_told(method: str, path: str) -> frozenset[str] | None:
    """Return the problems that the reference lists for an operation, or None if it does not have the operation."""
    found = (told for its, pattern, told in _operations() if its == method and pattern.fullmatch(path))
    return next(found, None)


@dataclass(frozen=True)
class Said:
    """The answer of a gateway."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    problems: frozenset[str] | None = None  # problems in the reference; None: no such operation

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.body.splitlines()]

    def assert_problem(self, code: str, status: int, *words: str) -> None:
        """Assert that the answer is a problem with this code, general or specific, and with these words in its
        sentence.
        """
        assert (self.status, self.headers["Content-Type"]) == (status, MEDIA_TYPE), self
        problem = self.json
        found = code_of(problem["type"].removeprefix(PREFIX))
        assert found is not None, problem
        assert code in (found.name, found.general), problem
        assert (problem["status"], found.status) == (status, status)
        assert self.problems is None or found.general in self.problems, (
            f"docs/openapi.json tells of {sorted(self.problems)}"
        )
        for word in words:
            assert word in problem["detail"]


class Api:
    """A client of one gateway; `headers` go with each request."""

    def __init__(self, session: aiohttp.ClientSession, url: str, app: FastAPI, headers: Mapping[str, str] = {}) -> None:
        self.url = url
        self.app = app
        self._session = session
        self._headers = dict(headers)

    @property
    def gateway(self) -> Gateway:
        gateway: Gateway = self.app.state.gateway
        return gateway

    def stop(self) -> None:
        """End all current waits, as a stopping gateway ends them."""
        self.gateway.stop_waits()

    def with_headers(self, **headers: str) -> Api:
        """Return a client of the same gateway with other headers; an underscore stands for a hyphen."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return Api(self._session, self.url, self.app, given)

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> Said:
        """Send a request; a body that is not bytes is sent as JSON."""
        given = self._headers | {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None:
            given = {"Content-Type": "application/json", **given}
        async with self._session.request(
            method, URL(self.url + path, encoded=True), data=data, headers=given
        ) as answer:
            told = problems_told(method, path.partition("?")[0])
            return Said(answer.status, answer.headers.copy(), await answer.read(), told)

    async def ask_raw(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Said:
        """Send a request with a path that is already quoted, and with unchanged headers."""
        url = URL(self.url + path, encoded=True)
        async with self._session.request(method, url, data=body, headers=headers) as answer:
            return Said(answer.status, answer.headers.copy(), await answer.read())

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Read an endless answer piece by piece."""
        async with self._session.get(self.url + path, headers=self._headers) as answer:
            yield answer.content.iter_any()

    async def get(self, path: str, **headers: str) -> Said:
        return await self.ask("GET", path, **headers)

    async def post(self, path: str, body: object = None, **headers: str) -> Said:
        return await self.ask("POST", path, body, **headers)

    async def put(self, path: str, body: object = None, **headers: str) -> Said:
        return await self.ask("PUT", path, body, **headers)

    async def patch(self, path: str, body: object = None, **headers: str) -> Said:
        return await self.ask("PATCH", path, body, **headers)

    async def post_lines(self, *lines: object, **headers: str) -> Said:
        """Schedule timers line by line; a line that is not bytes is sent as JSON."""
        body = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
        return await self.post("/v1/timers/bulk", body, Content_Type=NDJSON["Content-Type"], **headers)

    async def deploy(self, model: bytes, **headers: str) -> Said:
        """Deploy the processes of a BPMN file."""
        return await self.post("/v1/processes", model, Content_Type="application/xml", **headers)


@asynccontextmanager
async def serving(
    dsn: str,
    *,
    needs_keys: bool = False,
    role: str = "gateway",
    idle_s: float = 5.0,
    connections: int = 10_000,
    listener: socket.socket | None = None,
    **settings: Any,
) -> AsyncIterator[Api]:
    """Run a gateway on a database, with the rights of a role; the gateway closes an idle connection after `idle_s`.

    Give the `listener` of the address in the settings; without an address a free port is used.
    """
    given = GatewaySettings(**settings)
    app = make_app(given, as_role(dsn, role) if role else dsn, needs_keys=needs_keys)
    listener = listener or socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    app.state.connections = Connections(connections)
    protocol = partial(BoundedProtocol, connections=app.state.connections)
    config = uvicorn.Config(
        app,
        http=protocol,  # type: ignore[arg-type] # it only calls it
        ws="none",
        log_config=None,
        access_log=False,
        root_path=given.root_path,
    )
    config.timeout_keep_alive = idle_s  # type: ignore[assignment] # uvicorn only adds it to a moment
    server = QuickServer(config)
    task = asyncio.create_task(server.serve([listener]))
    try:
        async with asyncio.timeout(BOUND_S):
            while not server.started:
                assert not task.done(), task
                await asyncio.sleep(0.01)
        timeout, connector = aiohttp.ClientTimeout(total=4 * BOUND_S), aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            yield Api(session, f"http://127.0.0.1:{listener.getsockname()[1]}", app)
    finally:
        server.stop()
        async with asyncio.timeout(BOUND_S):
            await task


@contextmanager
def serving_beside(dsn: str) -> Iterator[str]:
    """Run a gateway in a thread, with the rights of the DSN, for a test that blocks its own thread; yield the URL."""
    ready: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        async with serving(dsn, role="") as api:
            is_over = asyncio.Event()
            ready.set_result((api.url, asyncio.get_running_loop(), is_over))
            await is_over.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    url, loop, is_over = ready.result(BOUND_S)
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join(BOUND_S)


async def reads_log(dsn: str) -> bool:
    asked = "select exists (select from pg_stat_activity where application_name = 'shardclock gateway log')"
    return bool(await value(dsn, asked))


async def canceled(api: Api, *names: str, tenant: str = "default") -> None:
    for name in names:
        await api.post("/v1/timers", {"delay": "PT1H", "name": name}, Shardclock_Tenant=tenant)
        await api.post(f"/v1/timers/by-name/{name}/cancel", Shardclock_Tenant=tenant)
