"""Send deliveries to endpoints over HTTP; only this module of the package does I/O."""

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver
from pydantic import BaseModel, ConfigDict, Field

from shardclock_server.webhooks.addresses import Networks
from shardclock_server.webhooks.answer_classification import OWN_PAUSE_S, STORED_BYTES_MAX, Answer, answer_of
from shardclock_server.webhooks.connection import Connector
from shardclock_server.webhooks.connection_failures import concerns_all_endpoints, failure_of, sender_exhausted
from shardclock_server.webhooks.endpoint import Endpoint
from shardclock_server.webhooks.fair_semaphore import FairSemaphore
from shardclock_server.webhooks.guard import Guard, SocketCounts, socket_counts
from shardclock_server.webhooks.resolver import BoundedResolver, SystemResolver, lookup_tenant
from shardclock_server.webhooks.signing import signed_headers

FIXED_HEADERS = {
    "accept": "*/*",
    "accept-encoding": "identity",  # ask for uncompressed answers; a compressed answer is not unpacked
    "content-type": "application/json",
    "user-agent": "Shardclock",
}
LINE_BYTES_MAX, HEADERS_MAX = 8_190, 100


class SenderSettings(BaseModel):
    """A sender's limits."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    connect_s: float = Field(
        5.0,
        gt=0,
        description="the timeout of a connection to one address, including TLS; the name lookup may take 5 s more",
    )
    excerpt_s: float = Field(
        1.0, gt=0, description="the timeout of reading an answer's body; the body does not affect the outcome"
    )
    requests_max: int = Field(
        500,
        gt=0,
        description="the limit of concurrent requests: at most half for one tenant, and at most a third to one host",
    )
    kept_max: int = Field(500, ge=0, description="how many idle connections are kept for later deliveries")
    keep_s: float = Field(
        15.0, gt=0, description="how long an idle connection is kept: shorter than most servers' timeouts"
    )


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    """The id (letters, digits, _ and -) and the body of a webhook; each attempt sends the same id and body."""

    id: str
    body: bytes


class WebhookSender:
    """Send many deliveries at a time. Create, use and close a sender in the same event loop."""

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
        self._semaphore = FairSemaphore(settings.requests_max)
        self._held_until_s = float("-inf")  # the end of the sender's pause after it ran out of sockets
        self._guard = Guard(networks)
        self._names = BoundedResolver(resolver or SystemResolver())
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

    async def send(self, endpoint: Endpoint, message: WebhookMessage, *, tenant_id: str | None = None) -> Answer:
        """Make one attempt, as `send_in_turn` does, with a message that is already written."""
        return await self.send_in_turn(endpoint, lambda: message, tenant_id=tenant_id)

    async def send_in_turn(
        self, endpoint: Endpoint, write: Callable[[], WebhookMessage], *, tenant_id: str | None = None
    ) -> Answer:
        """Wait for a permit of the fair queue, and make one attempt.

        Each failure of the endpoint is returned as an `Answer`.

        `write` is called after the wait, so a waiting delivery has no body in memory. Without a `tenant_id`, the fair
        queue treats the endpoint as a tenant of its own.
        """
        host, port = endpoint.url.raw_host or "", endpoint.url.port or 0
        tenant = f"{host}:{port}" if tenant_id is None else tenant_id
        async with self._semaphore.acquire(tenant, (host, port)):
            began_s = time.monotonic()
            if began_s < self._held_until_s:
                return sender_exhausted(self._held_until_s - began_s)
            message = write()
            counts = SocketCounts()
            counts_token, tenant_token = socket_counts.set(counts), lookup_tenant.set(tenant)
            try:
                return await self._attempt(endpoint, message, counts, began_s)
            except (aiohttp.ClientError, OSError, ValueError) as error:
                if concerns_all_endpoints(error):
                    self._held_until_s = time.monotonic() + OWN_PAUSE_S
                return failure_of(error, counts, duration_s=time.monotonic() - began_s)
            finally:
                socket_counts.reset(counts_token)
                lookup_tenant.reset(tenant_token)

    async def _attempt(
        self, endpoint: Endpoint, message: WebhookMessage, counts: SocketCounts, began_s: float
    ) -> Answer:
        response = await self._post_again_if_stale(endpoint, message, counts, began_s)
        try:
            duration_s = time.monotonic() - began_s
            body = await self._beginning_of(response)
            redirects = 300 <= response.status < 400
            answer = answer_of(
                response.status,
                excerpt=response.headers.get("location", "").encode(errors="replace") if redirects else body,
                retry_after=response.headers.get("retry-after"),
                now_s=self._now_s(),
                duration_s=duration_s,
            )
            return replace(answer, body=body) if body else answer
        finally:
            response.close()  # the connection stays usable if the answer was read to its end

    async def _post_again_if_stale(
        self, endpoint: Endpoint, message: WebhookMessage, counts: SocketCounts, began_s: float
    ) -> aiohttp.ClientResponse:
        """Post a webhook. If the endpoint has closed the reused connection, post it again on a new connection."""
        try:
            return await self._post(self._keeping, endpoint, message, endpoint.timeout_s)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            left_s = endpoint.timeout_s - (time.monotonic() - began_s)
            if counts.opened or isinstance(error, aiohttp.ClientConnectorError) or left_s <= 0:
                raise
        return await self._post(self._closing, endpoint, message, left_s)

    async def _post(
        self, session: aiohttp.ClientSession, endpoint: Endpoint, message: WebhookMessage, timeout_s: float
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

    async def _beginning_of(self, response: aiohttp.ClientResponse) -> bytes:
        """Read an answer to its end, so that the connection can be kept; stop reading if the answer is slow."""
        content, read = response.content, bytearray()
        try:
            if content.is_eof():
                return content.read_nowait(STORED_BYTES_MAX)
            async with asyncio.timeout(self._settings.excerpt_s):
                while chunk := await content.readany():
                    read += chunk
        except (aiohttp.ClientError, OSError):
            pass  # the status is enough to classify the answer
        return bytes(read[:STORED_BYTES_MAX])

    def _session(self, tls: ssl.SSLContext | None, *, keep: bool) -> aiohttp.ClientSession:
        connector = Connector(
            # no limit here, because `requests_max` limits the connections before the timeout of an attempt starts
            limit=0,
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
