"""Test the next step after each status; each reason is one short printable line."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.webhooks.answer_classification import (
    Answer,
    Delivered,
    EndpointGone,
    FaultSide,
    RetryDelivery,
    answer_of,
    one_line,
    retry_after_s,
)
from shardclock_server.webhooks.sender import WebhookSender
from tests.support.receivers import DELIVERY, receiving, saying

NOON_S = 1_774_785_600.0  # Sun, 29 Mar 2026 12:00:00 GMT


def _answer(status: int, excerpt: bytes = b"", retry_after: str | None = None) -> Answer:
    return answer_of(status, excerpt=excerpt, retry_after=retry_after, now_s=NOON_S, duration_s=0.1)


@pytest.mark.parametrize("status", [*map(int, HTTPStatus), 299, 399, 420, 499, 520, 599, 600, 999])
def test_2xx_is_delivered_410_is_gone_and_each_other_status_is_retried(status: int) -> None:
    answer = _answer(status)
    expected = Delivered if 200 <= status < 300 else EndpointGone if status == 410 else RetryDelivery
    assert type(answer) is expected


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (301, FaultSide.ENDPOINT), (400, FaultSide.DELIVERY), (401, FaultSide.ENDPOINT), (403, FaultSide.ENDPOINT),
        (404, FaultSide.ENDPOINT), (408, FaultSide.ENDPOINT), (409, FaultSide.DELIVERY), (413, FaultSide.DELIVERY),
        (422, FaultSide.DELIVERY), (425, FaultSide.ENDPOINT),
        (429, FaultSide.ENDPOINT), (500, FaultSide.ENDPOINT), (503, FaultSide.ENDPOINT),
    ],
)  # fmt: skip
def test_a_status_about_one_delivery_does_not_count_against_the_endpoint(status: int, fault: FaultSide) -> None:
    answer = _answer(status)
    assert isinstance(answer, RetryDelivery)
    assert answer.fault is fault


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_of_a_busy_endpoint_delays_all_its_deliveries(status: int) -> None:
    answer = _answer(status, retry_after="30")
    assert isinstance(answer, RetryDelivery)
    assert (answer.after_s, answer.hold_s) == (30.0, 30.0)


def test_retry_after_of_another_failure_delays_only_this_delivery() -> None:
    answer = _answer(500, retry_after="30")
    assert isinstance(answer, RetryDelivery)
    assert (answer.after_s, answer.hold_s) == (30.0, None)


@pytest.mark.parametrize(
    ("value", "after_s"),
    [
        (None, None), ("", None), ("soon", None), ("-5", None), ("1.5", None), ("٣", None), ("+1", None), ("1e3", None),
        ("0", 0.0), ("120", 120.0), (" 120 ", 120.0), ("3601", 3600.0), ("9" * 5_000, 3600.0),
        ("Sun, 29 Mar 2026 12:02:00 GMT", 120.0),
        ("Sunday, 29-Mar-26 12:02:00 GMT", 120.0),
        ("Sun, 29 Mar 2026 11:00:00 GMT", 0.0),
        ("Sun, 29 Mar 2026 14:02:00 +0200", 120.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 3600.0),
        ("Mon, 01 Jan 1900 00:00:00 +2359", 0.0),
        ("Sun, 99 Mar 2026 12:00:00 GMT", None),
    ],
)  # fmt: skip
def test_retry_after_is_read_in_both_forms_and_bounded(value: str | None, after_s: float | None) -> None:
    assert retry_after_s(value, now_s=NOON_S) == after_s


@given(st.text())
def test_any_retry_after_is_read_or_ignored(value: str) -> None:
    after_s = retry_after_s(value, now_s=NOON_S)
    assert after_s is None or 0 <= after_s <= 3600


def test_a_reason_has_the_status_and_the_start_of_the_answer() -> None:
    answer = _answer(500, b'{"error":\n\t"no database"}')
    assert isinstance(answer, RetryDelivery)
    assert answer.reason == 'answered 500 Internal Server Error: {"error": "no database"}'


def test_the_reason_of_a_redirect_names_its_target() -> None:
    answer = _answer(308, b"https://www.example.com/hook")
    assert isinstance(answer, RetryDelivery)
    assert answer.reason == (
        "answered 308 Permanent Redirect, a redirect, which is not followed; "
        "set the endpoint's URL to the target: https://www.example.com/hook"
    )


@given(st.integers(300, 999), st.binary() | st.text().map(str.encode) | st.just(b"\xe2\x80\xae" * 400))
def test_any_reason_is_one_printable_line_of_300_characters(status: int, excerpt: bytes) -> None:
    answer = _answer(status, excerpt)
    assert not isinstance(answer, Delivered)
    assert answer.reason.isprintable()
    assert len(answer.reason) <= 300
    assert str(status) in answer.reason


def test_a_long_line_is_cut() -> None:
    assert one_line("a" * 301) == "a" * 299 + "…"
    assert one_line("a" * 300) == "a" * 300


async def test_an_answer_has_the_first_two_kibibytes_of_its_body_and_a_short_reason(sender: WebhookSender) -> None:
    body = b"x" * 3_000
    for status in ("200 OK", "410 Gone", "500 Internal Server Error"):
        head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        async with receiving(saying(head + body)) as receiver:
            answer = await sender.send(receiver.endpoint(), DELIVERY)
        assert answer.body == body[:2_048]
        assert isinstance(answer, Delivered) or len(answer.reason) == 300
