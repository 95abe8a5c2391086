"""Send deliveries to endpoints over HTTP; the only part of the package with I/O."""

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver
from pydantic import BaseModel, ConfigDict, Field

from shardclock_server.webhooks.addresses import Networks
from shardclock_server.webhooks.answers import EXCERPT_BYTES_MAX, OWN_PAUSE_S, Answer, answer_of
from shardclock_server.webhooks.connection import Connector
from shardclock_server.webhooks.endpoint import Endpoint
from shardclock_server.webhooks.failures import failure_of, is_everybodys, no_room
from shardclock_server.webhooks.guard import Connecting, Guard, connecting
from shardclock_server.webhooks.names import Names, SystemNames, asking
from shardclock_server.webhooks.signing import signed_headers
from shardclock_server.webhooks.turns import Turns

FIXED_HEADERS = {
    "accept": "*/*",
    "accept-encoding": "identity",  # and what is compressed all the same is not unpacked
    "content-type": "application/json",
    "user-agent": "Shardclock",
}
LINE_BYTES_MAX, HEADERS_MAX = 8_190, 100


class SenderSettings(BaseModel):
    """Hold a sender's limits."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    connect_s: float = Field(5.0, gt=0, description="for a connection with TLS to one address; its name has 5 s more")
    excerpt_s: float = Field(
        1.0, gt=0, description="for an answer's body, once its status is known: it decides nothing"
    )
    requests_max: int = Field(
        500, gt=0, description="places: of these a tenant has up to half, a host up to a third; the next one waits"
    )
    kept_max: int = Field(500, ge=0, description="connections in all, beyond which none is kept for the next delivery")
    keep_s: float = Field(15.0, gt=0, description="how long a connection is kept: below what most servers keep theirs")


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent: the id (letters, digits, _ and -) and the body stay the same in each attempt."""

    id: str
    body: bytes


class Sender:
    """Send many deliveries at a time. It is made, used and closed in one event loop."""

    def __init__(
        self,
        settings: SenderSettings,
        *,
        networks: Networks,
        now_s: Callable[[], float] = time.time,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = settings
        self._now_s = now_s
        self._turns = Turns(settings.requests_max)
        self._held_until_s = float("-inf")  # there was no socket left
        self._guard = Guard(networks)
        self._names = Names(resolver or SystemNames())
        self._keeping = self._session(tls, keep=True)
        self._closing = self._session(tls, keep=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._keeping.close()
        await self._closing.close()
        await self._names.close()

    async def send(self, endpoint: Endpoint, message: Message, *, tenant_id: str | None = None) -> Answer:
        """Make one attempt with what is written already, as `send_in_turn` does."""
        return await self.send_in_turn(endpoint, lambda: message, tenant_id=tenant_id)

    async def send_in_turn(
        self, endpoint: Endpoint, write: Callable[[], Message], *, tenant_id: str | None = None
    ) -> Answer:
        """Make one attempt, when it is its turn. Whatever the endpoint does is an answer, and no exception.

        `write` is called when its turn has come. Without a tenant an endpoint takes turns for itself.
        """
        host, port = endpoint.url.raw_host or "", endpoint.url.port or 0
        tenant = f"{host}:{port}" if tenant_id is None else tenant_id
        async with self._turns.place(tenant, (host, port)):
            began_s = time.monotonic()
            if began_s < self._held_until_s:
                return no_room(self._held_until_s - began_s)
            message = write()
            noted = Connecting()
            token, whose = connecting.set(noted), asking.set(tenant)
            try:
                return await self._attempt(endpoint, message, noted, began_s)
            except (aiohttp.ClientError, OSError, ValueError) as error:
                if is_everybodys(error):
                    self._held_until_s = time.monotonic() + OWN_PAUSE_S
                return failure_of(error, noted, duration_s=time.monotonic() - began_s)
            finally:
                connecting.reset(token)
                asking.reset(whose)

    async def _attempt(self, endpoint: Endpoint, message: Message, noted: Connecting, began_s: float) -> Answer:
        response = await self._post_again_if_stale(endpoint, message, noted, began_s)
        try:
            duration_s = time.monotonic() - began_s
            excerpt = await self._excerpt_of(response)
            redirects = 300 <= response.status < 400
            return answer_of(
                response.status,
                excerpt=response.headers.get("location", "").encode(errors="replace") if redirects else excerpt,
                retry_after=response.headers.get("retry-after"),
                now_s=self._now_s(),
                duration_s=duration_s,
            )
        finally:
            response.close()  # a connection whose answer was read to its end is no longer the response's to close

    async def _post_again_if_stale(
        self, endpoint: Endpoint, message: Message, noted: Connecting, began_s: float
    ) -> aiohttp.ClientResponse:
        """Post, and post again if the endpoint had closed the kept connection just then: that is nobody's failure."""
        try:
            return await self._post(self._keeping, endpoint, message, endpoint.timeout_s)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            left_s = endpoint.timeout_s - (time.monotonic() - began_s)
            if noted.opened or isinstance(error, aiohttp.ClientConnectorError) or left_s <= 0:
                raise
        return await self._post(self._closing, endpoint, message, left_s)

    async def _post(
        self, session: aiohttp.ClientSession, endpoint: Endpoint, message: Message, timeout_s: float
    ) -> aiohttp.ClientResponse:
        if self._guard.open >= self._settings.kept_max:
            session = self._closing
        headers = FIXED_HEADERS | dict(endpoint.headers)
        headers |= signed_headers(endpoint.keys, message.id, self._now_s(), message.body)
        return await session.post(
            endpoint.url,
            data=message.body,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=self._settings.connect_s),
        )

    async def _excerpt_of(self, response: aiohttp.ClientResponse) -> bytes:
        """Read an answer to its end, so that the connection can be kept; give up if it is slow."""
        content, read = response.content, bytearray()
        try:
            if content.is_eof():
                return content.read_nowait(EXCERPT_BYTES_MAX)
            async with asyncio.timeout(self._settings.excerpt_s):
                while chunk := await content.readany():
                    read += chunk
        except (aiohttp.ClientError, OSError):
            pass  # the status has decided
        return bytes(read[:EXCERPT_BYTES_MAX])

    def _session(self, tls: ssl.SSLContext | None, *, keep: bool) -> aiohttp.ClientSession:
        connector = Connector(
            limit=0,  # `requests_max` bounds them before their time begins
            resolver=self._names,
            socket_factory=self._guard,
            ssl=tls if tls is not None else True,
            force_close=not keep,
            keepalive_timeout=self._settings.keep_s if keep else None,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            max_line_size=LINE_BYTES_MAX,
            max_field_size=LINE_BYTES_MAX,
            max_headers=HEADERS_MAX,
        )
