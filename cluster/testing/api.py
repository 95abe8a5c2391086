"""The HTTP API in the test's own process and event loop, on loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from shardclock_server.cluster.testing.webhooks import EVERYWHERE
from shardclock_server.gateway.app import make_app
from shardclock_server.gateway.serving import Server, config_of, listen
from shardclock_server.gateway.settings import GatewaySettings

CLOSING_TURNS = 3  # of the loop, until an idle connection that was closed has left the list


class QuickServer(Server):
    """Serve for a test: tell when it serves, because one that is stopped before leaves its port open; end at once."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serves = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serves.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what has begun, as uvicorn does, which waits for 0.1 s at least; if nothing has, end at once."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        for _ in range(CLOSING_TURNS):
            await asyncio.sleep(0)
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            return
        for listener in sockets or []:
            listener.close()
        await self.lifespan.shutdown()


@asynccontextmanager
async def serving(dsn: str) -> AsyncIterator[str]:
    """Serve a database for the length of a block, and give the URL."""
    settings = GatewaySettings(gateway_port=0, webhook_http=True, webhook_allow=EVERYWHERE)
    app = make_app(settings, dsn, needs_keys=False)
    listener = listen(settings.gateway_host, settings.gateway_port)
    server = QuickServer(config_of(app, settings, lifespan="off"))  # it is entered here, where a failure is seen
    async with app.router.lifespan_context(app):
        task = asyncio.create_task(server.serve(sockets=[listener]), name="gateway")
        try:
            await server.serves.wait()
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.stop()
            app.state.gateway.stop_waits()
            await task
