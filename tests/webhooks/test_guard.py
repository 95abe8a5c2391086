"""Test that each spelling of a forbidden address, and each trick with names, is refused at the connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver
from yarl import URL

from shardclock_server.webhooks.addresses import Networks, networks_of
from shardclock_server.webhooks.answer_classification import Delivered, RetryDelivery
from shardclock_server.webhooks.connection_failures import NO_ADDRESS
from shardclock_server.webhooks.endpoint import Endpoint
from shardclock_server.webhooks.guard import ForbiddenAddress, Guard, SocketCounts, socket_counts
from shardclock_server.webhooks.resolver import SystemResolver
from shardclock_server.webhooks.sender import SenderSettings, WebhookSender
from shardclock_server.webhooks.signing import check_secret
from tests.support.receivers import DELIVERY, SECRET, Zone, answering, receiving

# Spellings of loopback: some are addresses for yarl, others for aiohttp, and the rest only for the C library.
LOOPBACK = """
    127.0.0.1 127.0.0.1. 127.1 127.0.1 127.000.000.001 0177.0.0.1 0177.0.0.01 0x7f.0.0.1 0x7f.1 0x7f000001
    0X7F000001 2130706433 017700000001 00000000177.0.0.1 0x7f.0x0.0x0.0x1 127.0.0.0x1 %31%32%37.0.0.1
    127%2e0%2e0%2e1 １２７.0.0.1 127。0。0。1 127．0．0．1 ①②⑦.0.0.1 localhost localhost.
    LOCALHOST ｌocalhost 0 0.0.0.0 0x0 [::1] [0:0:0:0:0:0:0:1] [::1%25lo] [::] [::ffff:127.0.0.1] [::ffff:7f00:1]
    [0:0:0:0:0:ffff:127.0.0.1] [::127.0.0.1] [::ffff:0:127.0.0.1] [64:ff9b::7f00:1] [64:ff9b::127.0.0.1]
    [2002:7f00:1::] [2001:0:7f00:1::]
"""
ELSEWHERE = """
    10.0.0.1 100.64.0.1 100.100.100.200 168.63.129.16 169.254.169.254 2852039166 0xa9fea9fe 0251.0376.0251.0376
    192.0.0.192 192.168.1.1 198.18.0.1 224.0.0.1 240.0.0.1 255.255.255.255 [fd00:ec2::254] [fe80::1]
    [fe80::1%25eth0] [fe80::a9fe:a9fe%252] [64:ff9b::a9fe:a9fe] [ff02::1] [::ffff:169.254.169.254]
"""


class Dialled:
    """Replace the network: record the address of each connection, and refuse the connection."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses: list[object] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", self._connect)

    async def _connect(self, _: socket.socket, address: object) -> None:
        self.addresses.append(address)
        raise ConnectionRefusedError


@pytest.mark.parametrize("resolver", [SystemResolver, aiohttp.ThreadedResolver])
async def test_no_spelling_of_an_address_connects_to_the_inside(
    resolver: Callable[[], AbstractResolver], monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled = Dialled(monkeypatch)
    async with WebhookSender(SenderSettings(), networks=Networks(), resolver=resolver()) as sender:
        for host in (LOOPBACK + ELSEWHERE).split():
            answer = await sender.send(_endpoint(f"http://{host}:8080/"), DELIVERY)
            assert isinstance(answer, RetryDelivery), host
            assert "127.0.0.1" not in answer.reason
    assert dialled.addresses == []


async def test_without_the_guard_the_spellings_connect_to_the_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    dialled = Dialled(monkeypatch)
    every = networks_of(allowed=["0.0.0.0/0", "::/0"])
    async with WebhookSender(SenderSettings(), networks=every, resolver=aiohttp.ThreadedResolver()) as sender:
        for host in ("127.0.0.1", "0x7f000001", "localhost", "[::1]"):
            await sender.send(_endpoint(f"http://{host}:8080/"), DELIVERY)
    assert len(dialled.addresses) >= 4


async def test_a_name_with_a_private_address_is_refused_without_the_address() -> None:
    zone = Zone(inside=[["10.9.8.7", "fd00::77", "169.254.169.254"]])
    async with WebhookSender(SenderSettings(), networks=Networks(), resolver=zone) as sender:
        answer = await sender.send(_endpoint("https://inside.test/"), DELIVERY)
    assert isinstance(answer, RetryDelivery)
    assert (answer.reason, answer.forbidden) == (NO_ADDRESS, True)
    assert not any(part in repr(answer) for part in ("10.9", "fd00", "169.254"))


async def test_an_internal_name_and_an_unknown_name_have_the_same_refusal() -> None:
    async with WebhookSender(SenderSettings(), networks=Networks(), resolver=Zone(inside=[["10.9.8.7"]])) as sender:
        answers = [await sender.send(_endpoint(f"https://{name}.test/"), DELIVERY) for name in ("inside", "nobody")]
    inside, nobody = answers
    assert isinstance(inside, RetryDelivery)
    assert isinstance(nobody, RetryDelivery)
    assert inside.reason == nobody.reason


async def test_each_attempt_checks_the_new_address_of_a_name() -> None:
    # Given a name that resolves first to a permitted address, and then to a forbidden address
    zone = Zone(rebound=[["127.0.0.2"], ["127.0.0.1"]])
    networks = networks_of(allowed=["127.0.0.2/32"])
    async with (
        receiving(answering("200 OK"), host="127.0.0.1") as inside,
        receiving(answering("200 OK", "connection: close"), host="127.0.0.2", port=inside.port) as permitted,
        WebhookSender(SenderSettings(), networks=networks, resolver=zone) as sender,
    ):
        # When the name is resolved for each of two attempts
        first = await sender.send(permitted.endpoint("rebound.test"), DELIVERY)
        _forget_addresses(sender)
        second = await sender.send(permitted.endpoint("rebound.test"), DELIVERY)
    assert inside.connections == 0
    # Then only the first attempt has connected
    assert isinstance(first, Delivered)
    assert isinstance(second, RetryDelivery)
    assert second.forbidden
    assert zone.asked == ["rebound.test", "rebound.test"]


async def test_for_a_name_with_permitted_and_forbidden_addresses_a_permitted_address_is_used() -> None:
    zone = Zone(mixed=[["127.0.0.1", "127.0.0.2"]])
    networks = networks_of(allowed=["127.0.0.2/32"])
    async with (
        receiving(answering("200 OK"), host="127.0.0.1") as inside,
        receiving(answering("200 OK"), host="127.0.0.2", port=inside.port) as permitted,
        WebhookSender(SenderSettings(), networks=networks, resolver=zone) as sender,
    ):
        answer = await sender.send(permitted.endpoint("mixed.test"), DELIVERY)
    assert isinstance(answer, Delivered)
    assert inside.connections == 0


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See", "307 Same", "308 Same"])
async def test_a_redirect_is_not_followed(status: str) -> None:
    networks = networks_of(allowed=["127.0.0.1/32"])
    async with receiving(answering("200 OK")) as inside:
        there = f"location: http://127.0.0.1:{inside.port}/latest/meta-data"
        async with (
            receiving(answering(status, there)) as receiver,
            WebhookSender(SenderSettings(), networks=networks) as sender,
        ):
            answer = await sender.send(receiver.endpoint(), DELIVERY)
        assert inside.connections == 0
    assert isinstance(answer, RetryDelivery)
    assert "a redirect, which is not followed" in answer.reason


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    networks = networks_of(allowed=["127.0.0.1/32"])
    async with receiving(answering("200 OK")) as proxy, receiving(answering("200 OK")) as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with WebhookSender(SenderSettings(), networks=networks) as sender:
            assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), Delivered)
        assert (proxy.connections, receiver.connections) == (0, 1)


def test_a_socket_of_another_kind_is_refused() -> None:
    guard = Guard(networks_of(allowed=["0.0.0.0/0"]))
    info = (socket.AF_UNIX, socket.SOCK_STREAM, 0, "", ("8.8.8.8", 443))
    token = socket_counts.set(SocketCounts())
    try:
        with pytest.raises(ForbiddenAddress):
            guard(info)
    finally:
        socket_counts.reset(token)


def test_a_guard_without_a_request_makes_no_socket() -> None:
    with pytest.raises(LookupError):
        Guard(Networks())((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("8.8.8.8", 443)))


def _endpoint(url: str) -> Endpoint:
    return Endpoint(URL(url), (), (check_secret(SECRET),), 5.0)


def _forget_addresses(sender: WebhookSender) -> None:
    connector = sender._keeping.connector
    assert isinstance(connector, aiohttp.TCPConnector)
    connector.clear_dns_cache()
