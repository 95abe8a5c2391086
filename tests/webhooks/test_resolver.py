"""Test that a lookup takes a bounded time and gives few addresses, for each behaviour of a name server."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading

import pytest
from aiohttp.abc import ResolveResult
from yarl import URL

from shardclock_server.webhooks.addresses import Networks
from shardclock_server.webhooks.answer_classification import FaultSide, RetryDelivery
from shardclock_server.webhooks.connection_failures import NO_ADDRESS, SENDER_EXHAUSTED
from shardclock_server.webhooks.endpoint import Endpoint
from shardclock_server.webhooks.resolver import ADDRESSES_MAX, BoundedResolver, SystemResolver, lookup_tenant
from shardclock_server.webhooks.sender import SenderSettings, WebhookSender
from shardclock_server.webhooks.signing import check_secret
from tests.support.receivers import DELIVERY, SECRET, Zone


async def test_of_a_name_with_many_addresses_only_a_few_are_used() -> None:
    many = [f"127.0.0.{last}" for last in range(1, 100)] + [f"fd00::{last}" for last in range(1, 100)]
    found = await BoundedResolver(Zone(many=[many])).resolve("many.test", 443)
    assert [result["host"] for result in found] == [
        *many[:ADDRESSES_MAX], *many[99 : 99 + ADDRESSES_MAX],
    ]  # fmt: skip


async def test_a_lookup_at_a_silent_name_server_ends_after_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Zone):
        async def resolve(self, *_: object, **__: object) -> list[ResolveResult]:
            never: asyncio.Future[list[ResolveResult]] = asyncio.get_running_loop().create_future()
            return await never

    monkeypatch.setattr("shardclock_server.webhooks.resolver.RESOLVE_S", 0.1)
    async with asyncio.timeout(3.0), WebhookSender(SenderSettings(), networks=Networks(), resolver=Silent()) as sender:
        answer = await sender.send(Endpoint(URL("https://silent.test/"), (), (check_secret(SECRET),), 5.0), DELIVERY)
    assert isinstance(answer, RetryDelivery)
    assert (answer.reason, answer.forbidden) == (NO_ADDRESS, False)


async def test_the_system_resolves_a_name_after_lookups_of_unknown_names() -> None:
    names = BoundedResolver(SystemResolver(threads=1))
    for host in ("a" * 64, "nobody.invalid", ""):
        with pytest.raises(OSError):  # noqa: PT011
            await names.resolve(host, 443)
    found = await names.resolve("localhost", 443)
    assert {result["host"] for result in found} <= {"127.0.0.1", "::1"}
    assert {result["port"] for result in found} == {443}
    await names.close()


async def test_the_endpoint_is_not_at_fault_if_all_lookups_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given two threads that look up names for two tenants, and neither lookup ends
    ended = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: ended.wait(10.0) or [])
    names = SystemResolver(threads=2)
    async with WebhookSender(SenderSettings(), networks=Networks(), resolver=names) as sender:
        hanging = [asyncio.create_task(_look_up(names, f"{tenant}.test", tenant)) for tenant in "ab"]
        await asyncio.sleep(0)
        # When both requests are cancelled
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        # Then a third lookup does not start, and the reported cause is the sender
        answer = await sender.send(_endpoint(), DELIVERY)
        ended.set()
    assert isinstance(answer, RetryDelivery)
    assert (answer.reason, answer.fault) == (SENDER_EXHAUSTED, FaultSide.SENDER)


async def test_hanging_lookups_of_one_tenant_use_at_most_half_of_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    loopback = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *_, **__: [loopback] if host == "quick.test" or ended.wait(10.0) else []
    )
    names = SystemResolver(threads=8)
    hanging = [asyncio.create_task(_look_up(names, f"{number}.test", "a")) for number in range(9)]
    await asyncio.sleep(0)

    refused = [task for task in hanging if task.done()]
    assert len(refused) == 5
    assert {getattr(task.exception(), "errno", None) for task in refused} == {errno.EAGAIN}
    assert [found["host"] for found in await _look_up(names, "quick.test", "b")] == ["127.0.0.1"]
    ended.set()
    await asyncio.gather(*hanging, return_exceptions=True)
    assert [found["host"] for found in await _look_up(names, "quick.test", "a")] == ["127.0.0.1"]
    await names.close()


async def test_a_lookup_counts_for_the_tenant_of_the_delivery() -> None:
    tenants: list[str] = []

    class Noting(Zone):
        async def resolve(self, *_: object, **__: object) -> list[ResolveResult]:
            tenants.append(lookup_tenant.get())
            raise OSError(None, "no such name")

    async with WebhookSender(SenderSettings(), networks=Networks(), resolver=Noting()) as sender:
        await sender.send(_endpoint(), DELIVERY, tenant_id="acme")
        await sender.send(_endpoint(), DELIVERY)
    assert tenants == ["acme", "third.test:443"]


async def _look_up(names: SystemResolver, host: str, tenant: str) -> list[ResolveResult]:
    lookup_tenant.set(tenant)  # the value is set for this task alone
    return await names.resolve(host)


def _endpoint() -> Endpoint:
    return Endpoint(URL("https://third.test/"), (), (check_secret(SECRET),), 5.0)
