"""Run a gateway until it is told to stop: what has begun is answered first."""

import asyncio
import errno
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import structlog
import uvicorn
import uvloop
from fastapi import FastAPI

from shardclock_server.gateway.app import make_app
from shardclock_server.gateway.connections import Connections, connections_of
from shardclock_server.gateway.protocol import BoundedProtocol
from shardclock_server.gateway.requests.callers import is_loopback
from shardclock_server.gateway.settings import CannotServe, GatewaySettings, UnfitSchema
from shardclock_server.keepers.collector import leave_out_of_collections
from shardclock_server.sql.clock.moved import require_real_clock
from shardclock_server.sql.cluster.rights import LacksRights, require_gateway_rights
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.migrate import WrongSchema, require_current
from shardclock_server.sql.session import Session, StoreUnavailable

STOP_S = 10  # for requests that have begun
IDLE_S = 75  # longer than balancers keep an idle connection
BACKLOG = 2_048
TEND_S, TICK_S = 1.0, 1.0
PORT_FAULTS = (errno.EADDRINUSE, errno.EACCES)
Tell = Callable[[str], None]


class Server(uvicorn.Server):
    """Serve until `stop`, and leave signals to whoever runs it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()

    def stop(self) -> None:
        """Begin no more requests; `serve` ends when those that have begun are answered."""
        self.should_exit = True
        self._told.set()

    async def main_loop(self) -> None:
        """Tick once a second, for the date in answers, and end at once: uvicorn's own ticks, and looks, every 0.1 s."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), TICK_S)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none: `serve` ends with success when it is told to stop."""
        yield


def run(settings: GatewaySettings, dsn: Dsn | str, *, tell: Tell, tend: Callable[[], None] = lambda: None) -> None:
    """Serve on a loop of its own, as `serve` does."""
    uvloop.run(serve(settings, dsn, tell=tell, tend=tend))


async def serve(
    settings: GatewaySettings, dsn: Dsn | str, *, tell: Tell, tend: Callable[[], None] = lambda: None
) -> None:
    """Serve until SIGINT or SIGTERM; call `tend` when nothing is in the way any more, and every second from then on.

    errors:  CannotServe  the port is taken, others could reach a gateway without keys, or the database gives the role
                          too few rights
             UnfitSchema  the database has another schema
    """
    needs_keys = needs_keys_of(settings)
    await _require_store(dsn, tell)
    app = make_app(settings, dsn, needs_keys=needs_keys)
    config = config_of(app, settings)
    _load(config, settings)
    listener = listen(settings.gateway_host, settings.gateway_port)
    server = Server(config)

    def stop() -> None:
        server.stop()
        if (gateway := getattr(app.state, "gateway", None)) is not None:
            gateway.stop_waits()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    leave_out_of_collections()
    tend()
    tell(
        f"HTTP API at {_url_of(listener, is_tls=config.is_ssl)}"
        + ("" if needs_keys else ", without API keys: for all on this machine")
    )
    tending = asyncio.create_task(_keep_on(tend), name="tending")
    try:
        await server.serve(sockets=[listener])
    finally:
        tending.cancel()


async def _keep_on(tend: Callable[[], None]) -> None:
    """Tend what stands beside the server: in a thread, because that may wait, and requests must not."""
    while True:
        await asyncio.sleep(TEND_S)
        try:
            await asyncio.to_thread(tend)
        except Exception as error:  # noqa: BLE001 - what stands beside the server ends no request
            structlog.get_logger().error("what stands beside the gateway was not tended", exc_info=error)


def config_of(app: FastAPI, settings: GatewaySettings, **more: Any) -> uvicorn.Config:
    """Say how an application is served, on the loop that runs already."""
    return uvicorn.Config(
        app,
        loop="none",
        http=partial(BoundedProtocol, connections=Connections(connections_of(settings))),  # type: ignore[arg-type] # uvicorn only calls it
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=STOP_S,
        ssl_certfile=settings.gateway_tls_cert,
        ssl_keyfile=settings.gateway_tls_key,
        **more,
    )


def needs_keys_of(settings: GatewaySettings) -> bool:
    """Say whether each request needs an API key.

    errors:  CannotServe  it shall not, and others than this machine could reach it
    """
    is_local = is_loopback(settings.gateway_host)
    if settings.gateway_keys is False and not is_local:
        raise CannotServe(
            f"SHARDCLOCK_GATEWAY_HOST {settings.gateway_host} can be reached from elsewhere, and"
            " SHARDCLOCK_GATEWAY_KEYS is false: everybody could do everything; leave one of them out"
        )
    return not is_local if settings.gateway_keys is None else settings.gateway_keys


async def _require_store(dsn: Dsn | str, tell: Tell) -> None:
    """Look whether the database can be worked with; if it is away now, that is no reason not to start."""
    async with Session(dsn, application="shardclock gateway") as session:
        try:
            await require_real_clock(session)
            await require_gateway_rights(session)
            await require_current(session)
        except LacksRights as error:
            raise CannotServe(str(error)) from None
        except WrongSchema as error:
            raise UnfitSchema(str(error)) from None
        except StoreUnavailable as error:
            tell(f"Postgres does not answer ({error}): requests are answered 503 until it does")


def listen(host: str, port: int) -> socket.socket:
    """Listen on a port, which 0 leaves to the system.

    errors:  CannotServe  it is taken, or the host is no address of this machine
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        raise CannotServe(_why_not(host, port, error)) from None
    # Each connection inherits it. Without it, the end of an answer waits for the other end's delayed ACK, 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _why_not(host: str, port: int, error: OSError | UnicodeError) -> str:
    """Say what is at fault if it can't be listened on: the port, or the host."""
    if isinstance(error, OSError) and error.errno in PORT_FAULTS:
        return (
            f"the port {port} of {host} can't be listened on ({error.strerror or error}):"
            " set SHARDCLOCK_GATEWAY_PORT to a free one, or to 0 for any"
        )
    why = isinstance(error, OSError) and error.strerror
    return (
        f"the host {host} can't be listened on ({why or error}): set SHARDCLOCK_GATEWAY_HOST to an address of this"
        " machine, such as 127.0.0.1, or to 0.0.0.0 for all"
    )


def _load(config: uvicorn.Config, settings: GatewaySettings) -> None:
    """Read the certificate and the key now, so that a fault in them is told in a sentence."""
    cert, key = settings.gateway_tls_cert, settings.gateway_tls_key
    if (cert is None) != (key is None):
        raise CannotServe("SHARDCLOCK_GATEWAY_TLS_CERT and SHARDCLOCK_GATEWAY_TLS_KEY go together: give both, or none")
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        why = getattr(error, "strerror", None) or error
        raise CannotServe(f"the certificate {cert} with the key {key} can't be used: {why}") from None


def _url_of(listener: socket.socket, *, is_tls: bool) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "https" if is_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
