"""Test that a webhook is sent only to a server with a valid certificate; the tenant sees the certificate's fault."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from shardclock_server.webhooks.addresses import networks_of
from shardclock_server.webhooks.answer_classification import Answer, Delivered, RetryDelivery
from shardclock_server.webhooks.sender import SenderSettings, WebhookSender
from tests.support.receivers import DELIVERY, Receiver, Zone, answering, hanging, receiving
from tests.support.tls import Authority

LOOPBACK = networks_of(allowed=["127.0.0.0/8"])
LIMITS = SenderSettings(connect_s=0.5)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Make a certificate authority that is not trusted."""
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="module")
def server_tls(authority: Authority) -> ssl.SSLContext:
    return authority.certify("receiver.test")


def _trusting(authority: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.ca)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13 demands a key usage, which this authority lacks
    return context


async def _answer(server_tls: ssl.SSLContext, name: str, client_tls: ssl.SSLContext | None = None) -> Answer:
    zone = Zone(receiver=[["127.0.0.1"]], other=[["127.0.0.1"]])
    async with (
        receiving(answering("200 OK"), tls=server_tls) as receiver,
        WebhookSender(LIMITS, networks=LOOPBACK, resolver=zone, tls=client_tls) as sender,
    ):
        answer = await sender.send(receiver.endpoint(name), DELIVERY)
    assert len(receiver.requests) == isinstance(answer, Delivered)
    return answer


async def test_a_certificate_of_an_unknown_authority_is_not_trusted(server_tls: ssl.SSLContext) -> None:
    answer = await _answer(server_tls, "receiver.test")
    assert isinstance(answer, RetryDelivery)
    assert answer.reason == "TLS certificate is not trusted: unable to get local issuer certificate"


async def test_a_certificate_for_another_name_is_not_trusted(server_tls: ssl.SSLContext, authority: Authority) -> None:
    answer = await _answer(server_tls, "other.test", _trusting(authority))
    assert isinstance(answer, RetryDelivery)
    assert answer.reason == (
        "TLS certificate is not trusted: Hostname mismatch, certificate is not valid for 'other.test'."
    )


async def test_the_operator_can_trust_another_authority(server_tls: ssl.SSLContext, authority: Authority) -> None:
    answer = await _answer(server_tls, "receiver.test", _trusting(authority))
    assert isinstance(answer, Delivered)


async def test_an_endpoint_without_tls_fails_the_handshake() -> None:
    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    plain = Receiver("127.0.0.1", server.sockets[0].getsockname()[1], scheme="https")
    async with server, WebhookSender(LIMITS, networks=LOOPBACK) as sender:
        answer = await sender.send(plain.endpoint(), DELIVERY)
    assert isinstance(answer, RetryDelivery)
    assert answer.reason == "TLS handshake failed: wrong version number"


async def test_an_endless_handshake_times_out() -> None:
    async with receiving(hanging) as receiver, WebhookSender(LIMITS, networks=LOOPBACK) as sender:
        receiver.scheme = "https"
        answer = await sender.send(receiver.endpoint(timeout_s=20.0), DELIVERY)
    assert isinstance(answer, RetryDelivery)
    assert answer.reason.startswith("timed out while connecting, after ")
    assert 0.5 <= answer.duration_s < 10.0
