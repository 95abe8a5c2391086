"""Run a gateway until it receives a signal; requests in progress are answered first."""

import asyncio
import errno
import os
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

from shardclock.loopback import is_loopback
from shardclock_server.gateway.app import make_app
from shardclock_server.gateway.connections import Connections, connections_of
from shardclock_server.gateway.console.addresses import ROOT
from shardclock_server.gateway.protocol import BoundedProtocol
from shardclock_server.gateway.settings import CannotServe, GatewaySettings, UnfitSchema
from shardclock_server.keepers.collector import leave_out_of_collections
from shardclock_server.sql.clock.moved import require_real_clock
from shardclock_server.sql.cluster.rights import LacksRights, require_gateway_rights
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.migrate import WrongSchema, require_current
from shardclock_server.sql.session import Session, StoreUnavailable

STOP_S = 10  # After the stop, requests in progress have this time to finish.
IDLE_S = 75  # Longer than the idle timeout of most load balancers.
BACKLOG = 2_048
TEND_S, TICK_S = 1.0, 1.0
PORT_FAULTS = (errno.EADDRINUSE, errno.EACCES)
Tell = Callable[[str], None]


class Server(uvicorn.Server):
    """Serve until `stop` is called; the caller handles signals."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stop_requested = asyncio.Event()

    def stop(self) -> None:
        """Accept no more requests; `serve` returns when all requests in progress are answered."""
        self.should_exit = True
        self._stop_requested.set()

    async def main_loop(self) -> None:
        """Once a second, run uvicorn's tick, which updates the `Date` header; return immediately after `stop`.

        Uvicorn's own loop polls every 0.1 s.
        """
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._stop_requested.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals, because the caller of the server handles signals."""
        yield


def run(settings: GatewaySettings, dsn: Dsn | str, *, tell: Tell, maintain: Callable[[], None] = lambda: None) -> None:
    """Call `serve` on a new event loop."""
    uvloop.run(serve(settings, dsn, tell=tell, maintain=maintain))


async def serve(
    settings: GatewaySettings, dsn: Dsn | str, *, tell: Tell, maintain: Callable[[], None] = lambda: None
) -> None:
    """Serve until SIGINT or SIGTERM; call `maintain` before the start, and every second from then on.

    errors:  CannotServe  the port is taken, other machines could reach a gateway without keys, or the role lacks
                          rights on the database
             UnfitSchema  the database has another version of the schema
    """
    needs_keys = needs_keys_of(settings)
    registration = settings.registration
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
    maintain()
    url = _url_of(listener, is_tls=config.is_ssl)
    console = f"{(settings.gateway_url or url).rstrip('/')}{ROOT}"
    tell(
        f"HTTP API at {url}, console at {console}"
        + ("" if needs_keys else ", without API keys: for all on this machine")
        + (f"; people sign in at {registration.host}, which needs {registration.redirect_uri}" if registration else "")
    )
    maintaining = asyncio.create_task(_maintain_repeatedly(maintain), name="maintaining")
    try:
        await server.serve(sockets=[listener])
    finally:
        maintaining.cancel()


async def _maintain_repeatedly(maintain: Callable[[], None]) -> None:
    """Call `maintain` each second, in a thread, because `maintain` may block and requests must not wait."""
    while True:
        await asyncio.sleep(TEND_S)
        try:
            await asyncio.to_thread(maintain)
        except Exception as error:  # noqa: BLE001 - a fault beside the server ends no request
            structlog.get_logger().error("the gateway's maintenance has failed", exc_info=error)


def config_of(app: FastAPI, settings: GatewaySettings, **more: Any) -> uvicorn.Config:
    """Return the configuration with which uvicorn serves an application on the running event loop."""
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
        root_path=settings.root_path,
        ssl_certfile=settings.gateway_tls_cert,
        ssl_keyfile=settings.gateway_tls_key,
        **more,
    )


def needs_keys_of(settings: GatewaySettings) -> bool:
    """Return whether each request needs an API key.

    errors:  CannotServe  keys are off, but other machines can reach the gateway, or people have to sign in
    """
    is_local = is_loopback(settings.gateway_host)
    if settings.gateway_oidc_issuer is not None:
        if settings.gateway_keys is False:
            raise CannotServe(
                "SHARDCLOCK_GATEWAY_OIDC_ISSUER asks people to sign in, and SHARDCLOCK_GATEWAY_KEYS is false: each"
                " caller could do everything without a sign-in; remove one of these settings"
            )
        return True
    if settings.gateway_keys is False and not is_local:
        raise CannotServe(
            f"SHARDCLOCK_GATEWAY_HOST {settings.gateway_host} can be reached from elsewhere, and"
            " SHARDCLOCK_GATEWAY_KEYS is false: each caller could do everything; remove one of these settings"
        )
    return not is_local if settings.gateway_keys is None else settings.gateway_keys


async def _require_store(dsn: Dsn | str, tell: Tell) -> None:
    """Check the database's clock, rights and schema; a gateway also starts while Postgres is unreachable."""
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
    """Listen on a port; for port 0, the system chooses a free port.

    errors:  CannotServe  the port is taken, or the host is not an address of this machine
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        raise CannotServe(_why_not(host, port, error)) from None
    # Accepted connections inherit TCP_NODELAY. Without it, the end of a response waits 40 ms for the client's delayed
    # ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _why_not(host: str, port: int, error: OSError | UnicodeError) -> str:
    """Describe why the gateway can't listen on this host or port."""
    if isinstance(error, OSError) and error.errno in PORT_FAULTS:
        return (
            f"the port {port} of {host} can't be opened ({os.strerror(error.errno)}):"
            " set SHARDCLOCK_GATEWAY_PORT to a free port, or to 0 for any free port"
        )
    why = isinstance(error, OSError) and error.strerror
    return (
        f"the host {host} can't be opened ({why or error}): set SHARDCLOCK_GATEWAY_HOST to an address of this"
        " machine, such as 127.0.0.1, or to 0.0.0.0 for all"
    )


def _load(config: uvicorn.Config, settings: GatewaySettings) -> None:
    """Load the certificate and the key before the start, so that a fault in them is reported in one sentence."""
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
