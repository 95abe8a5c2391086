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

CLOSING_TURNS = 3  # iterations of the event loop until a closed idle connection is removed from the list


class QuickServer(Server):
    """A server for a test: it sets an event when it accepts requests, and stops without delay."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serves = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serves.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End immediately if no request is running; otherwise answer the requests as uvicorn does."""
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
    """Serve a database's API during a block, and yield the URL."""
    settings = GatewaySettings(gateway_port=0, webhook_http=True, webhook_allow=EVERYWHERE)
    app = make_app(settings, dsn, needs_keys=False)
    listener = listen(settings.gateway_host, settings.gateway_port)
    # uvicorn does not run the lifespan. The lifespan is entered below, so that its failure raises an exception in the
    # test.
    server = QuickServer(config_of(app, settings, lifespan="off"))
    async with app.router.lifespan_context(app):
        task = asyncio.create_task(server.serve(sockets=[listener]), name="gateway")
        try:
            await server.serves.wait()
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.stop()
            app.state.gateway.stop_waits()
            await task
