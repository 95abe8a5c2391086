"""The HTTP API in the test's own process and event loop, on loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cluster.testing.webhooks import EVERYWHERE
from gateway.app import make_app
from gateway.serving import Server, config_of, listen
from gateway.settings import GatewaySettings


class _Server(Server):
    """Tell when it serves: one that is told to stop before leaves its port open."""

    serves: asyncio.Event

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serves.set()


@asynccontextmanager
async def serving(dsn: str) -> AsyncIterator[str]:
    """Serve a database for the length of a block, and give the URL."""
    settings = GatewaySettings(gateway_port=0, webhook_http=True, webhook_allow=EVERYWHERE)
    app = make_app(settings, dsn, needs_keys=False)
    listener = listen(settings.gateway_host, settings.gateway_port)
    server = _Server(config_of(app, settings, lifespan="off"))  # it is entered here, where a failure is seen
    server.serves = asyncio.Event()
    async with app.router.lifespan_context(app):
        task = asyncio.create_task(server.serve(sockets=[listener]), name="gateway")
        try:
            await server.serves.wait()
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.stop()
            app.state.gateway.stop_waits()
            await task
