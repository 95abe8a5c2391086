"""Test that each attempt ends in time with a classified answer, for each behaviour of an endpoint."""

from __future__ import annotations

import asyncio
import errno
import gzip
import socket
import time
from contextlib import AsyncExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardclock_server.webhooks.addresses import networks_of
from shardclock_server.webhooks.answer_classification import Answer, Delivered, EndpointGone, FaultSide, RetryDelivery
from shardclock_server.webhooks.connection import HEAD_BYTES_MAX
from shardclock_server.webhooks.connection_failures import NO_ADDRESS, SENDER_EXHAUSTED
from shardclock_server.webhooks.sender import SenderSettings, WebhookMessage, WebhookSender
from shardclock_server.webhooks.signing import check_secrets, signed_headers
from tests.support.receivers import (
    DELIVERY,
    SECRET,
    Behave,
    Zone,
    answering,
    closing,
    hanging,
    receiving,
    resetting,
    saying,
    without_end,
)
from tests.support.waiting import eventually

LOOPBACK = networks_of(allowed=["127.0.0.0/8"])
SOON_S = 10.0  # far above every limit of these tests, and far below the duration of a hang


async def _send(sender: WebhookSender, behave: Behave, *, timeout_s: float = 5.0) -> Answer:
    async with receiving(behave) as receiver:
        return await sender.send(receiver.endpoint(timeout_s=timeout_s), DELIVERY)


async def _reason(sender: WebhookSender, behave: Behave, *, timeout_s: float = 5.0) -> str:
    answer = await _send(sender, behave, timeout_s=timeout_s)
    assert isinstance(answer, RetryDelivery)
    return answer.reason


async def test_a_delivery_is_posted_with_its_signature_and_the_tenants_headers(sender: WebhookSender) -> None:
    async with receiving(answering("204 No Content")) as receiver:
        answer = await sender.send(receiver.endpoint(headers=(("authorization", "Bearer a"),)), DELIVERY)
    assert isinstance(answer, Delivered)
    assert answer.status == 204
    (request,) = receiver.requests
    assert (request.line, request.body) == ("POST /hook HTTP/1.1", DELIVERY.body)
    sent = dict(request.headers)
    signed = {name: sent.pop(name) for name in ("webhook-id", "webhook-timestamp", "webhook-signature")}
    timestamp_s = int(signed["webhook-timestamp"])
    assert abs(timestamp_s - time.time()) < 60
    assert signed == signed_headers(check_secrets([SECRET]), DELIVERY.id, timestamp_s, DELIVERY.body)
    assert sent == {
        "host": f"127.0.0.1:{receiver.port}",
        "accept": "*/*",
        "accept-encoding": "identity",
        "authorization": "Bearer a",
        "content-length": str(len(DELIVERY.body)),
        "content-type": "application/json",
        "user-agent": "Shardclock",
    }


async def test_each_attempt_has_the_same_id_and_body_and_a_new_timestamp_and_signature() -> None:
    moments = iter([1_000.0, 1_000.0, 2_000.0, 2_000.0])
    async with (
        receiving(answering("500 Oops")) as receiver,
        WebhookSender(SenderSettings(), networks=LOOPBACK, now_s=lambda: next(moments)) as sender,
    ):
        for _ in range(2):
            await sender.send(receiver.endpoint(), DELIVERY)
    first, second = receiver.requests
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert [request.headers["webhook-timestamp"] for request in receiver.requests] == ["1000", "2000"]
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


async def test_one_connection_serves_many_deliveries_and_no_cookie_is_kept(sender: WebhookSender) -> None:
    async with receiving(answering("200 OK", "set-cookie: a=b; path=/", body=b"fine")) as receiver:
        for _ in range(20):
            assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), Delivered)
    assert receiver.connections == 1
    assert not any("cookie" in request.headers for request in receiver.requests)


async def test_a_connection_that_is_closed_between_two_deliveries_fails_no_delivery(sender: WebhookSender) -> None:
    # Given a receiver that closes the connection without an answer when the next request arrives
    answers = iter([b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""])

    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = next(answers, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.write(answer)
        if not answer:
            writer.close()

    # When two deliveries are sent, then both arrive
    async with receiving(behave) as receiver:
        for _ in range(2):
            assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), Delivered)
    assert (receiver.connections, len(receiver.requests)) == (2, 3)


@pytest.mark.parametrize("behave", [closing, resetting])
async def test_a_new_connection_that_is_closed_is_not_retried_at_once(sender: WebhookSender, behave: Behave) -> None:
    async with receiving(behave) as receiver:
        assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), RetryDelivery)
    assert receiver.connections == 1


@pytest.mark.parametrize(
    ("behave", "reason"),
    [
        (answering("500 Oops", body=b"no database"), "answered 500 Internal Server Error: no database"),
        (answering("404 No", body=b""), "answered 404 Not Found"),
        (answering("418 Tea", body=b"\xff\x00\x1b[31m"), "answered 418 I'm a Teapot: � [31m"),
        (
            saying(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"),
            "answered 101 Switching Protocols",
        ),
        (
            saying(b"HTTP/1.1 302 Found\r\nlocation: /\xff\r\ncontent-length: 0\r\n\r\n"),
            "answered 302 Found, a redirect, which is not followed; set the endpoint's URL to the target: /?",
        ),
        (closing, "connection closed without an answer"),
        (resetting, "connection reset"),
        (saying(b"SSH-2.0-OpenSSH_9.6\r\n"), "the answer is not HTTP, or its headers are too long"),
        (saying(b"\x15\x03\x01\x00\x02\x02\x16"), "the answer is not HTTP, or its headers are too long"),
        (saying(b"HTTP/1.1 2OO OK\r\n\r\n"), "the answer is not HTTP, or its headers are too long"),
        (
            saying(b"HTTP/1.1 200 OK\r\na: " + b"b" * (2 * HEAD_BYTES_MAX) + b"\r\n\r\n"),
            "the answer is not HTTP, or its headers are too long",
        ),
        (
            saying(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * (HEAD_BYTES_MAX // 3) + b"\r\n"),
            "the answer is not HTTP, or its headers are too long",
        ),
    ],
)
async def test_a_failure_has_a_reason_in_plain_words(sender: WebhookSender, behave: Behave, reason: str) -> None:
    assert await _reason(sender, behave) == reason


async def test_410_means_that_the_endpoint_is_gone(sender: WebhookSender) -> None:
    answer = await _send(sender, answering("410 Gone", body=b"bye"))
    assert isinstance(answer, EndpointGone)
    assert answer.reason == "answered 410 Gone: bye"


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_obeyed(sender: WebhookSender, status: int) -> None:
    answer = await _send(sender, answering(f"{status} Busy", "retry-after: 7"))
    assert isinstance(answer, RetryDelivery)
    assert (answer.status, answer.after_s, answer.hold_s) == (status, 7.0, 7.0)


@pytest.mark.parametrize(
    "behave",
    [
        hanging,
        without_end(b"HTTP/1.1 200 O", b"O", pause_s=0.02),
        without_end(b"HTTP/1.1 200 OK\r\nx: ", b"a", pause_s=0.02),
        without_end(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", pause_s=0.1),
    ],
    ids=["hangs", "drips a status", "drips a header", "says 100 again and again"],
)
async def test_an_answer_after_the_limit_is_a_timeout(sender: WebhookSender, behave: Behave) -> None:
    began_s = time.monotonic()
    assert (await _reason(sender, behave, timeout_s=0.4)).startswith("timed out without an answer, after ")
    assert time.monotonic() - began_s < SOON_S


@pytest.mark.parametrize(
    "behave",
    [
        without_end(b"HTTP/1.1 200 OK\r\n\r\n", b"a" * 65_536),
        without_end(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n", b"a" * 65_536),
        without_end(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"5\r\nabcde\r\n", pause_s=0.02),
        saying(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"),
    ],
    ids=["no end", "10 GB", "drips", "stops short"],
)
async def test_if_the_body_is_endless_slow_or_broken_only_the_status_decides(
    sender: WebhookSender, behave: Behave
) -> None:
    # When the body never ends, comes byte by byte or is incomplete
    began_s = time.monotonic()
    async with receiving(behave) as receiver:
        first = await sender.send(receiver.endpoint(), DELIVERY)
        assert time.monotonic() - began_s < SOON_S
        second = await sender.send(receiver.endpoint(), DELIVERY)
    # Then the delivery has succeeded nevertheless, and the connection is not reused
    assert isinstance(first, Delivered)
    assert isinstance(second, Delivered)
    assert receiver.connections == 2


async def test_the_body_of_an_answer_is_read_up_to_a_limit() -> None:
    behave = without_end(b"HTTP/1.1 200 OK\r\n\r\n", b"a" * 65_536)
    async with asyncio.timeout(SOON_S), WebhookSender(SenderSettings(excerpt_s=60.0), networks=LOOPBACK) as sender:
        assert isinstance(await _send(sender, behave, timeout_s=60.0), Delivered)


async def test_a_failure_with_an_endless_body_shows_its_start(sender: WebhookSender) -> None:
    behave = without_end(b"HTTP/1.1 500 Oops\r\n\r\n", b"drip ", pause_s=0.02)
    assert (await _reason(sender, behave)).startswith("answered 500 Internal Server Error: drip drip")


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"\0" * 50_000_000)),
        ("gzip", b"this is no gzip"),
        ("deflate", b"nor this"),
        ("br", b"\xff"),
    ],
)
async def test_a_compressed_answer_is_not_unpacked(sender: WebhookSender, encoding: str, body: bytes) -> None:
    body = body[:16_000]
    async with receiving(answering("200 OK", f"content-encoding: {encoding}", body=body)) as receiver:
        for _ in range(2):
            assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), Delivered)
    assert receiver.connections == 1


async def test_a_port_without_a_listener_gives_connection_refused(sender: WebhookSender) -> None:
    async with receiving(hanging) as receiver:
        endpoint = receiver.endpoint()
    answer = await sender.send(endpoint, DELIVERY)
    assert isinstance(answer, RetryDelivery)
    assert answer.reason == "connection refused"


async def test_a_host_that_accepts_no_connection_times_out(sender: WebhookSender) -> None:
    # Given a listener with a full queue, so that the kernel drops the next client
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        async with receiving(hanging) as elsewhere:
            elsewhere.port = listener.getsockname()[1]
            fillers = [socket.socket() for _ in range(4)]
            for filler in fillers:
                filler.setblocking(False)
                assert filler.connect_ex(listener.getsockname()) in {0, errno.EINPROGRESS}
            # When a delivery is sent, then the attempt ends after `connect_s`
            answer = await sender.send(elsewhere.endpoint(timeout_s=20.0), DELIVERY)
            for filler in fillers:
                filler.close()
    assert isinstance(answer, RetryDelivery)
    assert answer.reason.startswith("timed out while connecting, after ")
    assert 0.5 <= answer.duration_s < SOON_S


async def test_a_name_that_does_not_exist_cannot_be_resolved() -> None:
    zone = Zone()
    async with (
        receiving(hanging) as receiver,
        WebhookSender(SenderSettings(), networks=LOOPBACK, resolver=zone) as sender,
    ):
        answer = await sender.send(receiver.endpoint("nobody.test"), DELIVERY)
    assert zone.asked == ["nobody.test"]
    assert isinstance(answer, RetryDelivery)
    assert answer.reason == NO_ADDRESS


async def test_a_lack_of_sockets_is_not_the_fault_of_the_endpoint(
    sender: WebhookSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    async with receiving(hanging) as receiver:
        with monkeypatch.context() as patch:
            patch.setattr("shardclock_server.webhooks.guard.CountedSocket", exhausted)
            answer = await sender.send(receiver.endpoint(), DELIVERY)
    assert isinstance(answer, RetryDelivery)
    assert (answer.reason, answer.fault) == (SENDER_EXHAUSTED, FaultSide.SENDER)


@pytest.mark.parametrize(("number", "holds_all"), [(errno.EMFILE, True), (errno.EADDRNOTAVAIL, False)])
async def test_a_sender_without_sockets_pauses_for_all_endpoints(
    sender: WebhookSender, monkeypatch: pytest.MonkeyPatch, number: int, holds_all: bool
) -> None:
    def exhausted(*_: object) -> socket.socket:
        raise OSError(number, "none left")

    async with receiving(hanging) as receiver, receiving(answering("200 OK")) as another:
        with monkeypatch.context() as patch:
            patch.setattr("shardclock_server.webhooks.guard.CountedSocket", exhausted)
            first = await sender.send(receiver.endpoint(), DELIVERY)
        second = await sender.send(another.endpoint(), DELIVERY)
        sender._held_until_s = time.monotonic()
        third = await sender.send(another.endpoint(), DELIVERY)

    assert isinstance(first, RetryDelivery)
    assert (first.fault, first.after_s, first.hold_s) == (FaultSide.SENDER, 5.0, 5.0)
    assert isinstance(second, RetryDelivery if holds_all else Delivered)
    assert isinstance(third, Delivered)
    assert another.connections == 1


async def test_requests_are_limited_and_the_wait_is_not_part_of_the_timeout() -> None:
    under_way = highest = 0

    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal under_way, highest
        under_way += 1
        highest = max(highest, under_way)
        await asyncio.sleep(0.2)
        under_way -= 1
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    limits = SenderSettings(requests_max=9)  # a third of the deliveries is for one host
    async with receiving(behave) as receiver, WebhookSender(limits, networks=LOOPBACK) as sender:
        # The last deliveries wait for a permit longer than the timeout of an attempt
        endpoint = receiver.endpoint(timeout_s=1.2)
        answers = await asyncio.gather(*(sender.send(endpoint, DELIVERY) for _ in range(24)))
    assert all(isinstance(answer, Delivered) for answer in answers)
    assert highest == 3


async def test_few_connections_are_kept() -> None:
    limits = SenderSettings(kept_max=2)
    async with AsyncExitStack() as stack:
        sender = await stack.enter_async_context(WebhookSender(limits, networks=LOOPBACK))
        receivers = [await stack.enter_async_context(receiving(answering("200 OK"))) for _ in range(10)]
        for receiver in receivers:
            assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), Delivered)
            await eventually(lambda: sender._guard.open <= 2, within_s=SOON_S)


async def test_a_slow_endpoint_does_not_delay_another_endpoint() -> None:
    # The limits are longer than in other tests, because fifty simultaneous connections take long on a busy machine.
    patient = WebhookSender(SenderSettings(connect_s=SOON_S), networks=LOOPBACK)
    async with patient as sender, receiving(hanging) as slow, receiving(answering("200 OK")) as fast:
        waiting = [asyncio.create_task(sender.send(slow.endpoint(timeout_s=30.0), DELIVERY)) for _ in range(50)]
        async with asyncio.timeout(SOON_S):
            assert isinstance(await sender.send(fast.endpoint(), DELIVERY), Delivered)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_tenant_that_fills_the_sender_does_not_delay_another_tenant() -> None:
    writes = 0

    def written() -> WebhookMessage:
        nonlocal writes
        writes += 1
        return DELIVERY

    limits = SenderSettings(requests_max=20)
    async with (
        receiving(hanging) as slow,
        receiving(answering("200 OK")) as fast,
        WebhookSender(limits, networks=LOOPBACK) as sender,
    ):
        waiting = [asyncio.create_task(sender.send_in_turn(slow.endpoint(), written, tenant_id="a")) for _ in range(40)]
        await eventually(lambda: len(slow.requests) == 7, within_s=SOON_S)
        async with asyncio.timeout(SOON_S):
            assert isinstance(await sender.send(fast.endpoint(), DELIVERY, tenant_id="b"), Delivered)
        assert writes == 7, "what waits for its turn is not written yet"
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_cancelled_delivery_leaves_no_connection(sender: WebhookSender) -> None:
    async with receiving(hanging) as receiver:
        sending = asyncio.create_task(sender.send(receiver.endpoint(), DELIVERY))
        await eventually(lambda: len(receiver.requests) == 1, within_s=SOON_S)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await eventually(lambda: sender._guard.open == 0, within_s=SOON_S)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=100).map(b"HTTP/1.1 200 OK\r\n".__add__))
def test_any_bytes_of_a_server_give_a_classified_answer(answer: bytes) -> None:
    async def attempt() -> Answer:
        async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(answer)
            writer.close()

        async with WebhookSender(SenderSettings(excerpt_s=0.2), networks=LOOPBACK) as sender:
            return await _send(sender, behave, timeout_s=1.0)

    assert isinstance(asyncio.run(attempt()), Delivered | RetryDelivery | EndpointGone)
