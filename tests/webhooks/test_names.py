"""A name costs a bounded time and leads to few addresses, whoever answers for its zone."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading

import pytest
from aiohttp.abc import ResolveResult
from yarl import URL

from shardclock_server.webhooks.addresses import Networks
from shardclock_server.webhooks.answers import Fault, Retry
from shardclock_server.webhooks.endpoint import Endpoint
from shardclock_server.webhooks.failures import NO_ADDRESS, NO_ROOM
from shardclock_server.webhooks.names import ADDRESSES_MAX, Names, SystemNames, asking
from shardclock_server.webhooks.sender import Sender, SenderSettings
from shardclock_server.webhooks.signing import check_secret
from tests.support.receivers import DELIVERY, SECRET, Zone


async def test_a_name_of_many_addresses_leads_to_a_few() -> None:
    many = [f"127.0.0.{last}" for last in range(1, 100)] + [f"fd00::{last}" for last in range(1, 100)]
    found = await Names(Zone(many=[many])).resolve("many.test", 443)
    assert [result["host"] for result in found] == [
        *many[:ADDRESSES_MAX], *many[99 : 99 + ADDRESSES_MAX],
    ]  # fmt: skip


async def test_a_name_server_that_does_not_answer_costs_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Zone):
        async def resolve(self, *_: object, **__: object) -> list[ResolveResult]:
            never: asyncio.Future[list[ResolveResult]] = asyncio.get_running_loop().create_future()
            return await never

    monkeypatch.setattr("shardclock_server.webhooks.names.RESOLVE_S", 0.1)
    async with asyncio.timeout(3.0), Sender(SenderSettings(), networks=Networks(), resolver=Silent()) as sender:
        answer = await sender.send(Endpoint(URL("https://silent.test/"), (), (check_secret(SECRET),), 5.0), DELIVERY)
    assert isinstance(answer, Retry)
    assert (answer.reason, answer.forbidden) == (NO_ADDRESS, False)


async def test_the_system_knows_no_name_that_does_not_exist_and_then_resolves_one_that_does() -> None:
    names = Names(SystemNames(threads=1))
    for host in ("a" * 64, "nobody.invalid", ""):
        with pytest.raises(OSError):  # noqa: PT011
            await names.resolve(host, 443)
    found = await names.resolve("localhost", 443)
    assert {result["host"] for result in found} <= {"127.0.0.1", "::1"}
    assert {result["port"] for result in found} == {443}
    await names.close()


async def test_when_all_lookups_hang_the_next_endpoint_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given two threads, both in a lookup that does not end, for two tenants
    ended = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: ended.wait(10.0) or [])
    names = SystemNames(threads=2)
    async with Sender(SenderSettings(), networks=Networks(), resolver=names) as sender:
        hanging = [asyncio.create_task(_look_up(names, f"{tenant}.test", tenant)) for tenant in "ab"]
        await asyncio.sleep(0)
        # When even nobody waits for them any more
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        # Then a third lookup is not begun, and it is the sender's fault
        answer = await sender.send(_endpoint(), DELIVERY)
        ended.set()
    assert isinstance(answer, Retry)
    assert (answer.reason, answer.fault) == (NO_ROOM, Fault.SENDER)


async def test_a_tenant_whose_lookups_hang_leaves_half_of_them_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    loopback = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *_, **__: [loopback] if host == "quick.test" or ended.wait(10.0) else []
    )
    names = SystemNames(threads=8)
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


async def test_a_name_is_looked_up_for_the_tenant_whose_delivery_is_sent() -> None:
    tenants: list[str] = []

    class Noting(Zone):
        async def resolve(self, *_: object, **__: object) -> list[ResolveResult]:
            tenants.append(asking.get())
            raise OSError(None, "no such name")

    async with Sender(SenderSettings(), networks=Networks(), resolver=Noting()) as sender:
        await sender.send(_endpoint(), DELIVERY, tenant_id="acme")
        await sender.send(_endpoint(), DELIVERY)
    assert tenants == ["acme", "third.test:443"]


async def _look_up(names: SystemNames, host: str, tenant: str) -> list[ResolveResult]:
    asking.set(tenant)  # of this task alone
    return await names.resolve(host)


def _endpoint() -> Endpoint:
    return Endpoint(URL("https://third.test/"), (), (check_secret(SECRET),), 5.0)
