"""A name costs a bounded time and leads to few addresses, whoever answers for its zone."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest
from aiohttp.abc import ResolveResult
from yarl import URL

from tests.support.receivers import DELIVERY, SECRET, Zone
from webhooks.addresses import Networks
from webhooks.answers import Fault, Retry
from webhooks.endpoint import Endpoint
from webhooks.failures import NO_ADDRESS, NO_ROOM
from webhooks.names import ADDRESSES_MAX, Names, SystemNames
from webhooks.sender import Sender, SenderSettings
from webhooks.signing import check_secret


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

    monkeypatch.setattr("webhooks.names.RESOLVE_S", 0.1)
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
    # Given two threads, both in a lookup that does not end
    ended = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: ended.wait(10.0) or [])
    names = SystemNames(threads=2)
    async with Sender(SenderSettings(), networks=Networks(), resolver=names) as sender:
        hanging = [asyncio.create_task(names.resolve(f"{number}.test")) for number in range(2)]
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


def _endpoint() -> Endpoint:
    return Endpoint(URL("https://third.test/"), (), (check_secret(SECRET),), 5.0)
