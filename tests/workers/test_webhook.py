"""Test the message of a webhook delivery."""

from __future__ import annotations

import json

from shardclock_server.workers.webhook import message_of
from tests.support.handlers import NOON, delivery


def test_each_attempt_sends_the_same_id_and_bytes() -> None:
    first = delivery(7, payload='{"order": 42}', name="order-42")
    again = first._replace(claims=3, failed_attempts=2, next_attempt_at=NOON.replace(hour=13))

    assert message_of(first) == message_of(again)
    body = json.loads(message_of(first).body)
    assert body["type"] == "timer.fired"
    assert (body["data"]["timer_key"], body["data"]["name"]) == (7, "order-42")
    assert body["data"]["payload"] == {"order": 42}
    assert body["data"]["due_date"] == "2026-03-02T12:00:00Z"
