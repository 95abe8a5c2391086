"""Test that an answer with a harmless breach of HTTP's rules counts, and that further bytes never count.

At least one of curl, Go's net/http and httpx accepts each of these answers; the answers come from the test suites of
these clients and of llhttp. The worker refuses only answers that all three clients refuse.
"""

from __future__ import annotations

import asyncio
import socket

import pytest

from shardclock_server.webhooks.answer_classification import Delivered, RetryDelivery
from shardclock_server.webhooks.connection import INTERIM_MAX
from shardclock_server.webhooks.malformed_head import MalformedHead, NotHttpHead, read_malformed_head
from shardclock_server.webhooks.sender import WebhookSender
from tests.support.receivers import DELIVERY, LINGER_NONE, Behave, receiving, saying
from tests.support.waiting import eventually

SOON_S = 3.0
NO_CONTENT, OK = b"HTTP/1.1 204 No Content\r\n", b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
ODD = {
    # A body after status 204, which must have no body (RFC 9112 6.3)
    "204-length": NO_CONTENT + b"Content-Length: 5\r\n\r\nhello",
    "204-length-two": NO_CONTENT + b"Content-Length: 2\r\n\r\n{}",
    "204-chunked": NO_CONTENT + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "204-chunked-empty": NO_CONTENT + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "204-bare-body": NO_CONTENT + b"\r\nBody should not be read!\n",
    "205-body": b"HTTP/1.1 205 Reset Content\r\nContent-Length: 2\r\n\r\nok",
    # The status line
    "no-reason": b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
    "no-reason-space": b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
    "spaces": b"HTTP/1.1   200   OK\r\nContent-Length: 0\r\n\r\n",
    "tab": b"HTTP/1.1\t200 OK\r\nContent-Length: 0\r\n\r\n",
    "lower-case": b"http/1.1 200 ok\r\ncontent-length: 0\r\n\r\n",
    "http-1.0": b"HTTP/1.0 200 OK\r\n\r\nfine",
    "http-1.2": b"HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n",
    "http-1": b"HTTP/1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "http-2": b"HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n",
    "http-2.0": b"HTTP/2.0 200\r\n\r\n",
    "http-1.01": b"HTTP/1.01 200 OK\r\n\r\n",
    "no-version": b"HTTP 200 OK\r\n\r\n",
    "299": b"HTTP/1.1 299 Whatever\r\nContent-Length: 0\r\n\r\n",
    "250": b"HTTP/1.1 250\r\nContent-Length: 0\r\n\r\n",
    "latin-1-reason": b"HTTP/1.1 200 \xe9t\xe9\r\nContent-Length: 0\r\n\r\n",
    "control-in-reason": b"HTTP/1.1 200 O\x01K\x00\r\nContent-Length: 0\r\n\r\n",
    "empty-lines-before": b"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "space-before": b" HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    # The lines
    "lf-only": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "lf-mixed": b"HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nok",
    "lf-then-cr-lf": b"HTTP/1.1 200 OK\nServer: x\r\n\nok",
    "two-crs": b"HTTP/1.1 200 OK\r\r\nContent-Length: 0\r\r\n\r\r\n",
    "two-crs-body": b"HTTP/1.1 200 OK\r\r\nContent-Length: 2\r\r\n\r\r\nok",
    "three-crs": b"HTTP/1.1 204 No Content\r\r\r\n\r\r\r\n",
    "two-crs-at-the-end": OK + b"Content-Length: 0\r\n\r\r\n",
    "bare-cr": OK + b"Foo: 1\rBar: 2\r\nContent-Length: 0\r\n\r\n",
    # Headers
    "obs-fold": OK + b"X-Long: one\r\n two\r\n\tthree\r\nContent-Length: 0\r\n\r\n",
    "first-line-folded": OK + b" folded: x\r\nContent-Length: 0\r\n\r\n",
    "odd-names": OK + b"X(y)[z]: 1\r\nX y: 2\r\nn\xc3\xa4me: 3\r\n@: 4\r\nContent-Length: 0\r\n\r\n",
    "space-before-colon": OK + b"Content-Length : 2\r\n\r\nok",
    "empty-value": OK + b"X-Empty:\r\nX-Spaces:   \r\nContent-Length:0\r\n\r\n",
    "empty-name": OK + b": nothing\r\nContent-Length: 0\r\n\r\n",
    "no-colon": OK + b"this is no header\r\nContent-Length: 0\r\n\r\n",
    "control-in-value": OK + b"X: a\x01b\x7f\x00c\r\nContent-Length: 0\r\n\r\n",
    "latin-1-value": OK + b"X-Name: \xe9\xff\r\nContent-Length: 0\r\n\r\n",
    "quoted-value": OK + b'X: "never closed\r\nContent-Length: 0\r\n\r\n',
    "cookies": OK + b"Set-Cookie: ;;=\x01; Path\r\nSet-Cookie: \r\nSet-Cookie: a\r\nContent-Length: 0\r\n\r\n",
    "charset": OK + b"Content-Type: text/plain; charset=no-such; charset\r\nContent-Length: 3\r\n\r\n\xff\xfe\xfd",
    "content-type": OK + b"Content-Type: ;/;;\r\nContent-Type: a/b\r\nContent-Length: 0\r\n\r\n",
    "hosts": OK + b"Host: a\r\nHost: b\r\nDate: never\r\nDate: today\r\nContent-Length: 0\r\n\r\n",
    "connection-both": OK + b"Connection: keep-alive, close\r\nContent-Length: 0\r\n\r\n",
    "connection-twice": OK + b"Connection: close\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
    "upgrade": OK + b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nok",
    "large-header": OK + b"X: " + b"x" * 60_000 + b"\r\nContent-Length: 0\r\n\r\n",
    "larger-headers": OK + 100 * (b"X: " + b"x" * 1_000 + b"\r\n") + b"Content-Length: 0\r\n\r\n",
    "many-headers": OK + 2_000 * b"X: y\r\n" + b"Content-Length: 0\r\n\r\n",
    # The length of the body
    "length-twice": OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    "length-list": OK + b"Content-Length: 2, 2\r\n\r\nok",
    "lengths": OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    "length-sign": OK + b"Content-Length: +2\r\n\r\nok",
    "length-minus": OK + b"Content-Length: -1\r\n\r\nok",
    "length-word": OK + b"Content-Length: two\r\n\r\nok",
    "length-empty": OK + b"Content-Length:\r\n\r\nok",
    "length-huge": OK + b"Content-Length: 99999999999999999999999\r\n\r\nok",
    "length-zeroes": OK + b"Content-Length: 0002\r\n\r\nok",
    "body-longer": OK + b"Content-Length: 2\r\n\r\nokay, and more",
    "length-and-chunked": OK + b"Content-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "coding-bogus": OK + b"Transfer-Encoding: bogus\r\nContent-Length: 2\r\n\r\nok",
    "coding-identity": OK + b"Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nok",
    "coding-twice": OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "chunk-junk": CHUNKED + b"2\r\nok\r\n0\r\n\r\njunk",
    "chunk-size": CHUNKED + b"zz\r\nok\r\n0\r\n\r\n",
    "chunk-size-huge": CHUNKED + b"fffffffffffffffffffff\r\nok\r\n",
    "chunk-spaces": CHUNKED + b"2  \r\nok\r\n0\r\n\r\n",
    "chunk-extensions": CHUNKED + b'2;name="value";x\r\nok\r\n0;y\r\n\r\n',
    "chunk-lf": CHUNKED + b"2\nok\n0\n\n",
    "chunk-longer": CHUNKED + b"2\r\nokay\r\n0\r\n\r\n",
    "chunk-trailer": CHUNKED + b"2\r\nok\r\n0\r\nno trailer\r\n\r\n",
    "not-gzip": OK + b"Content-Encoding: gzip\r\nContent-Length: 8\r\n\r\nnot gzip",
    "coding-unknown": OK + b"Content-Encoding: \x01, br, br\r\nContent-Length: 2\r\n\r\nok",
    # Interim answers
    "continue": b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 0\r\n\r\n",
    "hints": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + NO_CONTENT + b"\r\n",
    "hints-odd": b"HTTP/1.1 103\nLink </a>\n\nHTTP/1.1 204\n\n",
    "hints-with-length": b"HTTP/1.1 102 Processing\r\nContent-Length: 0\r\n\r\n" + OK + b"No colon\r\n\r\n",
}
# Answers without a stated length, which end when the server closes the connection.
CUT = {
    "no-length": OK + b"\r\nfine",
    "no-body": OK + b"\r\n",
    "shorter": OK + b"Content-Length: 100\r\n\r\nshort",
    "chunk-cut": CHUNKED + b"64\r\nshort",
    "chunk-without-end": CHUNKED + b"2\r\nok\r\n0\r\n",
    "chunk-without-last": CHUNKED + b"2\r\nok\r\n",
    "odd-without-body": OK + b"No colon\r\nContent-Length: 100\r\n\r\nsho",
}
# Answers that every client refuses.
NONE = {
    "ssh": b"SSH-2.0-OpenSSH_9.6\r\n",
    "smtp": b"220 mail.example.com ESMTP\r\n",
    "html": b"<html>it works</html>",
    "tls": b"\x15\x03\x01\x00\x02\x02\x16",
    "name": b"HTP/1.1 200 OK\r\n\r\n",
    "no-status": b"HTTP/1.1 OK\r\n\r\n",
    "four-digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "two-digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "letters": b"HTTP/1.1 200X OK\r\n\r\n",
    "minus": b"HTTP/1.1 -200 OK\r\n\r\n",
    "status-later": b"HTTP/1.1\r\n200 OK\r\n\r\n",
    "interim-without-end": (INTERIM_MAX + 1) * b"HTTP/1.1 103 H\nno colon\n\n" + OK + b"\r\n",
}


def closing_after(answer: bytes, *, reset: bool = False) -> Behave:
    """Send these bytes, and close or reset the connection."""

    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        if reset:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
            # A reset discards all bytes that the client has not read yet, so give the client time to read the answer.
            await asyncio.sleep(0.05)
            writer.transport.abort()
        else:
            writer.close()

    return behave


def in_pieces(answer: bytes, size: int) -> Behave:

    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for start in range(0, len(answer), size):
            writer.write(answer[start : start + size])
            await writer.drain()
            await asyncio.sleep(0)

    return behave


@pytest.mark.parametrize("answer", ODD.values(), ids=ODD)
async def test_a_malformed_answer_with_2xx_is_a_delivery(sender: WebhookSender, answer: bytes) -> None:
    for behave in (saying(answer), closing_after(answer), in_pieces(answer, 7 if len(answer) < 500 else 3_000)):
        async with receiving(behave) as receiver:
            assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), Delivered), receiver


@pytest.mark.parametrize("answer", CUT.values(), ids=CUT)
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_2xx_answer_with_a_body_that_is_cut_off_is_a_delivery(
    sender: WebhookSender, answer: bytes, reset: bool
) -> None:
    async with receiving(closing_after(answer, reset=reset)) as receiver:
        assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), Delivered)


@pytest.mark.parametrize("answer", NONE.values(), ids=NONE)
async def test_bytes_that_are_not_http_fail_at_once_and_are_retried_later(sender: WebhookSender, answer: bytes) -> None:
    async with receiving(saying(answer)) as receiver:
        stored = await sender.send(receiver.endpoint(timeout_s=10.0), DELIVERY)
    assert isinstance(stored, RetryDelivery)
    assert (stored.status, stored.reason) == (None, "the answer is not HTTP, or its headers are too long")
    assert stored.duration_s < SOON_S
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 204\n",
        OK + b"Content-Length: 0\r\n",
        OK + b"Content-Le",
        OK + b"no colon\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK,
    ],
)
async def test_if_the_connection_ends_after_a_complete_status_line_the_status_is_the_answer(
    sender: WebhookSender, answer: bytes
) -> None:
    async with receiving(closing_after(answer)) as receiver:
        assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), Delivered)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200", b"HTTP/1.1 200 O", b"HTTP/1.1 103 H\r\n", b"HTTP/1.1 103 H\r\n\r\n", b""]
)
async def test_a_status_line_that_is_cut_off_is_not_an_answer(sender: WebhookSender, answer: bytes) -> None:
    async with receiving(closing_after(answer)) as receiver:
        assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), RetryDelivery)


async def test_an_error_status_counts_if_the_rest_of_the_head_is_cut_off(sender: WebhookSender) -> None:
    async with receiving(closing_after(b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\n")) as receiver:
        stored = await sender.send(receiver.endpoint(), DELIVERY)
    assert isinstance(stored, RetryDelivery)
    assert (stored.status, stored.after_s) == (503, 7.0)


async def test_a_malformed_answer_with_an_error_has_its_status_its_pause_and_its_text(sender: WebhookSender) -> None:
    busy = b"HTTP/1.1 503\nRetry-After : 7\nno colon\n\nbe patient"
    async with receiving(saying(busy)) as receiver:
        stored = await sender.send(receiver.endpoint(), DELIVERY)
    assert isinstance(stored, RetryDelivery)
    assert (stored.status, stored.after_s) == (503, 7.0)
    assert stored.reason == "answered 503 Service Unavailable: be patient"


@pytest.mark.parametrize("odd", ["204-length", "204-bare-body", "body-longer", "chunk-junk", "no-colon", "lf-mixed"])
async def test_a_malformed_answer_ends_the_connection_so_that_later_bytes_answer_no_request(
    sender: WebhookSender, odd: str
) -> None:
    smuggled = ODD[odd] + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    answers = iter([smuggled, b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"])

    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(next(answers))
        await writer.drain()

    async with receiving(behave) as receiver:
        assert isinstance(await sender.send(receiver.endpoint(), DELIVERY), Delivered)
        await eventually(lambda: sender._guard.open == 0, within_s=SOON_S)
        second = await sender.send(receiver.endpoint(), DELIVERY)
    assert isinstance(second, RetryDelivery)
    assert second.status == 500
    assert receiver.connections == 2


def test_the_head_of_a_malformed_answer_is_found_for_each_split() -> None:
    came = b"\nhttp/1 102 x\n\nHTTP/1.1  503\r\nretry-after :  5 \nX\r\n\r\nbody"
    assert read_malformed_head(came, interim_max=1) == MalformedHead(503, {"retry-after": "5"}, b"body")
    for length in range(len(came) - len(b"body")):
        assert read_malformed_head(came[:length], interim_max=1) is None
    with pytest.raises(NotHttpHead):
        read_malformed_head(came, interim_max=0)
